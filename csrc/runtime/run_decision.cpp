#include "run_decision.hpp"

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <array>
#include <string>

#include "fmha_family.hpp"
#include "run_kernel.hpp"

namespace ckdisp::detail {
namespace {

template <class Problem, class Args>
void run_only(const Decision<Problem>& decision, const Problem& problem, const Args& args,
              const Launch& launch) {
  if (is_open(problem)) {
    return run_only(decision, with_parts(problem, decision.num_splits), args, launch);
  }
  const Choice& choice = decision.choices[0];
  const Task task{*choice.kernel->table, choice.needs, &problem, &args};
  run_tasks({&task, 1}, choice.needs.workspace_bytes, launch);
}

Needs needs_of_stage(const Stage& stage, const void* problem, const Launch& launch) {
  Needs needs = needs_of(*stage.kernel.table(), problem, launch);
  needs.prepare = needs.prepare && stage.kind == StageKind::prepare;
  needs.run = stage.kind == StageKind::kernel;
  needs.convert = needs.convert && stage.kind == StageKind::convert;
  return needs;
}

template <class Problem, class Args>
void run_only_stage(const Stage& stage, const Problem& problem, const Args& args,
                    const Launch& launch) {
  const Needs needs = needs_of_stage(stage, &problem, launch);
  const Task task{*stage.kernel.table(), needs, &problem, &args};
  run_tasks({&task, 1}, needs.workspace_bytes, launch);
}

// Arguments that are completed when it is known where the workspace is.
struct PlacedArgs {
  FmhaArgs args;
  HandedOn memory;

  Placement placement() {
    return {[](void* self, void* workspace) {
              auto& placed = *static_cast<PlacedArgs*>(self);
              place(placed.memory, workspace, placed.args);
            },
            this};
  }
};

Family family_of(const Choice& choice) { return Kernel(choice.kernel).fmha_key().family; }

}  // namespace

void check_args(const GemmProblemData& problem, const GemmArgs& args, const Launch&) {
  validate(problem, args);
}
void check_args(const ConvProblemData& problem, const ConvArgs& args, const Launch&) {
  validate(problem, args);
}
void check_args(const FmhaProblemData& problem, const FmhaArgs& args, const Launch& launch) {
  validate(problem, args, launch.device < 0);
}

// Kernels of preshuffled weights misread any other B, and others a shuffled one.
void check_unnamed(const GemmProblemData& problem) {
  if (problem.shuffled_b == 0) return;
  throw InvalidArgument(
      "B is reordered for one kernel, and another would misread it; name the kernel");
}
void check_unnamed(const ConvProblemData&) {}
void check_unnamed(const FmhaProblemData& problem) {
  if (is_leading(problem.family)) return;
  throw InvalidArgument(std::string(to_name(problem.family)) +
                        " is a stage that works on what others hand it; ask for " +
                        (is_backward(problem.family) ? "fmha.bwd_dq_dk_dv" : "fmha.splitkv"));
}

Kernel main_kernel(const Decision<FmhaProblemData>& decision) {
  for (int i = 0; i < decision.count; ++i) {
    if (is_leading(family_of(decision.choices[i]))) return Kernel(decision.choices[i].kernel);
  }
  return Kernel(decision.choices[0].kernel);
}

HandedOn memory_of(const FmhaProblemData& problem, const Decision<FmhaProblemData>& decision) {
  const bool converts =
      family_of(decision.choices[decision.count - 1]) == Family::fmha_bwd_convert_dq;
  return handed_on(as_stage(problem, problem.family, decision.num_splits), converts);
}

void run_decision(const Decision<GemmProblemData>& decision, const GemmProblemData& problem,
                  const GemmArgs& args, const Launch& launch) {
  run_only(decision, problem, args, launch);
}
void run_decision(const Decision<ConvProblemData>& decision, const ConvProblemData& problem,
                  const ConvArgs& args, const Launch& launch) {
  run_only(decision, problem, args, launch);
}
void run_decision(const Decision<FmhaProblemData>& decision, const FmhaProblemData& problem,
                  const FmhaArgs& args, const Launch& launch) {
  if (decision.count == 1) return run_only(decision, problem, args, launch);
  PlacedArgs placed{args, memory_of(problem, decision)};
  std::array<FmhaProblemData, 3> problems;
  const auto task = [&](int i) -> Task {
    const auto at = static_cast<std::size_t>(std::min(i, decision.count - 1));
    const Choice& choice = decision.choices[at];
    problems[at] = as_stage(problem, family_of(choice), decision.num_splits);
    return {*choice.kernel->table, choice.needs, &problems[at], &placed.args, placed.memory.bytes};
  };
  const Task tasks[] = {task(0), task(1), task(2)};
  run_tasks({tasks, static_cast<std::size_t>(decision.count)}, bytes_of(decision, placed.memory),
            launch, placed.placement());
}

FmhaProblemData stage_problem(const FmhaProblemData& problem, const Stage& stage) {
  if (stage.kernel.op() != Op::fmha) return problem;
  return as_stage(problem, stage.kernel.fmha_key().family, stage.num_splits);
}

void run_stage(const Stage& stage, const GemmProblemData& problem, const GemmArgs& args,
               const Launch& launch) {
  run_only_stage(stage, problem, args, launch);
}
void run_stage(const Stage& stage, const ConvProblemData& problem, const ConvArgs& args,
               const Launch& launch) {
  run_only_stage(stage, problem, args, launch);
}
void run_stage(const Stage& stage, const FmhaProblemData& problem, const FmhaArgs& args,
               const Launch& launch) {
  const Family family = problem.family;
  const bool parts = family == Family::fmha_splitkv || !is_leading(family) || is_backward(family);
  if (parts && problem.num_splits < 1) {
    throw InvalidArgument("the stage belongs to no plan; take one out of plan()");
  }
  const bool accumulates =
      family == Family::fmha_bwd_convert_dq ||
      (family == Family::fmha_bwd_dq_dk_dv && accumulates_dq(stage.kernel.fmha_key()));
  PlacedArgs placed{args, handed_on(problem, accumulates)};
  const Needs needs = needs_of_stage(stage, &problem, launch);
  const Task task{*stage.kernel.table(), needs, &problem, &placed.args, placed.memory.bytes};
  // As much as the whole plan needs, since memory that grows loses what it held.
  const std::uint64_t bytes =
      std::max(stage.plan_bytes, placed.memory.bytes + needs.workspace_bytes);
  run_tasks({&task, 1}, bytes, launch, placed.placement());
}

}  // namespace ckdisp::detail
