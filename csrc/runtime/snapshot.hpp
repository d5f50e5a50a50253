// An immutable view of a registry, with the indexes that lookups need.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ckdisp/generated/arches.hpp>
#include <ckdisp/registry.hpp>

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
  bool picky;  // the kernel requires target features
};

// The kernels that compute one GEMM signature.
class Candidates {
 public:
  void add(const Indexed& candidate) { all_.push_back(candidate); }
  void sort();  // after the last one is added

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

// Everything of a problem or key that decides whether they fit, apart from sizes. The type and
// order of D count only when there is one.
struct Signature {
  Dtype a, b, c, acc, d;
  Layout layout;
  Order order_d;
  Elementwise elementwise;
  int num_d;
  bool shuffled_b;

  std::uint64_t packed() const;
};

// A refusal with the reason and text of the first difference; true when there is none.
bool same_signature(const GemmKey& key, const GemmProblemData& problem, Refusal* refusal);

Signature signature_of(const GemmProblemData& problem);
Signature signature_of(const GemmKey& key);

}  // namespace ckdisp::detail
