// ------------------------------------------------------------------------------------------------
// device API
EXPORT hipError_t hipInit(unsigned) {
  Guard g;
  if (!g_owner) g_owner = getpid();
  return g_devs.empty() ? fail(hipErrorNoDevice) : hipSuccess;
}
EXPORT hipError_t hipGetDeviceCount(int* n) {
  Guard g;
  if (!n) return fail(hipErrorInvalidValue);
  if (!g_owner) g_owner = getpid();
  *n = (int)g_devs.size();
  return g_devs.empty() ? fail(hipErrorNoDevice) : hipSuccess;
}
EXPORT hipError_t hipGetDevice(int* d) {
  SETUP("hipGetDevice");
  if (!d) return fail(hipErrorInvalidValue);
  *d = tl_dev;
  return hipSuccess;
}
#define CHECK_DEV(api, d)               \
  SETUP(api);                           \
  if (d < 0 || d >= (int)g_devs.size()) \
  return fail(hipErrorInvalidDevice, api, fmt("device %d of %zu", d, g_devs.size()))
EXPORT hipError_t hipSetDevice(int d) {
  CHECK_DEV("hipSetDevice", d);
  tl_dev = d;
  return hipSuccess;
}
EXPORT hipError_t hipDeviceGet(hipDevice_t* o, int d) {
  CHECK_DEV("hipDeviceGet", d);
  if (!o) return fail(hipErrorInvalidValue);
  *o = d;
  return hipSuccess;
}
EXPORT hipError_t hipDeviceSynchronize(void) {
  SETUP("hipDeviceSynchronize");
  flush(true);
  STICKY();
  return hipSuccess;
}
EXPORT hipError_t hipDeviceReset(void) {
  SETUP("hipDeviceReset");
  g_sticky = 0;
  tl_last = hipSuccess;
  for (void* s : g_streams) ((hipStream_t)s)->q.clear();
  for (auto it = g_live.begin(); it != g_live.end();) {
    auto nx = std::next(it);
    if (it->second.kind == K_DEVICE && it->second.dev == tl_dev) mem_release(it);
    it = nx;
  }
  return hipSuccess;
}
static string dev_name(const Dev& d) { return "Emulated AMD " + d.proc; }
static void arch_flags(hipDeviceArch_t& a) {
  a.hasGlobalInt32Atomics = a.hasGlobalFloatAtomicExch = a.hasSharedInt32Atomics =
      a.hasSharedFloatAtomicExch = a.hasFloatAtomicAdd = 1;
  a.hasGlobalInt64Atomics = a.hasSharedInt64Atomics = a.hasDoubles = a.hasWarpVote =
      a.hasWarpBallot = a.hasWarpShuffle = 1;
  a.hasThreadFenceSystem = a.has3dGrid = 1;
}
template <class P>
static void common_props(P& p, const Dev& d, int id) {
  snprintf(p.name, sizeof p.name, "%s", dev_name(d).c_str());
  snprintf(p.gcnArchName, sizeof p.gcnArchName, "%s", d.name.c_str());
  p.totalGlobalMem = g_mem;
  p.sharedMemPerBlock = d.lds;
  p.regsPerBlock = 65536;
  p.warpSize = d.wave;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = p.maxThreadsDim[2] = 1024;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65536;
  p.clockRate = d.mhz * 1000;
  p.memoryClockRate = d.memmhz * 1000;
  p.memoryBusWidth = d.busw;
  p.totalConstMem = 2147483647;
  p.major = d.major;
  p.minor = d.minor;
  p.multiProcessorCount = d.cus;
  p.l2CacheSize = (int)d.l2;
  p.maxThreadsPerMultiProcessor = d.wave * d.simds * d.wavesmax;
  p.concurrentKernels = 1;
  p.pciBusID = id + 1;
  p.maxSharedMemoryPerMultiProcessor = d.cdna ? d.lds : 2 * d.lds;
  p.canMapHostMemory = 1;
  p.clockInstructionRate = 100000;
  p.memPitch = 2147483647;
  p.textureAlignment = 256;
  p.texturePitchAlignment = 256;
  p.managedMemory = 1;
  p.concurrentManagedAccess = 0;
  p.ECCEnabled = d.cdna;
  p.asicRevision = 0;
  arch_flags(p.arch);
}
EXPORT hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* p, int id) {
  CHECK_DEV("hipGetDeviceProperties", id);
  if (!p) return fail(hipErrorInvalidValue);
  memset(p, 0, sizeof *p);
  const Dev& d = g_devs[id];
  common_props(*p, d, id);
  snprintf(p->uuid.bytes, sizeof p->uuid.bytes, "EMUHIP-%08x", 0xe0000000u + id);
  p->deviceOverlap = 1;
  p->asyncEngineCount = 8;
  p->unifiedAddressing = 1;
  p->streamPrioritiesSupported = 1;
  p->sharedMemPerMultiprocessor = p->maxSharedMemoryPerMultiProcessor;
  p->regsPerMultiprocessor = 131072;
  p->sharedMemPerBlockOptin = d.lds;
  p->maxBlocksPerMultiProcessor = 32;
  p->surfaceAlignment = 256;
  return hipSuccess;
}
EXPORT hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_tR0000* p, int id) {
  CHECK_DEV("hipGetDeviceProperties", id);
  if (!p) return fail(hipErrorInvalidValue);
  memset(p, 0, sizeof *p);
  common_props(*p, g_devs[id], id);
  p->gcnArch = g_devs[id].major * 100 + g_devs[id].minor * 10 + g_devs[id].step;
  return hipSuccess;
}
// the unversioned name has the old structure, as in AMD's library
EXPORT hipError_t emuhip_props_old(hipDeviceProp_tR0000* p,
                                   int id) __asm__("hipGetDeviceProperties");
