#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <ckdisp/device_kind.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <string>
#include <utility>

#include "cached.hpp"
#include "import.hpp"

namespace ckdisp::python {
namespace {

Dtype dlpack_dtype(const dlpack::DataType& type, nb::handle object, const char* name) {
  if (type.lanes == 1) {
    switch (type.code << 8 | type.bits) {
      case dlpack::kFloat << 8 | 32:
        return Dtype::fp32;
      case dlpack::kFloat << 8 | 16:
        return Dtype::fp16;
      case dlpack::kBfloat << 8 | 16:
        return Dtype::bf16;
      case dlpack::kFloat8E4m3fn << 8 | 8:
      case dlpack::kFloat8E4m3fnuz << 8 | 8:
        return Dtype::fp8;
      case dlpack::kFloat8E5m2 << 8 | 8:
      case dlpack::kFloat8E5m2fnuz << 8 | 8:
        return Dtype::bf8;
      case dlpack::kInt << 8 | 8:
        return Dtype::int8;
      case dlpack::kInt << 8 | 32:
        return Dtype::int32;
      default:
        break;
    }
  }
  if (nb::hasattr(object, "dtype")) {
    unknown_dtype(name, nb::cast<std::string>(nb::str(nb::getattr(object, "dtype"))));
  }
  unknown_dtype(name, "of DLPack code " + std::to_string(type.code) + " with " +
                          std::to_string(type.bits) + " bits");
}

// The number of the device, -1 for the CPU.
int index_of(dlpack::Device device, nb::handle object, const char* name) {
  if (device.type == dlpack::kCpu || device.type == dlpack::kCudaHost ||
      device.type == dlpack::kRocmHost) {
    return -1;
  }
  if (device.id >= 0 && device.id < kMaxDevices) {
    if (device.type == dlpack::kRocm) return device_number(DeviceKind::hip, device.id);
    if (device.type == dlpack::kCuda) return device_number(DeviceKind::cuda, device.id);
  }
  throw DeviceError(std::string(name) + " (" + class_name(object) + ") is on device type " +
                    std::to_string(device.type) + ", number " + std::to_string(device.id) +
                    ", but the kernels read the CPU's memory and that of AMD and NVIDIA GPUs; move "
                    "it there first, e.g. " +
                    name + ".cpu()");
}

// PyTorch exports tensors whose negation it has put off, with the sign wrong. They are the
// imaginary parts of conjugates, so every stride spans two elements: the usual tensor is not asked.
void check_not_negated(const Tensor& tensor) {
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.strides[i] == 1 && tensor.shape[i] > 1) return;
  }
  if (!nb::hasattr(tensor.object, "is_neg")) return;
  const nb::object answer = nb::getattr(tensor.object, "is_neg")();
  if (answer.ptr() != Py_True) return;
  const std::string name = tensor.name;
  throw InvalidArgument(name + " is a view that negates its memory; pass " + name +
                        ".resolve_neg()");
}

// Tensors that only describe others, such as PyTorch's FakeTensor, have sizes but no memory.
void check_memory(const Tensor& tensor) {
  const std::string name = tensor.name;
  if (tensor.data == nullptr && count_of(tensor) != 0) {
    throw InvalidArgument(
        name + " (" + class_name(tensor.object) +
        ") has no memory: it only describes a tensor, or is one of zeros that are "
        "not stored; pass one that holds numbers, e.g. " +
        name + ".clone()");
  }
  const auto size = static_cast<std::size_t>(size_of(tensor.dtype));
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % size == 0) return;
  throw InvalidArgument(name + " is misaligned: its address is no multiple of " +
                        std::to_string(size) + " bytes, the size of its elements; pass a copy, " +
                        name + ".clone()");
}

Tensor from_dlpack(const dlpack::Tensor& view, nb::handle object, Kind kind, const char* name,
                   const Ranks& ranks) {
  const int device = index_of(view.device, object, name);
  check_rank(name, view.ndim, ranks);
  Tensor out{};
  out.name = name;
  out.object = object;
  out.kind = kind;
  out.device = device;
  out.data = static_cast<std::byte*>(view.data) + view.byte_offset;
  out.dtype = dlpack_dtype(view.dtype, object, name);
  out.fnuz =
      view.dtype.code == dlpack::kFloat8E4m3fnuz || view.dtype.code == dlpack::kFloat8E5m2fnuz;
  out.ndim = view.ndim;
  std::int64_t dense = 1;
  for (int i = view.ndim - 1; i >= 0; --i) {
    out.shape[i] = view.shape[i];
    out.strides[i] = view.strides != nullptr ? view.strides[i] : dense;
    dense *= view.shape[i];
  }
  out.regular = true;
  out.writable = true;
  check_not_negated(out);
  check_memory(out);
  return out;
}

