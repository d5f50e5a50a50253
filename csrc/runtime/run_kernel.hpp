// Running a chosen kernel, on the CPU or on a device.
#pragma once

#include <ckdisp/abi.hpp>

#include <cstdint>

namespace ckdisp::detail {

// What a decision says about running the kernel.
struct Needs {
  std::uint64_t workspace_bytes;
  bool prepare;
};

enum class Steps { all, only_prepare };

Needs needs_of(const ckdisp_kernel& kernel, const GemmProblemData& problem, const Launch& launch);

// Throws DeviceError when the kernel fails. On a device, returns when the work is on the stream.
void run_kernel(const ckdisp_kernel& kernel, const Needs& needs, const GemmProblemData& problem,
                const GemmArgs& args, const Launch& launch, Steps steps = Steps::all);

}  // namespace ckdisp::detail
