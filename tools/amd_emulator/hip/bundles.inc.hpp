// ------------------------------------------------------------------------------------------------
// bundles
static void* lib_sym(const char* envname, std::initializer_list<const char*> libs,
                     const char* sym) {
  if (*env(envname))
    if (void* h = dlopen(env(envname), RTLD_NOW | RTLD_LOCAL)) return dlsym(h, sym);
  for (const char* l : libs)
    if (void* h = dlopen(l, RTLD_NOW | RTLD_LOCAL))
      if (void* s = dlsym(h, sym)) return s;
  return nullptr;
}
static bool decompress(const u8* b, std::vector<u8>& out, string* why) {
  u16 ver = rd<u16>(b + 4), method = rd<u16>(b + 6);
  u64 hdr, total, raw;
  if (ver == 1) {
    hdr = 20;
    total = 0;
    raw = rd<u32>(b + 8);
  } else if (ver == 2) {
    hdr = 24;
    total = rd<u32>(b + 8);
    raw = rd<u32>(b + 12);
  } else if (ver == 3) {
    hdr = 32;
    total = rd<u64>(b + 8);
    raw = rd<u64>(b + 16);
  } else {
    *why = fmt("compressed bundle version %u", ver);
    return false;
  }
  out.resize(raw);
  if (method == 1) {
    auto dec = (size_t (*)(void*, size_t, const void*, size_t))lib_sym(
        "EMUHIP_ZSTD", {"libzstd.so.1", "libzstd.so"}, "ZSTD_decompress");
    auto len = (size_t (*)(const void*, size_t))lib_sym(
        "EMUHIP_ZSTD", {"libzstd.so.1", "libzstd.so"}, "ZSTD_findFrameCompressedSize");
    auto err = (unsigned (*)(size_t))lib_sym("EMUHIP_ZSTD", {"libzstd.so.1", "libzstd.so"},
                                             "ZSTD_isError");
    if (!dec || !len || !err) {
      *why = "libzstd.so.1 is needed for this compressed bundle (EMUHIP_ZSTD names another file)";
      return false;
    }
    size_t n = total ? total - hdr : len(b + hdr, (size_t)1 << 40);
    size_t r = err(n) ? n : dec(out.data(), raw, b + hdr, n);
    if (err(r) || r != raw) {
      *why = "zstd data is damaged";
      return false;
    }
    return true;
  }
  if (method == 0) {
    auto unc = (int (*)(u8*, unsigned long*, const u8*, unsigned long))lib_sym(
        "EMUHIP_ZLIB", {"libz.so.1", "libz.so"}, "uncompress");
    if (!unc) {
      *why = "libz.so.1 is needed for this compressed bundle";
      return false;
    }
    unsigned long r = raw;
    if (unc(out.data(), &r, b + hdr, total ? total - hdr : 0x7fffffff) != 0 || r != raw) {
      *why = "zlib data is damaged";
      return false;
    }
    return true;
  }
  *why = fmt("compression method %u", method);
  return false;
}
// score of a bundle entry for a device: 0 = no
static int match(const string& triple, const Dev& d, string* shown) {
  size_t p = triple.find("amdgcn-amd-amdhsa");
  if (p == string::npos) return 0;
  p = triple.find("gfx", p + 17);
  if (p == string::npos) return 0;
  string t = triple.substr(p);
  *shown = t;
  size_t c = t.find(':');
  string proc = t.substr(0, c);
  int score = proc == d.proc ? 100 : proc == generic_of(d.proc) ? 1 : 0;
  while (score && c != string::npos) {
    size_t e = t.find(':', c + 1);
    string f = t.substr(c + 1, e == string::npos ? e : e - c - 1);
    auto it = f.size() > 1 ? d.feat.find(f.substr(0, f.size() - 1)) : d.feat.end();
    if (it == d.feat.end() || it->second != f.back()) return 0;
    score++;
    c = e;
  }
  return score;
}
struct Fat  // one fat binary or module image
{
  const u8* data = nullptr;
  std::vector<u8> plain;  // decompressed bundle
  std::map<int, CodeObj*> loaded;
  std::map<int, std::pair<hipError_t, string>> failed;
  std::vector<std::pair<string, void**>> managed;  // managed variables: device symbol, host pointer
  std::set<const void*> hosts;
};
static hipError_t fat_load(const char* api, Fat& f, int dev, CodeObj** out, string* why) {
  auto have = f.loaded.find(dev);
  if (have != f.loaded.end()) {
    *out = have->second;
    return hipSuccess;
  }
  auto bad = f.failed.find(dev);
  if (bad != f.failed.end()) {
    *why = bad->second.second;
    return bad->second.first;
  }
  const u8* b = f.data;
  hipError_t e = hipErrorNoBinaryForGpu;
  if (memcmp(b, "CCOB", 4) == 0) {
    if (f.plain.empty() && !decompress(b, f.plain, why)) {
      f.plain.clear();
      e = hipErrorInvalidImage;
      b = nullptr;
    } else
      b = f.plain.data();
  }
  if (b && memcmp(b,
                  "\x7f"
                  "ELF",
                  4) == 0)
    e = load_code(api, b, elf_size(b), dev, out, why);
  else if (b && memcmp(b, "__CLANG_OFFLOAD_BUNDLE__", 24) == 0) {
    u64 n = rd<u64>(b + 24);
    const u8 *p = b + 32, *best = nullptr;
    u64 bestn = 0;
    int bests = 0;
    string has;
    for (u64 i = 0; i < n; i++) {
      u64 off = rd<u64>(p), sz = rd<u64>(p + 8), tl = rd<u64>(p + 16);
      string t((const char*)p + 24, tl), shown;
      p += 24 + tl;
      int s = sz ? match(t, g_devs[dev], &shown) : 0;
      if (!shown.empty()) has += (has.empty() ? "" : ", ") + shown;
      if (s > bests) {
        bests = s;
        best = b + off;
        bestn = sz;
      }
    }
    if (!bests)
      *why = "no code object for " + g_devs[dev].name +
             " in this binary; it has: " + (has.empty() ? "none" : has);
    else if (bestn >= 4 && memcmp(best, "BC\xc0\xde", 4) == 0) {
      *why = "the bundle holds LLVM bitcode (-fgpu-rdc without a device link)";
      e = hipErrorInvalidImage;
    } else
      e = load_code(api, best, bestn, dev, out, why);
  } else if (b) {
    *why = "neither an ELF nor an offload bundle";
    e = hipErrorInvalidImage;
  }
  if (e != hipSuccess) {
    f.failed[dev] = {e, *why};
    return e;
  }
  f.loaded[dev] = *out;
  for (auto& m : f.managed) {
    auto s = (*out)->syms.find(m.first);
    if (s != (*out)->syms.end()) memcpy(g_alias + (*out)->off + s->second.first, m.second, 8);
  }
  return hipSuccess;
}