// The framework would not show the tensor's memory: it is sparse, has no storage, or the like.
[[noreturn]] void unreadable(nb::handle object, const char* name, const nb::python_error& error) {
  const std::string kind = cached().why_unreadable(object, name);
  if (!kind.empty()) throw InvalidArgument(kind);
  const auto why = nb::cast<std::string>(nb::str(error.value()));
  throw InvalidArgument(std::string(name) + " (" + class_name(object) +
                        ") cannot be read as memory: " + why.substr(0, why.find('\n')) +
                        "; pass a dense tensor");
}

dlpack::Device device_of(nb::handle object, const char* name) {
  const nb::object answer = nb::getattr(object, "__dlpack_device__")();
  std::pair<std::int32_t, std::int32_t> device;
  if (!nb::try_cast(answer, device)) {
    throw InvalidArgument(std::string(name) + " (" + class_name(object) +
                          ") says that its device is " + nb::cast<std::string>(nb::repr(answer)) +
                          ", which DLPack does not allow; pass a NumPy array");
  }
  return {device.first, device.second};
}

// DLPack writes CUDA's default stream as 1, since 0 could be that of a thread.
std::uintptr_t as_exported(std::uintptr_t stream, int device) {
  return stream == 0 && kind_of_device(device) == DeviceKind::cuda ? 1 : stream;
}

nb::object export_tensor(nb::handle object, const char* name, const CallStream& stream) {
  const nb::object method = nb::getattr(object, "__dlpack__");
  nb::dict options;
  if (stream) options["stream"] = *stream;
  try {
    return method(nb::arg("max_version") = nb::make_tuple(1, 0), **options);
  } catch (const nb::python_error& error) {
    if (error.matches(PyExc_BufferError)) unreadable(object, name, error);
    if (!error.matches(PyExc_TypeError)) throw;
    return method(**options);  // a producer from before DLPack 1.0
  }
}

}  // namespace

Tensor import_direct(const dlpack::Exchange& api, nb::handle object, const char* name,
                     const CallStream& stream, const Ranks& ranks) {
  cached().check_no_gradient(object, name);
  dlpack::Tensor view;
  if (api.tensor_from_object(object.ptr(), &view) != 0) {
    unreadable(object, name, nb::python_error());
  }
  Tensor out = from_dlpack(view, object, Kind::direct, name, ranks);
  // Another stream than the framework's has to wait for the tensor, which __dlpack__ sees to.
  if (stream && out.device >= 0) {
    (void)export_tensor(object, name, as_exported(*stream, out.device));
  }
  return out;
}

const dlpack::Tensor* tensor_in(nb::handle capsule, bool* writable) {
  // The capsule keeps its name: its destructor then gives the tensor back.
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    const auto* managed = static_cast<const dlpack::ManagedVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1) return nullptr;
    *writable = (managed->flags & dlpack::kReadOnly) == 0;
    return &managed->tensor;
  }
  if (!PyCapsule_IsValid(capsule.ptr(), "dltensor")) return nullptr;
  return &static_cast<const dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"))
              ->tensor;
}

Tensor import_dlpack(nb::handle object, const char* name, const CallStream& stream,
                     const Ranks& ranks) {
  const int device = index_of(device_of(object, name), object, name);
  CallStream ready;  // for work on which the producer makes the tensor ready
  if (device >= 0) {
    ready = as_exported(stream ? *stream : cached().framework_stream(object, device), device);
  }
  nb::object capsule = export_tensor(object, name, ready);
  bool writable = true;
  if (const dlpack::Tensor* view = tensor_in(capsule, &writable)) {
    Tensor out = from_dlpack(*view, object, Kind::dlpack, name, ranks);
    out.writable = writable;
    out.keep = std::move(capsule);
    return out;
  }
  throw InvalidArgument(std::string(name) + " (" + class_name(object) +
                        ") exports a DLPack version that ckdisp cannot read; pass a NumPy array");
}

void* stream_of(const Tensor& tensor, const CallStream& stream) {
  if (stream) return reinterpret_cast<void*>(*stream);
  void* current = nullptr;
  const dlpack::Exchange* api =
      tensor.kind == Kind::direct ? cached().exchange_of(tensor.object) : nullptr;
  if (api == nullptr || api->current_stream == nullptr) {
    return reinterpret_cast<void*>(cached().framework_stream(tensor.object, tensor.device));
  }
  const std::int32_t type =
      kind_of_device(tensor.device) == DeviceKind::hip ? dlpack::kRocm : dlpack::kCuda;
  if (api->current_stream(type, index_of_device(tensor.device), &current) != 0) {
    nb::raise_python_error();
  }
  return current;
}

}  // namespace ckdisp::python
