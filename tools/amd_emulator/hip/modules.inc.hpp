// ------------------------------------------------------------------------------------------------
// modules
struct ihipModule_t {
  std::vector<u8> copy;
  Fat fat;
  CodeObj* co = nullptr;
  std::map<string, Kernel*> fns;
};
static std::set<void*>& g_mods = *new std::set<void*>;
static hipError_t module_load(const char* api, hipModule_t* out, std::unique_ptr<ihipModule_t> m) {
  string why;
  hipError_t e = fat_load(api, m->fat, tl_dev, &m->co, &why);
  if (e != hipSuccess) return fail(e, api, why);
  g_mods.insert(m.get());
  *out = m.release();
  return hipSuccess;
}
EXPORT hipError_t hipModuleLoadData(hipModule_t* out, const void* image) {
  SETUP("hipModuleLoadData");
  if (!out || !image) return fail(hipErrorInvalidValue);
  auto m = std::make_unique<ihipModule_t>();
  m->fat.data = (const u8*)image;
  return module_load("hipModuleLoadData", out, std::move(m));
}
EXPORT hipError_t hipModuleLoadDataEx(hipModule_t* out, const void* image, unsigned, hipJitOption*,
                                      void**) {
  return hipModuleLoadData(out, image);
}
EXPORT hipError_t hipModuleLoad(hipModule_t* out, const char* path) {
  SETUP("hipModuleLoad");
  if (!out || !path) return fail(hipErrorInvalidValue);
  FILE* f = fopen(path, "rb");
  if (!f) return fail(hipErrorFileNotFound, "hipModuleLoad", string(path) + ": " + strerror(errno));
  auto m = std::make_unique<ihipModule_t>();
  u8 buf[65536];
  for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;)
    m->copy.insert(m->copy.end(), buf, buf + n);
  fclose(f);
  m->copy.resize(std::max<size_t>(m->copy.size(), 64));
  m->fat.data = m->copy.data();
  return module_load("hipModuleLoad", out, std::move(m));
}
EXPORT hipError_t hipModuleUnload(hipModule_t m) {
  SETUP("hipModuleUnload");
  flush(true);
  if (!g_mods.erase(m)) return fail(hipErrorInvalidHandle, "hipModuleUnload", "not a module");
  for (auto& c : m->fat.loaded) unload_code(c.second);
  delete m;
  return hipSuccess;
}
EXPORT hipError_t hipModuleGetFunction(hipFunction_t* f, hipModule_t m, const char* name) {
  SETUP("hipModuleGetFunction");
  if (!f || !name) return fail(hipErrorInvalidValue);
  if (!g_mods.count(m)) return fail(hipErrorInvalidHandle, "hipModuleGetFunction", "not a module");
  auto it = m->co->kernels.find(name);
  if (it == m->co->kernels.end())
    return fail(hipErrorNotFound, "hipModuleGetFunction", string("no kernel ") + name);
  *f = it->second.get();
  return hipSuccess;
}
EXPORT hipError_t hipModuleGetFunctionCount(unsigned* n, hipModule_t m) {
  SETUP("hipModuleGetFunctionCount");
  if (!n || !g_mods.count(m)) return fail(hipErrorInvalidValue);
  *n = (unsigned)m->co->kernels.size();
  return hipSuccess;
}
EXPORT hipError_t hipModuleGetGlobal(void** p, size_t* n, hipModule_t m, const char* name) {
  SETUP("hipModuleGetGlobal");
  if (!name || !g_mods.count(m)) return fail(hipErrorInvalidValue);
  auto it = m->co->syms.find(name);
  if (it == m->co->syms.end())
    return fail(hipErrorNotFound, "hipModuleGetGlobal", string("no variable ") + name);
  if (p) *p = (void*)(g_base + m->co->off + it->second.first);
  if (n) *n = it->second.second;
  return hipSuccess;
}
static bool function_ok(hipFunction_t f) {
  for (auto& c : g_cos)
    for (auto& k : c.second->kernels)
      if (k.second.get() == f) return true;
  return false;
}
static hipError_t launch_module(const char* api, hipFunction_t f, Dims g, Dims b, Dims rem, u64 lds,
                                hipStream_t s, void** args, void** extra, hipEvent_t e0,
                                hipEvent_t e1) {
  SETUP(api);
  CHECK_STREAM(api, s);
  if (!created(s)) flush(false);
  STICKY();
  if (!function_ok(f))
    return fail(hipErrorInvalidResourceHandle, api,
                fmt("%p is not a function of a loaded module", (void*)f));
  std::vector<u8> kb;
  hipError_t e = pack_args(api, f, args, extra, kb);
  if (e != hipSuccess) return e;
  stamp(e0, s);
  e = run_kernel(api, f, g, b, rem, lds, kb, s);
  stamp(e1, s);
  return e;
}
EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz,
                                        unsigned bx, unsigned by, unsigned bz, unsigned lds,
                                        hipStream_t s, void** args, void** extra) {
  return launch_module("hipModuleLaunchKernel", f, {gx, gy, gz}, {bx, by, bz}, {0, 0, 0}, lds, s,
                       args, extra, nullptr, nullptr);
}
// these two count threads, not blocks
EXPORT hipError_t hipExtModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz,
                                           unsigned bx, unsigned by, unsigned bz, size_t lds,
                                           hipStream_t s, void** args, void** extra, hipEvent_t e0,
                                           hipEvent_t e1, unsigned) {
  const char* api = "hipExtModuleLaunchKernel";
  if (!bx || !by || !bz || gx % bx || gy % by || gz % bz)
    return fail(hipErrorNotSupported, api,
                "a grid that is not a multiple of the block is not modelled");
  return launch_module(api, f, {gx / bx, gy / by, gz / bz}, {bx, by, bz}, {0, 0, 0}, lds, s, args,
                       extra, e0, e1);
}
EXPORT hipError_t hipHccModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz,
                                           unsigned bx, unsigned by, unsigned bz, size_t lds,
                                           hipStream_t s, void** args, void** extra, hipEvent_t e0,
                                           hipEvent_t e1) {
  return hipExtModuleLaunchKernel(f, gx, gy, gz, bx, by, bz, lds, s, args, extra, e0, e1, 0);
}