EXPORT hipError_t emuhip_props_old(hipDeviceProp_tR0000* p, int id) {
  return hipGetDevicePropertiesR0000(p, id);
}

EXPORT hipError_t hipDeviceGetAttribute(int* v, hipDeviceAttribute_t at, int id) {
  CHECK_DEV("hipDeviceGetAttribute", id);
  if (!v) return fail(hipErrorInvalidValue);
  hipDeviceProp_tR0600 p;
  (void)hipGetDevicePropertiesR0600(&p, id);
  switch ((int)at) {
#define A(name, value)           \
  case hipDeviceAttribute##name: \
    *v = (int)(value);           \
    break
    A(EccEnabled, p.ECCEnabled);
    A(AsyncEngineCount, p.asyncEngineCount);
    A(CanMapHostMemory, 1);
    A(ClockRate, p.clockRate);
    A(ComputeMode, 0);
    A(ConcurrentKernels, 1);
    A(ConcurrentManagedAccess, 0);
    A(CooperativeLaunch, 0);
    A(CooperativeMultiDeviceLaunch, 0);
    A(DeviceOverlap, 1);
    A(Integrated, 0);
    A(IsMultiGpuBoard, 0);
    A(KernelExecTimeout, 0);
    A(L2CacheSize, p.l2CacheSize);
    A(ComputeCapabilityMajor, p.major);
    A(ComputeCapabilityMinor, p.minor);
    A(ManagedMemory, 1);
    A(MaxBlocksPerMultiProcessor, p.maxBlocksPerMultiProcessor);
    A(MaxBlockDimX, 1024);
    A(MaxBlockDimY, 1024);
    A(MaxBlockDimZ, 1024);
    A(MaxGridDimX, p.maxGridSize[0]);
    A(MaxGridDimY, p.maxGridSize[1]);
    A(MaxGridDimZ, p.maxGridSize[2]);
    A(MaxThreadsDim, 1024);
    A(MaxThreadsPerBlock, 1024);
    A(MaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor);
    A(MaxPitch, p.memPitch);
    A(MemoryBusWidth, p.memoryBusWidth);
    A(MemoryClockRate, p.memoryClockRate);
    A(MultiprocessorCount, p.multiProcessorCount);
    A(PageableMemoryAccess, 0);
    A(PciBusId, p.pciBusID);
    A(PciDeviceId, 0);
    A(PciDomainId, 0);
    A(MaxRegistersPerBlock, p.regsPerBlock);
    A(MaxRegistersPerMultiprocessor, p.regsPerMultiprocessor);
    A(MaxSharedMemoryPerBlock, p.sharedMemPerBlock);
    A(SharedMemPerBlockOptin, p.sharedMemPerBlock);
    A(SharedMemPerMultiprocessor, p.sharedMemPerMultiprocessor);
    A(StreamPrioritiesSupported, 1);
    A(TextureAlignment, 256);
    A(TotalConstantMemory, p.totalConstMem);
    A(TotalGlobalMem, std::min<u64>(g_mem, 0x7fffffff));
    A(UnifiedAddressing, 1);
    A(WarpSize, p.warpSize);
    A(MemoryPoolsSupported, 0);
    A(VirtualMemoryManagementSupported, 0);
    A(HostRegisterSupported, 0);
    A(ClockInstructionRate, p.clockInstructionRate);
    A(MaxSharedMemoryPerMultiprocessor, p.maxSharedMemoryPerMultiProcessor);
    A(IsLargeBar, 0);
    A(AsicRevision, 0);
    A(WallClockRate, 100000);
    A(CanUseHostPointerForRegisteredMem, 0);
    A(ComputePreemptionSupported, 0);
    A(GlobalL1CacheSupported, 1);
    A(LocalL1CacheSupported, 1);
    A(HostNativeAtomicSupported, 0);
    A(MultiGpuBoardGroupID, 0);
    A(PageableMemoryAccessUsesHostPageTables, 0);
    A(DirectManagedMemAccessFromHost, 0);
    A(ReservedSharedMemPerBlock, 0);
    A(SingleToDoublePrecisionPerfRatio, 0);
    A(TccDriver, 0);
    A(FineGrainSupport, 1);
    A(PhysicalMultiProcessorCount, p.multiProcessorCount);
    A(ImageSupport, 0);
#undef A
    default:
      return fail(hipErrorInvalidValue, "hipDeviceGetAttribute",
                  fmt("attribute %d is not known here", (int)at));
  }
  return hipSuccess;
}
EXPORT hipError_t hipDeviceGetName(char* s, int n, hipDevice_t d) {
  CHECK_DEV("hipDeviceGetName", d);
  if (!s || n < 1) return fail(hipErrorInvalidValue);
  snprintf(s, n, "%s", dev_name(g_devs[d]).c_str());
  return hipSuccess;
}
EXPORT hipError_t hipDeviceTotalMem(size_t* n, hipDevice_t d) {
  CHECK_DEV("hipDeviceTotalMem", d);
  if (!n) return fail(hipErrorInvalidValue);
  *n = g_mem;
  return hipSuccess;
}
EXPORT hipError_t hipDeviceComputeCapability(int* a, int* b, hipDevice_t d) {
  CHECK_DEV("hipDeviceComputeCapability", d);
  *a = g_devs[d].major;
  *b = g_devs[d].minor;
  return hipSuccess;
}
EXPORT hipError_t hipDeviceGetUuid(hipUUID* u, hipDevice_t d) {
  CHECK_DEV("hipDeviceGetUuid", d);
  hipDeviceProp_tR0600 p;
  (void)hipGetDevicePropertiesR0600(&p, d);
  *u = p.uuid;
  return hipSuccess;
}
EXPORT hipError_t hipDeviceGetPCIBusId(char* s, int n, int d) {
  CHECK_DEV("hipDeviceGetPCIBusId", d);
  if (!s || n < 13) return fail(hipErrorInvalidValue);
  snprintf(s, n, "0000:%02x:00.0", d + 1);
  return hipSuccess;
}
EXPORT hipError_t hipDeviceGetByPCIBusId(int* d, const char* s) {
  SETUP("hipDeviceGetByPCIBusId");
  unsigned b = 0;
  if (!d || !s || sscanf(s, "0000:%x", &b) != 1 || b < 1 || b > g_devs.size())
    return fail(hipErrorInvalidValue);
  *d = b - 1;
  return hipSuccess;
}
EXPORT hipError_t hipDeviceCanAccessPeer(int* c, int a, int b) {
  CHECK_DEV("hipDeviceCanAccessPeer", a);
  if (!c || b < 0 || b >= (int)g_devs.size()) return fail(hipErrorInvalidDevice);
  *c = a != b;
  return hipSuccess;
}
EXPORT hipError_t hipDeviceEnablePeerAccess(int d, unsigned) {
  CHECK_DEV("hipDeviceEnablePeerAccess", d);
  return hipSuccess;
}
EXPORT hipError_t hipDeviceDisablePeerAccess(int d) {
  CHECK_DEV("hipDeviceDisablePeerAccess", d);
  return hipSuccess;
}
EXPORT hipError_t hipDeviceSetCacheConfig(hipFuncCache_t) { return hipSuccess; }
EXPORT hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig) { return hipSuccess; }
EXPORT hipError_t hipSetDeviceFlags(unsigned) { return hipSuccess; }
EXPORT hipError_t hipGetDeviceFlags(unsigned* f) {
  if (!f) return fail(hipErrorInvalidValue);
  *f = 0;
  return hipSuccess;
}
EXPORT hipError_t hipDeviceGetStreamPriorityRange(int* lo, int* hi) {
  if (lo) *lo = 1;
  if (hi) *hi = -1;
  return hipSuccess;
}
EXPORT hipError_t hipChooseDeviceR0600(int* d, const hipDeviceProp_tR0600*) {
  SETUP("hipChooseDevice");
  if (!d) return fail(hipErrorInvalidValue);
  *d = 0;
  return hipSuccess;
}
EXPORT hipError_t hipRuntimeGetVersion(int* v) {
  if (!v) return fail(hipErrorInvalidValue);
  *v = HIP_VERSION;
  return hipSuccess;
}
EXPORT hipError_t hipDriverGetVersion(int* v) {
  if (!v) return fail(hipErrorInvalidValue);
  *v = HIP_VERSION;
  return hipSuccess;
}

