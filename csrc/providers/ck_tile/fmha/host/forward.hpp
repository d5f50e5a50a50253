// Calls of fmha.fwd.
#pragma once

#include "problem.hpp"

namespace ckdisp::tile {

template <class Key>
struct FmhaCall<Family::fmha_fwd, Key> : OneVariant {
  static constexpr const FmhaKey& key = Key::key;
  using Ck = typename FmhaKernel<Key, 0>::Ck;
  static constexpr bool is_group = key.mode == FmhaMode::group;

  template <int>
  static auto grid(const FmhaProblemData& p, const FmhaArgs& a) {
    const index_t batch = narrow(p.batch), heads = narrow(p.nhead_q), rows = narrow(p.seqlen_q),
                  hdim = narrow(p.hdim_v);
    if constexpr (key.pipeline == FmhaPipeline::v3) {
      return Ck::GridSize(batch, heads, rows, hdim);
    } else {
      return Ck::GridSize(batch, heads, rows, hdim, is_group && a.seqlen_k != nullptr);
    }
  }

  template <int>
  static auto arguments(const FmhaProblemData& p, const FmhaArgs& a) {
    if constexpr (key.pipeline == FmhaPipeline::v3) {
      return v3(p, a);
    } else {
      return usual(p, a);
    }
  }

 private:
  static auto usual(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides q(p.q), k(p.k), v(p.v), o(p.o), random(p.randval), lse(p.lse);
    const CkBias bias(p, a);
    const CkWindow window = window_of(p);
    // Static scales of P and O; a key with scales is refused before.
    constexpr float scale_p = 1, scale_o = 1;
    if constexpr (is_group) {
      return Ck::MakeKargsImpl(
          a.q, a.k, a.v, bias.data, a.randval, a.lse, a.o, a.seqstart_q, a.seqstart_k,
          /*seqlen_q_ptr=*/nullptr, a.seqlen_k, narrow(p.hdim_q), narrow(p.hdim_v),
          narrow(p.nhead_q), group_of(p), a.scale, scale_p, scale_o, a.soft_cap, q.row, k.row,
          v.row, bias.strides.row, random.row, o.row, q.head, k.head, v.head, bias.strides.head,
          random.head, lse.head, o.head, window.left, window.right, window.kind, longest_skipped(a),
          a.dropout_p, p.store_randval, seed_of(a));
    } else {
      return Ck::MakeKargsImpl(
          a.q, a.k, a.v, bias.data, a.randval, a.lse, a.o, narrow(p.seqlen_q), narrow(p.seqlen_k),
          narrow(p.hdim_q), narrow(p.hdim_v), narrow(p.nhead_q), group_of(p), a.scale, scale_p,
          scale_o, a.soft_cap, q.row, k.row, v.row, bias.strides.row, random.row, o.row, q.head,
          k.head, v.head, bias.strides.head, random.head, lse.head, o.head, q.batch, k.batch,
          v.batch, bias.strides.batch, random.batch, lse.batch, o.batch, window.left, window.right,
          window.kind, a.dropout_p, p.store_randval, seed_of(a));
    }
  }

  static auto v3(const FmhaProblemData& p, const FmhaArgs& a) {
    const CkStrides q(p.q), k(p.k), v(p.v), o(p.o), lse(p.lse);
    const CkWindow window = window_of(p);
    if constexpr (is_group) {
      return Ck::MakeKargs(a.q, a.k, a.v, a.lse, a.o, a.seqstart_q, a.seqstart_k, a.seqlen_k,
                           narrow(p.hdim_q), narrow(p.hdim_v), narrow(p.nhead_q), group_of(p),
                           a.scale, q.row, k.row, v.row, o.row, q.head, k.head, v.head, lse.head,
                           o.head, window.left, window.right, window.kind, order_of_tiles(p));
    } else {
      return Ck::MakeKargs(a.q, a.k, a.v, a.lse, a.o, narrow(p.seqlen_q), narrow(p.seqlen_k),
                           narrow(p.hdim_q), narrow(p.hdim_v), narrow(p.nhead_q), group_of(p),
                           a.scale, q.row, k.row, v.row, o.row, q.head, k.head, v.head, lse.head,
                           o.head, q.batch, k.batch, v.batch, lse.batch, o.batch, window.left,
                           window.right, window.kind, order_of_tiles(p));
    }
  }

  // How a masked kernel spreads its tiles over the dies of a GPU, as CK's own launcher does: plain
  // for the longest sequences, by heads where these are multiples of 8.
  static constexpr index_t order_of_tiles(const FmhaProblemData& p) {
    if (p.mask == FmhaMask::no || (p.nhead_q % 8 == 0 && p.seqlen_q <= 16384)) return 2;
    return p.seqlen_q >= 65536 ? 0 : 1;
  }
};

}  // namespace ckdisp::tile