// ------------------------------------------------------------------------------------------------
// function queries
static int occupancy(const Kernel* k, int block, u64 dyn) {
  const Dev& d = g_devs[k->co->dev];
  if (block <= 0) return 0;
  int waves = (block + d.wave - 1) / d.wave;
  u64 regs = std::max<u64>((k->vgpr + d.vgran - 1) / d.vgran * d.vgran, d.vgran);
  int per_simd = (int)std::min<u64>(d.wavesmax, d.vgprs / regs);
  int n = per_simd * d.simds / waves;
  u64 lds = (k->lds + dyn + 511) / 512 * 512, have = d.cdna ? d.lds : 2 * d.lds;
  if (lds) n = std::min<u64>(n, have / lds);
  return n;
}
static hipError_t fill_attr(hipFuncAttributes* a, const Kernel* k) {
  const Dev& d = g_devs[k->co->dev];
  memset(a, 0, sizeof *a);
  a->binaryVersion = d.major * 10 + d.minor;
  a->ptxVersion = d.major * 10 + d.minor;
  a->localSizeBytes = k->scratch;
  a->sharedSizeBytes = k->lds;
  a->maxThreadsPerBlock = (int)k->max_wg;
  a->numRegs = (int)k->vgpr;
  a->maxDynamicSharedSizeBytes = (int)(d.lds - std::min(d.lds, k->lds));
  return hipSuccess;
}
EXPORT hipError_t hipFuncGetAttributes(hipFuncAttributes* a, const void* f) {
  SETUP("hipFuncGetAttributes");
  if (!a) return fail(hipErrorInvalidValue);
  Kernel* k = nullptr;
  hipError_t e = kernel_of("hipFuncGetAttributes", f, tl_dev, &k);
  return e != hipSuccess ? e : fill_attr(a, k);
}
EXPORT hipError_t hipFuncGetAttribute(int* v, hipFunction_attribute at, hipFunction_t f) {
  SETUP("hipFuncGetAttribute");
  if (!v || !function_ok(f)) return fail(hipErrorInvalidValue);
  hipFuncAttributes a;
  (void)fill_attr(&a, f);
  switch (at) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *v = a.maxThreadsPerBlock;
      break;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *v = (int)a.sharedSizeBytes;
      break;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *v = 0;
      break;
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *v = (int)a.localSizeBytes;
      break;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS:
      *v = a.numRegs;
      break;
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
      *v = a.ptxVersion;
      break;
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION:
      *v = a.binaryVersion;
      break;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *v = a.maxDynamicSharedSizeBytes;
      break;
    default:
      *v = 0;
  }
  return hipSuccess;
}
EXPORT hipError_t hipFuncSetAttribute(const void* f, hipFuncAttribute at, int v) {
  SETUP("hipFuncSetAttribute");
  Kernel* k = nullptr;
  hipError_t e = kernel_of("hipFuncSetAttribute", f, tl_dev, &k);
  if (e != hipSuccess) return e;
  if (at == hipFuncAttributeMaxDynamicSharedMemorySize &&
      (v < 0 || (u64)v + k->lds > g_devs[tl_dev].lds))
    return fail(hipErrorInvalidValue, "hipFuncSetAttribute",
                fmt("%d bytes of dynamic LDS do not fit", v));
  return hipSuccess;
}
EXPORT hipError_t hipFuncSetCacheConfig(const void*, hipFuncCache_t) { return hipSuccess; }
EXPORT hipError_t hipFuncSetSharedMemConfig(const void*, hipSharedMemConfig) { return hipSuccess; }
EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int block,
                                                               size_t dyn) {
  SETUP("hipOccupancyMaxActiveBlocksPerMultiprocessor");
  if (!n) return fail(hipErrorInvalidValue);
  Kernel* k = nullptr;
  hipError_t e = kernel_of("hipOccupancyMaxActiveBlocksPerMultiprocessor", f, tl_dev, &k);
  if (e != hipSuccess) return e;
  *n = occupancy(k, block, dyn);
  return hipSuccess;
}
EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void* f,
                                                                        int block, size_t dyn,
                                                                        unsigned) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(n, f, block, dyn);
}
EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* n, hipFunction_t f,
                                                                     int block, size_t dyn) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(n, f, block, dyn);
}
EXPORT hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* f,
                                                    size_t dyn, int limit) {
  SETUP("hipOccupancyMaxPotentialBlockSize");
  if (!grid || !block) return fail(hipErrorInvalidValue);
  Kernel* k = nullptr;
  hipError_t e = kernel_of("hipOccupancyMaxPotentialBlockSize", f, tl_dev, &k);
  if (e != hipSuccess) return e;
  *block = (int)(limit > 0 ? std::min<u64>(limit, k->max_wg) : k->max_wg);
  *grid = std::max(1, occupancy(k, *block, dyn)) * g_devs[tl_dev].cus;
  return hipSuccess;
}
EXPORT const char* hipKernelNameRef(const hipFunction_t f) { return f ? f->name.c_str() : ""; }
EXPORT const char* hipKernelNameRefByPtr(const void* f, hipStream_t) {
  Guard g;
  auto it = g_fns.find(f);
  return it == g_fns.end() ? "" : it->second.name.c_str();
}
