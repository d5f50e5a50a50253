// Running a chosen kernel, on the CPU or on a device.
#pragma once

#include <ckdisp/abi.hpp>

#include <cstdint>

namespace ckdisp::detail {

// What a decision says about running the kernel: the memory and the stages.
struct Needs {
  std::uint64_t workspace_bytes;
  bool prepare;
  bool run;
  bool convert;
};

// What a kernel is called with: the problem and arguments of its op.
struct Call {
  const void* problem;
  const void* args;
  const Launch& launch;
};

Needs needs_of(const ckdisp_kernel& kernel, const void* problem, const Launch& launch);

// Throws DeviceError when the kernel fails. On a device, returns when the work is on the stream.
void run_kernel(const ckdisp_kernel& kernel, const Needs& needs, const Call& call);

}  // namespace ckdisp::detail
