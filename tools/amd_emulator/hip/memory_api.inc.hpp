// ------------------------------------------------------------------------------------------------
// memory API
EXPORT hipError_t hipMalloc(void** p, size_t n) {
  SETUP("hipMalloc");
  STICKY();
  return do_malloc("hipMalloc", p, n, K_DEVICE, 0);
}
EXPORT hipError_t hipExtMallocWithFlags(void** p, size_t n, unsigned fl) {
  SETUP("hipExtMallocWithFlags");
  STICKY();
  return do_malloc("hipExtMallocWithFlags", p, n, K_DEVICE, fl);
}
EXPORT hipError_t hipMallocAsync(void** p, size_t n, hipStream_t s) {
  SETUP("hipMallocAsync");
  STICKY();
  CHECK_STREAM("hipMallocAsync", s);
  return do_malloc("hipMallocAsync", p, n, K_DEVICE, 0);
}
EXPORT hipError_t hipMallocManaged(void** p, size_t n, unsigned fl) {
  SETUP("hipMallocManaged");
  STICKY();
  return do_malloc("hipMallocManaged", p, n, K_MANAGED, fl);
}
EXPORT hipError_t hipHostMalloc(void** p, size_t n, unsigned fl) {
  SETUP("hipHostMalloc");
  STICKY();
  return do_malloc("hipHostMalloc", p, n, K_HOST, fl);
}
EXPORT hipError_t hipHostAlloc(void** p, size_t n, unsigned fl) { return hipHostMalloc(p, n, fl); }
EXPORT hipError_t hipMallocHost(void** p, size_t n) { return hipHostMalloc(p, n, 0); }
EXPORT hipError_t hipMemAllocHost(void** p, size_t n) { return hipHostMalloc(p, n, 0); }
EXPORT hipError_t hipFree(void* p) {
  SETUP("hipFree");
  flush(true);
  return do_free("hipFree", p, false);
}
EXPORT hipError_t hipFreeAsync(void* p, hipStream_t s) {
  SETUP("hipFreeAsync");
  CHECK_STREAM("hipFreeAsync", s);
  Alloc* a = mem_find(p);
  if (g_async && created(s) && a && (u64)p == g_base + a->off) {
    s->q.push_back([=] { (void)do_free("hipFreeAsync", p, false); });
    return hipSuccess;
  }
  return do_free("hipFreeAsync", p, false);
}
EXPORT hipError_t hipHostFree(void* p) {
  SETUP("hipHostFree");
  flush(true);
  return do_free("hipHostFree", p, true);
}
EXPORT hipError_t hipFreeHost(void* p) { return hipHostFree(p); }
EXPORT hipError_t hipMallocPitch(void** p, size_t* pitch, size_t w, size_t h) {
  SETUP("hipMallocPitch");
  STICKY();
  if (!pitch) return fail(hipErrorInvalidValue);
  *pitch = (w + 127) & ~(size_t)127;
  return do_malloc("hipMallocPitch", p, *pitch * h, K_DEVICE, 0);
}
EXPORT hipError_t hipHostGetDevicePointer(void** d, void* h, unsigned) {
  SETUP("hipHostGetDevicePointer");
  Alloc* a = mem_find(h);
  if (!d || !a || a->kind == K_DEVICE)
    return fail(hipErrorInvalidValue, "hipHostGetDevicePointer", fmt("%p is not pinned memory", h));
  *d = h;
  return hipSuccess;
}
EXPORT hipError_t hipHostGetFlags(unsigned* fl, void* h) {
  SETUP("hipHostGetFlags");
  Alloc* a = mem_find(h);
  if (!fl || !a || a->kind == K_DEVICE) return fail(hipErrorInvalidValue);
  *fl = a->flags;
  return hipSuccess;
}
EXPORT hipError_t hipMemGetInfo(size_t* fr, size_t* tot) {
  SETUP("hipMemGetInfo");
  if (fr) *fr = g_mem - g_devs[tl_dev].used;
  if (tot) *tot = g_mem;
  return hipSuccess;
}
EXPORT hipError_t hipMemPtrGetInfo(void* p, size_t* n) {
  SETUP("hipMemPtrGetInfo");
  Alloc* a = mem_find(p);
  if (!n || !a) return fail(hipErrorInvalidValue);
  *n = a->size;
  return hipSuccess;
}
EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* n, hipDeviceptr_t p) {
  SETUP("hipMemGetAddressRange");
  Alloc* a = mem_find(p);
  if (!a) return fail(hipErrorNotFound);
  if (base) *base = (hipDeviceptr_t)(g_base + a->off);
  if (n) *n = a->size;
  return hipSuccess;
}
EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t* a, const void* p) {
  SETUP("hipPointerGetAttributes");
  if (!a || !p) return fail(hipErrorInvalidValue);
  memset(a, 0, sizeof *a);
  Alloc* m = mem_find(p);
  if (!m || m->kind == K_CODE) {
    if (in_arena(p))
      return fail(hipErrorInvalidValue, "hipPointerGetAttributes",
                  fmt("%p: ", p) + mem_describe((u64)p));
    a->type = hipMemoryTypeUnregistered;
    a->device = -2;
    return hipSuccess;
  }
  a->type = m->kind == K_DEVICE ? hipMemoryTypeDevice
            : m->kind == K_HOST ? hipMemoryTypeHost
                                : hipMemoryTypeManaged;
  a->device = m->dev;
  a->devicePointer = (void*)p;
  a->hostPointer = m->kind == K_DEVICE ? nullptr : (void*)p;
  a->isManaged = m->kind == K_MANAGED;
  a->allocationFlags = m->flags;
  return hipSuccess;
}
EXPORT hipError_t hipMemPrefetchAsync(const void*, size_t, int, hipStream_t) {
  SETUP("hipMemPrefetchAsync");
  return hipSuccess;
}
EXPORT hipError_t hipMemAdvise(const void*, size_t, hipMemoryAdvise, int) {
  SETUP("hipMemAdvise");
  return hipSuccess;
}

