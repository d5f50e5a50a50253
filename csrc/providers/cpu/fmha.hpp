// An attention kernel for the CPU. A generated unit states its key and uses
// CKDISP_CPU_FMHA_KERNEL.
#pragma once

#include "fmha/forward.hpp"
#include "table.hpp"

namespace ckdisp::cpu {
namespace {

// The entry points of one kernel.
template <class Kernel>
struct Fmha {
  using Pipe = Forward<Kernel>;

  static const FmhaProblemData& problem_of(const void* problem) {
    return *static_cast<const FmhaProblemData*>(problem);
  }

  static bool supports(const void*, Refusal*) { return true; }

  static double cost(const void*, const Launch*) { return 1; }

  static std::uint64_t workspace_size(const void* problem, const Launch* launch) {
    const FmhaProblemData& p = problem_of(problem);
    return Pipe::workspace_size(p, usable_threads(launch));
  }

  static bool run(const void* problem, const void* args, void* workspace, const Launch* launch,
                  Refusal*) {
    const FmhaProblemData& p = problem_of(problem);
    Pipe::run(p, *static_cast<const FmhaArgs*>(args), workspace, usable_threads(launch));
    return true;
  }
};

}  // namespace
}  // namespace ckdisp::cpu

#define CKDISP_CPU_FMHA_KERNEL(symbol, Kernel) \
  CKDISP_CPU_KERNEL(symbol,                    \
                    (ckdisp::cpu::table_of<Kernel, ckdisp::cpu::Fmha<Kernel>>(ckdisp::Op::fmha)))
