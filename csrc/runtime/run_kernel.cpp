#include "run_kernel.hpp"

#include <ckdisp/errors.hpp>

#include <string>

#include "after_fork.hpp"
#include "device_workspace.hpp"
#include "hip.hpp"
#include "workspace.hpp"

namespace ckdisp::detail {
namespace {

// One call of a kernel: what it is for, and where.
struct Work {
  const ckdisp_kernel& kernel;
  const Needs& needs;
  const Call& call;
};

void run_stages(const Work& work, void* workspace, Refusal* refusal, bool* done) {
  const auto& [kernel, needs, call] = work;
  const auto stage = [&](auto* function) {
    return function(call.problem, call.args, workspace, &call.launch, refusal);
  };
  *done = (!needs.prepare || stage(kernel.prepare)) && (!needs.run || stage(kernel.run)) &&
          (!needs.convert || stage(kernel.convert));
}

void run_on_cpu(const Work& work, Refusal* refusal, bool* done) {
  void* workspace = Workspace::of_thread().at_least(work.needs.workspace_bytes);
  auto run = [&] { run_stages(work, workspace, refusal, done); };
  if (work.call.launch.num_threads == 1) return run();
  run_launch([](void* f) { (*static_cast<decltype(run)*>(f))(); }, &run);
}

void run_on_device(const Work& work, Refusal* refusal, bool* done) {
  const Launch& launch = work.call.launch;
  const CurrentDevice current(launch.device);
  if (work.needs.workspace_bytes == 0) return run_stages(work, nullptr, refusal, done);
  const DeviceWorkspace workspace(launch.device, launch.stream, work.needs.workspace_bytes);
  run_stages(work, workspace.data(), refusal, done);
}

}  // namespace

Needs needs_of(const ckdisp_kernel& kernel, const void* problem, const Launch& launch) {
  return {kernel.workspace_size(problem, &launch),
          kernel.needs_prepare != nullptr && kernel.needs_prepare(problem), true,
          kernel.needs_convert != nullptr && kernel.needs_convert(problem)};
}

void run_kernel(const ckdisp_kernel& kernel, const Needs& needs, const Call& call) {
  const Work work{kernel, needs, call};
  Refusal refusal{};
  bool done = false;
  (call.launch.device < 0 ? run_on_cpu : run_on_device)(work, &refusal, &done);
  if (done) return;
  if (refusal.reason == Reason::scale || refusal.reason == Reason::alignment) {
    throw UnsupportedProblem(std::string(kernel.name) + " cannot run this call: " + refusal.text);
  }
  throw DeviceError(std::string(kernel.name) + " failed: " + refusal.text);
}

}  // namespace ckdisp::detail