static bool kind_ok(const char* api, const void* p, bool dev, const char* what) {
  Alloc* a = mem_find(p);
  bool is_dev = in_arena(p) && !(a && a->kind == K_HOST),
       either = a && (a->kind == K_MANAGED || a->kind == K_HOST);
  if (!g_strict || either || is_dev == dev) return true;
  report(api, fmt("the copy kind says that the %s is %s memory, but %p is %s memory", what,
                  dev ? "device" : "host", p, is_dev ? "device" : "host"));
  return false;
}
static void log_mem(const char* api, hipStream_t st, const void* d, u64 n) {
  if (g_logmem)
    log_line(
        fmt("{\"event\": \"memory\", \"pid\": %d, \"stream\": %u, \"api\": \"%s\", "
            "\"destination\": \"%p\", \"bytes\": %llu}",
            getpid(), stream_id(st), api, d, (unsigned long long)n));
}
static hipError_t do_copy(const char* api, bool dry, void* d, const void* s, u64 n, int kind,
                          u64 rows = 1, u64 dp = 0, u64 sp = 0) {
  if (!n || !rows) return hipSuccess;
  if (!d || !s) return fail(hipErrorInvalidValue, api, "null pointer");
  if (!(kind >= 0 && kind <= 4) && kind != 1024)
    return fail(hipErrorInvalidMemcpyDirection, api, fmt("copy kind %d", kind));
  if (rows > 1 && (dp < n || sp < n))
    return fail(hipErrorInvalidPitchValue, api, "pitch smaller than the width");
  if (!range_ok(d, (rows - 1) * dp + n, api, "destination") ||
      !range_ok(s, (rows - 1) * sp + n, api, "source"))
    return fail(hipErrorInvalidValue);
  if (kind != 4) {
    bool dd = kind == 1 || kind == 3 || kind == 1024, sd = kind == 2 || kind == 3 || kind == 1024;
    if (!kind_ok(api, d, dd, "destination") || !kind_ok(api, s, sd, "source"))
      return fail(hipErrorInvalidValue);
  }
  if (dry) return hipSuccess;
  u8* dr = (u8*)real(d);
  u8* sr = (u8*)real(s);
  for (u64 r = 0; r < rows; r++) memmove(dr + r * dp, sr + r * sp, n);
  return hipSuccess;
}
static void late(const char* api, hipError_t e)  // an operation that was fine when it was queued
{
  if (e != hipSuccess) {
    report(api, "failed when it was executed");
    set_sticky(hipErrorIllegalAddress);
  }
}
static hipError_t copy_on(const char* api, hipStream_t st, bool async, void* d, const void* s,
                          u64 n, int kind, u64 rows = 1, u64 dp = 0, u64 sp = 0) {
  SETUP(api);
  CHECK_STREAM(api, st);
  if (!async || !created(st)) wait_on(st);
  STICKY();
  log_mem(api, st, d, n * rows);
  if (!g_async || !async || !created(st)) return do_copy(api, false, d, s, n, kind, rows, dp, sp);
  hipError_t e = do_copy(api, true, d, s, n, kind, rows, dp, sp);
  if (e != hipSuccess || !n || !rows) return e;
  if (!in_arena(d))  // into pageable memory: returns when the copy is done
  {
    flush_stream(st);
    STICKY();
    return do_copy(api, false, d, s, n, kind, rows, dp, sp);
  }
  if (!in_arena(s))  // from pageable memory: staged now
  {
    auto b = std::make_shared<std::vector<u8>>((const u8*)s, (const u8*)s + (rows - 1) * sp + n);
    st->q.push_back([=] {
      if (!g_sticky) late(api, do_copy(api, false, d, b->data(), n, 4, rows, dp, sp));
    });
  } else
    st->q.push_back([=] {
      if (!g_sticky) late(api, do_copy(api, false, d, s, n, kind, rows, dp, sp));
    });
  return hipSuccess;
}
#define COPY(api, stream, ...) return copy_on(api, stream, false, __VA_ARGS__)
#define COPYA(api, stream, ...) return copy_on(api, stream, true, __VA_ARGS__)
EXPORT hipError_t hipMemcpy(void* d, const void* s, size_t n, hipMemcpyKind k) {
  COPY("hipMemcpy", nullptr, d, s, n, k);
}
EXPORT hipError_t hipMemcpy_spt(void* d, const void* s, size_t n, hipMemcpyKind k) {
  COPY("hipMemcpy", nullptr, d, s, n, k);
}
EXPORT hipError_t hipMemcpyAsync(void* d, const void* s, size_t n, hipMemcpyKind k,
                                 hipStream_t st) {
  COPYA("hipMemcpyAsync", st, d, s, n, k);
}
EXPORT hipError_t hipMemcpyWithStream(void* d, const void* s, size_t n, hipMemcpyKind k,
                                      hipStream_t st) {
  COPY("hipMemcpyWithStream", st, d, s, n, k);
}
EXPORT hipError_t hipMemcpyHtoD(hipDeviceptr_t d, const void* s, size_t n) {
  COPY("hipMemcpyHtoD", nullptr, d, s, n, 1);
}
EXPORT hipError_t hipMemcpyDtoH(void* d, hipDeviceptr_t s, size_t n) {
  COPY("hipMemcpyDtoH", nullptr, d, s, n, 2);
}
EXPORT hipError_t hipMemcpyDtoD(hipDeviceptr_t d, hipDeviceptr_t s, size_t n) {
  COPY("hipMemcpyDtoD", nullptr, d, s, n, 3);
}
EXPORT hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t d, const void* s, size_t n, hipStream_t st) {
  COPYA("hipMemcpyHtoDAsync", st, d, s, n, 1);
}
EXPORT hipError_t hipMemcpyDtoHAsync(void* d, hipDeviceptr_t s, size_t n, hipStream_t st) {
  COPYA("hipMemcpyDtoHAsync", st, d, s, n, 2);
}
EXPORT hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t d, hipDeviceptr_t s, size_t n, hipStream_t st) {
  COPYA("hipMemcpyDtoDAsync", st, d, s, n, 3);
}
EXPORT hipError_t hipMemcpyPeer(void* d, int, const void* s, int, size_t n) {
  COPY("hipMemcpyPeer", nullptr, d, s, n, 3);
}
EXPORT hipError_t hipMemcpyPeerAsync(void* d, int, const void* s, int, size_t n, hipStream_t st) {
  COPYA("hipMemcpyPeerAsync", st, d, s, n, 3);
}
EXPORT hipError_t hipMemcpy2D(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h,
                              hipMemcpyKind k) {
  COPY("hipMemcpy2D", nullptr, d, s, w, k, h, dp, sp);
}
EXPORT hipError_t hipMemcpy2DAsync(void* d, size_t dp, const void* s, size_t sp, size_t w, size_t h,
                                   hipMemcpyKind k, hipStream_t st) {
  COPYA("hipMemcpy2DAsync", st, d, s, w, k, h, dp, sp);
}

