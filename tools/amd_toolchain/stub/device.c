// Properties, memory, streams and events of the emulated devices. Device memory is host memory and
// every operation is done when its call returns.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stub.h"

enum { kMaxBlock = 1024 };
static const size_t kTotalMemory = (size_t)16 << 30;

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* out, int index) {
  STUB_BEGIN(hipGetDevicePropertiesR0600);
  StubDevice device;
  STUB_CHECK(out != NULL, hipErrorInvalidValue);
  STUB_CHECK(stub_device(index, &device), hipErrorInvalidDevice);
  memset(out, 0, sizeof *out);
  snprintf(out->name, sizeof out->name, "stub %s", device.arch);
  snprintf(out->gcnArchName, sizeof out->gcnArchName, "%s", device.target);
  out->totalGlobalMem = kTotalMemory;
  out->sharedMemPerBlock = device.lds_bytes;
  out->maxSharedMemoryPerMultiProcessor = device.lds_bytes;
  out->regsPerBlock = out->regsPerMultiprocessor = 65536;
  out->warpSize = device.wave_size;
  out->maxThreadsPerBlock = kMaxBlock;
  out->maxThreadsPerMultiProcessor = 2048;
  for (int i = 0; i < 3; i++) {
    out->maxThreadsDim[i] = kMaxBlock;
    out->maxGridSize[i] = i == 0 ? 2147483647 : 65535;
  }
  out->multiProcessorCount = device.compute_units;
  out->clockRate = 2000000;
  out->major = device.major;
  out->minor = device.minor;
  out->pciBusID = index + 1;
  return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int index) {
  STUB_BEGIN(hipDeviceGetAttribute);
  StubDevice device;
  STUB_CHECK(value != NULL, hipErrorInvalidValue);
  STUB_CHECK(stub_device(index, &device), hipErrorInvalidDevice);
  switch (attribute) {
    case hipDeviceAttributeMultiprocessorCount:
      *value = device.compute_units;
      return hipSuccess;
    case hipDeviceAttributeWarpSize:
      *value = device.wave_size;
      return hipSuccess;
    case hipDeviceAttributeMaxThreadsPerBlock:
      *value = kMaxBlock;
      return hipSuccess;
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
      *value = (int)device.lds_bytes;
      return hipSuccess;
    case hipDeviceAttributeComputeCapabilityMajor:
      *value = device.major;
      return hipSuccess;
    case hipDeviceAttributeComputeCapabilityMinor:
      *value = device.minor;
      return hipSuccess;
    default:
      return stub_result(hipErrorNotSupported);
  }
}

hipError_t hipRuntimeGetVersion(int* version) {
  STUB_CHECK(version != NULL, hipErrorInvalidValue);
  *version = HIP_VERSION;
  return hipSuccess;
}
hipError_t hipDeviceSynchronize(void) {
  STUB_BEGIN(hipDeviceSynchronize);
  return hipSuccess;
}

static hipError_t allocate(StubKind kind, void** memory, size_t bytes) {
  STUB_CHECK(memory != NULL, hipErrorInvalidValue);
  *memory = NULL;
  if (bytes == 0) return hipSuccess;
  STUB_CHECK(bytes <= kTotalMemory, hipErrorOutOfMemory);
  *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  STUB_CHECK(*memory != NULL, hipErrorOutOfMemory);
  stub_add(kind, *memory, bytes);
  return hipSuccess;
}
static hipError_t release(StubKind kind, void* memory) {
  if (memory == NULL) return hipSuccess;
  STUB_CHECK(stub_remove(kind, memory), hipErrorInvalidValue);
  free(memory);
  return hipSuccess;
}

hipError_t hipMalloc(void** memory, size_t bytes) {
  STUB_BEGIN(hipMalloc);
  return allocate(kDeviceMemory, memory, bytes);
}
hipError_t hipMallocAsync(void** memory, size_t bytes, hipStream_t stream) {
  STUB_BEGIN(hipMallocAsync);
  STUB_CHECK(stub_stream_ok(stream), hipErrorInvalidHandle);
  return allocate(kDeviceMemory, memory, bytes);
}
hipError_t hipHostMalloc(void** memory, size_t bytes, unsigned flags) {
  STUB_BEGIN(hipHostMalloc);
  (void)flags;
  return allocate(kHostMemory, memory, bytes);
}
hipError_t hipFree(void* memory) {
  STUB_BEGIN(hipFree);
  return release(kDeviceMemory, memory);
}
hipError_t hipFreeAsync(void* memory, hipStream_t stream) {
  STUB_BEGIN(hipFreeAsync);
  STUB_CHECK(stub_stream_ok(stream), hipErrorInvalidHandle);
  return release(kDeviceMemory, memory);
}
hipError_t hipHostFree(void* memory) {
  STUB_BEGIN(hipHostFree);
  return release(kHostMemory, memory);
}
hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  STUB_BEGIN(hipMemGetInfo);
  *free_bytes = *total_bytes = kTotalMemory;
  return hipSuccess;
}

static hipError_t copy(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  STUB_CHECK((unsigned)kind <= hipMemcpyDefault, hipErrorInvalidMemcpyDirection);
  STUB_CHECK(stub_memory_ok(to, bytes) && stub_memory_ok(from, bytes), hipErrorInvalidValue);
  if (bytes != 0) memmove(to, from, bytes);
  return hipSuccess;
}
hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  STUB_BEGIN(hipMemcpy);
  return copy(to, from, bytes, kind);
}
hipError_t hipMemcpyAsync(void* to, const void* from, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream) {
  STUB_BEGIN(hipMemcpyAsync);
  STUB_CHECK(stub_stream_ok(stream), hipErrorInvalidHandle);
  return copy(to, from, bytes, kind);
}

