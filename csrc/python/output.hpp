// The result of a call: the caller's, or one made for it.
#pragma once

#include <optional>

#include "tensor.hpp"

namespace ckdisp::python {

// The type of a result: that which the call asks for, else that of the caller's tensor, else what
// follows from the first input.
Dtype output_type(nb::handle out_dtype, const std::optional<Tensor>& out, Dtype input);

// Throw InvalidArgument for an output that must not be written, or has another type.
void check_writable(const Tensor& out);
void check_type(const Tensor& out, Dtype wanted);

// A new dense row-major tensor of the kind of `like` on its device, ready for the stream of the
// call; *tensor is a view of it. For Kind::dlpack on the CPU it is a NumPy array that
// finish_output() converts.
nb::object new_output(const Tensor& like, nb::handle shape, Dtype dtype, bool fnuz,
                      const CallStream& stream, const Ranks& ranks, Tensor* tensor);
nb::object finish_output(const Tensor& like, nb::object output);

}  // namespace ckdisp::python