static hipError_t do_set(const char* api, bool dry, void* d, u64 v, int esz, u64 cnt, u64 rows = 1,
                         u64 pitch = 0) {
  if (!cnt || !rows) return hipSuccess;
  if (!d) return fail(hipErrorInvalidValue, api, "null pointer");
  if (!in_arena(d)) return fail(hipErrorInvalidValue, api, fmt("%p is not device memory", d));
  if (!range_ok(d, (rows - 1) * pitch + cnt * esz, api, "destination"))
    return fail(hipErrorInvalidValue);
  if (dry) return hipSuccess;
  u8* p = (u8*)real(d);
  for (u64 r = 0; r < rows; r++)
    if (esz == 1)
      memset(p + r * pitch, (int)v, cnt);
    else
      for (u64 i = 0; i < cnt; i++) memcpy(p + r * pitch + i * esz, &v, esz);
  return hipSuccess;
}
static hipError_t set_on(const char* api, hipStream_t st, void* d, u64 v, int esz, u64 cnt,
                         u64 rows = 1, u64 pitch = 0) {
  SETUP(api);
  CHECK_STREAM(api, st);
  if (!created(st)) flush(false);
  STICKY();
  log_mem(api, st, d, esz * cnt * rows);
  if (!g_async || !created(st)) return do_set(api, false, d, v, esz, cnt, rows, pitch);
  hipError_t e = do_set(api, true, d, v, esz, cnt, rows, pitch);
  if (e == hipSuccess)
    st->q.push_back([=] {
      if (!g_sticky) late(api, do_set(api, false, d, v, esz, cnt, rows, pitch));
    });
  return e;
}
#define SET(api, stream, ...) return set_on(api, stream, __VA_ARGS__)
EXPORT hipError_t hipMemset(void* d, int v, size_t n) {
  SET("hipMemset", nullptr, d, v & 255, 1, n);
}
EXPORT hipError_t hipMemset_spt(void* d, int v, size_t n) {
  SET("hipMemset", nullptr, d, v & 255, 1, n);
}
EXPORT hipError_t hipMemsetAsync(void* d, int v, size_t n, hipStream_t s) {
  SET("hipMemsetAsync", s, d, v & 255, 1, n);
}
EXPORT hipError_t hipMemsetD8(hipDeviceptr_t d, unsigned char v, size_t n) {
  SET("hipMemsetD8", nullptr, d, v, 1, n);
}
EXPORT hipError_t hipMemsetD8Async(hipDeviceptr_t d, unsigned char v, size_t n, hipStream_t s) {
  SET("hipMemsetD8Async", s, d, v, 1, n);
}
EXPORT hipError_t hipMemsetD16(hipDeviceptr_t d, unsigned short v, size_t n) {
  SET("hipMemsetD16", nullptr, d, v, 2, n);
}
EXPORT hipError_t hipMemsetD16Async(hipDeviceptr_t d, unsigned short v, size_t n, hipStream_t s) {
  SET("hipMemsetD16Async", s, d, v, 2, n);
}
EXPORT hipError_t hipMemsetD32(hipDeviceptr_t d, int v, size_t n) {
  SET("hipMemsetD32", nullptr, d, (u32)v, 4, n);
}
EXPORT hipError_t hipMemsetD32Async(hipDeviceptr_t d, int v, size_t n, hipStream_t s) {
  SET("hipMemsetD32Async", s, d, (u32)v, 4, n);
}
EXPORT hipError_t hipMemset2D(void* d, size_t pitch, int v, size_t w, size_t h) {
  SET("hipMemset2D", nullptr, d, v & 255, 1, w, h, pitch);
}
EXPORT hipError_t hipMemset2DAsync(void* d, size_t pitch, int v, size_t w, size_t h,
                                   hipStream_t s) {
  SET("hipMemset2DAsync", s, d, v & 255, 1, w, h, pitch);
}

