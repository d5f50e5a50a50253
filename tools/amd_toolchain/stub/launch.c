// Modules, functions and launches. A launch is checked and recorded; nothing runs.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

// A module's functions are its kernels: the handle of one is the StubKernel.
hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  STUB_BEGIN(hipModuleLoadData);
  StubDevice device;
  STUB_CHECK(module != NULL && image != NULL, hipErrorInvalidValue);
  STUB_CHECK(stub_device(stub_current_device(), &device), hipErrorInvalidDevice);
  StubCode* code;
  const hipError_t error = stub_code_load(image, &device, &code);
  const char* format = memcmp(image, "CCOB", 4) == 0 ? "compressed bundle" : "bundle";
  if (memcmp(image, "\177ELF", 4) == 0) format = "elf";
  stub_trace("{\"module\": \"%s\", \"format\": \"%s\", \"device\": %d, \"error\": %d}",
             device.target, format, stub_current_device(), (int)error);
  if (error != hipSuccess) return stub_result(error);
  stub_add(kModule, code, 0);
  for (StubKernel* kernel = code->kernels; kernel != NULL; kernel = kernel->next) {
    stub_add(kFunction, kernel, 0);
  }
  *module = (hipModule_t)code;
  return hipSuccess;
}

hipError_t hipModuleUnload(hipModule_t module) {
  STUB_BEGIN(hipModuleUnload);
  STUB_CHECK(stub_remove(kModule, module), hipErrorInvalidHandle);
  StubCode* code = (StubCode*)module;
  for (StubKernel* kernel = code->kernels; kernel != NULL; kernel = kernel->next) {
    stub_remove(kFunction, kernel);
  }
  stub_code_free(code);
  return hipSuccess;
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  STUB_BEGIN(hipModuleGetFunction);
  STUB_CHECK(function != NULL && name != NULL, hipErrorInvalidValue);
  STUB_CHECK(stub_is(kModule, module), hipErrorInvalidHandle);
  StubKernel* kernel = stub_code_find((StubCode*)module, name);
  STUB_CHECK(kernel != NULL, hipErrorNotFound);
  if (!stub_is(kFunction, kernel)) stub_add(kFunction, kernel, 0);
  *function = (hipFunction_t)kernel;
  return hipSuccess;
}

static int occupancy(void) { return 2; }

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t function,
                                                              int block, size_t lds) {
  STUB_BEGIN(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor);
  STUB_CHECK(stub_is(kFunction, function), hipErrorInvalidHandle);
  STUB_CHECK(blocks != NULL && block > 0, hipErrorInvalidValue);
  (void)lds;
  *blocks = occupancy();
  return hipSuccess;
}

// The kernel arguments as hexadecimal text; null when they are fewer than the kernel takes.
static char* arguments(const StubKernel* kernel, void** parameters, void** extra,
                       hipError_t* error) {
  const unsigned char* bytes = NULL;
  unsigned char* gathered = NULL;
  size_t count = 0;
  if (extra != NULL) {
    for (; *extra != HIP_LAUNCH_PARAM_END; extra += 2) {
      if (*extra == HIP_LAUNCH_PARAM_BUFFER_POINTER) bytes = extra[1];
      if (*extra == HIP_LAUNCH_PARAM_BUFFER_SIZE) count = *(size_t*)extra[1];
    }
    if (count < kernel->argument_bytes || (count != 0 && bytes == NULL)) {
      *error = hipErrorInvalidValue;
      return NULL;
    }
  } else if (parameters != NULL && kernel->argument_bytes != 0) {
    bytes = gathered = calloc(1, kernel->argument_bytes);
    if (gathered == NULL) abort();
    count = kernel->argument_bytes;
    for (uint32_t i = 0; i < kernel->argument_count; i++) {
      memcpy(gathered + kernel->arguments[i].offset, parameters[i], kernel->arguments[i].bytes);
    }
  } else if (kernel->argument_bytes != 0) {
    *error = hipErrorInvalidValue;
    return NULL;
  }
  char* text = malloc(2 * count + 1);
  if (text == NULL) abort();
  text[0] = '\0';
  for (size_t i = 0; i < count; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
  free(gathered);
  return text;
}

static hipError_t launch(const StubKernel* kernel, dim3 grid, dim3 block, size_t lds,
                         hipStream_t stream, void** parameters, void** extra) {
  StubDevice device;
  STUB_CHECK(stub_device(stub_current_device(), &device), hipErrorInvalidDevice);
  STUB_CHECK(stub_stream_ok(stream), hipErrorInvalidHandle);
  const uint64_t threads = (uint64_t)block.x * block.y * block.z;
  const uint64_t limit = kernel->max_block != 0 ? kernel->max_block : 1024;
  STUB_CHECK(threads > 0 && threads <= limit && lds <= device.lds_bytes,
             hipErrorInvalidConfiguration);
  STUB_CHECK(grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= INT32_MAX && grid.y <= 65535 &&
                 grid.z <= 65535,
             hipErrorInvalidConfiguration);
  hipError_t error = hipSuccess;
  char* text = arguments(kernel, parameters, extra, &error);
  if (error == hipSuccess) {
    stub_trace(
        "{\"function\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"lds\": %zu, "
        "\"stream\": \"0x%zx\", \"device\": %d, \"args\": \"%s\"}",
        kernel->name, grid.x, grid.y, grid.z, block.x, block.y, block.z, lds, (size_t)stream,
        stub_current_device(), text);
  }
  free(text);
  return stub_result(error);
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y,
                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned lds, hipStream_t stream,
                                 void** parameters, void** extra) {
  STUB_BEGIN(hipModuleLaunchKernel);
  STUB_CHECK(stub_is(kFunction, function), hipErrorInvalidHandle);
  return launch((const StubKernel*)function, (dim3){grid_x, grid_y, grid_z},
                (dim3){block_x, block_y, block_z}, lds, stream, parameters, extra);
}

// What clang's <<<>>> and its module constructors call. Registered kernels are looked up by the
// address of their host function when they are launched.
typedef struct Registered {
  struct Registered* next;
  const void *host, *image;
  const char* name;
} Registered;
static Registered* registered;
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;

static _Thread_local struct {
  dim3 grid, block;
  size_t lds;
  hipStream_t stream;
} pushed;

hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, hipStream_t stream) {
  pushed.grid = grid;
  pushed.block = block;
  pushed.lds = lds;
  pushed.stream = stream;
  return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* lds, hipStream_t* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *lds = pushed.lds;
  *stream = pushed.stream;
  return hipSuccess;
}

