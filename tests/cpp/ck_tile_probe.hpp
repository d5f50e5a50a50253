// What tests ask of a kernel of the CK Tile provider beside its table: whether loop tails are those
// of CK, and whether its checks and CK's agree.
#pragma once

#include <cstdint>
#include <cstdio>
#include <random>

#include "ck_tile_probe_table.hpp"
#include "providers/ck_tile/gemm.hpp"

namespace ckdisp::tile {

template <class Key>
struct ProbeOf {
  static int wrong_tails(int most) {
    using Pipe = typename MainLoop<Key>::Pipe;
    int wrong = 0;
    for (index_t loops = 1; loops <= most; ++loops) {
      bool hot = true;
      if constexpr (requires { Pipe::BlockHasHotloop(loops); }) hot = Pipe::BlockHasHotloop(loops);
      const auto choose = [](auto hot_loop, auto tail) {
        return Variant{hot_loop.value, tail.value, false};
      };
      const Variant wanted = Pipe::TailHandler(choose, hot, Pipe::GetBlockLoopTailNum(loops));
      const Variant found = Variants<Key>::for_loops(loops, false);
      wrong += !(wanted == found) || Variants<Key>::find(found) == Variants<Key>::count;
    }
    return wrong;
  }

  static void compare(unsigned seed, int count, Agreement* result) {
    std::mt19937 random(seed);
    const auto below = [&](unsigned limit) { return static_cast<std::int64_t>(random() % limit); };
    constexpr const GemmKey& key = Key::key;
    const auto size = [&](int tile) {
      const std::int64_t grain[] = {1, 2, 4, 8, 16, tile, tile};
      return (1 + below(12)) * grain[below(7)];
    };
    for (int i = 0; i < count; ++i) {
      GemmProblemData p = problem_of(key);
      p.m = size(key.tile[0]);
      p.n = size(key.tile[1]);
      p.k = size(key.tile[2]);
      p.k_batch = key.split_k ? 1 + static_cast<int>(below(3)) : 1;
      p.lda = a_is_row_major(key.layout) ? p.k : p.m;
      p.ldb = b_is_row_major(key.layout) ? p.n : p.k;
      p.ldc = p.n;
      for (int d = 0; d < key.num_d; ++d) p.ldd[d] = p.n;
      Refusal refusal{};
      const bool ours = Support<Key>::supports(p, &refusal);
      const bool theirs = CkCheck<Key>::accepts(Support<Key>::sizes_of(p));
      result->both += ours && theirs;
      result->neither += !ours && !theirs;
      result->unnamed += refusal.reason == Reason::provider;
      // CK's check asks neither for whole blocks of a shuffled B nor how loops over K end.
      constexpr bool overruns =
          key.pipeline == Pipeline::compv4 || key.pipeline == Pipeline::compv6;
      constexpr bool strict = key.family == Family::gemm_preshuffle || (overruns && !key.pad_k);
      result->too_strict += !strict && !ours && theirs &&
                            (refusal.reason == Reason::pad || refusal.reason == Reason::alignment);
    }
  }

  static constexpr Probe make(const ckdisp_kernel* kernel) {
    return {kernel, Kernel<Key>::block_size, &wrong_tails, &compare};
  }
};

}  // namespace ckdisp::tile