EXPORT hipError_t hipGetSymbolAddress(void** p, const void* sym) {
  SETUP("hipGetSymbolAddress");
  u64 a = 0, n = 0;
  hipError_t e = symbol_of("hipGetSymbolAddress", sym, &a, &n);
  if (e == hipSuccess && p) *p = (void*)a;
  return e;
}
EXPORT hipError_t hipGetSymbolSize(size_t* s, const void* sym) {
  SETUP("hipGetSymbolSize");
  u64 a = 0, n = 0;
  hipError_t e = symbol_of("hipGetSymbolSize", sym, &a, &n);
  if (e == hipSuccess && s) *s = n;
  return e;
}
static hipError_t sym_copy(const char* api, const void* sym, void* host, const void* chost, u64 n,
                           u64 off, hipStream_t st) {
  SETUP(api);
  u64 a = 0, have = 0;
  hipError_t e = symbol_of(api, sym, &a, &have);
  if (e != hipSuccess) return e;
  if (off + n > have)
    return fail(hipErrorInvalidValue, api,
                fmt("%llu bytes at %llu of a variable of %llu bytes", (unsigned long long)n,
                    (unsigned long long)off, (unsigned long long)have));
  return chost ? copy_on(api, st, true, (void*)(a + off), chost, n, 4)
               : copy_on(api, st, true, host, (void*)(a + off), n, 4);
}
EXPORT hipError_t hipMemcpyToSymbol(const void* y, const void* s, size_t n, size_t o,
                                    hipMemcpyKind) {
  return sym_copy("hipMemcpyToSymbol", y, nullptr, s, n, o, nullptr);
}
EXPORT hipError_t hipMemcpyToSymbolAsync(const void* y, const void* s, size_t n, size_t o,
                                         hipMemcpyKind, hipStream_t st) {
  return sym_copy("hipMemcpyToSymbolAsync", y, nullptr, s, n, o, st);
}
EXPORT hipError_t hipMemcpyFromSymbol(void* d, const void* y, size_t n, size_t o, hipMemcpyKind) {
  return sym_copy("hipMemcpyFromSymbol", y, d, nullptr, n, o, nullptr);
}
EXPORT hipError_t hipMemcpyFromSymbolAsync(void* d, const void* y, size_t n, size_t o,
                                           hipMemcpyKind, hipStream_t st) {
  return sym_copy("hipMemcpyFromSymbolAsync", y, d, nullptr, n, o, st);
}
