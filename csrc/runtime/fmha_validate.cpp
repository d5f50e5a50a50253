// Refuses attention problems that can never work, before anything runs.
#include <ckdisp/errors.hpp>
#include <ckdisp/fmha_problem.hpp>
#include <ckdisp/names.hpp>

#include <initializer_list>
#include <string>

#include "fmha_family.hpp"
#include "fmha_sizes.hpp"

namespace ckdisp {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw InvalidArgument(text); }

std::string number(std::int64_t value) { return std::to_string(value); }

void check_least(const char* what, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  refuse(std::string(what) + " is " + number(value) + "; pass " + number(least) + " or more");
}

// The product of sizes, which must fit addresses.
void check_product(const char* what, std::initializer_list<std::int64_t> factors) {
  std::int64_t total = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(total, factor, &total)) {
      refuse(std::string("the bytes of ") + what + " overflow 63 bits; split the problem");
    }
  }
}

void check_family(const FmhaProblemData& p) {
  if (!detail::fmha_family(p.family).known) {
    refuse(std::string("the family of an attention is ") + to_name(p.family) +
           "; pass one of fmha.*");
  }
}

void check_enums(const FmhaProblemData& p) {
  const bool known = is_valid(p.dtype) && is_valid(p.mode) && is_valid(p.vlayout) &&
                     is_valid(p.mask) && is_valid(p.bias_kind) && is_valid(p.qscale) &&
                     is_valid(p.rope) && is_valid(p.kv_memory_layout) &&
                     is_valid(p.kv_lookup_table);
  if (!known) refuse("a dtype, mode, mask or other choice is outside of the known ones");
  if (p.mode == FmhaMode::any || p.mask == FmhaMask::any || p.bias_kind == FmhaBias::any ||
      p.rope == FmhaRope::any) {
    refuse("'any' is for the keys of kernels; a call says which mode, mask, bias and rope it has");
  }
  if (p.dtype == FmhaDtype::mxfp8 || p.dtype == FmhaDtype::mxfp4) {
    refuse(std::string(to_name(p.dtype)) +
           " needs a scale for each few numbers, which no kernel here computes; use fp8");
  }
  const bool wide =
      p.dtype == FmhaDtype::fp32 || p.dtype == FmhaDtype::fp16 || p.dtype == FmhaDtype::bf16;
  if (is_backward(p.family) && !wide) {
    refuse(std::string("there is no backward pass in ") + to_name(p.dtype) +
           "; convert to fp16, bf16 or fp32");
  }
  if (p.qscale != FmhaQscale::no && wide) {
    refuse(std::string("qscale is for 8-bit numbers, not ") + to_name(p.dtype) +
           "; multiply `scale` instead");
  }
}

struct Asked {
  unsigned feature;
  bool asked;
  const char* name;
};

// Features that the family lacks.
void check_features(const FmhaProblemData& p) {
  const Asked rows[] = {
      {detail::kFmhaGroup, p.mode == FmhaMode::group, "mode group (cu_seqlens)"},
      {detail::kFmhaMask, p.mask != FmhaMask::no, "mask"},
      {detail::kFmhaBias, p.bias_kind != FmhaBias::no, "bias"},
      {detail::kFmhaLse, p.lse_out, "LSE to store"},
      {detail::kFmhaDropout, p.dropout, "dropout"},
      {detail::kFmhaSoftCap, p.logits, "soft cap"},
      {detail::kFmhaSink, p.sink > 0, "sink keys"},
      {detail::kFmhaQscale, p.qscale != FmhaQscale::no, "qscale"},
      {detail::kFmhaSkip, p.skip_min_seqlen_q, "skip_min_seqlen_q"},
      {detail::kFmhaPages, p.paged_kv, "pages"},
      {detail::kFmhaKvForms,
       p.kv_memory_layout != FmhaKvLayout::none || p.kv_lookup_table != FmhaKvLookup::none,
       "form of pages"},
      {detail::kFmhaRope, p.rope != FmhaRope::none || p.seqlen_new != 0, "rows to append"},
      {detail::kFmhaColumnV, p.vlayout != Order::r, "V of dv x sk"},
      {detail::kFmhaDbias, p.dbias_out, "gradient of the bias"},
      {detail::kFmhaDeterministic, p.deterministic, "gradient to sum in a fixed order"}};
  const detail::FmhaFamily family = detail::fmha_family(p.family);
  for (const Asked& row : rows) {
    if (!row.asked || (family.takes & row.feature) != 0) continue;
    refuse(std::string(to_name(p.family)) + ", " + family.what + ", has no " + row.name +
           "; leave that out");
  }
}

