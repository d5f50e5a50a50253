// From the arguments of Dispatcher.fmha_*() in Python to a problem with pointers.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <vector>

#include <ckdisp/fmha_problem.hpp>

#include "fmha_options.hpp"
#include "tensor.hpp"

namespace ckdisp::python {

// A problem, its pointers, and whatever keeps them valid.
struct FmhaCall {
  struct Result {
    nb::object object;
    bool is_made = true;    // else it is the caller's
    bool is_bytes = false;  // made of numbers with a sign, which it shall not have
  };

  FmhaProblemData problem;
  FmhaArgs args;
  Launch launch;
  std::vector<Tensor> keep;
  Tensor first;                 // results are of its kind
  std::vector<Result> results;  // in the order in which they are returned
  float scales[3];              // of Q, K and V, where they were numbers

  // Points to these numbers; the call must stay where it is from then on.
  void point_scales();
};

// The family that a call or a problem names: "fwd" or "fmha.fwd"; "bwd" is fmha.bwd_dq_dk_dv.
Family fmha_family_from(std::string_view name);

// The diagonal, window and sink of a problem from their options.
void set_mask(FmhaProblem& builder, const FmhaOptions& options);

// Throws InvalidArgument, DeviceError or InvalidKey, before anything runs.
FmhaCall resolve_fmha(Family family, const FmhaOptions& options, const CallStream& stream);

// One result, or several as a tuple; None for none.
nb::object finish_results(const FmhaCall& call);

}  // namespace ckdisp::python
