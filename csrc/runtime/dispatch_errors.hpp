// The texts of a dispatcher that found no kernel.
#pragma once

#include <string_view>
#include <vector>

#include <ckdisp/dispatcher.hpp>
#include <ckdisp/errors.hpp>

namespace ckdisp::detail {

// No kernel has the signature of the problem: says what to build.
template <class Problem>
KernelNotFound kernel_not_found(const Registry& registry, const Problem& problem,
                                const std::vector<Arch>& arches);
// No kernel has the name: says which are near.
KernelNotFound kernel_not_found(const Registry& registry, std::string_view name);
// Kernels of the signature exist and none supports the problem: lists their reasons.
template <class Problem>
UnsupportedProblem unsupported(const Problem& problem, const std::vector<Candidate>& candidates);

// Kernels of GPUs support the problem, and the call is for the CPU: says what devices are here.
template <class Problem>
DeviceError needs_device(const Problem& problem, const std::vector<Candidate>& candidates);

}  // namespace ckdisp::detail
