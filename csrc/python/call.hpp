// From the arguments of Dispatcher.gemm() in Python to a problem with pointers.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include <ckdisp/dispatcher.hpp>

#include "tensor.hpp"

namespace ckdisp::python {

// The arguments as Python passed them; None where not given.
struct GemmRequest {
  nb::handle a, b, d, out, out_dtype, clamp;
  const char* epilogue;
  double scale;
  int k_batch = 1;
  const char* kernel = nullptr;  // name of the kernel to use; null to have one chosen
  CallStream stream = {};        // to run on; none to use that of the tensors' framework
};

// A problem, its pointers, and whatever keeps them valid.
struct GemmCall {
  GemmProblemData problem;
  GemmArgs args;
  Launch launch;
  Tensor a;
  nb::object output;  // what to return; null when only the problem was asked for
  std::vector<Tensor> keep;
  std::vector<std::unique_ptr<std::byte[]>> copies;
};

// Throws InvalidArgument, DeviceError or InvalidKey, before anything runs. The dispatcher breaks
// ties where a matrix fits two layouts: that of the kernel asked for, else one that has a kernel.
GemmCall resolve(const Dispatcher& dispatcher, const GemmRequest& request);

// The problem alone: makes no output and no copies.
GemmProblemData resolve_problem(const Dispatcher* dispatcher, const GemmRequest& request);

}  // namespace ckdisp::python
