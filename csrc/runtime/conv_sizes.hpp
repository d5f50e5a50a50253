// Arithmetic of the sizes of a convolution.
#pragma once

#include <ckdisp/abi.hpp>

namespace ckdisp::detail {

// Computes the size of the output. Throws InvalidArgument for sizes, strides, dilations and pads
// that no convolution has.
void complete_output(ConvProblemData& problem);

}  // namespace ckdisp::detail
