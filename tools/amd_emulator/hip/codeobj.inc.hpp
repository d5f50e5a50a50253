// ------------------------------------------------------------------------------------------------
// msgpack, ELF
struct Node {
  enum { NIL, INT, STR, ARR, MAP } t = NIL;
  u64 i = 0;
  string s;
  std::vector<Node> a;  // MAP: key, value, key, value
  const Node* get(const char* k) const {
    for (size_t j = 0; t == MAP && j + 1 < a.size(); j += 2)
      if (a[j].s == k) return &a[j + 1];
    return nullptr;
  }
  u64 num(const char* k, u64 d = 0) const {
    const Node* n = get(k);
    return n && n->t == INT ? n->i : d;
  }
  string str(const char* k) const {
    const Node* n = get(k);
    return n ? n->s : string();
  }
};
struct Pack {
  const u8 *p, *e;
  bool bad = false;
  u64 be(int n) {
    u64 v = 0;
    if (e - p < n) {
      bad = true;
      return 0;
    }
    while (n--) v = v << 8 | *p++;
    return v;
  }
  Node read() {
    Node n;
    if (bad || p >= e) {
      bad = true;
      return n;
    }
    u8 t = *p++;
    if (t < 0x80) {
      n.t = Node::INT;
      n.i = t;
    } else if (t < 0x90)
      seq(n, Node::MAP, 2 * (t & 15));
    else if (t < 0xa0)
      seq(n, Node::ARR, t & 15);
    else if (t < 0xc0)
      text(n, t & 31);
    else if (t >= 0xe0) {
      n.t = Node::INT;
      n.i = (u64)(int64_t)(int8_t)t;
    } else
      switch (t) {
        case 0xc0:
          break;
        case 0xc2:
        case 0xc3:
          n.t = Node::INT;
          n.i = t & 1;
          break;
        case 0xc4:
          text(n, be(1));
          break;
        case 0xc5:
          text(n, be(2));
          break;
        case 0xc6:
          text(n, be(4));
          break;
        case 0xca:
          n.t = Node::INT;
          n.i = be(4);
          break;
        case 0xcb:
          n.t = Node::INT;
          n.i = be(8);
          break;
        case 0xcc:
        case 0xcd:
        case 0xce:
        case 0xcf:
          n.t = Node::INT;
          n.i = be(1 << (t & 3));
          break;
        case 0xd0:
          n.t = Node::INT;
          n.i = (u64)(int64_t)(int8_t)be(1);
          break;
        case 0xd1:
          n.t = Node::INT;
          n.i = (u64)(int64_t)(int16_t)be(2);
          break;
        case 0xd2:
          n.t = Node::INT;
          n.i = (u64)(int64_t)(int32_t)be(4);
          break;
        case 0xd3:
          n.t = Node::INT;
          n.i = be(8);
          break;
        case 0xd9:
          text(n, be(1));
          break;
        case 0xda:
          text(n, be(2));
          break;
        case 0xdb:
          text(n, be(4));
          break;
        case 0xdc:
          seq(n, Node::ARR, be(2));
          break;
        case 0xdd:
          seq(n, Node::ARR, be(4));
          break;
        case 0xde:
          seq(n, Node::MAP, 2 * be(2));
          break;
        case 0xdf:
          seq(n, Node::MAP, 2 * be(4));
          break;
        default:
          bad = true;
      }
    return n;
  }
  void text(Node& n, u64 len) {
    n.t = Node::STR;
    if ((u64)(e - p) < len) {
      bad = true;
      return;
    }
    n.s.assign((const char*)p, len);
    p += len;
  }
  void seq(Node& n, decltype(Node::NIL) t, u64 cnt) {
    n.t = t;
    for (u64 j = 0; j < cnt && !bad; j++) n.a.push_back(read());
  }
};