void check_scores(const FmhaProblemData& p) {
  if (p.logits && p.bias_kind != FmhaBias::no) {
    refuse(std::string("a soft cap and a bias exclude each other: ") + to_name(p.bias_kind) +
           " would be added behind the cap; leave one of them away");
  }
  check_least("the number of sink keys", p.sink, 0);
  if (p.sink > 0 && p.mask == FmhaMask::no) {
    refuse("sink keys stay visible through a mask, and there is no mask; leave sink away");
  }
  if (p.skip_min_seqlen_q && p.mode != FmhaMode::group) {
    refuse(
        "min_seqlen_q leaves out short sequences, and in mode batch all have one length; set mode "
        "group (cu_seqlens)");
  }
  if (p.store_randval && !p.dropout) {
    refuse("random numbers are to be stored and there is no dropout that draws them");
  }
  if (p.dbias_out && p.bias_kind != FmhaBias::bias) {
    refuse("the gradient of the bias is asked for and there is no bias tensor");
  }
  if (p.mask != FmhaMask::generic) {
    if (p.window_left != 0 || p.window_right != 0 || p.window_bottom_right) {
      refuse(std::string("a window is given and the mask is ") + to_name(p.mask) +
             "; set it with window()");
    }
  } else if (p.window_left < -1 || p.window_right < -1) {
    refuse("the window (" + number(p.window_left) + ", " + number(p.window_right) +
           ") is inverted: it ends before the diagonal; pass the keys on each side, or -1 for all");
  }
}

void check_pages(const FmhaProblemData& p) {
  const bool must = p.family == Family::fmha_pagedkv || p.family == Family::fmha_batch_prefill;
  if (must && !p.paged_kv) {
    refuse(std::string(to_name(p.family)) + " reads pages, and none are given; use fmha.fwd");
  }
  if (!p.paged_kv) {
    if (p.qscale == FmhaQscale::kv_blockscale) {
      refuse(
          "qscale is kv_blockscale: each page has a scale, and there are no pages; use blockscale");
    }
    if (p.page_size != 0 || p.num_pages != 0 || p.pages_per_seq != 0) {
      refuse("there are sizes of pages, but no pages; set them with pages()");
    }
    return;
  }
  check_least("the page size", p.page_size, 1);
  check_least("the number of pages", p.num_pages, 0);
  check_least("the width of the page table", p.pages_per_seq, 0);
  const bool table = p.kv_lookup_table != FmhaKvLookup::sglang;
  if (table && p.seqlen_k > 0 && (p.seqlen_k - 1) / p.page_size >= p.pages_per_seq) {
    refuse("sequences of " + number(p.seqlen_k) + " keys need more than the " +
           number(p.pages_per_seq) + " pages of " + number(p.page_size) +
           " keys that a row of the page table has");
  }
  const bool forms =
      p.kv_memory_layout != FmhaKvLayout::none && p.kv_lookup_table != FmhaKvLookup::none;
  if (p.family == Family::fmha_batch_prefill && p.mode != FmhaMode::group) {
    refuse("a batch prefill is of sequences of many lengths; set mode group with group()");
  }
  if (p.family == Family::fmha_batch_prefill && !forms) {
    refuse(
        "a batch prefill says how pages lie (vectorized or linear) and how they are found "
        "(vllm or sglang); set both with kv_cache()");
  }
}

