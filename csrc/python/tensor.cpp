#include "tensor.hpp"

#include <nanobind/stl/string.h>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
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
    // Element-wise copies need whole elements; NumPy makes them. A dense one that is only
    // misaligned must be copied, too.
    out.keep = nb::module_::import_("numpy").attr("array")(object, nb::arg("order") = "C");
  }
  out.writable = (view->flags & kWritable) != 0;
  return out;
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
                        ", which no kernel computes; convert it to one of: " + known +
                        (dtype.find("int64") != std::string::npos ? " (indices are int32)" : ""));
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
    aligned.misaligned = true;
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

std::string joined(const std::int64_t* numbers, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  }
  return text;
}

std::int64_t count_of(const std::int64_t* sizes, std::size_t count) {
  return std::accumulate(sizes, sizes + count, std::int64_t{1}, std::multiplies<>());
}

std::int64_t count_of(const Tensor& tensor) {
  return count_of(tensor.shape, static_cast<std::size_t>(tensor.ndim));
}

std::string shape_text(const std::int64_t* sizes, std::size_t count) {
  return "(" + joined(sizes, count) + (count == 1 ? ",)" : ")");
}

std::string shape_text(const Tensor& tensor) {
  return shape_text(tensor.shape, static_cast<std::size_t>(tensor.ndim));
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

Dtype named_dtype(nb::handle object, const char* field) {
  if (!nb::isinstance<nb::str>(object)) return dtype_of(object);
  return from_name<Dtype>(nb::cast<std::string>(object), field);
}

}  // namespace ckdisp::python
