// A convolution kernel for the CPU. A generated unit states its key and uses
// CKDISP_CPU_CONV_KERNEL.
#pragma once

#include "conv/direct.hpp"
#include "conv/pointwise.hpp"
#include "conv/support.hpp"
#include "conv/windowed.hpp"
#include "table.hpp"

namespace ckdisp::cpu {
namespace {

// The entry points of one kernel. A pipeline is a class with the static functions
//   supports(p, refusal)         whether it computes a problem that ConvSupport takes
//   seconds(p, threads)          estimated time
//   workspace_size(p, threads)   bytes
//   run(p, args, workspace, threads)
template <class Kernel>
struct Conv {
  static constexpr bool direct = Kernel::key.pipeline == Pipeline::direct;
  static_assert(direct || Kernel::key.pipeline == Pipeline::packed);
  static constexpr bool special = Kernel::key.specialization != ConvSpecialization::default_;
  static constexpr bool weights = Kernel::key.family == Family::conv_bwd_weight;
  using Windowed = std::conditional_t<weights, ConvWindowedWeights<Kernel>, ConvWindowed<Kernel>>;
  using Packed = std::conditional_t<special, ConvPointwise<Kernel>, Windowed>;
  using Pipe = std::conditional_t<direct, ConvDirect<Kernel>, Packed>;

  static const ConvProblemData& problem_of(const void* problem) {
    return *static_cast<const ConvProblemData*>(problem);
  }

  static bool supports(const void* problem, Refusal* refusal) {
    const ConvProblemData& p = problem_of(problem);
    return ConvSupport<Kernel>::supports(p, refusal) && Pipe::supports(p, refusal);
  }

  // Without images there is nothing to do but to clear the gradient of the weights.
  static double cost(const void* problem, const Launch* launch) {
    if (problem_of(problem).n == 0) return 0;
    return Pipe::seconds(problem_of(problem), usable_threads(launch));
  }

  static std::uint64_t workspace_size(const void* problem, const Launch* launch) {
    if (problem_of(problem).n == 0) return 0;
    return Pipe::workspace_size(problem_of(problem), usable_threads(launch));
  }

  static bool run(const void* problem, const void* args, void* workspace, const Launch* launch,
                  Refusal*) {
    const ConvProblemData& p = problem_of(problem);
    const auto& data = *static_cast<const ConvArgs*>(args);
    if (p.n > 0) {
      Pipe::run(p, data, workspace, usable_threads(launch));
    } else if (weights) {
      const Index bytes = p.g * p.k * p.c * filter_taps(p) * size_of(Kernel::key.dtype_wei);
      __builtin_memset(data.result, 0, static_cast<std::size_t>(bytes));
    }
    return true;
  }
};

}  // namespace
}  // namespace ckdisp::cpu

#define CKDISP_CPU_CONV_KERNEL(symbol, Kernel) \
  CKDISP_CPU_KERNEL(symbol,                    \
                    (ckdisp::cpu::table_of<Kernel, ckdisp::cpu::Conv<Kernel>>(ckdisp::Op::conv)))
