#include "run_kernel.hpp"

#include <ckdisp/errors.hpp>

#include <string>

#include "after_fork.hpp"
#include "device_workspace.hpp"
#include "devices.hpp"
#include "workspace.hpp"

namespace ckdisp::detail {
namespace {

// What a call does in its scratch memory, and how it ended.
struct Work {
  std::span<const Task> tasks;
  std::uint64_t bytes;
  const Launch& launch;
  Placement placement;
  const Task* failed = nullptr;
  Refusal refusal{};

  void run(void* workspace) {
    if (placement.function != nullptr) placement.function(placement.context, workspace);
    for (const Task& task : tasks) {
      if (run_task(task, workspace)) continue;
      failed = &task;
      return;
    }
  }

 private:
  bool run_task(const Task& task, void* workspace) {
    const auto& [kernel, needs, problem, args, offset] = task;
    void* own = workspace != nullptr ? static_cast<char*>(workspace) + offset : nullptr;
    const auto stage = [&](auto* function) {
      return function(problem, args, own, &launch, &refusal);
    };
    return (!needs.prepare || stage(kernel.prepare)) && (!needs.run || stage(kernel.run)) &&
           (!needs.convert || stage(kernel.convert));
  }
};

void run_on_cpu(Work& work) {
  void* workspace = Workspace::of_thread().at_least(work.bytes);
  auto run = [&] { work.run(workspace); };
  if (work.launch.num_threads == 1) return run();
  run_launch([](void* f) { (*static_cast<decltype(run)*>(f))(); }, &run);
}

void run_on_device(Work& work) {
  const CurrentDevice current(work.launch.device);
  if (work.bytes == 0) return work.run(nullptr);
  const DeviceWorkspace workspace(work.launch.device, work.launch.stream, work.bytes);
  work.run(workspace.data());
}

}  // namespace

Needs needs_of(const ckdisp_kernel& kernel, const void* problem, const Launch& launch) {
  return {kernel.workspace_size(problem, &launch),
          kernel.needs_prepare != nullptr && kernel.needs_prepare(problem), true,
          kernel.needs_convert != nullptr && kernel.needs_convert(problem)};
}

void run_tasks(std::span<const Task> tasks, std::uint64_t bytes, const Launch& launch,
               Placement placement) {
  Work work{tasks, bytes, launch, placement};
  (launch.device < 0 ? run_on_cpu : run_on_device)(work);
  if (work.failed == nullptr) return;
  const std::string name = work.failed->kernel.name;
  const Reason reason = work.refusal.reason;
  if (reason == Reason::scale || reason == Reason::alignment) {
    throw UnsupportedProblem(name + " cannot run this call: " + work.refusal.text);
  }
  throw DeviceError(name + " failed: " + work.refusal.text);
}

}  // namespace ckdisp::detail
