// fmha_appendkv: new rows of K and V go behind those that a cache holds, rotated first if the
// problem says so; with them, in place, the rows of Q.
#pragma once

#include "rows.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct Append {
  using T = FmhaTraits<Kernel>;
  using S = typename T::S;
  static constexpr int size = T::size_in;

  static std::uint64_t workspace_size(const FmhaProblemData&, int) { return 0; }

  static void run(const FmhaProblemData& p, const FmhaArgs& args, void*, int threads) {
    const Index rows = p.batch * p.nhead_k * p.seqlen_new;
    std::int64_t counter = 0;
    const Index parts = least(rows, Index{threads} * parts_per_thread);
    parallel(threads, [&](int, int team) {
      Tickets tickets(&counter, parts, team);
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        for (Index i = part_start(rows, parts, part); i < part_start(rows, parts, part + 1); ++i) {
          append(p, args, i / p.seqlen_new / p.nhead_k, i / p.seqlen_new % p.nhead_k,
                 i % p.seqlen_new);
        }
      }
    });
    if (p.rope == FmhaRope::none || args.q == nullptr || p.seqlen_q == 0) return;
    each_row(p, args, threads, [&](const Sequence& s, Index b, Index head, Index row) {
      // Without a mask all queries stand at the place of the first new key.
      const Index place = args.seqlen_k[b] + (p.mask == FmhaMask::no ? 0 : row);
      char* const q = const_cast<char*>(row_of(args.q, p.q, b, head, s.q_start + row, size));
      rotate(p, args, q, q, place);
    });
  }

 private:
  static CKDISP_CPU_NOINLINE void append(const FmhaProblemData& p, const FmhaArgs& args, Index b,
                                         Index head, Index row) noexcept {
    const Index place = args.seqlen_k[b] + row;
    Index outer = args.cache_batch_idx != nullptr ? args.cache_batch_idx[b] : b;
    Index inner = place;
    if (p.page_size > 0) {
      outer = args.page_table[b * p.pages_per_seq + place / p.page_size];
      inner = place % p.page_size;
    }
    char* const k = const_cast<char*>(row_of(args.k, p.k, outer, head, inner, size));
    rotate(p, args, row_of(args.k_new, p.k_new, b, head, row, size), k, place);
    const char* const from = row_of(args.v_new, p.v_new, b, head, row, size);
    if (p.vlayout == Order::r) {
      char* const v = const_cast<char*>(row_of(args.v, p.v, outer, head, inner, size));
      __builtin_memcpy(v, from, static_cast<std::size_t>(p.hdim_v * size));
      return;
    }
    for (Index x = 0; x < p.hdim_v; ++x) {
      char* const v = const_cast<char*>(row_of(args.v, p.v, outer, head, x, size)) + inner * size;
      __builtin_memcpy(v, from + x * size, size);
    }
  }

  static CKDISP_CPU_INLINE float get(const void* p, Index i) {
    return load_as_float<T::in, S>(at(p, i * size), 1)[0];
  }
  static CKDISP_CPU_INLINE void put(char* p, Index i, float x) {
    store_partial<size>(p + i * size, from_float<T::in, S>(splat<typename S::F>(x)), 1);
  }

  // A row as it is, but for the pairs of its first rotary_dim numbers: neighbours, or one of each
  // half. `from` and `to` may be the same.
  static CKDISP_CPU_NOINLINE void rotate(const FmhaProblemData& p, const FmhaArgs& args,
                                         const char* from, char* to, Index place) noexcept {
    const Index pairs = p.rope == FmhaRope::none ? 0 : p.rotary_dim / 2;
    for (Index i = 0; i < pairs; ++i) {
      const Index first = p.rope == FmhaRope::interleaved ? 2 * i : i;
      const Index second = p.rope == FmhaRope::interleaved ? 2 * i + 1 : i + pairs;
      const float cos = get(args.rotary_cos, place * pairs + i);
      const float sin = get(args.rotary_sin, place * pairs + i);
      const float x = get(from, first), y = get(from, second);
      put(to, first, x * cos - y * sin);
      put(to, second, x * sin + y * cos);
    }
    __builtin_memmove(to + 2 * pairs * size, from + 2 * pairs * size,
                      static_cast<std::size_t>((p.hdim_q - 2 * pairs) * size));
  }
};

}  // namespace
}  // namespace ckdisp::cpu
