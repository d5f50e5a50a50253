// The parts of the DLPack ABI (major version 1) that reading a tensor needs.
#pragma once

#include <cstdint>

namespace ckdisp::python::dlpack {

constexpr std::int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kRocmHost = 11;
constexpr std::uint64_t kReadOnly = 1;

struct Device {
  std::int32_t type, id;
};

struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

enum Code : std::uint8_t {
  kInt = 0,
  kFloat = 2,
  kBfloat = 4,
  kFloat8E4m3fn = 10,
  kFloat8E4m3fnuz = 11,
  kFloat8E5m2 = 12,
  kFloat8E5m2fnuz = 13
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null when dense and row-major
  std::uint64_t byte_offset;
};

struct Version {
  std::uint32_t major, minor;
};

struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

// The C functions that a framework publishes on its tensor type as __dlpack_c_exchange_api__.
struct Exchange {
  Version version;
  Exchange* previous;
  void (*allocate)();
  void (*managed_from_object)();
  void (*managed_to_object)();
  int (*tensor_from_object)(void* object, Tensor* out);  // may be null
  int (*current_stream)(std::int32_t device_type, std::int32_t device, void** out);
};

}  // namespace ckdisp::python::dlpack
