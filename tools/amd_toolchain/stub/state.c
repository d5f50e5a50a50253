// Devices, injected errors, live handles and the trace.
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local hipError_t last_error = hipSuccess;
static _Thread_local int current_device = 0;

hipError_t stub_result(hipError_t error) {
  if (error != hipSuccess) last_error = error;
  return error;
}

hipError_t hipGetLastError(void) {
  const hipError_t error = last_error;
  last_error = hipSuccess;
  return error;
}
hipError_t hipExtGetLastError(void) { return hipGetLastError(); }
hipError_t hipPeekAtLastError(void) { return last_error; }

const char* hipGetErrorName(hipError_t error) { return stub_error_name(error); }
const char* hipGetErrorString(hipError_t error) {
  if (error == hipSuccess) return "no error";
  if (error == hipErrorNoDevice) return "no ROCm-capable device is detected (stub runtime)";
  return stub_error_name(error);
}
hipError_t hipDrvGetErrorName(hipError_t error, const char** name) {
  *name = stub_error_name(error);
  return hipSuccess;
}
hipError_t hipDrvGetErrorString(hipError_t error, const char** text) {
  *text = hipGetErrorString(error);
  return hipSuccess;
}

// Figures of one product of each arch; RDNA counts pairs of compute units, as HIP does.
static const struct {
  const char* arch;
  int compute_units;
  size_t lds_bytes;
} kProducts[] = {{"gfx90a", 104, 65536},
                 {"gfx942", 304, 65536},
                 {"gfx950", 256, 163840},
                 {"gfx1100", 48, 65536},
                 {"gfx1201", 32, 65536}};

int stub_device(int index, StubDevice* device) {
  const char* rest = getenv("CKDISP_STUB_DEVICES");
  if (rest == NULL || index < 0) return 0;
  for (;; rest++, index--) {
    const size_t length = strcspn(rest, ",");
    if (length < 6 || length >= sizeof device->target || strncmp(rest, "gfx", 3) != 0) return 0;
    if (index == 0) {
      memset(device, 0, sizeof *device);
      memcpy(device->target, rest, length);
      snprintf(device->arch, sizeof device->arch, "%.*s", (int)strcspn(device->target, ":"),
               device->target);
      break;
    }
    rest += length;
    if (*rest == '\0') return 0;
  }
  // gfx90a is 9.0.10, gfx1201 is 12.0.1: the last two characters are hexadecimal digits.
  const long digits = strtol(device->arch + strlen(device->arch) - 2, NULL, 16);
  device->major = (int)(strtol(device->arch + 3, NULL, 10) / 100);
  if (strlen(device->arch) == 6) device->major = device->arch[3] - '0';
  device->minor = (int)(digits / 16);
  device->wave_size = device->major < 10 ? 64 : 32;
  device->compute_units = 64;
  device->lds_bytes = 65536;
  for (size_t i = 0; i < sizeof kProducts / sizeof *kProducts; i++) {
    if (strcmp(kProducts[i].arch, device->arch) != 0) continue;
    device->compute_units = kProducts[i].compute_units;
    device->lds_bytes = kProducts[i].lds_bytes;
  }
  return 1;
}

int stub_device_count(void) {
  StubDevice device;
  int count = 0;
  while (stub_device(count, &device)) count++;
  return count;
}

int stub_current_device(void) { return current_device; }

hipError_t hipGetDeviceCount(int* count) {
  STUB_CHECK(count != NULL, hipErrorInvalidValue);
  *count = stub_device_count();
  STUB_BEGIN(hipGetDeviceCount);
  return hipSuccess;
}
hipError_t hipSetDevice(int index) {
  STUB_BEGIN(hipSetDevice);
  STUB_CHECK(index >= 0 && index < stub_device_count(), hipErrorInvalidDevice);
  current_device = index;
  return hipSuccess;
}
hipError_t hipGetDevice(int* index) {
  STUB_BEGIN(hipGetDevice);
  STUB_CHECK(index != NULL, hipErrorInvalidValue);
  *index = current_device;
  return hipSuccess;
}

