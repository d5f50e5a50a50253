// Decisions met before: a bounded table that readers search without a lock or an allocation.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include <ckdisp/any_problem.hpp>
#include <ckdisp/library.hpp>

#include "run_kernel.hpp"

namespace ckdisp::detail {

struct Choice {
  const KernelRecord* kernel;
  Needs needs;
};

// The kernels that solve a problem, in the order of their work.
template <class Problem>
struct Decision {
  static constexpr int kMost = OpOf<Problem>::kernels;

  Choice choices[kMost];
  int count;
  std::int64_t num_splits;  // parts that one kernel hands to the next, where there are several
};

// Sets of four slots, each guarded by a sequence number: odd while a writer is in the slot, and
// changed by every write, so that a reader knows when it saw a mixture and treats it as a miss.
// Full sets replace their slots in turn. Slots hold values, hence nothing is ever reclaimed.
template <class Problem>
class DecisionCache {
  using Made = Decision<Problem>;
  static_assert(std::is_trivially_copyable_v<Problem> && sizeof(Problem) % 8 == 0);
  static_assert(std::has_unique_object_representations_v<Problem>, "padding would be compared");
  static constexpr std::size_t kWords = sizeof(Problem) / 8;
  // Slots of large problems are fewer: about as much memory.
  static constexpr std::size_t kWays = 4, kSets = kWords > 48 ? 256 : 512;
  // A problem is read where it is, as words.
  using Word [[gnu::may_alias]] = std::uint64_t;

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> sequence{0};
    std::atomic<std::uint64_t> tag{0};
    std::array<std::atomic<std::uint64_t>, kWords> problem{};
    std::array<std::atomic<const KernelRecord*>, Made::kMost> kernels{};  // null behind the last
    // Bytes of workspace; in bit 0 whether to prepare, in bit 1 whether to convert.
    std::array<std::atomic<std::uint64_t>, Made::kMost> needs{};
    std::atomic<std::int64_t> num_splits{0};
  };

 public:
  // `tag` stands for all else that the decision depends on; never 0.
  bool find(const Problem& problem, std::uint64_t tag, Made* out) const noexcept {
    const Word* words = to_words(problem);
    const Slot* set = &slots_[set_of(words, tag)];
    for (const Slot* slot = set; slot != set + kWays; ++slot) {
      // Acquire loads keep the second look at the sequence behind the reads it vouches for.
      const std::uint64_t before = slot->sequence.load(std::memory_order_acquire);
      if (!holds(*slot, words, tag)) continue;
      out->count = 0;
      for (std::size_t i = 0; i < Made::kMost; ++i) {
        const KernelRecord* kernel = slot->kernels[i].load(std::memory_order_acquire);
        const std::uint64_t needs = slot->needs[i].load(std::memory_order_acquire);
        out->choices[i] = {kernel, {needs >> 2, (needs & 1) != 0, true, (needs & 2) != 0}};
        if (kernel != nullptr) ++out->count;
      }
      out->num_splits = slot->num_splits.load(std::memory_order_acquire);
      if (before % 2 == 0 && slot->sequence.load(std::memory_order_relaxed) == before) return true;
    }
    return false;
  }

  void store(const Problem& problem, std::uint64_t tag, const Made& decision) noexcept {
    const Word* words = to_words(problem);
    Slot* set = &slots_[set_of(words, tag)];
    Slot* slot = set + turn_.fetch_add(1, std::memory_order_relaxed) % kWays;
    for (Slot* other = set; other != set + kWays; ++other) {
      if (holds(*other, words, tag)) return;  // another thread was faster
      if (other->tag.load(std::memory_order_acquire) == 0) slot = other;
    }
    std::uint64_t before = slot->sequence.load(std::memory_order_relaxed);
    if (before % 2 != 0 ||
        !slot->sequence.compare_exchange_strong(before, before + 1, std::memory_order_acq_rel)) {
      return;  // another writer has the slot; the next call stores the decision
    }
    // Release stores keep the odd sequence ahead of every word it warns about.
    slot->tag.store(tag, std::memory_order_release);
    for (std::size_t i = 0; i < kWords; ++i) {
      slot->problem[i].store(words[i], std::memory_order_release);
    }
    for (std::size_t i = 0; i < Made::kMost; ++i) {
      const bool used = i < static_cast<std::size_t>(decision.count);
      const Needs needs = used ? decision.choices[i].needs : Needs{};
      slot->kernels[i].store(used ? decision.choices[i].kernel : nullptr,
                             std::memory_order_release);
      slot->needs[i].store(
          needs.workspace_bytes << 2 | (needs.convert ? 2u : 0u) | (needs.prepare ? 1u : 0u),
          std::memory_order_release);
    }
    slot->num_splits.store(decision.num_splits, std::memory_order_release);
    slot->sequence.store(before + 2, std::memory_order_release);
  }

 private:
  static const Word* to_words(const Problem& problem) noexcept {
    static_assert(alignof(Problem) % alignof(Word) == 0);
    return reinterpret_cast<const Word*>(&problem);
  }

  static bool holds(const Slot& slot, const Word* words, std::uint64_t tag) noexcept {
    if (slot.tag.load(std::memory_order_acquire) != tag) return false;
    for (std::size_t i = 0; i < kWords; ++i) {
      if (slot.problem[i].load(std::memory_order_acquire) != words[i]) return false;
    }
    return true;
  }

  // Independent chains of multiplications, which overlap in the processor.
  static std::size_t set_of(const Word* words, std::uint64_t tag) noexcept {
    constexpr std::uint64_t kOdd1 = 0x9e3779b97f4a7c15u, kOdd2 = 0xc2b2ae3d27d4eb4fu;
    constexpr std::size_t kChains = kWords > 48 ? 8 : 2;
    std::uint64_t chains[kChains];
    for (std::size_t c = 0; c < kChains; ++c) chains[c] = kOdd1 + c;
    chains[0] = tag * kOdd2;
    std::size_t i = 0;
    for (; i + kChains <= kWords; i += kChains) {
      for (std::size_t c = 0; c < kChains; ++c) chains[c] = (chains[c] ^ words[i + c]) * kOdd1;
    }
    for (; i < kWords; ++i) chains[0] = (chains[0] ^ words[i]) * kOdd1;
    std::uint64_t hash = 0;
    for (const std::uint64_t chain : chains) hash = (hash ^ (chain >> 29)) * kOdd2 + chain;
    return (hash * kOdd2 >> 40) % kSets * kWays;
  }

  std::unique_ptr<Slot[]> slots_ = std::make_unique<Slot[]>(kSets * kWays);
  std::atomic<std::uint32_t> turn_{0};
};

}  // namespace ckdisp::detail
