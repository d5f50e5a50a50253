// ------------------------------------------------------------------------------------------------
// registration
struct HostFn {
  Fat* fat;
  string name;
  std::map<int, int> dyn_limit;
};
struct HostVar {
  Fat* fat;
  string name;
  u64 size;
};
static auto& g_fns = *new std::map<const void*, HostFn>;
static auto& g_vars = *new std::map<const void*, HostVar>;

static hipError_t kernel_of(const char* api, const void* fn, int dev, Kernel** k) {
  auto it = g_fns.find(fn);
  if (it == g_fns.end()) {
    for (auto& c : g_cos)  // a hipFunction_t passed where a host function is expected
      for (auto& kk : c.second->kernels)
        if (kk.second.get() == fn) {
          *k = kk.second.get();
          return hipSuccess;
        }
    return fail(hipErrorInvalidDeviceFunction, api, fmt("%p is not a registered kernel", fn));
  }
  CodeObj* co = nullptr;
  string why;
  hipError_t e = fat_load(api, *it->second.fat, dev, &co, &why);
  if (e != hipSuccess) return fail(e, api, "kernel " + it->second.name + ": " + why);
  auto f = co->kernels.find(it->second.name);
  if (f == co->kernels.end())
    return fail(hipErrorInvalidDeviceFunction, api,
                "kernel " + it->second.name + " is not in the code object for " + co->gfx);
  *k = f->second.get();
  return hipSuccess;
}
static hipError_t symbol_of(const char* api, const void* sym, u64* addr, u64* size) {
  auto it = g_vars.find(sym);
  if (it == g_vars.end())
    return fail(hipErrorInvalidSymbol, api, fmt("%p is not a registered device variable", sym));
  CodeObj* co = nullptr;
  string why;
  hipError_t e = fat_load(api, *it->second.fat, tl_dev, &co, &why);
  if (e != hipSuccess) return fail(e, api, why);
  auto s = co->syms.find(it->second.name);
  if (s == co->syms.end())
    return fail(hipErrorInvalidSymbol, api, it->second.name + " is not in the code object");
  *addr = g_base + co->off + s->second.first;
  *size = s->second.second;
  return hipSuccess;
}

EXPORT void** __hipRegisterFatBinary(const void* wrapper) {
  Guard g;
  struct W {
    u32 magic, version;
    const void* binary;
    void* unused;
  };
  const W* w = (const W*)wrapper;
  if (w->magic != 0x48495046u)
    report("__hipRegisterFatBinary", fmt("unexpected magic %#x", w->magic));
  Fat* f = new Fat;
  f->data = (const u8*)w->binary;
  return (void**)f;
}
EXPORT void __hipUnregisterFatBinary(void** h) {
  Guard g;
  Fat* f = (Fat*)h;
  for (const void* p : f->hosts) {
    g_fns.erase(p);
    g_vars.erase(p);
  }
  if (getpid() == g_owner) {
    for (void* x : g_streams) ((hipStream_t)x)->q.clear();
    for (auto& c : f->loaded) unload_code(c.second);
    for (auto& m : f->managed) {
      auto it = in_arena(*m.second) ? g_live.find((u64)*m.second - g_base) : g_live.end();
      if (it != g_live.end()) mem_release(it);
    }
  }
  delete f;
}
EXPORT void __hipRegisterFunction(void** h, const void* host, char*, const char* name, unsigned,
                                  void*, void*, void*, void*, int*) {
  Guard g;
  g_fns[host] = HostFn{(Fat*)h, name, {}};
  ((Fat*)h)->hosts.insert(host);
}
EXPORT void __hipRegisterVar(void** h, void* var, char*, char* name, int, size_t size, int, int) {
  Guard g;
  g_vars[var] = HostVar{(Fat*)h, name, size};
  ((Fat*)h)->hosts.insert(var);
}
EXPORT void __hipRegisterManagedVar(void* h, void** pointer, void* init, const char* name,
                                    size_t size, unsigned) {
  Guard g;
  if (g_devs.empty()) {
    *pointer = calloc(1, size);
    if (init) memcpy(*pointer, init, size);
    return;
  }
  Alloc* a = mem_alloc(size, K_MANAGED, 0, 0);
  if (!a) {
    report("__hipRegisterManagedVar", "out of device memory");
    return;
  }
  *pointer = (void*)(g_base + a->off);
  if (init)
    memcpy(*pointer, init, size);
  else
    memset(*pointer, 0, size);
  ((Fat*)h)->managed.push_back({name, pointer});
  g_vars[pointer] = HostVar{(Fat*)h, name, size};
  ((Fat*)h)->hosts.insert(pointer);
}
EXPORT void __hipRegisterSurface(void**, void*, char*, char*, int, int) {}
EXPORT void __hipRegisterTexture(void**, void*, char*, char*, int, int, int) {}

static thread_local struct {
  dim3 g, b;
  size_t lds;
  hipStream_t s;
} tl_cfg[16];
static thread_local int tl_depth;
EXPORT hipError_t __hipPushCallConfiguration(dim3 g, dim3 b, size_t lds, hipStream_t s) {
  if (tl_depth == 16) return fail(hipErrorInvalidConfiguration);
  tl_cfg[tl_depth++] = {g, b, lds, s};
  return hipSuccess;
}
EXPORT hipError_t __hipPopCallConfiguration(dim3* g, dim3* b, size_t* lds, hipStream_t* s) {
  if (!tl_depth) return fail(hipErrorMissingConfiguration);
  auto& c = tl_cfg[--tl_depth];
  *g = c.g;
  *b = c.b;
  *lds = c.lds;
  *s = c.s;
  return hipSuccess;
}

static void stamp(hipEvent_t e, hipStream_t s) {
  if (!e || !g_events.count(e)) return;
  u64 n = ++e->want;
  e->st = s;
  auto f = [=] {
    if (g_events.count(e)) {
      e->t = now();
      e->done = std::max(e->done, n);
    }
  };
  if (g_async && created(s))
    s->q.push_back(f);
  else
    f();
}
static hipError_t launch_host(const char* api, const void* f, dim3 g, dim3 b, void** args, u64 lds,
                              hipStream_t s, hipEvent_t e0, hipEvent_t e1) {
  SETUP(api);
  CHECK_STREAM(api, s);
  if (!created(s)) flush(false);
  STICKY();
  Kernel* k = nullptr;
  hipError_t e = kernel_of(api, f, stream_dev(s), &k);
  if (e != hipSuccess) return e;
  std::vector<u8> kb;
  e = pack_args(api, k, args, nullptr, kb);
  if (e != hipSuccess) return e;
  stamp(e0, s);
  e = run_kernel(api, k, {g.x, g.y, g.z}, {b.x, b.y, b.z}, {0, 0, 0}, lds, kb, s);
  stamp(e1, s);
  return e;
}
EXPORT hipError_t hipLaunchKernel(const void* f, dim3 g, dim3 b, void** a, size_t lds,
                                  hipStream_t s) {
  return launch_host("hipLaunchKernel", f, g, b, a, lds, s, nullptr, nullptr);
}
EXPORT hipError_t hipLaunchKernel_spt(const void* f, dim3 g, dim3 b, void** a, size_t lds,
                                      hipStream_t s) {
  return launch_host("hipLaunchKernel", f, g, b, a, lds, s, nullptr, nullptr);
}
EXPORT hipError_t hipExtLaunchKernel(const void* f, dim3 g, dim3 b, void** a, size_t lds,
                                     hipStream_t s, hipEvent_t e0, hipEvent_t e1, int) {
  return launch_host("hipExtLaunchKernel", f, g, b, a, lds, s, e0, e1);
}
