// An immutable view of a registry, with the indexes that lookups need.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

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
  const char* features;  // target features that a GPU must have; null when any will do
  std::uint32_t entry;
  Arch arch;
};

struct Snapshot {
  Snapshot(std::vector<Entry> sorted, std::uint64_t made_for);

  std::uint64_t generation;
  std::vector<Entry> entries;  // by priority, highest first, then by name
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  // Entries that compute one GEMM signature, in order.
  std::unordered_map<std::uint64_t, std::vector<Indexed>> by_signature;

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
