// Copies of tensors whose strides no kernel reads.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tensor.hpp"

namespace ckdisp::python {

// Throws InvalidArgument for a copy of what lies on a GPU; `remedy` is what to pass instead.
[[noreturn]] void refuse_device_copy(const Tensor& tensor, const std::string& remedy);

// Whether the memory is dense with the channels, the second dimension, innermost.
bool is_channels_last(const Tensor& tensor);
// A dense copy in that order.
std::unique_ptr<std::byte[]> channels_last_copy(const Tensor& tensor);

// A dense copy in the given order, for strides that no leading dimension expresses. `rows` and
// `columns` may exceed the tensor's where it has one, which repeats it.
std::unique_ptr<std::byte[]> dense_copy(const Tensor& tensor, std::int64_t rows,
                                        std::int64_t columns, Order order);

}  // namespace ckdisp::python
