// Calls of fmha.splitkv and fmha.splitkv_combine.
#pragma once

#include "problem.hpp"

namespace ckdisp::tile {

template <class Key>
struct FmhaCall<Family::fmha_splitkv, Key> {
  static constexpr const FmhaKey& key = Key::key;
  using Kernels = FmhaOf<Key>;
  template <int I>
  using Ck = typename FmhaKernel<Key, I>::Ck;

  static int variant(const FmhaProblemData& p, const FmhaArgs& a) {
    const bool even = a.seqlen_k == nullptr && p.seqlen_k % (p.num_splits * key.tile[1]) == 0;
    const bool merged = Kernels::merges && p.seqlen_q == 1 && p.nhead_k < p.nhead_q;
    return Kernels::variant(!even, merged);
  }

  template <int I>
  static auto grid(const FmhaProblemData& p, const FmhaArgs&) {
    return Ck<I>::GridSize(narrow(p.batch), narrow(p.nhead_q), narrow(p.nhead_k),
                           narrow(p.seqlen_q), narrow(p.hdim_v), narrow(p.num_splits));
  }

  template <int I>
  static auto arguments(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides q(p.q), k(p.k), v(p.v);
    const CkBias bias(p, a);
    const CkWindow window = window_of(p);
    const CkRows rows(p);
    const index_t o_row = narrow(p.hdim_v), o_head = narrow(rows.head * p.hdim_v),
                  o_split = narrow(rows.split * p.hdim_v), lse_head = narrow(rows.head),
                  lse_split = narrow(rows.split);
    constexpr float scale_p = 1;
    if constexpr (key.mode == FmhaMode::group) {
      return Ck<I>::MakeKargs(
          a.q, a.k, a.v, bias.data, a.lse_acc, a.o_acc, narrow(p.batch), a.seqstart_q, a.seqstart_k,
          a.seqlen_k, narrow(p.hdim_q), narrow(p.hdim_v), narrow(p.nhead_q), group_of(p),
          narrow(p.num_splits), a.page_table, narrow(p.pages_per_seq), narrow(p.page_size),
          /*is_gappy=*/false, a.scale, scale_p, a.soft_cap, q.row, k.row, v.row, bias.strides.row,
          o_row, q.head, k.head, v.head, bias.strides.head, lse_head, o_head, k.batch, v.batch,
          lse_split, o_split, window.left, window.right, window.kind);
    } else {
      return Ck<I>::MakeKargs(a.q, a.k, a.v, bias.data, a.lse_acc, a.o_acc, narrow(p.batch),
                              narrow(p.seqlen_q), narrow(p.seqlen_k), a.seqlen_k, narrow(p.hdim_q),
                              narrow(p.hdim_v), narrow(p.nhead_q), group_of(p),
                              narrow(p.num_splits), a.page_table, narrow(p.pages_per_seq),
                              narrow(p.page_size), a.cache_batch_idx, a.scale, scale_p, a.soft_cap,
                              q.row, k.row, v.row, bias.strides.row, o_row, q.head, k.head, v.head,
                              bias.strides.head, lse_head, o_head, q.batch, k.batch, v.batch,
                              bias.strides.batch, narrow(rows.batch), narrow(rows.batch * p.hdim_v),
                              lse_split, o_split, window.left, window.right, window.kind);
    }
  }
};

template <class Key>
struct FmhaCall<Family::fmha_splitkv_combine, Key> {
  static constexpr const FmhaKey& key = Key::key;
  template <int I>
  using Ck = typename FmhaKernel<Key, I>::Ck;

  static int variant(const FmhaProblemData& p, const FmhaArgs&) {
    return FmhaOf<Key>::variant(p.num_splits);
  }

  template <int I>
  static auto grid(const FmhaProblemData& p, const FmhaArgs&) {
    return Ck<I>::GridSize(narrow(p.batch), narrow(p.nhead_q), narrow(p.seqlen_q),
                           narrow(p.hdim_v));
  }

  template <int I>
  static auto arguments(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides o(p.o), lse(p.lse);
    const CkRows rows(p);
    const index_t o_row = narrow(p.hdim_v), o_head = narrow(rows.head * p.hdim_v),
                  o_split = narrow(rows.split * p.hdim_v), lse_head = narrow(rows.head),
                  lse_split = narrow(rows.split);
    constexpr float scale_o = 1;
    if constexpr (key.mode == FmhaMode::group) {
      return Ck<I>::MakeKargs(a.lse_acc, a.o_acc, a.lse, a.o, narrow(p.batch), a.seqstart_q,
                              narrow(p.hdim_v), narrow(p.num_splits), scale_o, o_row, o.row,
                              lse_head, o_head, lse.head, o.head, lse_split, o_split);
    } else {
      return Ck<I>::MakeKargs(a.lse_acc, a.o_acc, a.lse, a.o, narrow(p.batch), narrow(p.seqlen_q),
                              narrow(p.hdim_v), narrow(p.num_splits), scale_o, o_row, o.row,
                              lse_head, o_head, lse.head, o.head, narrow(rows.batch),
                              narrow(rows.batch * p.hdim_v), lse.batch, o.batch, lse_split,
                              o_split);
    }
  }
};

}  // namespace ckdisp::tile
