// A GEMM kernel for the CPU. A generated unit states its key and uses CKDISP_CPU_GEMM_KERNEL.
#pragma once

#include "cost.hpp"
#include "support.hpp"
#include "table.hpp"

namespace ckdisp::cpu {
namespace {

// The entry points of one kernel.
template <class Kernel>
struct Gemm {
  static constexpr bool skinny = Kernel::key.pipeline == Pipeline::skinny;
  using Pipe = std::conditional_t<skinny, Skinny<Kernel>, Packed<Kernel>>;
  static_assert(skinny || Kernel::key.pipeline == Pipeline::packed);

  static const GemmProblemData& problem_of(const void* problem) {
    return *static_cast<const GemmProblemData*>(problem);
  }

  static bool supports(const void* problem, Refusal* refusal) {
    return Support<Kernel>::supports(problem_of(problem), refusal);
  }

  static double cost(const void* problem, const Launch* launch) {
    return Cost<Kernel>::seconds(problem_of(problem), usable_threads(launch));
  }

  static std::uint64_t workspace_size(const void* problem, const Launch* launch) {
    const GemmProblemData& p = problem_of(problem);
    return p.m == 0 || p.n == 0 ? 0 : Pipe::workspace_size(p, usable_threads(launch));
  }

  static bool run(const void* problem, const void* args, void* workspace, const Launch* launch,
                  Refusal*) {
    const GemmProblemData& p = problem_of(problem);
    if (p.m == 0 || p.n == 0) return true;
    Pipe::run(p, *static_cast<const GemmArgs*>(args), workspace, usable_threads(launch));
    return true;
  }
};

}  // namespace
}  // namespace ckdisp::cpu

#define CKDISP_CPU_GEMM_KERNEL(symbol, Kernel) \
  CKDISP_CPU_KERNEL(symbol,                    \
                    (ckdisp::cpu::table_of<Kernel, ckdisp::cpu::Gemm<Kernel>>(ckdisp::Op::gemm)))