void** __hipRegisterFatBinary(const void* wrapper) {
  struct Wrapper {
    uint32_t magic, version;
    const void* image;
  };
  const void** handle = malloc(sizeof *handle);
  if (handle == NULL) abort();
  *handle = ((const struct Wrapper*)wrapper)->image;
  return (void**)handle;
}
void __hipUnregisterFatBinary(void** handle) {
  pthread_mutex_lock(&registry);
  for (Registered** link = &registered; *link != NULL;) {
    Registered* at = *link;
    if (at->image == *handle) {
      *link = at->next;
      free(at);
    } else {
      link = &at->next;
    }
  }
  pthread_mutex_unlock(&registry);
  free(handle);
}
void __hipRegisterFunction(void** handle, const void* host, char* device, const char* name,
                           unsigned limit, void* tid, void* bid, void* block, void* grid,
                           int* wave) {
  (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)wave;
  Registered* made = malloc(sizeof *made);
  if (made == NULL) abort();
  pthread_mutex_lock(&registry);
  *made = (Registered){registered, host, *handle, name};
  registered = made;
  pthread_mutex_unlock(&registry);
}
void __hipRegisterVar(void) {}
void __hipRegisterManagedVar(void) {}
void __hipRegisterSurface(void) {}
void __hipRegisterTexture(void) {}

hipError_t hipLaunchKernel(const void* host, dim3 grid, dim3 block, void** parameters, size_t lds,
                           hipStream_t stream) {
  STUB_BEGIN(hipLaunchKernel);
  StubDevice device;
  STUB_CHECK(stub_device(stub_current_device(), &device), hipErrorInvalidDevice);
  pthread_mutex_lock(&registry);
  const Registered* at = registered;
  while (at != NULL && at->host != host) at = at->next;
  const Registered found = at != NULL ? *at : (Registered){0};
  pthread_mutex_unlock(&registry);
  STUB_CHECK(found.host != NULL, hipErrorInvalidDeviceFunction);
  StubCode* code;
  hipError_t error = stub_code_load(found.image, &device, &code);
  STUB_CHECK(error == hipSuccess, error);
  const StubKernel* kernel = stub_code_find(code, found.name);
  error = kernel == NULL ? hipErrorInvalidDeviceFunction
                         : launch(kernel, grid, block, lds, stream, parameters, NULL);
  stub_code_free(code);
  return stub_result(error);
}

hipError_t hipFuncSetAttribute(const void* host, hipFuncAttribute attribute, int value) {
  STUB_BEGIN(hipFuncSetAttribute);
  (void)host, (void)attribute, (void)value;
  return hipSuccess;
}
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* host, int block,
                                                        size_t lds) {
  STUB_BEGIN(hipOccupancyMaxActiveBlocksPerMultiprocessor);
  STUB_CHECK(blocks != NULL && host != NULL && block > 0, hipErrorInvalidValue);
  (void)lds;
  *blocks = occupancy();
  return hipSuccess;
}
