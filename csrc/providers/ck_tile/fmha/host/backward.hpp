// Calls of the backward families.
#pragma once

#include "problem.hpp"

namespace ckdisp::tile {

// A kernel that goes through rows of Q.
template <class Key>
struct RowByRow : OneVariant {
  template <int>
  static auto grid(const FmhaProblemData& p, const FmhaArgs&) {
    using Ck = typename FmhaKernel<Key, 0>::Ck;
    return Ck::GridSize(narrow(p.batch), narrow(p.nhead_q), narrow(p.seqlen_q));
  }
};

template <class Key>
struct FmhaCall<Family::fmha_bwd_dot_do_o, Key> : RowByRow<Key> {
  static constexpr const FmhaKey& key = Key::key;
  using Ck = typename FmhaKernel<Key, 0>::Ck;

  template <int>
  static auto arguments(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides o(p.o), d_o(p.d_o), delta(p.lse);
    const float kept = 1 - a.dropout_p;
    if constexpr (key.mode == FmhaMode::group) {
      return Ck::MakeKargs(a.o, a.d_o, a.delta, kept, a.seqstart_q, /*seqlen_q_ptr=*/nullptr,
                           /*cu_seqlen_q_ptr=*/nullptr, narrow(p.hdim_v), d_o.row, o.row, d_o.head,
                           o.head, delta.head);
    } else {
      return Ck::MakeKargs(a.o, a.d_o, a.delta, kept, narrow(p.seqlen_q), narrow(p.hdim_v), d_o.row,
                           o.row, d_o.head, o.head, delta.head, d_o.batch, o.batch, delta.batch);
    }
  }
};

template <class Key>
struct FmhaCall<Family::fmha_bwd_dq_dk_dv, Key> : OneVariant {
  static constexpr const FmhaKey& key = Key::key;
  using Ck = typename FmhaKernel<Key, 0>::Ck;
  static constexpr bool accumulates = FmhaOf<Key>::accumulates;

  template <int>
  static auto grid(const FmhaProblemData& p, const FmhaArgs&) {
    return Ck::GridSize(narrow(p.batch), narrow(p.nhead_q), narrow(p.seqlen_k));
  }

  template <int>
  static auto arguments(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides q(p.q), k(p.k), v(p.v), random(p.randval), d_o(p.d_o), lse(p.lse), dk(p.dk),
        dv(p.dv), dbias(p.dbias);
    const CkRows rows(p);
    const CkStrides dq(
        accumulates ? FmhaStrides{rows.batch * p.hdim_q, rows.head * p.hdim_q, p.hdim_q} : p.dq);
    void* const dq_data = accumulates ? a.dq_acc : a.dq;
    const index_t split = narrow(rows.split * p.hdim_q);
    const CkBias bias(p, a);
    const CkWindow window = window_of(p);
    if constexpr (key.mode == FmhaMode::group) {
      return Ck::MakeKargsImpl(
          a.q, a.k, a.v, bias.data, a.lse, a.d_o, a.delta, a.randval, a.dk, a.dv, a.dbias, dq_data,
          a.seqstart_q, a.seqstart_k, /*seqlen_q_ptr=*/nullptr, a.seqlen_k,
          /*cu_seqlen_q_ptr=*/nullptr, /*cu_seqlen_k_ptr=*/nullptr, narrow(p.hdim_q),
          narrow(p.hdim_v), narrow(p.nhead_q), group_of(p), a.scale, q.row, k.row, v.row,
          bias.strides.row, random.row, d_o.row, dq.row, dk.row, dv.row, dbias.row, q.head, k.head,
          v.head, bias.strides.head, random.head, d_o.head, lse.head, dq.head, dk.head, dv.head,
          dbias.head, split, window.left, window.right, window.kind, a.dropout_p, seed_of(a));
    } else {
      return Ck::MakeKargsImpl(
          a.q, a.k, a.v, bias.data, a.lse, a.d_o, a.delta, a.randval, a.dk, a.dv, a.dbias, dq_data,
          narrow(p.seqlen_q), narrow(p.seqlen_k), narrow(p.hdim_q), narrow(p.hdim_v),
          narrow(p.nhead_q), group_of(p), a.scale, q.row, k.row, v.row, bias.strides.row,
          random.row, d_o.row, dq.row, dk.row, dv.row, dbias.row, q.head, k.head, v.head,
          bias.strides.head, random.head, d_o.head, lse.head, dq.head, dk.head, dv.head, dbias.head,
          q.batch, k.batch, v.batch, bias.strides.batch, random.batch, d_o.batch, lse.batch,
          dq.batch, dk.batch, dv.batch, dbias.batch, split, window.left, window.right, window.kind,
          a.dropout_p, seed_of(a));
    }
  }
};

template <class Key>
struct FmhaCall<Family::fmha_bwd_convert_dq, Key> : RowByRow<Key> {
  static constexpr const FmhaKey& key = Key::key;
  using Ck = typename FmhaKernel<Key, 0>::Ck;

  template <int>
  static auto arguments(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides dq(p.dq);
    const CkRows rows(p);
    const index_t row = narrow(p.hdim_q), head = narrow(rows.head * p.hdim_q),
                  split = narrow(rows.split * p.hdim_q);
    if constexpr (key.mode == FmhaMode::group) {
      return Ck::MakeKargs(a.dq_acc, a.dq, a.seqstart_q, a.seqstart_k, /*seqlen_q_ptr=*/nullptr,
                           a.seqlen_k, /*cu_seqlen_q_ptr=*/nullptr, /*cu_seqlen_k_ptr=*/nullptr,
                           narrow(p.hdim_q), dq.row, row, dq.head, head, split);
    } else {
      return Ck::MakeKargs(a.dq_acc, a.dq, narrow(p.seqlen_q), narrow(p.seqlen_k), narrow(p.hdim_q),
                           dq.row, row, dq.head, head, dq.batch, narrow(rows.batch * p.hdim_q),
                           split);
    }
  }
};

}  // namespace ckdisp::tile