struct Arg {
  u64 off, size;
  string kind;
};
struct CodeObj;
struct ihipModuleSymbol_t  // a kernel
{
  string name;
  std::vector<Arg> args;
  u64 kernarg = 0, lds = 0, scratch = 0, max_wg = 1024, vgpr = 0, sgpr = 0, wave = 0;
  u64 explicit_end = 0;
  int dyn_limit = -1;
  CodeObj* co = nullptr;
  int nexplicit = 0;
};
typedef ihipModuleSymbol_t Kernel;
struct CodeObj {
  u32 id = 0;
  int dev = 0;
  string gfx;
  std::vector<u8> elf;
  u64 off = 0, size = 0;  // where the image lies
  std::map<string, std::unique_ptr<Kernel>> kernels;
  std::map<string, std::pair<u64, u64>> syms;
  bool sent = false;
};
static auto& g_cos = *new std::map<u32, std::unique_ptr<CodeObj>>;
static u32 g_next_co = 1;

template <class T>
static T rd(const u8* p) {
  T v;
  memcpy(&v, p, sizeof v);
  return v;
}

static const struct {
  u32 mach;
  const char* gfx;
} MACH[] = {{0x3f, "gfx90a"},        {0x4c, "gfx942"},       {0x4f, "gfx950"},
            {0x41, "gfx1100"},       {0x46, "gfx1101"},      {0x47, "gfx1102"},
            {0x44, "gfx1103"},       {0x43, "gfx1150"},      {0x4a, "gfx1151"},
            {0x55, "gfx1152"},       {0x48, "gfx1200"},      {0x4e, "gfx1201"},
            {0x2f, "gfx908"},        {0x36, "gfx1030"},      {0x5f, "gfx9-4-generic"},
            {0x54, "gfx11-generic"}, {0x59, "gfx12-generic"}};

static string generic_of(const string& p) {
  if (p == "gfx942" || p == "gfx950") return "gfx9-4-generic";
  if (p.compare(0, 5, "gfx11") == 0) return "gfx11-generic";
  if (p.compare(0, 5, "gfx12") == 0) return "gfx12-generic";
  return "?";
}
static u64 elf_size(const u8* b)  // end of the last section/segment/table
{
  u64 sho = rd<u64>(b + 40), pho = rd<u64>(b + 32), n = 64;
  u32 phes = rd<u16>(b + 54), phn = rd<u16>(b + 56), shes = rd<u16>(b + 58), shn = rd<u16>(b + 60);
  n = std::max(n, sho + (u64)shes * shn);
  for (u32 i = 0; i < phn; i++)
    n = std::max(n, rd<u64>(b + pho + i * phes + 8) + rd<u64>(b + pho + i * phes + 32));
  for (u32 i = 0; i < shn; i++)
    if (rd<u32>(b + sho + i * shes + 4) != 8)
      n = std::max(n, rd<u64>(b + sho + i * shes + 24) + rd<u64>(b + sho + i * shes + 32));
  return n;
}