void check_cache(const FmhaProblemData& p) {
  check_least("the number of batches of the cache", p.cache_batches, 0);
  if (p.cache_batches > 0) detail::check_chooses_batches(p);
}

void check_append(const FmhaProblemData& p) {
  check_least("the number of appended rows", p.seqlen_new, 0);
  if (p.seqlen_new > p.seqlen_k) {
    refuse(number(p.seqlen_new) + " rows are appended to a cache that holds " + number(p.seqlen_k) +
           " keys of a sequence");
  }
  if (p.rope == FmhaRope::none) {
    if (p.rotary_dim != 0) refuse("rotary_dim is given and rope is none; leave it away");
    return;
  }
  if (p.rotary_dim < 2 || p.rotary_dim % 2 != 0 || p.rotary_dim > p.hdim_q) {
    refuse("rotary_dim is " + number(p.rotary_dim) +
           "; pass an even number from 2 to the head "
           "dimension, " +
           number(p.hdim_q));
  }
}

// Rows must not lie on top of each other in what is written, and no tensor may leave 63 bits.
void check_strides(const char* name, const detail::FmhaExtent& t, bool written) {
  const FmhaStrides& s = t.strides;
  if (s.batch < 0 || s.head < 0 || s.row < 0) {
    refuse(std::string(name) + " has a negative stride; pass one whose rows lie in order");
  }
  if (t.empty()) return;
  std::int64_t reach = t.size * 8, step = 0;
  const struct {
    std::int64_t stride, count;
  } dims[] = {{s.batch, t.outer}, {s.head, t.heads}, {s.row, t.rows}};
  for (const auto& dim : dims) {
    if (__builtin_mul_overflow(dim.stride, (dim.count - 1) * 8, &step) ||
        __builtin_add_overflow(reach, step, &reach)) {
      refuse(std::string("the strides of ") + name + " overflow 63 bits");
    }
    if (written && dim.count > 1 && dim.stride < t.size) {
      refuse(std::string(name) + " is written, and its rows of " + number(t.size) +
             " numbers are only " + number(dim.stride) + " apart; pass one without overlaps");
    }
  }
}

void check_tensors(const FmhaProblemData& p) {
  check_strides("q", detail::extent_of_q(p, p.q, p.hdim_q), false);
  check_strides("k", detail::extent_of_k(p, p.k, p.hdim_q), p.family == Family::fmha_appendkv);
  check_strides("v", detail::extent_of_v(p, p.v), p.family == Family::fmha_appendkv);
  if (p.family == Family::fmha_appendkv) {
    check_strides("k_new", {p.k_new, p.batch, p.nhead_k, p.seqlen_new, p.hdim_q}, false);
    check_strides("v_new", {p.v_new, p.batch, p.nhead_k, p.seqlen_new, p.hdim_v}, false);
    return;
  }
  const bool backward = is_backward(p.family);
  check_strides("o", detail::extent_of_q(p, p.o, p.hdim_v), !backward);
  if (p.bias_kind == FmhaBias::bias) {
    check_strides("bias", detail::extent_of_q(p, p.bias, p.seqlen_k), false);
  }
  if (p.store_randval)
    check_strides("randval", detail::extent_of_q(p, p.randval, p.seqlen_k), true);
  if (p.lse_out || backward) {
    check_strides("lse", detail::extent_of_q(p, p.lse, 1), !backward);
    if (p.lse.row != 1) refuse("the rows of lse lie " + number(p.lse.row) + " apart; pass 1");
  }
  if (!backward) return;
  check_strides("do", detail::extent_of_q(p, p.d_o, p.hdim_v), false);
  check_strides("dq", detail::extent_of_q(p, p.dq, p.hdim_q), true);
  check_strides("dk", detail::extent_of_k(p, p.dk, p.hdim_q), true);
  check_strides("dv", detail::extent_of_k(p, p.dv, p.hdim_v), true);
  if (p.dbias_out) check_strides("dbias", detail::extent_of_q(p, p.dbias, p.seqlen_k), true);
}

}  // namespace

