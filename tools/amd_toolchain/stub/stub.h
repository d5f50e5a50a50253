// Shared parts of the HIP runtime that has no GPU; README.md says what it is for.
#pragma once

#include <hip/hip_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

// The device of index `index` in CKDISP_STUB_DEVICES.
typedef struct {
  char target[64];  // as given: gfx942 or gfx942:sramecc+:xnack-
  char arch[32];    // target without its features
  int wave_size, compute_units, major, minor;
  size_t lds_bytes;
} StubDevice;

int stub_device_count(void);
int stub_device(int index, StubDevice* device);  // 0 when there is no such device
int stub_current_device(void);                   // of this thread

// Remembers the last error of the thread, and returns it.
hipError_t stub_result(hipError_t error);

// What the call of a function gives before it has done anything: hipSuccess, hipErrorNoDevice or
// the error that CKDISP_STUB_FAIL injects.
hipError_t stub_begin(const char* function);

#define STUB_BEGIN(function)                              \
  do {                                                    \
    const hipError_t begun_ = stub_begin(#function);      \
    if (begun_ != hipSuccess) return stub_result(begun_); \
  } while (0)

#define STUB_CHECK(condition, error)             \
  do {                                           \
    if (!(condition)) return stub_result(error); \
  } while (0)

// Every function that is not emulated.
hipError_t stub_not_emulated(const char* function);

// Generated from the header's enumeration.
const char* stub_error_name(hipError_t error);

// Live handles, so that a wrong or destroyed one is an error and not a crash.
typedef enum { kStream, kEvent, kModule, kFunction, kDeviceMemory, kHostMemory } StubKind;
typedef struct StubHandle {
  struct StubHandle* next;
  StubKind kind;
  void* value;
  size_t bytes;  // of memory
  int device;
} StubHandle;

void stub_add(StubKind kind, void* value, size_t bytes);
int stub_is(StubKind kind, const void* value);
int stub_remove(StubKind kind, const void* value);  // 0 when it was not there
int stub_stream_ok(hipStream_t stream);
// Whether [pointer, pointer + bytes) stays inside the allocation it begins in. Memory that was not
// allocated here passes: any host memory may play the part of device memory.
int stub_memory_ok(const void* pointer, size_t bytes);

// One line of JSON in the file CKDISP_STUB_TRACE, if that is set.
int stub_tracing(void);
__attribute__((format(printf, 1, 2))) void stub_trace(const char* format, ...);

// Code objects.
typedef struct {
  uint32_t offset, bytes;
} StubArgument;
typedef struct StubKernel {
  struct StubKernel* next;
  char* name;
  uint32_t argument_count, argument_bytes, max_block;
  StubArgument arguments[64];
} StubKernel;
typedef struct {
  StubKernel* kernels;
  int opaque;  // compressed, and there is no library to decompress it: any name is found
} StubCode;

hipError_t stub_code_load(const void* image, const StubDevice* device, StubCode** code);
void stub_code_free(StubCode* code);
StubKernel* stub_code_find(StubCode* code, const char* name);
