// What one attention call computes and reads: the part of the binary interface that is FMHA's.
//
//   S = scale * Q K^T + bias,  P = softmax(mask(S)),  O = dropout(P) V
//
// Q has batch x nhead_q sequences of seqlen_q rows of hdim_q numbers; K and V have nhead_k heads,
// which divide nhead_q: head h of Q attends to head h / (nhead_q / nhead_k). C++17.
#pragma once

#include <cstdint>

#include <ckdisp/generated/enums.hpp>

namespace ckdisp {

// Functions have internal linkage, since units of different archs and CPU levels are linked into
// one program.

// The element type of Q, K and V.
static constexpr Dtype input_type(FmhaDtype dtype) {
  switch (dtype) {
    case FmhaDtype::fp32:
      return Dtype::fp32;
    case FmhaDtype::fp16:
      return Dtype::fp16;
    case FmhaDtype::bf16:
      return Dtype::bf16;
    case FmhaDtype::bf8:
      return Dtype::bf8;
    default:
      return Dtype::fp8;
  }
}

// The element type of O.
static constexpr Dtype output_type(FmhaDtype dtype) {
  switch (dtype) {
    case FmhaDtype::fp8fp16:
      return Dtype::fp16;
    case FmhaDtype::fp8bf16:
      return Dtype::bf16;
    case FmhaDtype::fp8fp32:
      return Dtype::fp32;
    default:
      return input_type(dtype);
  }
}

// Whether kernels of a family are stages of the backward pass.
static constexpr bool is_backward(Family family) {
  return family == Family::fmha_bwd_dot_do_o || family == Family::fmha_bwd_dq_dk_dv ||
         family == Family::fmha_bwd_convert_dq;
}

// Where the rows of a tensor lie, in elements. The numbers of a row lie one behind the other. In
// mode group, whose sequences lie one behind the other, `batch` is 0. A stride of 0 uses one row,
// head or batch for all: of a bias, say.
struct FmhaStrides {
  std::int64_t batch, head, row;
};

// What one call computes. No pointers. In a plan of several stages each kernel sees the problem
// with its own family: a split-KV problem becomes fmha_splitkv, then fmha_splitkv_combine; a
// backward problem fmha_bwd_dot_do_o, fmha_bwd_dq_dk_dv and, if dq is summed in fp32 in the
// workspace, fmha_bwd_convert_dq.
struct FmhaProblemData {
  std::int64_t batch;
  std::int64_t nhead_q, nhead_k;
  std::int64_t hdim_q, hdim_v;
  std::int64_t seqlen_q, seqlen_k;  // in mode group the longest sequence
  std::int64_t total_q, total_k;    // rows of all sequences; in mode batch `batch` times a sequence
  std::int64_t window_left, window_right;  // FmhaMask::generic: keys beside the diagonal; -1 all
  std::int64_t sink;                       // first keys that every query sees in spite of a mask
  std::int64_t page_size;                  // rows of a page; 0 without pages
  std::int64_t num_pages;                  // pages in all
  std::int64_t pages_per_seq;              // width of the page table; sglang: length of the list
  std::int64_t cache_batches;              // of K and V, for cache_batch_idx; 0: those of Q
  std::int64_t seqlen_new;                 // fmha_appendkv: rows appended to each sequence
  std::int64_t rotary_dim;                 // fmha_appendkv: numbers of a row that are rotated
  // fmha_splitkv: parts of the keys; 0 lets the plan choose. In the stages of a plan it is never 0:
  // then the parts of lse_acc and o_acc, or of dq_acc.
  std::int64_t num_splits;

  FmhaStrides q, k, v, o;       // in pages k and v have the strides of (page, head, row)
  FmhaStrides bias, dbias;      // per batch and head a matrix of seqlen_q x seqlen_k
  FmhaStrides randval;          // the same; bytes
  FmhaStrides lse;              // row is 1; also of delta
  FmhaStrides d_o, dq, dk, dv;  // gradients
  FmhaStrides k_new, v_new;     // fmha_appendkv
  std::int64_t alibi_batch;     // distance between the slopes of two batches; 0 has one for all

  Family family;
  FmhaDtype dtype;
  FmhaMode mode;             // batch or group
  Order vlayout;             // c: V is dv x sk, and v.row the distance between two of the dv rows
  FmhaMask mask;             // no, top_left, bottom_right or generic
  bool window_bottom_right;  // FmhaMask::generic: the diagonal ends at the last key
  FmhaBias bias_kind;        // no, bias or alibi
  FmhaQscale qscale;
  FmhaRope rope;
  FmhaKvLayout kv_memory_layout;
  FmhaKvLookup kv_lookup_table;
  bool lse_out;  // O's softmax sums are stored
  bool dropout, store_randval;
  bool logits;             // soft cap
  bool skip_min_seqlen_q;  // mode group: leaves out sequences of few rows of Q
  bool paged_kv;
  bool dbias_out;
  bool deterministic;
  std::uint8_t reserved[5];  // zero: problems are hashed and compared bytewise
};

// The data of one call; what the problem does not need is null. Element types follow the dtype:
// bias that of Q (fp32 with fp8), lse, delta, slopes and scales fp32, randval bytes, indices int32.
struct FmhaArgs {
  const void* q = nullptr;
  const void* k = nullptr;  // or the pages
  const void* v = nullptr;
  void* o = nullptr;  // backward reads it
  const void* bias = nullptr;
  float* lse = nullptr;  // batch x nhead_q x seqlen_q; backward reads it
  void* randval = nullptr;
  const float* alibi_slopes = nullptr;

  // Mode group: batch + 1 first rows. Batch: null, or with pages the length of each sequence of K.
  const std::int32_t* seqstart_q = nullptr;
  const std::int32_t* seqstart_k = nullptr;
  const std::int32_t* seqlen_k = nullptr;     // rows in use of each sequence, in place of seqlen_k
  const std::int32_t* page_table = nullptr;   // batch x pages_per_seq, or one list of pages
  const std::int32_t* page_indptr = nullptr;  // sglang: batch + 1 first places in that list
  const std::int32_t* last_page_len = nullptr;    // sglang: rows in use of each last page
  const std::int32_t* cache_batch_idx = nullptr;  // which batch of K and V a batch of Q uses

  const float* q_scale = nullptr;  // one number, or one for each block (blockscale)
  const float* k_scale = nullptr;
  const float* v_scale = nullptr;

  const void* k_new = nullptr;  // fmha_appendkv
  const void* v_new = nullptr;
  const void* rotary_cos = nullptr;  // seqlen x rotary_dim / 2
  const void* rotary_sin = nullptr;

  const void* d_o = nullptr;  // backward
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
  void* dbias = nullptr;

  // What stages hand on, in the workspace of the plan, which sets them: room for
  // num_splits x batch x nhead_q x seqlen_q rows, which in mode batch lie in this order.
  float* lse_acc = nullptr;  // one number a row
  float* o_acc = nullptr;    // hdim_v numbers a row
  float* delta = nullptr;    // the row sums of dO * O; with the strides of lse, without splits
  float* dq_acc = nullptr;   // hdim_q numbers a row; null when the kernel writes dq itself

  float scale = 0;  // of the scores; the caller's default is 1 / sqrt(hdim_q)
  float soft_cap = 0;
  float dropout_p = 0;
  std::uint64_t seed = 0, offset = 0;  // of Philox
  // skip_min_seqlen_q: sequences of so many rows of Q or less are left out: neither their O nor
  // their LSE is written.
  std::int64_t min_seqlen_q = 0;
};

}  // namespace ckdisp