static hipError_t set(void* memory, size_t pitch, int value, size_t width, size_t height,
                      hipStream_t stream) {
  STUB_CHECK(stub_stream_ok(stream), hipErrorInvalidHandle);
  STUB_CHECK(width <= pitch, hipErrorInvalidValue);
  const size_t bytes = height == 0 ? 0 : (height - 1) * pitch + width;
  STUB_CHECK(stub_memory_ok(memory, bytes), hipErrorInvalidValue);
  for (size_t row = 0; row < height; row++) memset((char*)memory + row * pitch, value, width);
  stub_trace(
      "{\"memset\": \"%p\", \"value\": %d, \"pitch\": %zu, \"width\": %zu, \"height\": %zu, "
      "\"stream\": \"0x%zx\", \"device\": %d}",
      memory, value, pitch, width, height, (size_t)stream, stub_current_device());
  return hipSuccess;
}
hipError_t hipMemset(void* memory, int value, size_t bytes) {
  STUB_BEGIN(hipMemset);
  return set(memory, bytes, value, bytes, 1, NULL);
}
hipError_t hipMemsetAsync(void* memory, int value, size_t bytes, hipStream_t stream) {
  STUB_BEGIN(hipMemsetAsync);
  return set(memory, bytes, value, bytes, 1, stream);
}
hipError_t hipMemset2DAsync(void* memory, size_t pitch, int value, size_t width, size_t height,
                            hipStream_t stream) {
  STUB_BEGIN(hipMemset2DAsync);
  return set(memory, pitch, value, width, height, stream);
}

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  STUB_BEGIN(hipStreamCreateWithFlags);
  STUB_CHECK(stream != NULL && flags <= hipStreamNonBlocking, hipErrorInvalidValue);
  *stream = malloc(1);
  STUB_CHECK(*stream != NULL, hipErrorOutOfMemory);
  stub_add(kStream, *stream, 0);
  return hipSuccess;
}
hipError_t hipStreamCreate(hipStream_t* stream) {
  STUB_BEGIN(hipStreamCreate);
  return hipStreamCreateWithFlags(stream, hipStreamDefault);
}
hipError_t hipStreamDestroy(hipStream_t stream) {
  STUB_BEGIN(hipStreamDestroy);
  STUB_CHECK(stub_remove(kStream, stream), hipErrorInvalidHandle);
  free(stream);
  return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t stream) {
  STUB_BEGIN(hipStreamSynchronize);
  return stub_result(stub_stream_ok(stream) ? hipSuccess : hipErrorInvalidHandle);
}
hipError_t hipStreamQuery(hipStream_t stream) {
  STUB_BEGIN(hipStreamQuery);
  return stub_result(stub_stream_ok(stream) ? hipSuccess : hipErrorInvalidHandle);
}

typedef struct {
  unsigned flags;
  int recorded;
  struct timespec time;
} Event;

static int event_ok(hipEvent_t event) { return stub_is(kEvent, event); }

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  STUB_BEGIN(hipStreamWaitEvent);
  STUB_CHECK(stub_stream_ok(stream) && event_ok(event), hipErrorInvalidHandle);
  STUB_CHECK(flags == 0, hipErrorInvalidValue);
  return hipSuccess;
}
hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  STUB_BEGIN(hipEventCreateWithFlags);
  STUB_CHECK(event != NULL, hipErrorInvalidValue);
  Event* made = calloc(1, sizeof *made);
  STUB_CHECK(made != NULL, hipErrorOutOfMemory);
  made->flags = flags;
  stub_add(kEvent, made, 0);
  *event = (hipEvent_t)made;
  return hipSuccess;
}
hipError_t hipEventCreate(hipEvent_t* event) {
  STUB_BEGIN(hipEventCreate);
  return hipEventCreateWithFlags(event, hipEventDefault);
}
hipError_t hipEventDestroy(hipEvent_t event) {
  STUB_BEGIN(hipEventDestroy);
  STUB_CHECK(stub_remove(kEvent, event), hipErrorInvalidHandle);
  free(event);
  return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  STUB_BEGIN(hipEventRecord);
  STUB_CHECK(stub_stream_ok(stream) && event_ok(event), hipErrorInvalidHandle);
  Event* made = (Event*)event;
  made->recorded = 1;
  clock_gettime(CLOCK_MONOTONIC, &made->time);
  return hipSuccess;
}
hipError_t hipEventSynchronize(hipEvent_t event) {
  STUB_BEGIN(hipEventSynchronize);
  return stub_result(event_ok(event) ? hipSuccess : hipErrorInvalidHandle);
}
hipError_t hipEventQuery(hipEvent_t event) {
  STUB_BEGIN(hipEventQuery);
  return stub_result(event_ok(event) ? hipSuccess : hipErrorInvalidHandle);
}
hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  STUB_BEGIN(hipEventElapsedTime);
  STUB_CHECK(milliseconds != NULL, hipErrorInvalidValue);
  STUB_CHECK(event_ok(start) && event_ok(stop), hipErrorInvalidHandle);
  const Event *a = (Event*)start, *b = (Event*)stop;
  STUB_CHECK(a->recorded && b->recorded, hipErrorInvalidHandle);
  STUB_CHECK(((a->flags | b->flags) & hipEventDisableTiming) == 0, hipErrorInvalidHandle);
  *milliseconds = (float)((double)(b->time.tv_sec - a->time.tv_sec) * 1e3 +
                          (double)(b->time.tv_nsec - a->time.tv_nsec) * 1e-6);
  return hipSuccess;
}