// The error that CKDISP_STUB_FAIL=FUNCTION:ERROR[@N],... gives for this call of `function`; with
// @N only its Nth call fails, counted from when the variable got its present value.
static hipError_t injected(const char* function) {
  enum { kLength = 1024, kEntries = 32 };
  static char seen[kLength];
  static int calls[kEntries];
  const char* value = getenv("CKDISP_STUB_FAIL");
  if (value == NULL || *value == '\0') return hipSuccess;
  hipError_t error = hipSuccess;
  pthread_mutex_lock(&lock);
  if (strncmp(seen, value, kLength - 1) != 0) {
    snprintf(seen, kLength, "%s", value);
    memset(calls, 0, sizeof calls);
  }
  const size_t length = strlen(function);
  int entry = 0;
  for (const char* at = value; at != NULL && entry < kEntries; entry++) {
    if (strncmp(at, function, length) == 0 && at[length] == ':') {
      char* end;
      const long code = strtol(at + length + 1, &end, 10);
      calls[entry]++;
      if (*end != '@' || strtol(end + 1, NULL, 10) == calls[entry]) error = (hipError_t)code;
    }
    at = strchr(at, ',');
    if (at != NULL) at++;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

hipError_t stub_begin(const char* function) {
  const hipError_t error = injected(function);
  if (error != hipSuccess) return error;
  return stub_device_count() == 0 ? hipErrorNoDevice : hipSuccess;
}

hipError_t stub_not_emulated(const char* function) {
  const hipError_t error = stub_begin(function);
  return stub_result(error != hipSuccess ? error : hipErrorNotSupported);
}

static StubHandle* handles;

void stub_add(StubKind kind, void* value, size_t bytes) {
  StubHandle* made = calloc(1, sizeof *made);
  if (made == NULL) abort();
  *made = (StubHandle){NULL, kind, value, bytes, current_device};
  pthread_mutex_lock(&lock);
  made->next = handles;
  handles = made;
  pthread_mutex_unlock(&lock);
}

// The link that points at the handle; the lock is held.
static StubHandle** find(StubKind kind, const void* value) {
  StubHandle** link = &handles;
  while (*link != NULL && ((*link)->kind != kind || (*link)->value != value)) {
    link = &(*link)->next;
  }
  return link;
}

int stub_is(StubKind kind, const void* value) {
  pthread_mutex_lock(&lock);
  const int found = *find(kind, value) != NULL;
  pthread_mutex_unlock(&lock);
  return found;
}

int stub_remove(StubKind kind, const void* value) {
  pthread_mutex_lock(&lock);
  StubHandle** link = find(kind, value);
  StubHandle* found = *link;
  if (found != NULL) *link = found->next;
  pthread_mutex_unlock(&lock);
  free(found);
  return found != NULL;
}

int stub_stream_ok(hipStream_t stream) {
  return stream == NULL || stream == hipStreamPerThread || stream == hipStreamLegacy ||
         stub_is(kStream, stream);
}

static int allocation_of(const void* pointer, StubHandle* found) {
  pthread_mutex_lock(&lock);
  const StubHandle* at = handles;
  for (; at != NULL; at = at->next) {
    const char* first = at->value;
    if ((at->kind == kDeviceMemory || at->kind == kHostMemory) && (const char*)pointer >= first &&
        (const char*)pointer < first + at->bytes) {
      *found = *at;
      break;
    }
  }
  pthread_mutex_unlock(&lock);
  return at != NULL;
}

int stub_memory_ok(const void* pointer, size_t bytes) {
  StubHandle found;
  if (pointer == NULL) return bytes == 0;
  return !allocation_of(pointer, &found) ||
         bytes <= found.bytes - (size_t)((const char*)pointer - (const char*)found.value);
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* pointer) {
  STUB_BEGIN(hipPointerGetAttributes);
  STUB_CHECK(attributes != NULL, hipErrorInvalidValue);
  memset(attributes, 0, sizeof *attributes);
  StubHandle found;
  if (!allocation_of(pointer, &found)) {
    attributes->type = hipMemoryTypeUnregistered;
    attributes->device = -1;
    return hipSuccess;
  }
  attributes->type = found.kind == kDeviceMemory ? hipMemoryTypeDevice : hipMemoryTypeHost;
  attributes->device = found.device;
  attributes->devicePointer = (void*)pointer;
  attributes->hostPointer = found.kind == kHostMemory ? (void*)pointer : NULL;
  return hipSuccess;
}

int stub_tracing(void) {
  const char* file = getenv("CKDISP_STUB_TRACE");
  return file != NULL && *file != '\0';
}

void stub_trace(const char* format, ...) {
  if (!stub_tracing()) return;
  pthread_mutex_lock(&lock);
  FILE* file = fopen(getenv("CKDISP_STUB_TRACE"), "a");
  if (file != NULL) {
    va_list values;
    va_start(values, format);
    vfprintf(file, format, values);
    va_end(values);
    fputc('\n', file);
    fclose(file);
  }
  pthread_mutex_unlock(&lock);
}