namespace detail {

void check_chooses_batches(const FmhaProblemData& p) {
  if (p.mode == FmhaMode::group || p.paged_kv) {
    refuse(
        std::string("cache_batch_idx chooses among the batches of k and v, and there are none ") +
        (p.paged_kv ? "with pages" : "in mode group (cu_seqlens)") + "; leave it away");
  }
  if ((fmha_family(p.family).takes & kFmhaCache) == 0) {
    refuse(std::string("cache_batch_idx chooses among the batches of k and v, and ") +
           to_name(p.family) + " has those of q; leave it away");
  }
}

void check_sizes(const FmhaProblemData& p) {
  const struct {
    const char* what;
    std::int64_t value, least;
  } rows[] = {{"the batch", p.batch, 0},
              {"the number of heads of q", p.nhead_q, 1},
              {"the number of heads of k and v", p.nhead_k, 1},
              {"the head dimension of q and k", p.hdim_q, 1},
              {"the head dimension of v", p.hdim_v, 1},
              {"the length of sequences of q", p.seqlen_q, 0},
              {"the length of sequences of k", p.seqlen_k, 0}};
  for (const auto& row : rows) check_least(row.what, row.value, row.least);
  if (p.nhead_q % p.nhead_k != 0) {
    refuse("the " + number(p.nhead_q) + " heads of q are no multiple of the " + number(p.nhead_k) +
           " of k and v: each head of k serves as many of q");
  }
  if (p.mode == FmhaMode::group) {
    check_least("the number of rows of q", p.total_q, 0);
    check_least("the number of rows of k", p.total_k, 0);
  }
  check_product("q", {8, p.nhead_q, rows_of_q(p), outer_of(p), p.hdim_q});
  check_product("o", {8, p.nhead_q, rows_of_q(p), outer_of(p), p.hdim_v});
  check_product("k", {8, p.nhead_k, rows_of_k(p), outer_of_k(p), p.hdim_q});
  check_product("v", {8, p.nhead_k, rows_of_k(p), outer_of_k(p), p.hdim_v});
  check_product("the scores", {8, p.nhead_q, rows_of_q(p), outer_of(p), p.seqlen_k});
  if (p.paged_kv) {
    check_product("the pages", {8, p.nhead_k, p.num_pages, p.page_size, p.hdim_q});
    check_product("the pages", {8, p.nhead_k, p.num_pages, p.page_size, p.hdim_v});
  }
  check_product("new rows", {8, p.nhead_k, p.seqlen_new, p.batch, p.hdim_q});
  check_product("new rows", {8, p.nhead_k, p.seqlen_new, p.batch, p.hdim_v});
}

}  // namespace detail

void validate(const FmhaProblemData& p) {
  check_family(p);
  check_enums(p);
  detail::check_sizes(p);
  check_features(p);
  check_scores(p);
  check_pages(p);
  check_cache(p);
  check_append(p);
  if (p.num_splits < 0)
    refuse("the number of splits is " + number(p.num_splits) + "; pass 0 or more");
  if (p.mode == FmhaMode::group && p.paged_kv == false && p.total_k < p.seqlen_k) {
    refuse("the longest sequence of k has " + number(p.seqlen_k) + " rows, more than the " +
           number(p.total_k) + " of all");
  }
  if (p.mode == FmhaMode::group && p.total_q < p.seqlen_q) {
    refuse("the longest sequence of q has " + number(p.seqlen_q) + " rows, more than the " +
           number(p.total_q) + " of all");
  }
  check_tensors(p);
}

}  // namespace ckdisp
