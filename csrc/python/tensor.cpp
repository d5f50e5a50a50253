#include "tensor.hpp"

#include <nanobind/stl/string.h>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <cstring>
#include <string>

#include "cached.hpp"
#include "dlpack.hpp"

namespace ckdisp::python {
namespace {

// The struct behind numpy.ndarray.__array_struct__, a protocol that NumPy keeps stable. Unlike the
// buffer protocol it serves the types of ml_dtypes too.
struct ArrayStruct {
  int two;
  int nd;
  char typekind;
  int itemsize;
  int flags;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  void* data;
};
constexpr int kAligned = 0x100, kNotSwapped = 0x200, kWritable = 0x400;

std::string class_name(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

[[noreturn]] void unknown_dtype(const char* name, const std::string& dtype) {
  std::string known;
  for (const char* value : EnumNames<Dtype>::values)
    known += std::string(known.empty() ? "" : ", ") + value;
  throw InvalidArgument(std::string(name) + " has element type " + dtype +
                        ", which no kernel computes; convert it to one of: " + known);
}

void check_rank(const char* name, int ndim) {
  if (ndim == 1 || ndim == 2) return;
  throw InvalidArgument(std::string(name) + " has " + std::to_string(ndim) +
                        " dimensions; pass a matrix (two dimensions)");
}

Dtype numpy_dtype(nb::handle array, const ArrayStruct& view, const char* name) {
  if ((view.flags & kNotSwapped) != 0) {
    switch (view.typekind << 8 | view.itemsize) {
      case 'f' << 8 | 4:
        return Dtype::fp32;
      case 'f' << 8 | 2:
        return Dtype::fp16;
      case 'i' << 8 | 1:
        return Dtype::int8;
      case 'i' << 8 | 4:
        return Dtype::int32;
      default:
        break;
    }
    if (const auto dtype = cached().extension_dtype(nb::getattr(array, "dtype"))) return *dtype;
  }
  unknown_dtype(name, nb::cast<std::string>(nb::str(nb::getattr(array, "dtype"))));
}

Tensor import_numpy(nb::handle object, const char* name) {
  const nb::object capsule = nb::steal(PyObject_GetAttr(object.ptr(), cached().array_struct.ptr()));
  if (!capsule.is_valid()) nb::raise_python_error();
  const auto* view = static_cast<const ArrayStruct*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (view == nullptr) nb::raise_python_error();
  check_rank(name, view->nd);
  Tensor out{};
  out.name = name;
  out.object = object;
  out.kind = Kind::numpy;
  out.data = view->data;
  out.dtype = numpy_dtype(object, *view, name);
  out.ndim = view->nd;
  out.regular = (view->flags & kAligned) != 0;
  for (int i = 0; i < view->nd; ++i) {
    out.shape[i] = view->shape[i];
    out.strides[i] = view->strides[i] / view->itemsize;
    out.regular = out.regular && view->strides[i] % view->itemsize == 0;
  }
  if (!out.regular && !(view->flags & kAligned)) {
    // Element-wise copies need whole elements; NumPy makes them.
    out.keep = nb::module_::import_("numpy").attr("ascontiguousarray")(object);
  }
  out.writable = (view->flags & kWritable) != 0;
  return out;
}

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
        return Dtype::fp8;
      case dlpack::kFloat8E5m2 << 8 | 8:
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

void check_device(dlpack::Device device, nb::handle object, const char* name) {
  if (device.type == dlpack::kCpu || device.type == dlpack::kCudaHost ||
      device.type == dlpack::kRocmHost) {
    return;
  }
  throw DeviceError(std::string(name) + " (" + class_name(object) + ") is on device type " +
                    std::to_string(device.type) + ", number " + std::to_string(device.id) +
                    ", but the kernels read the CPU's memory; move it there first, e.g. " + name +
                    ".cpu()");
}

Tensor from_dlpack(const dlpack::Tensor& view, nb::handle object, Kind kind, const char* name) {
  check_device(view.device, object, name);
  check_rank(name, view.ndim);
  Tensor out{};
  out.name = name;
  out.object = object;
  out.kind = kind;
  out.data = static_cast<std::byte*>(view.data) + view.byte_offset;
  out.dtype = dlpack_dtype(view.dtype, object, name);
  out.ndim = view.ndim;
  std::int64_t dense = 1;
  for (int i = view.ndim - 1; i >= 0; --i) {
    out.shape[i] = view.shape[i];
    out.strides[i] = view.strides != nullptr ? view.strides[i] : dense;
    dense *= view.shape[i];
  }
  out.regular = true;
  out.writable = true;
  return out;
}

// The framework would not show the tensor's memory: it is sparse, has no storage, or the like.
[[noreturn]] void unreadable(nb::handle object, const char* name, const std::string& why) {
  throw InvalidArgument(std::string(name) + " (" + class_name(object) +
                        ") cannot be read as memory: " + why.substr(0, why.find('\n')) +
                        "; pass a dense tensor in the CPU's memory");
}

Tensor import_direct(const dlpack::Exchange& api, nb::handle object, const char* name) {
  cached().check_no_gradient(object, name);
  dlpack::Tensor view;
  if (api.tensor_from_object(object.ptr(), &view) != 0) {
    unreadable(object, name, nb::python_error().what());
  }
  return from_dlpack(view, object, Kind::direct, name);
}

Tensor import_dlpack(nb::handle object, const char* name) {
  const nb::tuple device = nb::cast<nb::tuple>(nb::getattr(object, "__dlpack_device__")());
  check_device({nb::cast<std::int32_t>(device[0]), nb::cast<std::int32_t>(device[1])}, object,
               name);
  nb::object capsule;
  try {
    capsule = nb::getattr(object, "__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (const nb::python_error& error) {
    if (error.matches(PyExc_BufferError)) unreadable(object, name, error.what());
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = nb::getattr(object, "__dlpack__")();  // a producer from before DLPack 1.0
  }
  // The capsule keeps its name: its destructor then gives the tensor back.
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    const auto* managed = static_cast<const dlpack::ManagedVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major == 1) {
      Tensor out = from_dlpack(managed->tensor, object, Kind::dlpack, name);
      out.writable = (managed->flags & dlpack::kReadOnly) == 0;
      out.keep = std::move(capsule);
      return out;
    }
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor")) {
    const auto* managed =
        static_cast<const dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    Tensor out = from_dlpack(managed->tensor, object, Kind::dlpack, name);
    out.keep = std::move(capsule);
    return out;
  }
  throw InvalidArgument(std::string(name) + " (" + class_name(object) +
                        ") exports a DLPack version that ckdisp cannot read; pass a NumPy array");
}

// The elements of a copy, where `T` has the size of one.
template <class T>
void copy_elements(const Tensor& from, std::int64_t rows, std::int64_t columns, Order order,
                   std::byte* bytes) {
  const std::int64_t row_stride = from.rows() == 1 ? 0 : from.strides[0];
  const std::int64_t column_stride = from.columns() == 1 ? 0 : from.strides[from.ndim - 1];
  const bool row_major = order == Order::r;
  const std::int64_t lines = row_major ? rows : columns, length = row_major ? columns : rows;
  const std::int64_t line_stride = row_major ? row_stride : column_stride;
  const std::int64_t step = row_major ? column_stride : row_stride;
  const T* source = static_cast<const T*>(from.data);
  T* target = reinterpret_cast<T*>(bytes);
  for (std::int64_t i = 0; i < lines; ++i) {
    for (std::int64_t j = 0; j < length; ++j) *target++ = source[i * line_stride + j * step];
  }
}

}  // namespace

Tensor import_tensor(nb::handle object, const char* name) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  PyTypeObject* ndarray = cached().ndarray;
  if (type == ndarray || PyType_IsSubtype(type, ndarray)) {
    if (type != ndarray && nb::hasattr(object, "mask")) {
      throw InvalidArgument(std::string(name) +
                            " is a masked array, whose mask would be lost; pass " + name +
                            ".filled(value)");
    }
    Tensor out = import_numpy(object, name);
    if (!out.keep.is_valid()) return out;
    Tensor aligned = import_numpy(out.keep, name);
    aligned.object = object;
    aligned.writable = false;  // a copy: not fit for an output
    aligned.keep = std::move(out.keep);
    return aligned;
  }
  if (const dlpack::Exchange* api = cached().exchange_of(object)) {
    return import_direct(*api, object, name);
  }
  if (nb::hasattr(object, "__dlpack__")) return import_dlpack(object, name);
  throw InvalidArgument(std::string(name) + " is a " + class_name(object) +
                        ", not a tensor; pass a NumPy array or a tensor that supports DLPack");
}

