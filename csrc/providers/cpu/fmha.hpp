// An attention kernel for the CPU. A generated unit states its key and uses
// CKDISP_CPU_FMHA_KERNEL.
#pragma once

#include "fmha/append.hpp"
#include "fmha/backward.hpp"
#include "fmha/combine.hpp"
#include "fmha/forward.hpp"
#include "fmha/rows.hpp"
#include "fmha/support.hpp"
#include "table.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel, Family>
struct FmhaPipe {
  using type = Forward<Kernel>;
};
template <class Kernel>
struct FmhaPipe<Kernel, Family::fmha_appendkv> {
  using type = Append<Kernel>;
};
template <class Kernel>
struct FmhaPipe<Kernel, Family::fmha_splitkv_combine> {
  using type = Combine<Kernel>;
};
template <class Kernel>
struct FmhaPipe<Kernel, Family::fmha_bwd_dot_do_o> {
  using type = DotDoO<Kernel>;
};
template <class Kernel>
struct FmhaPipe<Kernel, Family::fmha_bwd_dq_dk_dv> {
  using type = Backward<Kernel>;
};
template <class Kernel>
struct FmhaPipe<Kernel, Family::fmha_bwd_convert_dq> {
  using type = ConvertDq<Kernel>;
};

// The entry points of one kernel. A family is a class with the static functions
//   workspace_size(p, threads)   bytes
//   run(p, args, workspace, threads)
template <class Kernel>
struct Fmha {
  using Pipe = typename FmhaPipe<Kernel, Kernel::key.family>::type;

  static const FmhaProblemData& problem_of(const void* problem) {
    return *static_cast<const FmhaProblemData*>(problem);
  }

  static bool supports(const void* problem, Refusal* refusal) {
    return FmhaSupport<Kernel>::supports(problem_of(problem), refusal);
  }

  static double cost(const void* problem, const Launch* launch) {
    return FmhaSupport<Kernel>::seconds(problem_of(problem), usable_threads(launch));
  }

  // Without queries there are still keys to append, or gradients of keys, all zero.
  static bool empty(const FmhaProblemData& p) {
    const bool keys = p.family == Family::fmha_bwd_dq_dk_dv || p.family == Family::fmha_appendkv;
    return p.batch == 0 || p.nhead_k == 0 || (p.seqlen_q == 0 && !keys);
  }

  static std::uint64_t workspace_size(const void* problem, const Launch* launch) {
    const FmhaProblemData& p = problem_of(problem);
    return empty(p) ? 0 : Pipe::workspace_size(p, usable_threads(launch));
  }

  static bool run(const void* problem, const void* args, void* workspace, const Launch* launch,
                  Refusal*) {
    const FmhaProblemData& p = problem_of(problem);
    if (empty(p)) return true;
    Pipe::run(p, *static_cast<const FmhaArgs*>(args), workspace, usable_threads(launch));
    return true;
  }
};

}  // namespace
}  // namespace ckdisp::cpu

#define CKDISP_CPU_FMHA_KERNEL(symbol, Kernel) \
  CKDISP_CPU_KERNEL(symbol,                    \
                    (ckdisp::cpu::table_of<Kernel, ckdisp::cpu::Fmha<Kernel>>(ckdisp::Op::fmha)))
