#include "target.hpp"

#include <ckdisp/cpu.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include "devices.hpp"

namespace ckdisp::detail {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " and ") + name;
  return text;
}

// Of an arch to plan for: one that cannot be read would fit the kernels of any features.
void check_features(const std::string& target) {
  std::size_t at = target.find(':');
  while (at != std::string::npos) {
    const std::size_t end = target.find(':', at + 1);
    const std::string feature = target.substr(at + 1, end - at - 1);
    if (feature != "sramecc+" && feature != "sramecc-" && feature != "xnack+" &&
        feature != "xnack-") {
      throw InvalidKey("arch '" + target + "': cannot read the target feature '" + feature +
                       "'; write it as in 'gfx942:sramecc+:xnack-'");
    }
    at = end;
  }
}

// What a kernel of a GPU lacks in a call for the CPU.
std::string missing_device(const ckdisp_kernel& kernel) {
  const Arch arch = static_cast<const GemmKey*>(kernel.key)->arch;
  const DeviceList here = device_list(device_kind(arch));
  const std::string needs = std::string("runs on ") + kernel.arch + " devices, ";
  if (here.devices.empty()) return needs + "and there is none here (" + here.what + ")";
  for (const DeviceRecord& record : here.devices) {
    if (record.arch == arch && features_fit(required_features(kernel), record.facts.target, true)) {
      return needs + "and the call is for the CPU; " + device_text(record.facts.number) + " is one";
    }
  }
  return needs + "and there is none here (" + listing(here.devices) + ")";
}

}  // namespace

const char* required_features(const ckdisp_kernel& kernel) { return std::strchr(kernel.arch, ':'); }

void Target::add(Arch arch, std::string name) {
  int& rank = ranks_[static_cast<std::size_t>(arch)];
  if (rank != kNever) return;
  rank = static_cast<int>(arches_.size());
  arches_.push_back(arch);
  names_.push_back(std::move(name));
}

Target Target::cpu(const std::vector<Arch>& levels) {
  Target out;
  for (const Arch level : levels) out.add(level, to_name(level));
  out.names_.clear();
  return out;
}

Target Target::device(int number) {
  const DeviceRecord& record = device_record(number);
  Target out;
  out.device_ = number;
  if (record.arch) out.add(*record.arch, record.facts.target);
  if (!record.arch) out.names_.push_back(record.facts.target);
  return out;
}

Target Target::planned(const std::vector<std::string>& names) {
  const std::vector<Arch> here = host_arches();
  Target out;
  for (const std::string& name : names) {
    const Arch arch = from_name<Arch>(name.substr(0, name.find(':')), "arch");
    check_features(name);
    if (!is_gpu(arch) && std::find(here.begin(), here.end(), arch) == here.end()) {
      throw InvalidArgument("cannot plan for " + name +
                            ": its kernels would have to be asked, and this CPU cannot run their "
                            "code; plan on a machine that can");
    }
    out.add(arch, name);
  }
  return out;
}

int Target::rank(Kernel kernel) const {
  const int place = rank(kernel.arch());
  const char* features = required_features(*kernel.table());
  if (place == kNever || features == nullptr) return place;
  const std::string& name = names_[static_cast<std::size_t>(place)];
  return features_fit(features, name, device_ >= 0) ? place : kNever;
}

void Target::check_planned(const Target& device) const {
  for (const Arch arch : device.arches_) {
    if (ranks_[static_cast<std::size_t>(arch)] != kNever) return;
  }
  throw DeviceError("the dispatcher plans for " + joined(names_) + ", and " +
                    device_text(device.device_) + " is a " + device.names_.front() +
                    "; make a dispatcher without arches, or one for that arch");
}

void Target::refuse_kernel(Kernel kernel, Reason* reason, std::string* text) const {
  const ckdisp_kernel& table = *kernel.table();
  *reason = Reason::device;
  if (is_plan()) {
    *reason = Reason::arch;
    *text = std::string("was built for ") + table.arch + ", and the dispatcher plans for " +
            joined(names_);
  } else if (device_ >= 0) {
    *text = std::string("runs on ") + (is_gpu(kernel.arch()) ? table.arch : "the CPU") +
            ", and the call is for " + device_text(device_) + ", a " + names_.front();
  } else if (is_gpu(kernel.arch())) {
    *text = missing_device(table);
  } else {
    *reason = Reason::arch;
    *text = std::string("was built for ") + table.arch + ", which this machine cannot run";
  }
}

void check_place(Kernel kernel, const Launch& launch) {
  if (launch.device >= 0 || !is_gpu(kernel.arch())) return;
  const DeviceList here = device_list(device_kind(kernel.arch()));
  throw DeviceError(std::string(kernel.name()) + " runs on " + kernel.table()->arch +
                    " devices, and the arguments are in the CPU's memory; " +
                    (here.devices.empty() ? "there is no device here: " + here.why
                                          : "move them to a device: " + listing(here.devices)));
}

}  // namespace ckdisp::detail
