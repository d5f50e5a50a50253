// From the arguments of Dispatcher.conv_*() in Python to a problem with pointers.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include <ckdisp/conv_problem.hpp>

#include "tensor.hpp"

namespace ckdisp::python {

// How a filter moves, as Python passed it: numbers, or sequences of one for each dimension; padding
// may be pairs.
struct ConvMotion {
  nb::handle stride, padding, dilation, groups;
};

// The arguments of a call. `first` and `second` are the tensors that the direction reads, in the
// order of its signature; `shape` is that of the result, None for the forward direction.
struct ConvRequest {
  Family family;
  nb::handle first, second, shape;
  ConvMotion motion;
  nb::handle out, out_dtype;
  int k_batch;
  CallStream stream;
};

// A problem, its pointers, and whatever keeps them valid.
struct ConvCall {
  ConvProblemData problem;
  ConvArgs args;
  Launch launch;
  Tensor first;
  nb::object output;     // the result, or the dense memory (N, *spatial, C) that was made for it
  bool is_made = false;  // else it is the caller's
  std::vector<Tensor> keep;
  std::vector<std::unique_ptr<std::byte[]>> copies;
};

// Throws InvalidArgument, DeviceError or InvalidKey, before anything runs.
ConvCall resolve(const ConvRequest& request);

// The result as the kind of tensor that the call was given, shaped (N, C, *spatial).
nb::object finish_output(const ConvCall& call);

// Shapes as PyTorch has them: of the input (N, C, *spatial) and of the weights
// (K, C / groups, *filter); and what messages call the two.
struct ConvShapes {
  std::vector<std::int64_t> input, weights;
  const char* input_name;
  const char* weights_name;
};
// The problem of a direction.
GroupedConvProblem conv_problem(Family family, const ConvShapes& shapes, const ConvMotion& motion);

// Sizes out of a sequence of integers; `wanted` is what to pass instead of anything else.
std::vector<std::int64_t> sizes_from(nb::handle sequence, const char* name,
                                     const char* wanted = "a sequence of integers");

}  // namespace ckdisp::python
