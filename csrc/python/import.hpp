// How import_tensor() reads a tensor, and how it refuses one.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "dlpack.hpp"
#include "tensor.hpp"

namespace ckdisp::python {

std::string class_name(nb::handle object);
[[noreturn]] void unknown_dtype(const char* name, const std::string& dtype);
void check_rank(const char* name, int ndim, const Ranks& ranks);

// Through the C exchange interface of the tensor's type.
Tensor import_direct(const dlpack::Exchange& api, nb::handle object, const char* name,
                     const CallStream& stream, const Ranks& ranks);
// The tensor in a capsule of DLPack, which keeps it: the capsule's destructor gives it back. Null
// for a version that cannot be read. *writable may become false.
const dlpack::Tensor* tensor_in(nb::handle capsule, bool* writable);
// Through __dlpack__().
Tensor import_dlpack(nb::handle object, const char* name, const CallStream& stream,
                     const Ranks& ranks);

}  // namespace ckdisp::python
