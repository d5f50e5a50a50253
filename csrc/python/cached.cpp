#include "cached.hpp"

#include <nanobind/stl/string.h>

#include <ckdisp/device_kind.hpp>
#include <ckdisp/names.hpp>

#include <string>

namespace ckdisp::python {
namespace {

constexpr const char* kExchangeAttribute = "__dlpack_c_exchange_api__";

const dlpack::Exchange* find_exchange(nb::handle type) {
  if (!nb::hasattr(type, kExchangeAttribute)) return nullptr;
  const nb::object capsule = nb::getattr(type, kExchangeAttribute);
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* api = static_cast<const dlpack::Exchange*>(
      PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (api != nullptr && api->version.major != 1) api = api->previous;
  return api != nullptr && api->tensor_from_object != nullptr ? api : nullptr;
}

}  // namespace

Cached::Cached() {
  const nb::module_ numpy = nb::module_::import_("numpy");
  ndarray = reinterpret_cast<PyTypeObject*>(nb::object(numpy.attr("ndarray")).release().ptr());
  array_struct = nb::steal(PyUnicode_InternFromString("__array_struct__"));
  requires_grad_ = nb::steal(PyUnicode_InternFromString("requires_grad"));
  empty_ = numpy.attr("empty");
}

namespace {
const Cached* objects = nullptr;
}  // namespace

void make_cached() {
  if (objects == nullptr) objects = new Cached;
}

const Cached& cached() { return *objects; }

nb::handle Cached::helper(nb::object& slot, const char* name) {
  if (!slot.is_valid()) slot = nb::module_::import_("ckdisp.tensors").attr(name);
  return slot;
}

std::optional<Dtype> Cached::extension_dtype(nb::handle dtype) const {
  if (const auto* known = extension_dtypes_.find(dtype.ptr())) return *known;
  const nb::handle find = helper(find_extension_, "extension_dtype");
  const nb::object name = find(dtype);
  std::optional<Dtype> found;
  if (!name.is_none()) found = from_name<Dtype>(nb::cast<const char*>(name));
  return extension_dtypes_.insert(dtype.ptr(), found);
}

const dlpack::Exchange* Cached::exchange_of(nb::handle object) const {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
  if (const auto* known = exchanges_.find(type)) return *known;
  return exchanges_.insert(type, find_exchange(object.type()));
}

void Cached::check_no_gradient(nb::handle tensor, const char* name) const {
  const nb::object wanted = nb::steal(PyObject_GetAttr(tensor.ptr(), requires_grad_.ptr()));
  if (!wanted.is_valid()) {
    PyErr_Clear();  // no framework with gradients
    return;
  }
  if (wanted.ptr() != Py_True) return;
  const nb::handle check = helper(check_gradient_, "check_no_gradient");
  check(name);
}

std::string Cached::why_unreadable(nb::handle tensor, const char* name) const {
  const nb::handle why = helper(why_unreadable_, "why_unreadable");
  return nb::cast<std::string>(why(tensor, name));
}

nb::handle Cached::numpy_dtype(Dtype dtype) const {
  nb::object& slot = dtypes_[static_cast<std::size_t>(dtype)];
  if (!slot.is_valid()) {
    const nb::handle make = helper(make_dtype_, "numpy_dtype");
    slot = make(to_name(dtype));
  }
  return slot;
}

nb::object Cached::numpy_empty(nb::handle shape, Dtype dtype) const {
  return empty_(shape, numpy_dtype(dtype));
}

nb::object Cached::framework_empty(nb::handle like, nb::handle shape, Dtype dtype, bool on_device,
                                   bool fnuz) const {
  const nb::handle make = helper(make_empty_, "empty_like_kind");
  return nb::object(make(like, shape, to_name(dtype), on_device, fnuz));
}

nb::object Cached::channels_second(nb::handle tensor) const {
  const nb::handle view = helper(channels_second_, "channels_second");
  return nb::object(view(tensor));
}

nb::object Cached::as_bytes(nb::handle tensor) const {
  const nb::handle view = helper(as_bytes_, "as_bytes");
  return nb::object(view(tensor));
}

nb::object Cached::copy_of(nb::handle tensor) const {
  const nb::handle copy = helper(copy_of_, "copy_of");
  return nb::object(copy(tensor));
}

std::uintptr_t Cached::framework_stream(nb::handle tensor, int device) const {
  const nb::handle current = helper(current_stream_, "framework_stream");
  return nb::cast<std::uintptr_t>(current(tensor, index_of_device(device)));
}

nb::object Cached::convert_like(nb::handle like, nb::handle array) const {
  const nb::handle convert = helper(convert_, "convert_like");
  return nb::object(convert(like, array));
}

Dtype Cached::dtype_from_object(nb::handle object) const {
  const nb::handle name = helper(name_of_, "dtype_name");
  return from_name<Dtype>(nb::cast<const char*>(name(object)), "dtype");
}

}  // namespace ckdisp::python