// load a code object into the code area of a device
static hipError_t load_code(const char* api, const u8* b, u64 n, int dev, CodeObj** out,
                            string* why) {
  if (n < 64 ||
      memcmp(b,
             "\x7f"
             "ELF\2\1",
             6) != 0 ||
      rd<u16>(b + 18) != 224) {
    *why = "not an AMDGPU ELF";
    return hipErrorInvalidImage;
  }
  if (!map_memory()) {
    *why = "no device memory";
    return hipErrorOutOfMemory;
  }
  auto co = std::make_unique<CodeObj>();
  co->dev = dev;
  u32 mach = rd<u32>(b + 48) & 0xff;
  co->gfx = fmt("mach_%#x", mach);
  for (auto& m : MACH)
    if (m.mach == mach) co->gfx = m.gfx;
  const Dev& d = g_devs[dev];
  if (co->gfx != d.proc && co->gfx != generic_of(d.proc)) {
    *why = "code object for " + co->gfx + ", device is " + d.proc;
    return hipErrorNoBinaryForGpu;
  }
  co->elf.assign(b, b + n);
  u64 pho = rd<u64>(b + 32), sho = rd<u64>(b + 40);
  u32 phes = rd<u16>(b + 54), phn = rd<u16>(b + 56), shes = rd<u16>(b + 58), shn = rd<u16>(b + 60);
  Node meta;
  for (u32 i = 0; i < phn; i++) {
    const u8* p = b + pho + (u64)i * phes;
    u32 ty = rd<u32>(p);
    if (ty == 1) co->size = std::max(co->size, rd<u64>(p + 16) + rd<u64>(p + 40));
    if (ty != 4) continue;
    u64 o = rd<u64>(p + 8), e = o + rd<u64>(p + 32);
    while (o + 12 <= e && e <= n) {
      u32 nn = rd<u32>(b + o), dn = rd<u32>(b + o + 4), nt = rd<u32>(b + o + 8);
      u64 q = o + 12 + ((nn + 3) & ~3u);
      if (nt == 32) {
        Pack pk{b + q, b + q + dn};
        meta = pk.read();
      }
      o = q + ((dn + 3) & ~3u);
    }
  }
  Alloc* a = mem_alloc(co->size + 256, K_CODE, dev, 0);
  if (!a) {
    *why = "no room for the code object";
    return hipErrorOutOfMemory;
  }
  co->off = a->off;
  u8* img = g_alias + co->off;
  u64 base = g_base + co->off;
  for (u32 i = 0; i < phn; i++) {
    const u8* p = b + pho + (u64)i * phes;
    if (rd<u32>(p) == 1) memcpy(img + rd<u64>(p + 16), b + rd<u64>(p + 8), rd<u64>(p + 32));
  }
  for (u32 i = 0; i < shn; i++) {
    const u8* s = b + sho + (u64)i * shes;
    u32 ty = rd<u32>(s + 4), link = rd<u32>(s + 40);
    u64 so = rd<u64>(s + 24), sz = rd<u64>(s + 32);
    if (ty == 2 || ty == 11) {
      u64 str = rd<u64>(b + sho + (u64)link * shes + 24);
      for (u64 k = 0; k < sz / 24; k++) {
        const u8* y = b + so + 24 * k;
        if (rd<u16>(y + 6))
          co->syms[(const char*)b + str + rd<u32>(y)] = {rd<u64>(y + 8), rd<u64>(y + 16)};
      }
    } else if (ty == 4) {
      u64 sy = rd<u64>(b + sho + (u64)link * shes + 24);
      for (u64 k = 0; k < sz / 24; k++) {
        u64 r = rd<u64>(b + so + 24 * k), info = rd<u64>(b + so + 24 * k + 8),
            add = rd<u64>(b + so + 24 * k + 16);
        u64 sv = info >> 32 ? rd<u64>(b + sy + 24 * (info >> 32) + 8) : 0;
        u64 v = (u32)info == 13 ? base + add : base + sv + add;  // RELATIVE64, ABS64
        if ((u32)info != 13 && (u32)info != 3) {
          *why = fmt("relocation type %u", (u32)info);
          return hipErrorSharedObjectInitFailed;
        }
        memcpy(img + r, &v, 8);
      }
    }
  }
  const Node* ks = meta.get("amdhsa.kernels");
  for (size_t i = 0; ks && i < ks->a.size(); i++) {
    const Node& kn = ks->a[i];
    auto k = std::make_unique<Kernel>();
    k->name = kn.str(".name");
    k->kernarg = kn.num(".kernarg_segment_size");
    k->lds = kn.num(".group_segment_fixed_size");
    k->scratch = kn.num(".private_segment_fixed_size");
    k->max_wg = kn.num(".max_flat_workgroup_size", 1024);
    k->vgpr = kn.num(".vgpr_count");
    k->sgpr = kn.num(".sgpr_count");
    k->wave = kn.num(".wavefront_size", d.wave);
    k->co = co.get();
    if (const Node* as = kn.get(".args"))
      for (const Node& x : as->a) {
        Arg g{x.num(".offset"), x.num(".size"), x.str(".value_kind")};
        if (g.kind.compare(0, 7, "hidden_") != 0) {
          k->nexplicit++;
          k->explicit_end = std::max(k->explicit_end, g.off + g.size);
        }
        k->args.push_back(g);
      }
    string nm = k->name;
    co->kernels[nm] = std::move(k);
  }
  co->id = g_next_co++;
  *out = co.get();
  g_cos[co->id] = std::move(co);
  return hipSuccess;
}
static void unload_code(CodeObj* co) {
  auto it = g_live.find(co->off);
  if (it != g_live.end()) mem_release(it);
  g_cos.erase(co->id);
}