EXPORT hipError_t hipGetProcAddress(const char* name, void** f, int version, u64,
                                    hipDriverProcAddressQueryResult* st) {
  if (!name || !f) return fail(hipErrorInvalidValue);
  string n = name;
  if (version >= 600 && (n == "hipGetDeviceProperties" || n == "hipChooseDevice")) n += "R0600";
  static void* self = dlopen((own_dir() + "/libamdhip64.so.7").c_str(), RTLD_LAZY | RTLD_NOLOAD);
  *f = dlsym(self ? self : RTLD_DEFAULT, n.c_str());
  if (st) *st = *f ? HIP_GET_PROC_ADDRESS_SUCCESS : HIP_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return *f ? hipSuccess : fail(hipErrorInvalidValue);
}

// ------------------------------------------------------------------------------------------------
// errors
EXPORT hipError_t hipGetLastError(void) {
  hipError_t e = tl_last;
  tl_last = hipSuccess;
  return g_sticky ? (hipError_t)g_sticky.load() : e;
}
EXPORT hipError_t hipExtGetLastError(void) { return hipGetLastError(); }
EXPORT hipError_t hipPeekAtLastError(void) {
  return g_sticky ? (hipError_t)g_sticky.load() : tl_last;
}
static const struct {
  int e;
  const char* n;
} ERRS[] = {
#define X(n) {n, #n},
#include "gen_errors.inc"
#undef X
};
EXPORT const char* hipGetErrorName(hipError_t e) {
  for (auto& x : ERRS)
    if (x.e == (int)e) return x.n;
  return "hipErrorUnknown";
}
EXPORT const char* hipGetErrorString(hipError_t e) {
  switch ((int)e) {
    case hipSuccess:
      return "no error";
    case hipErrorInvalidValue:
      return "invalid argument";
    case hipErrorOutOfMemory:
      return "out of memory";
    case hipErrorNoDevice:
      return "no ROCm-capable device is detected";
    case hipErrorInvalidDevice:
      return "invalid device ordinal";
    case hipErrorNoBinaryForGpu:
      return "no kernel image is available for execution on the device";
    case hipErrorLaunchFailure:
      return "unspecified launch failure";
    case hipErrorNotSupported:
      return "operation not supported";
    case hipErrorInvalidDeviceFunction:
      return "invalid device function";
    case hipErrorInvalidConfiguration:
      return "invalid configuration argument";
    case hipErrorInvalidHandle:
      return "invalid resource handle";
    case hipErrorFileNotFound:
      return "file not found";
    case hipErrorNotFound:
      return "named symbol not found";
    case hipErrorInvalidImage:
      return "device kernel image is invalid";
    case hipErrorInvalidSymbol:
      return "invalid device symbol";
    case hipErrorInvalidMemcpyDirection:
      return "invalid copy direction for memcpy";
    case hipErrorNotInitialized:
      return "initialization error";
  }
  return hipGetErrorName(e);
}
EXPORT hipError_t hipDrvGetErrorName(hipError_t e, const char** s) {
  *s = hipGetErrorName(e);
  return hipSuccess;
}
EXPORT hipError_t hipDrvGetErrorString(hipError_t e, const char** s) {
  *s = hipGetErrorString(e);
  return hipSuccess;
}

// ------------------------------------------------------------------------------------------------
// end of the process
__attribute__((destructor)) static void at_exit() {
  if (g_w.fd >= 0 && getpid() == g_owner) worker_drop(true);
  if (g_owner && getpid() == g_owner)
    for (void* s : g_streams)
      if (size_t n = ((hipStream_t)s)->q.size())
        report("exit", fmt("%zu operations on stream %u were never waited for and did not run", n,
                           ((hipStream_t)s)->id));
  if (g_owner && getpid() == g_owner && *env("EMUHIP_LEAKS") &&
      strcmp(env("EMUHIP_LEAKS"), "0") != 0)
    for (auto& a : g_live)
      if (a.second.kind != K_CODE)
        report("exit", fmt("allocation #%llu (%s, %llu bytes) was not freed",
                           (unsigned long long)a.second.id, kind_name[a.second.kind],
                           (unsigned long long)a.second.size));
}
