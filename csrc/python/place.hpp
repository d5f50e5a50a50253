// Where a call runs: the one place where all of its tensors lie.
#pragma once

#include <vector>

#include <ckdisp/abi.hpp>

#include "tensor.hpp"

namespace ckdisp::python {

struct Place {
  Launch launch;
  bool fnuz = false;  // the encoding of fp8 and bf8 there
};

// Throws InvalidArgument for tensors in different places, a stream for the CPU, and FP8 numbers of
// another encoding than the place computes with, since they would mean something else; `result` is
// the type of a result that is not among the tensors.
Place place_of(const std::vector<const Tensor*>& tensors, const CallStream& stream, Dtype result);

}  // namespace ckdisp::python
