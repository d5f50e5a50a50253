#include "tensor.hpp"

#include <nanobind/stl/string.h>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <new>
#include <string>

#include "cached.hpp"
#include "import.hpp"

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

Tensor import_numpy(nb::handle object, const char* name, const Ranks& ranks) {
  const nb::object capsule = nb::steal(PyObject_GetAttr(object.ptr(), cached().array_struct.ptr()));
  if (!capsule.is_valid()) nb::raise_python_error();
  const auto* view = static_cast<const ArrayStruct*>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (view == nullptr) nb::raise_python_error();
  check_rank(name, view->nd, ranks);
  Tensor out{};
  out.name = name;
  out.object = object;
  out.kind = Kind::numpy;
  out.device = -1;
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

void check_rank(const char* name, int ndim, const Ranks& ranks) {
  if (ndim >= ranks.least && ndim <= ranks.most) return;
  throw InvalidArgument(std::string(name) + " has " + std::to_string(ndim) + " dimensions; pass " +
                        ranks.wanted);
}

Tensor import_tensor(nb::handle object, const char* name, const CallStream& stream,
                     const Ranks& ranks) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  PyTypeObject* ndarray = cached().ndarray;
  if (type == ndarray || PyType_IsSubtype(type, ndarray)) {
    if (type != ndarray && nb::hasattr(object, "mask")) {
      throw InvalidArgument(std::string(name) +
                            " is a masked array, whose mask would be lost; pass " + name +
                            ".filled(value)");
    }
    Tensor out = import_numpy(object, name, ranks);
    if (!out.keep.is_valid()) return out;
    Tensor aligned = import_numpy(out.keep, name, ranks);
    aligned.object = object;
    aligned.writable = false;  // a copy: not fit for an output
    aligned.keep = std::move(out.keep);
    return aligned;
  }
  if (const dlpack::Exchange* api = cached().exchange_of(object)) {
    return import_direct(*api, object, name, stream, ranks);
  }
  if (nb::hasattr(object, "__dlpack__")) return import_dlpack(object, name, stream, ranks);
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

std::string shape_text(const Tensor& tensor) {
  std::string text;
  for (int i = 0; i < tensor.ndim; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.shape[i]);
  }
  return "(" + text + (tensor.ndim == 1 ? ",)" : ")");
}

void refuse_device_copy(const Tensor& tensor, const std::string& remedy) {
  std::string strides;
  for (int i = 0; i < tensor.ndim; ++i) {
    strides += (i == 0 ? "" : ", ") + std::to_string(tensor.strides[i]);
  }
  throw InvalidArgument(std::string(tensor.name) + " has strides (" + strides +
                        "), which no kernel here reads, and lies on a GPU, where it is not "
                        "copied; pass " +
                        remedy);
}

namespace {

// The dimensions from the outermost to the innermost in channels-last memory.
int channels_last_dimension(int position, int ndim) {
  return position == 0 ? 0 : position == ndim - 1 ? 1 : position + 1;
}

std::unique_ptr<std::byte[]> memory_for_copy(const Tensor& tensor, std::int64_t bytes,
                                             const char* remedy) {
  std::unique_ptr<std::byte[]> out(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
  if (out != nullptr) return out;
  throw DeviceError(std::string(tensor.name) +
                    " must be copied, since its strides are those of "
                    "no layout that kernels read, and there is no memory for the " +
                    std::to_string(bytes) + " bytes; pass " + remedy);
}

// Copies what belongs to one index of every dimension outside of `position`.
template <class T>
T* copy_dimension(const Tensor& from, int position, const T* source, T* target) {
  const int d = channels_last_dimension(position, from.ndim);
  for (std::int64_t i = 0; i < from.shape[d]; ++i, source += from.strides[d]) {
    if (position == from.ndim - 1) {
      *target++ = *source;
    } else {
      target = copy_dimension(from, position + 1, source, target);
    }
  }
  return target;
}

template <class T>
void copy_channels_last(const Tensor& from, std::byte* to) {
  copy_dimension(from, 0, static_cast<const T*>(from.data), reinterpret_cast<T*>(to));
}

}  // namespace

bool is_channels_last(const Tensor& t) {
  if (!t.regular) return false;
  std::int64_t dense = 1;
  for (int position = t.ndim - 1; position >= 0; --position) {
    const int d = channels_last_dimension(position, t.ndim);
    if (t.shape[d] == 0) return true;
    if (t.shape[d] != 1 && t.strides[d] != dense) return false;
    dense *= t.shape[d];
  }
  return true;
}

std::unique_ptr<std::byte[]> channels_last_copy(const Tensor& tensor) {
  const int size = size_of(tensor.dtype);
  std::int64_t bytes = size;
  for (int i = 0; i < tensor.ndim; ++i) bytes *= tensor.shape[i];
  auto out = memory_for_copy(tensor, bytes, "a tensor in channels-last order");
  if (size == 1) {
    copy_channels_last<std::uint8_t>(tensor, out.get());
  } else if (size == 2) {
    copy_channels_last<std::uint16_t>(tensor, out.get());
  } else {
    copy_channels_last<std::uint32_t>(tensor, out.get());
  }
  return out;
}

std::unique_ptr<std::byte[]> dense_copy(const Tensor& tensor, std::int64_t rows,
                                        std::int64_t columns, Order order) {
  const int size = size_of(tensor.dtype);
  auto out = memory_for_copy(tensor, rows * columns * size, "a row- or column-major matrix");
  if (size == 1) {
    copy_elements<std::uint8_t>(tensor, rows, columns, order, out.get());
  } else if (size == 2) {
    copy_elements<std::uint16_t>(tensor, rows, columns, order, out.get());
  } else {
    copy_elements<std::uint32_t>(tensor, rows, columns, order, out.get());
  }
  return out;
}

nb::object new_output(const Tensor& like, nb::handle shape, Dtype dtype, bool fnuz,
                      const Ranks& ranks, Tensor* tensor) {
  nb::object output =
      like.kind == Kind::direct || like.device >= 0
          ? cached().framework_empty(like.object, shape, dtype, like.device >= 0, fnuz)
          : cached().numpy_empty(shape, dtype);
  *tensor = import_tensor(output, "out", {}, ranks);
  if (tensor->device != like.device) {
    throw DeviceError(std::string("the framework of ") + like.name + " (" +
                      class_name(like.object) + ") made a result that is not on the device of " +
                      like.name + "; pass out=");
  }
  return output;
}

nb::object finish_output(const Tensor& like, nb::object output) {
  const bool made_by_numpy = like.kind == Kind::dlpack && like.device < 0;
  return made_by_numpy ? cached().convert_like(like.object, output) : output;
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
