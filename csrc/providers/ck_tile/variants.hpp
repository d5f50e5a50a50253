// The variants of one key: a kernel for each hot loop and loop tail that some K needs, and for
// each memory operation.
#pragma once

#include <array>
#include <cstddef>

#include "pipeline.hpp"

namespace ckdisp::tile {

struct Variant {
  bool hot_loop;
  TailNumber tail;
  bool atomic;
};
constexpr bool operator==(const Variant& a, const Variant& b) {
  return a.hot_loop == b.hot_loop && a.tail == b.tail && a.atomic == b.atomic;
}

template <class Key>
struct Variants {
  using Pipe = typename MainLoop<Key>::Pipe;

  // The hot loop and tail for a number of loops over K, as CK's TailHandler picks them.
  static constexpr Variant for_loops(index_t num_loop, bool atomic) {
    if constexpr (Key::key.pipeline == Pipeline::compv5) {
      return {true, TailNumber::Empty, atomic};
    } else if constexpr (Key::key.pipeline == Pipeline::preshufflev2) {
      return {true, Pipe::GetBlockLoopTailNum(num_loop), atomic};
    } else {
      return {Pipe::BlockHasHotloop(num_loop), Pipe::GetBlockLoopTailNum(num_loop), atomic};
    }
  }

 private:
  // Enough for every variant: tails repeat after at most 8 loops, behind at most 8 without a hot
  // loop.
  static constexpr index_t kLoops = 24;
  struct List {
    std::array<Variant, 2 * kLoops> values{};
    std::size_t size = 0;
  };
  static constexpr List make() {
    List list;
    for (int atomic = 0; atomic <= (Key::key.split_k ? 1 : 0); ++atomic) {
      for (index_t n = 1; n <= kLoops; ++n) {
        const Variant variant = for_loops(n, atomic != 0);
        bool known = false;
        for (std::size_t i = 0; i < list.size; ++i) known = known || list.values[i] == variant;
        if (!known) list.values[list.size++] = variant;
      }
    }
    return list;
  }
  static constexpr List kList = make();

 public:
  static constexpr std::size_t count = kList.size;
  static constexpr Variant at(std::size_t i) { return kList.values[i]; }
  // The position of a variant; `count` if there is none.
  static constexpr std::size_t find(const Variant& variant) {
    for (std::size_t i = 0; i < count; ++i) {
      if (kList.values[i] == variant) return i;
    }
    return count;
  }
};

}  // namespace ckdisp::tile
