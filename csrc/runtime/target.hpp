// Which kernels may serve a call: those of the CPU levels here, of one device, or of the
// architectures that a dispatcher was told to plan for.
#pragma once

#include <ckdisp/abi.hpp>
#include <ckdisp/generated/arches.hpp>
#include <ckdisp/library.hpp>

#include <array>
#include <string>
#include <vector>

namespace ckdisp::detail {

inline bool is_gpu(Arch arch) { return kArches[static_cast<std::size_t>(arch)].gpu; }
// Whose devices have the architecture of a GPU.
inline DeviceKind device_kind(Arch arch) { return kArches[static_cast<std::size_t>(arch)].device; }

// The target features that a GPU kernel must have, ":xnack-"; null when any will do, and on CPUs.
const char* required_features(const ckdisp_kernel& kernel);

class Target {
 public:
  static constexpr int kNever = -1;

  // The CPU levels of this machine, best first.
  static Target cpu(const std::vector<Arch>& levels);
  // One device; throws DeviceError when it is not here.
  static Target device(int number);
  // Architectures by name, best first, which need not be here. Throws InvalidKey for unknown names
  // and InvalidArgument for CPU levels that are not here, since their code must not run.
  static Target planned(const std::vector<std::string>& arches);

  // Place of an architecture in the order of preference; kNever when its kernels may not serve the
  // call. Kernels that require target features are asked about themselves.
  int rank(Arch arch) const { return ranks_[static_cast<std::size_t>(arch)]; }
  int rank(Kernel kernel) const;

  const std::vector<Arch>& arches() const { return arches_; }
  int device() const { return device_; }  // -1 when the target is none
  bool is_plan() const { return device_ < 0 && !names_.empty(); }
  // Throws DeviceError unless this plan has the architecture of the device.
  void check_planned(const Target& device) const;
  // The refusal of a kernel that may not serve the call but, if it is one of a GPU, supports it.
  void refuse_kernel(Kernel kernel, Reason* reason, std::string* text) const;

 private:
  Target() { ranks_.fill(kNever); }
  void add(Arch arch, std::string name);

  int device_ = -1;
  std::array<int, kArchCount> ranks_;
  std::vector<Arch> arches_;
  std::vector<std::string> names_;  // with their features; by rank; empty for Target::cpu()
};

// Throws DeviceError for a GPU kernel in a call for the CPU, which only a plan can choose.
void check_place(Kernel kernel, const Launch& launch);

}  // namespace ckdisp::detail
