// Calls of fmha.pagedkv, fmha.batch_prefill and fmha.appendkv.
#pragma once

#include "problem.hpp"

namespace ckdisp::tile {

template <class Key>
struct FmhaCall<Family::fmha_pagedkv, Key> : OneVariant {
  static constexpr const FmhaKey& key = Key::key;
  using Ck = typename FmhaKernel<Key, 0>::Ck;
  static constexpr bool is_group = key.mode == FmhaMode::group;

  template <int>
  static auto grid(const FmhaProblemData& p, const FmhaArgs& a) {
    return Ck::GridSize(narrow(p.batch), narrow(p.nhead_q), narrow(p.seqlen_q), narrow(p.hdim_v),
                        is_group && a.seqlen_k != nullptr);
  }

  template <int>
  static auto arguments(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides q(p.q), k(p.k), v(p.v), o(p.o), lse(p.lse);
    const CkBias bias(p, a);
    const CkWindow window = window_of(p);
    constexpr float scale_p = 1, scale_o = 1;
    if constexpr (is_group) {
      return Ck::MakeKargs(a.q, a.k, a.v, bias.data, a.lse, a.o, a.seqstart_q, a.seqstart_k,
                           a.seqlen_k, narrow(p.hdim_q), narrow(p.hdim_v), narrow(p.nhead_q),
                           group_of(p), a.page_table, narrow(p.pages_per_seq), narrow(p.page_size),
                           /*is_gappy=*/false, a.scale, scale_p, scale_o, a.soft_cap, q.row, k.row,
                           v.row, bias.strides.row, o.row, q.head, k.head, v.head,
                           bias.strides.head, lse.head, o.head, k.batch, v.batch, window.left,
                           window.right, window.kind, longest_skipped(a));
    } else {
      return Ck::MakeKargs(
          a.q, a.k, a.v, bias.data, a.lse, a.o, narrow(p.seqlen_q), narrow(p.seqlen_k), a.seqlen_k,
          narrow(p.hdim_q), narrow(p.hdim_v), narrow(p.nhead_q), group_of(p), a.page_table,
          narrow(p.pages_per_seq), narrow(p.page_size), a.cache_batch_idx, a.scale, scale_p,
          scale_o, a.soft_cap, q.row, k.row, v.row, bias.strides.row, o.row, q.head, k.head, v.head,
          bias.strides.head, lse.head, o.head, q.batch, k.batch, v.batch, bias.strides.batch,
          lse.batch, o.batch, window.left, window.right, window.kind);
    }
  }
};

template <class Key>
struct FmhaCall<Family::fmha_batch_prefill, Key> : OneVariant {
  static constexpr const FmhaKey& key = Key::key;
  using Ck = typename FmhaKernel<Key, 0>::Ck;

  template <int>
  static auto grid(const FmhaProblemData& p, const FmhaArgs&) {
    return Ck::GridSize(narrow(p.batch), narrow(p.nhead_q), narrow(p.seqlen_q), narrow(p.hdim_v));
  }

  template <int>
  static auto arguments(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides q(p.q), o(p.o), random(p.randval), lse(p.lse);
    // A page is one row, so the distance of rows is that of pages.
    const CkStrides k({0, p.k.head, p.k.batch}), v({0, p.v.head, p.v.batch});
    const CkBias bias(p, a);
    const CkWindow window = window_of(p);
    constexpr float scale_p = 1, scale_o = 1;
    const auto table = const_cast<std::int32_t*>(a.page_table);
    const auto starts = const_cast<std::int32_t*>(a.page_indptr);
    if constexpr (key.mode == FmhaMode::group) {
      return Ck::MakeKargs(a.q, a.k, a.v, bias.data, a.randval, a.lse, a.o, a.seqstart_q,
                           narrow(p.hdim_q), narrow(p.hdim_v), narrow(p.nhead_q), group_of(p),
                           narrow(p.num_pages), starts, table, a.scale, scale_p, scale_o,
                           a.soft_cap, q.row, k.row, v.row, bias.strides.row, random.row, o.row,
                           q.head, k.head, v.head, bias.strides.head, random.head, lse.head, o.head,
                           k.batch, v.batch, window.left, window.right, window.kind, a.dropout_p,
                           p.store_randval, seed_of(a));
    } else {
      return Ck::MakeKargs(
          a.q, a.k, a.v, bias.data, a.randval, a.lse, a.o, narrow(p.seqlen_q), narrow(p.hdim_q),
          narrow(p.hdim_v), narrow(p.nhead_q), group_of(p), narrow(p.num_pages), starts, table,
          a.scale, scale_p, scale_o, a.soft_cap, q.row, k.row, v.row, bias.strides.row, random.row,
          o.row, q.head, k.head, v.head, bias.strides.head, random.head, lse.head, o.head, q.batch,
          k.batch, v.batch, bias.strides.batch, random.batch, lse.batch, o.batch, window.left,
          window.right, window.kind, a.dropout_p, p.store_randval, seed_of(a));
    }
  }
};

// K and V are the cache, which the kernel writes, as it does Q if that is rotated.
template <class Key>
struct FmhaCall<Family::fmha_appendkv, Key> : OneVariant {
  static constexpr const FmhaKey& key = Key::key;
  using Ck = typename FmhaKernel<Key, 0>::Ck;

  static index_t queries(const FmhaProblemData& p, const FmhaArgs& a) {
    return a.q != nullptr ? narrow(p.seqlen_q) : 0;
  }

  template <int>
  static auto grid(const FmhaProblemData& p, const FmhaArgs& a) {
    return Ck::GridSize(narrow(p.batch), narrow(p.nhead_q), queries(p, a), narrow(p.seqlen_new));
  }

  template <int>
  static auto arguments(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides q(p.q), k(p.k), v(p.v), k_new(p.k_new), v_new(p.v_new);
    const auto written = [](const void* data) { return const_cast<void*>(data); };
    return Ck::MakeKargs(written(a.q), written(a.k), a.k_new, written(a.v), a.v_new, queries(p, a),
                         a.seqlen_k, narrow(p.seqlen_new), narrow(p.hdim_q), narrow(p.hdim_v),
                         narrow(p.nhead_q), group_of(p), a.rotary_cos, a.rotary_sin,
                         narrow(p.rotary_dim), p.mask != FmhaMask::no, a.page_table,
                         narrow(p.pages_per_seq), narrow(p.page_size), a.cache_batch_idx, q.row,
                         k.row, k_new.row, v.row, v_new.row, q.head, k.head, k_new.head, v.head,
                         v_new.head, q.batch, k.batch, k_new.batch, v.batch, v_new.batch);
  }
};

}  // namespace ckdisp::tile
