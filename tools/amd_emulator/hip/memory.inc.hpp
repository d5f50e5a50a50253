// ------------------------------------------------------------------------------------------------
// memory Fixed address range, one sparse memfd:  [device memory | host-visible memory | code images
// | worker's own]
static const u64 DEV_SZ = 64ull << 30, HOST_SZ = 16ull << 30, CODE_SZ = 2ull << 30,
                 SCR_SZ = 1ull << 30;
static const u64 TOTAL = DEV_SZ + HOST_SZ + CODE_SZ + SCR_SZ, GUARD_GAP = 65536;
static u64 g_base;   // device addresses are g_base + offset
static u8* g_alias;  // always readable and writable view for this library
static int g_memfd = -1;

enum Kind { K_DEVICE, K_HOST, K_MANAGED, K_CODE };
static const char* kind_name[] = {"hipMalloc", "hipHostMalloc", "hipMallocManaged", "code object"};
struct Alloc {
  u64 off, size, cap;
  Kind kind;
  int dev;
  unsigned flags;
  u64 id;
};
struct Area {
  u64 lo, hi, top;
};
static Area g_area[3] = {
    {0, DEV_SZ, GUARD_GAP},
    {DEV_SZ, DEV_SZ + HOST_SZ, DEV_SZ + GUARD_GAP},
    {DEV_SZ + HOST_SZ, DEV_SZ + HOST_SZ + CODE_SZ, DEV_SZ + HOST_SZ + GUARD_GAP}};
static std::map<u64, Alloc>& g_live = *new std::map<u64, Alloc>;
static std::map<u64, Alloc>& g_dead =
    *new std::map<u64, Alloc>;  // most recent freed allocations, for messages
static u64 g_next_id = 1, g_live_bytes, g_peak_bytes;

static struct sigaction g_old_segv;
static void on_segv(int, siginfo_t* si, void*) {
  u64 a = (u64)si->si_addr;
  if (g_base && a >= g_base && a < g_base + DEV_SZ) {
    static const char m[] =
        "[emuhip] host code touched device memory (hipMalloc) directly; EMUHIP_HOSTACCESS=1 allows "
        "it\n";
    if (write(2, m, sizeof m - 1) < 0) {
    }
  }
  sigaction(SIGSEGV, &g_old_segv,
            nullptr);  // the access happens again and meets the previous handler
}
static bool map_memory() {
  if (g_base) return true;
  if (!g_owner) g_owner = getpid();
  g_memfd = memfd_create("emuhip", MFD_CLOEXEC);
  if (g_memfd < 0 || ftruncate(g_memfd, TOTAL) != 0) {
    report("device memory", fmt("memfd: %s", strerror(errno)));
    return false;
  }
  for (u64 want : {0x200000000000ull, 0x300000000000ull, 0x180000000000ull, 0x400000000000ull}) {
    void* p = mmap((void*)want, TOTAL, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE,
                   g_memfd, 0);
    if (p == (void*)want) {
      g_base = want;
      break;
    }
    if (p != MAP_FAILED) munmap(p, TOTAL);
  }
  void* al =
      g_base ? mmap(nullptr, TOTAL, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, g_memfd, 0)
             : MAP_FAILED;
  if (al == MAP_FAILED) {
    report("device memory", fmt("cannot map %llu GiB of address space: %s",
                                (unsigned long long)(TOTAL >> 30), strerror(errno)));
    if (g_base) munmap((void*)g_base, TOTAL);
    g_base = 0;
    return false;
  }
  g_alias = (u8*)al;
  madvise(g_alias, TOTAL, MADV_DONTDUMP);
  madvise((void*)g_base, TOTAL, MADV_DONTDUMP);
  // the host may touch pinned and managed memory; hipMalloc memory only with EMUHIP_HOSTACCESS=1
  mprotect((void*)(g_base + DEV_SZ), HOST_SZ, PROT_READ | PROT_WRITE);
  struct sigaction sa{};
  sa.sa_sigaction = on_segv;
  sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &sa, &g_old_segv);
  if (strcmp(env("EMUHIP_HOSTACCESS", "0"), "0") != 0)
    mprotect((void*)g_base, DEV_SZ, PROT_READ | PROT_WRITE);
  return true;
}
static bool in_arena(const void* p) {
  return g_base && (u64)p >= g_base && (u64)p < g_base + TOTAL;
}
static void* real(const void* p) { return in_arena(p) ? g_alias + ((u64)p - g_base) : (void*)p; }

static u64 find_room(Area& a, u64 need) {
  if (a.top + need + GUARD_GAP <= a.hi) {
    u64 o = a.top;
    a.top += need + GUARD_GAP;
    return o;
  }
  u64 o =
      a.lo + GUARD_GAP;  // the address range was used up once: first fit between live allocations
  for (auto it = g_live.lower_bound(a.lo);; ++it) {
    u64 next = it == g_live.end() || it->first >= a.hi ? a.hi : it->first;
    if (o + need + GUARD_GAP <= next) return o;
    if (next == a.hi) return 0;
    o = next + it->second.cap + GUARD_GAP;
  }
}
static void punch(u64 off, u64 n) {
  fallocate(g_memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, n);
}

