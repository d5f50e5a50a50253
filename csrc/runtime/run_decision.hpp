// Running what a dispatcher decided, for the problems of every op.
#pragma once

#include <ckdisp/any_problem.hpp>
#include <ckdisp/dispatcher.hpp>

#include <algorithm>

#include "decision_cache.hpp"
#include "fmha_plan.hpp"
#include "open_parts.hpp"

namespace ckdisp::detail {

// Throws InvalidArgument for arguments that must not run where the launch says.
void check_args(const GemmProblemData& problem, const GemmArgs& args, const Launch& launch);
void check_args(const ConvProblemData& problem, const ConvArgs& args, const Launch& launch);
void check_args(const FmhaProblemData& problem, const FmhaArgs& args, const Launch& launch);

// Throws InvalidArgument for a problem that cannot be run without a kernel's name.
void check_unnamed(const GemmProblemData& problem);
void check_unnamed(const ConvProblemData& problem);
void check_unnamed(const FmhaProblemData& problem);
// The same with a kernel's name.
inline void check_named(const GemmProblemData&) {}
inline void check_named(const ConvProblemData&) {}
inline void check_named(const FmhaProblemData& problem) { check_unnamed(problem); }

// The kernel that does the main work.
template <class Problem>
Kernel main_kernel(const Decision<Problem>& decision) {
  return Kernel(decision.choices[0].kernel);
}
Kernel main_kernel(const Decision<FmhaProblemData>& decision);

// What the stages hand on: nothing where there is one.
template <class Problem>
HandedOn memory_of(const Problem&, const Decision<Problem>&) {
  return {};
}
HandedOn memory_of(const FmhaProblemData& problem, const Decision<FmhaProblemData>& decision);

// Scratch memory of a decision: what is handed on, then that of the kernels, one at a time.
template <class Problem>
std::uint64_t bytes_of(const Decision<Problem>& decision, const HandedOn& memory) {
  std::uint64_t own = 0;
  for (int i = 0; i < decision.count; ++i) {
    own = std::max(own, decision.choices[i].needs.workspace_bytes);
  }
  return memory.bytes + own;
}

void run_decision(const Decision<GemmProblemData>& decision, const GemmProblemData& problem,
                  const GemmArgs& args, const Launch& launch);
void run_decision(const Decision<ConvProblemData>& decision, const ConvProblemData& problem,
                  const ConvArgs& args, const Launch& launch);
void run_decision(const Decision<FmhaProblemData>& decision, const FmhaProblemData& problem,
                  const FmhaArgs& args, const Launch& launch);

// The problem as a stage of a plan sees it.
template <class Problem>
Problem stage_problem(const Problem& problem, const Stage& stage) {
  return with_parts(problem, stage.num_splits);
}
FmhaProblemData stage_problem(const FmhaProblemData& problem, const Stage& stage);

// One stage; `problem` is as the stage sees it.
void run_stage(const Stage& stage, const GemmProblemData& problem, const GemmArgs& args,
               const Launch& launch);
void run_stage(const Stage& stage, const ConvProblemData& problem, const ConvArgs& args,
               const Launch& launch);
void run_stage(const Stage& stage, const FmhaProblemData& problem, const FmhaArgs& args,
               const Launch& launch);

}  // namespace ckdisp::detail
