// Python objects that every call needs, looked up once.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

#include <ckdisp/generated/enums.hpp>

#include "dlpack.hpp"
#include "small_cache.hpp"

namespace ckdisp::python {

namespace nb = nanobind;

class Cached {
 public:
  PyTypeObject* ndarray;
  nb::object array_struct;  // "__array_struct__"

  // The type of a NumPy dtype of ml_dtypes; empty for others.
  std::optional<Dtype> extension_dtype(nb::handle dtype) const;
  // The C exchange interface of the object's type; null when it has none that can be used.
  const dlpack::Exchange* exchange_of(nb::handle object) const;
  // Throws InvalidArgument for a tensor whose gradient would be lost.
  void check_no_gradient(nb::handle tensor, const char* name) const;
  // Why a tensor of PyTorch shows no memory, and what to pass; empty if that is not known.
  std::string why_unreadable(nb::handle tensor, const char* name) const;

  nb::object numpy_empty(nb::handle shape, Dtype dtype) const;
  // Helpers in ckdisp.tensors, for what is rare or specific to a framework.
  nb::object framework_empty(nb::handle like, nb::handle shape, Dtype dtype, bool on_device,
                             bool fnuz) const;
  // A view of a dense (N, *spatial, C) tensor as (N, C, *spatial).
  nb::object channels_second(nb::handle tensor) const;
  // A view of bytes as numbers without a sign.
  nb::object as_bytes(nb::handle tensor) const;
  // A dense copy of a tensor, of its framework.
  nb::object copy_of(nb::handle tensor) const;
  // The stream that the framework of a GPU's tensor works on; 0 is the default stream.
  std::uintptr_t framework_stream(nb::handle tensor, int device) const;
  nb::object convert_like(nb::handle like, nb::handle array) const;
  Dtype dtype_from_object(nb::handle object) const;

 private:
  friend void make_cached();
  Cached();
  // A function of ckdisp.tensors, kept in `slot`. No static local: its guard and the interpreter
  // lock could wait for each other, since importing lets other threads run.
  static nb::handle helper(nb::object& slot, const char* name);
  nb::handle numpy_dtype(Dtype dtype) const;

  nb::object empty_, requires_grad_;
  mutable nb::object find_extension_, check_gradient_, make_dtype_, make_empty_, convert_, name_of_,
      channels_second_, current_stream_, as_bytes_, copy_of_, why_unreadable_;
  mutable nb::object dtypes_[EnumNames<Dtype>::size];
  mutable SmallCache<std::optional<Dtype>> extension_dtypes_;
  mutable SmallCache<const dlpack::Exchange*> exchanges_;
};

// Made when the module is, never freed: the interpreter may be gone before static objects are.
void make_cached();
const Cached& cached();

}  // namespace ckdisp::python