static Alloc* mem_alloc(u64 size, Kind kind, int dev, unsigned flags) {
  if (!map_memory()) return nullptr;
  u64 cap = (size + 4095) & ~4095ull;
  if (kind != K_CODE && g_devs[dev].used + cap > g_mem) return nullptr;
  u64 off = find_room(g_area[kind == K_DEVICE ? 0 : kind == K_CODE ? 2 : 1], cap);
  if (!off) return nullptr;
  Alloc a{off, size, cap, kind, dev, flags, g_next_id++};
  for (auto it = g_dead.lower_bound(off); it != g_dead.end() && it->first < off + cap;)
    it = g_dead.erase(it);
  static const int fill = (int)strtol(env("EMUHIP_FILL", "0xff"), nullptr, 0);
  static const u64 fmax = env_size("EMUHIP_FILL_MAX", 256 << 20);
  if (kind != K_CODE && fill && size <= fmax) memset(g_alias + off, fill, size);
  if (kind != K_CODE) {
    g_devs[dev].used += cap;
    g_live_bytes += size;
    g_peak_bytes = std::max(g_peak_bytes, g_live_bytes);
  }
  return &(g_live[off] = a);
}
static void mem_release(std::map<u64, Alloc>::iterator it) {
  Alloc a = it->second;
  g_live.erase(it);
  punch(a.off, a.cap);
  if (a.kind == K_CODE) return;
  g_devs[a.dev].used -= a.cap;
  g_live_bytes -= a.size;
  g_dead[a.off] = a;
  while (g_dead.size() > 4096) g_dead.erase(g_dead.begin());
}
static Alloc* mem_find(const void* p) {
  if (!in_arena(p)) return nullptr;
  u64 o = (u64)p - g_base;
  auto it = g_live.upper_bound(o);
  if (it == g_live.begin()) return nullptr;
  --it;
  return o < it->second.off + std::max<u64>(it->second.size, 1) ? &it->second : nullptr;
}
static string mem_describe(u64 addr) {
  if (addr < 65536) return "null pointer";
  if (!g_base || addr < g_base || addr >= g_base + TOTAL) return "not device memory";
  u64 o = addr - g_base;
  auto it = g_live.upper_bound(o);
  string near;
  if (it != g_live.begin()) {
    const Alloc& a = std::prev(it)->second;
    string w =
        fmt("allocation #%llu (%s, %llu bytes at %#llx)", (unsigned long long)a.id,
            kind_name[a.kind], (unsigned long long)a.size, (unsigned long long)(g_base + a.off));
    if (o < a.off + a.size) return fmt("%llu bytes into ", (unsigned long long)(o - a.off)) + w;
    near = fmt("%llu bytes past the end of ", (unsigned long long)(o - a.off - a.size)) + w;
  }
  auto d = g_dead.upper_bound(o);
  if (d != g_dead.begin()) {
    const Alloc& a = std::prev(d)->second;
    if (o < a.off + a.cap)
      return fmt("%llu bytes into FREED allocation #%llu (%s, %llu bytes)",
                 (unsigned long long)(o - a.off), (unsigned long long)a.id, kind_name[a.kind],
                 (unsigned long long)a.size);
  }
  if (it != g_live.end() && it->first - o < GUARD_GAP && it->second.kind != K_CODE)
    return fmt("%llu bytes before allocation #%llu (%s, %llu bytes)",
               (unsigned long long)(it->first - o), (unsigned long long)it->second.id,
               kind_name[it->second.kind], (unsigned long long)it->second.size) +
           (near.empty() ? "" : ", ") + near;
  return near.empty() ? "unallocated device memory" : near;
}
// may [p, p+n) be used by a copy?  host memory: yes
static bool range_ok(const void* p, u64 n, const char* api, const char* what) {
  if (!in_arena(p)) return true;
  Alloc* a = mem_find(p);
  u64 o = (u64)p - g_base;
  if (a && o + n <= a->off + a->size) return true;
  u64 bad = a ? g_base + a->off + a->size : (u64)p;
  report(api, fmt("%s range %#llx + %llu bytes is not inside one live allocation: %#llx is ", what,
                  (unsigned long long)(u64)p, (unsigned long long)n, (unsigned long long)bad) +
                  mem_describe(bad));
  return false;
}

static hipError_t do_malloc(const char* api, void** p, u64 size, Kind kind, unsigned flags) {
  if (!p) return fail(hipErrorInvalidValue);
  *p = nullptr;
  if (size == 0) return fail(hipSuccess);
  Alloc* a = mem_alloc(size, kind, tl_dev, flags);
  if (!a)
    return fail(
        hipErrorOutOfMemory, api,
        fmt("%llu bytes asked for, %llu of %llu in use (EMUHIP_MEM)", (unsigned long long)size,
            (unsigned long long)g_devs[tl_dev].used, (unsigned long long)g_mem));
  *p = (void*)(g_base + a->off);
  return hipSuccess;
}
static hipError_t do_free(const char* api, void* p, bool host) {
  if (!p) return hipSuccess;
  auto it = in_arena(p) ? g_live.find((u64)p - g_base) : g_live.end();
  if (it == g_live.end() || it->second.kind == K_CODE) {
    auto d = in_arena(p) ? g_dead.find((u64)p - g_base) : g_dead.end();
    if (d != g_dead.end())
      return fail(hipErrorInvalidValue, api,
                  fmt("%p was already freed (", p) + mem_describe((u64)p) + ")");
    return fail(
        hipErrorInvalidValue, api,
        fmt("%p was not returned by an allocation function (", p) + mem_describe((u64)p) + ")");
  }
  if (host != (it->second.kind == K_HOST) && it->second.kind != K_MANAGED)
    return fail(hipErrorInvalidValue, api, fmt("%p comes from %s", p, kind_name[it->second.kind]));
  mem_release(it);
  return g_sticky ? fail((hipError_t)g_sticky.load()) : hipSuccess;
}
