// Running chosen kernels, on the CPU or on a device.
#pragma once

#include <ckdisp/abi.hpp>

#include <cstdint>
#include <span>

namespace ckdisp::detail {

// What a decision says about running the kernel: the memory and the stages.
struct Needs {
  std::uint64_t workspace_bytes;
  bool prepare;
  bool run;
  bool convert;
};

// One kernel to run: what for, with the problem and arguments of its op, and where its own scratch
// memory begins in that of the call.
struct Task {
  const ckdisp_kernel& kernel;
  Needs needs;
  const void* problem;
  const void* args;
  std::uint64_t offset = 0;
};

// Completes arguments that lie in the scratch memory of the call, once it is known where it is.
struct Placement {
  void (*function)(void* context, void* workspace) = nullptr;
  void* context = nullptr;
};

Needs needs_of(const ckdisp_kernel& kernel, const void* problem, const Launch& launch);

// Runs the tasks one behind the other with `bytes` of scratch memory. Throws DeviceError when a
// kernel fails. On a device, returns when the work is on the stream.
void run_tasks(std::span<const Task> tasks, std::uint64_t bytes, const Launch& launch,
               Placement placement = {});

}  // namespace ckdisp::detail