Orders orders_of(const Tensor& t) {
  Orders out;
  if (!t.regular) return out;
  const std::int64_t rows = t.rows(), columns = t.columns();
  const std::int64_t down = t.ndim == 2 ? t.strides[0] : columns;
  const std::int64_t across = t.strides[t.ndim - 1];
  if (rows == 0 || columns == 0) {
    return {true, true, std::max<std::int64_t>(columns, 1), std::max<std::int64_t>(rows, 1)};
  }
  if (columns == 1 || across == 1) {
    out.row = rows == 1 || down >= columns;
    out.ld_row = rows == 1 ? columns : down;
  }
  if (rows == 1 || down == 1) {
    out.column = columns == 1 || across >= rows;
    out.ld_column = columns == 1 ? rows : across;
  }
  return out;
}

std::unique_ptr<std::byte[]> dense_copy(const Tensor& tensor, std::int64_t rows,
                                        std::int64_t columns, Order order) {
  const int size = size_of(tensor.dtype);
  std::unique_ptr<std::byte[]> out(new std::byte[static_cast<std::size_t>(rows * columns * size)]);
  if (size == 1) {
    copy_elements<std::uint8_t>(tensor, rows, columns, order, out.get());
  } else if (size == 2) {
    copy_elements<std::uint16_t>(tensor, rows, columns, order, out.get());
  } else {
    copy_elements<std::uint32_t>(tensor, rows, columns, order, out.get());
  }
  return out;
}

nb::object new_output(const Tensor& like, std::int64_t rows, std::int64_t columns, Dtype dtype,
                      Tensor* tensor) {
  nb::object output = like.kind == Kind::direct
                          ? cached().framework_empty(like.object, rows, columns, dtype)
                          : cached().numpy_empty(rows, columns, dtype);
  *tensor = import_tensor(output, "out");
  return output;
}

nb::object finish_output(const Tensor& like, nb::object output) {
  return like.kind == Kind::dlpack ? cached().convert_like(like.object, output) : output;
}

Dtype dtype_of(nb::handle object) {
  if (nb::isinstance<nb::str>(object)) {
    const auto name = nb::cast<std::string>(object);
    for (std::size_t i = 0; i < EnumNames<Dtype>::size; ++i) {
      if (name == EnumNames<Dtype>::values[i]) return static_cast<Dtype>(i);
    }
  }
  return cached().dtype_from_object(object);
}

}  // namespace ckdisp::python
