// An immutable view of a registry, with the indexes that lookups need.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ckdisp/any_problem.hpp>
#include <ckdisp/generated/arches.hpp>
#include <ckdisp/registry.hpp>

#include "fmha_match.hpp"

namespace ckdisp::detail {

struct Entry {
  Kernel kernel;
  Priority priority;
};

// What a decision reads of a kernel: copied here, because following a pointer into the library for
// each of a thousand candidates would take most of the time.
struct Indexed {
  bool (*supports)(const void* problem, Refusal* refusal);
  double (*cost)(const void* problem, const Launch* launch);
  std::uint32_t entry;
  Arch arch;
  bool picky;             // the kernel requires target features
  std::uint64_t refused;  // choices of a problem that the kernel is not for, as bits
};

// The kernels that compute one signature.
class Candidates {
 public:
  void add(const Indexed& candidate) { all_.push_back(candidate); }
  void sort();  // after the last one is added
  const std::vector<Indexed>& all() const { return all_; }

  // Those of one architecture, in the registry's order.
  std::span<const Indexed> of(Arch arch) const {
    const auto code = static_cast<std::size_t>(arch);
    return {all_.data() + begins_[code], all_.data() + begins_[code + 1]};
  }

 private:
  std::vector<Indexed> all_;
  std::array<std::uint32_t, kArchCount + 1> begins_{};  // by the code of the architecture
};

struct Snapshot {
  Snapshot(std::vector<Entry> sorted, std::uint64_t made_for);

  std::uint64_t generation;
  std::vector<Entry> entries;  // by priority, highest first, then by name
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  std::unordered_map<std::uint64_t, Candidates> by_signature;

  const Entry* find(std::string_view name) const;
};

// Everything of a problem or key that decides whether they fit, apart from sizes, and the op.
std::uint64_t packed_signature(const GemmProblemData& problem);
std::uint64_t packed_signature(const GemmKey& key);
std::uint64_t packed_signature(const ConvProblemData& problem);
std::uint64_t packed_signature(const ConvKey& key);
std::uint64_t packed_signature(const FmhaProblemData& problem);
std::uint64_t packed_signature(const FmhaKey& key);

// Of one packed signature, the choices of a problem and those that a kernel refuses, as bits. Only
// attention kernels serve several choices, or make some that no problem can see.
inline std::uint64_t choices(const GemmProblemData&) { return 0; }
inline std::uint64_t choices(const ConvProblemData&) { return 0; }
inline std::uint64_t choices(const FmhaProblemData& problem) { return fmha_choices(problem); }
inline std::uint64_t refused_choices(const GemmKey&) { return 0; }
inline std::uint64_t refused_choices(const ConvKey&) { return 0; }
inline std::uint64_t refused_choices(const FmhaKey& key) { return fmha_refused(key); }

// A refusal with the reason and text of the first difference; true when there is none.
bool same_signature(const GemmKey& key, const GemmProblemData& problem, Refusal* refusal);
bool same_signature(const ConvKey& key, const ConvProblemData& problem, Refusal* refusal);
bool same_signature(const FmhaKey& key, const FmhaProblemData& problem, Refusal* refusal);

template <class Problem>
bool same_signature(Kernel kernel, const Problem& problem, Refusal* refusal) {
  if (kernel.op() != OpOf<Problem>::op) {
    return refuse(refusal, Reason::op, "belongs to another op");
  }
  const auto& key = *static_cast<const typename OpOf<Problem>::Key*>(kernel.table()->key);
  return same_signature(key, problem, refusal);
}

}  // namespace ckdisp::detail
