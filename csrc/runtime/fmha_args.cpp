// Refuses the arguments of an attention call that must not run.
#include <ckdisp/errors.hpp>
#include <ckdisp/fmha_problem.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "fmha_family.hpp"
#include "fmha_sizes.hpp"

namespace ckdisp {
namespace {

using detail::FmhaExtent;

[[noreturn]] void refuse(const std::string& text) { throw InvalidArgument(text); }

std::string number(std::int64_t value) { return std::to_string(value); }

// One tensor in memory.
struct Region {
  const char* name;
  FmhaExtent extent;
  int size;  // of an element
  bool written;
  std::uintptr_t begin, end;
};

// The step that all rows of a tensor are multiples of, and how much of a step it fills: of a tensor
// (batch, row, head, number) the distance of rows. {0, 0} where there is no such step.
struct Period {
  std::int64_t step, width;
};
Period period_of(const Region& r) {
  const FmhaStrides& s = r.extent.strides;
  const std::int64_t width = (r.extent.heads - 1) * s.head + r.extent.size;
  const bool regular = s.row > 0 && width <= s.row && s.batch % s.row == 0;
  return regular ? Period{s.row * r.size, width * r.size} : Period{0, 0};
}

// Whether some byte may belong to both. Q, K and V are often interleaved in one tensor, row by row.
bool overlap(const Region& a, const Region& b) {
  if (a.end <= b.begin || b.end <= a.begin) return false;
  const Period p = period_of(a), q = period_of(b);
  if (p.step == 0 || p.step != q.step) return true;
  const auto ahead = static_cast<std::int64_t>(b.begin - a.begin);
  const std::int64_t place = (ahead % p.step + p.step) % p.step;  // of b within a step of a
  return place < p.width || place + q.width > p.step;
}

class Regions {
 public:
  Regions(const FmhaProblemData& p, const FmhaArgs& args) : p_(p), args_(args) {
    in_ = size_of(input_type(p.dtype));
    out_ = size_of(output_type(p.dtype));
    bias_ = in_ == 1 ? 4 : in_;
    if (p.family == Family::fmha_appendkv) {
      append();
    } else {
      attend();
    }
  }

  void check() const {
    for (int i = 0; i < count_; ++i) {
      const Region& a = all_[i];
      for (int j = 0; j < i; ++j) {
        const Region& b = all_[j];
        if ((!a.written && !b.written) || !overlap(a, b)) continue;
        const Region& result = a.written ? a : b;
        const Region& other = a.written ? b : a;
        refuse(std::string(result.name) + " shares memory with " + other.name +
               ": it would be written while the other is in use; pass another output");
      }
    }
  }

 private:
  void add(const char* name, const void* data, const FmhaExtent& extent, int size, bool written) {
    if (extent.empty()) return;
    if (data == nullptr) refuse(std::string(name) + " is null but not empty");
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    all_[count_++] = {name,  extent,
                      size,  written,
                      begin, begin + static_cast<std::uintptr_t>(extent.elements() * size)};
  }
  void add_q(const char* name, const void* data, const FmhaStrides& strides, std::int64_t row,
             int size, bool written) {
    add(name, data, detail::extent_of_q(p_, strides, row), size, written);
  }

  void append() {
    add("k", args_.k, detail::extent_of_k(p_, p_.k, p_.hdim_q), in_, true);
    add("v", args_.v, detail::extent_of_v(p_, p_.v), in_, true);
    add("k_new", args_.k_new, {p_.k_new, p_.batch, p_.nhead_k, p_.seqlen_new, p_.hdim_q}, in_,
        false);
    add("v_new", args_.v_new, {p_.v_new, p_.batch, p_.nhead_k, p_.seqlen_new, p_.hdim_v}, in_,
        false);
    if (args_.q != nullptr) add_q("q", args_.q, p_.q, p_.hdim_q, in_, p_.rope != FmhaRope::none);
  }

  void attend() {
    const bool backward = is_backward(p_.family);
    add_q("q", args_.q, p_.q, p_.hdim_q, in_, false);
    add("k", args_.k, detail::extent_of_k(p_, p_.k, p_.hdim_q), in_, false);
    add("v", args_.v, detail::extent_of_v(p_, p_.v), in_, false);
    if (p_.bias_kind == FmhaBias::bias) {
      add_q("bias", args_.bias, p_.bias, p_.seqlen_k, bias_, false);
    }
    add_q("o", args_.o, p_.o, p_.hdim_v, out_, !backward);
    if (p_.store_randval) add_q("randval", args_.randval, p_.randval, p_.seqlen_k, 1, !backward);
    if (backward) {
      gradients();
    } else if (p_.lse_out) {
      add_q("lse", args_.lse, p_.lse, 1, 4, true);
    }
  }

  void gradients() {
    if (args_.lse == nullptr && !detail::extent_of_q(p_, p_.lse, 1).empty()) {
      refuse(
          "lse is missing: the backward pass reads the LSE that the forward pass stored; ask it "
          "for one (lse(), in Python return_lse=True)");
    }
    add_q("lse", args_.lse, p_.lse, 1, 4, false);
    add_q("do", args_.d_o, p_.d_o, p_.hdim_v, out_, false);
    add_q("dq", args_.dq, p_.dq, p_.hdim_q, in_, true);
    add("dk", args_.dk, detail::extent_of_k(p_, p_.dk, p_.hdim_q), in_, true);
    add("dv", args_.dv, detail::extent_of_k(p_, p_.dv, p_.hdim_v), in_, true);
    if (p_.dbias_out) add_q("dbias", args_.dbias, p_.dbias, p_.seqlen_k, bias_, true);
  }

  const FmhaProblemData& p_;
  const FmhaArgs& args_;
  int in_, out_, bias_;
  Region all_[12];  // the backward pass has the most; a call allocates nothing
  int count_ = 0;
};

void check_numbers(const FmhaProblemData& p, const FmhaArgs& args) {
  if (p.family == Family::fmha_appendkv) return;
  if (!std::isfinite(args.scale)) {
    refuse("scale is " + std::to_string(args.scale) + "; pass a finite number");
  }
  if (p.logits && !(std::isfinite(args.soft_cap) && args.soft_cap > 0)) {
    refuse("the soft cap is " + std::to_string(args.soft_cap) + "; pass a finite number above 0");
  }
  if (p.dropout && !(args.dropout_p >= 0 && args.dropout_p < 1)) {
    refuse("dropout_p is " + std::to_string(args.dropout_p) +
           "; pass a probability from 0 up to, but not, 1");
  }
  if (p.skip_min_seqlen_q && args.min_seqlen_q < 0) {
    refuse("min_seqlen_q is " + number(args.min_seqlen_q) +
           "; pass the rows of q up to which a sequence is left out");
  }
}

void need(const void* data, const char* name, const char* why) {
  if (data == nullptr) refuse(std::string(name) + " is null, and " + why);
}

void check_small_tensors(const FmhaProblemData& p, const FmhaArgs& args) {
  if (p.batch == 0) return;
  if (p.bias_kind == FmhaBias::alibi) {
    need(args.alibi_slopes, "alibi_slopes", "the bias is alibi; pass a slope for each head");
  }
  if (p.mode == FmhaMode::group) {
    need(args.seqstart_q, "seqstart_q", "mode group needs the first row of each sequence");
    if (!p.paged_kv) {
      need(args.seqstart_k, "seqstart_k", "mode group needs the first row of each sequence");
    }
  }
  if (p.qscale != FmhaQscale::no) {
    need(args.q_scale, "q_scale", "the numbers are scaled");
    need(args.k_scale, "k_scale", "the numbers are scaled");
    need(args.v_scale, "v_scale", "the numbers are scaled");
  }
  if (p.rope != FmhaRope::none) {
    need(args.rotary_cos, "rotary_cos", "appended keys are rotated");
    need(args.rotary_sin, "rotary_sin", "appended keys are rotated");
  }
  if (args.cache_batch_idx != nullptr) detail::check_chooses_batches(p);
  if (p.cache_batches > 0) {
    need(args.cache_batch_idx, "cache_batch_idx", "the cache has batches of its own");
  }
  if (p.family == Family::fmha_appendkv && args.seqlen_k == nullptr) {
    refuse("the lengths of k are missing: rows are appended behind what a cache holds");
  }
  if (!p.paged_kv) return;
  need(args.page_table, "page_table", "K and V lie in pages");
  if (p.kv_lookup_table == FmhaKvLookup::sglang) {
    need(args.page_indptr, "page_indptr", "sglang finds pages by ranges of one list");
    need(args.last_page_len, "last_page_len", "sglang says how full each last page is");
  } else if (args.seqlen_k == nullptr && args.seqstart_k == nullptr) {
    refuse("the lengths of k are missing, and sequences in pages need them");
  }
}

// First rows of sequences: from 0, never down, up to at most `total`, none longer than `longest`.
void check_starts(const char* name, const std::int32_t* starts, std::int64_t batch,
                  std::int64_t total, std::int64_t longest) {
  if (starts[0] != 0) {
    refuse(std::string(name) + " begin with " + number(starts[0]) + "; they must begin with 0");
  }
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::int64_t length = std::int64_t{starts[i + 1]} - starts[i];
    const auto where = [&] {
      return std::string(name) + " hold " + number(starts[i + 1]) + " at [" + number(i + 1) + "]";
    };
    if (length < 0) {
      refuse(where() + " and " + number(starts[i]) + " before it" +
             ": first rows must not go down");
    }
    if (starts[i + 1] > total) {
      refuse(where() + ", past the end of the " + number(total) + " rows there are");
    }
    if (length > longest) {
      refuse(where() + ": sequence " + number(i) + " has " + number(length) +
             " rows, and the longest is said to have " + number(longest));
    }
  }
}

class Indices {
 public:
  Indices(const FmhaProblemData& p, const FmhaArgs& args) : p_(p), args_(args) {}

  void check() const {
    if (p_.batch == 0) return;
    if (p_.mode == FmhaMode::group) {
      check_starts("the first rows of q", args_.seqstart_q, p_.batch, p_.total_q, p_.seqlen_q);
      if (args_.seqstart_k != nullptr) {
        check_starts("the first rows of k", args_.seqstart_k, p_.batch, p_.total_k, p_.seqlen_k);
      }
    }
    lengths();
    if (p_.paged_kv) pages();
    if (args_.cache_batch_idx != nullptr) cache_batches();
  }

 private:
  void lengths() const {
    if (args_.seqlen_k == nullptr) return;
    const bool behind = p_.mode == FmhaMode::group && !p_.paged_kv;  // one behind the other
    for (std::int64_t b = 0; b < p_.batch; ++b) {
      const std::int64_t used = args_.seqlen_k[b];
      const std::int64_t room =
          behind ? std::int64_t{args_.seqstart_k[b + 1]} - args_.seqstart_k[b] : p_.seqlen_k;
      const auto where = [&] {
        return "the lengths of k hold " + number(used) + " at [" + number(b) + "]";
      };
      if (used < 0) refuse(where() + "; pass 0 or more");
      if (used + p_.seqlen_new > room) {
        refuse(where() +
               (p_.seqlen_new > 0 ? ", with " + number(p_.seqlen_new) + " new rows" : "") +
               ", more than the " + number(room) + " rows there is room for");
      }
      if (used + rotated_places() > p_.seqlen_k) {
        refuse(where() + ", and q takes " + number(rotated_places()) +
               " of the places behind them, past the " + number(p_.seqlen_k) +
               " that have a rotation");
      }
    }
  }

  // Places behind the keys in use at which rows of q are rotated: without a mask all at one.
  std::int64_t rotated_places() const {
    if (p_.rope == FmhaRope::none || args_.q == nullptr) return 0;
    return p_.mask == FmhaMask::no ? std::min<std::int64_t>(1, p_.seqlen_q) : p_.seqlen_q;
  }

  // Keys of a sequence, those that are appended included.
  std::int64_t length(std::int64_t b) const {
    if (args_.seqlen_k != nullptr) return args_.seqlen_k[b] + p_.seqlen_new;
    if (args_.seqstart_k != nullptr) {
      return std::int64_t{args_.seqstart_k[b + 1]} - args_.seqstart_k[b];
    }
    return p_.seqlen_k;
  }

  void page(std::int64_t place) const {
    const std::int64_t index = args_.page_table[place];
    if (index >= 0 && index < p_.num_pages) return;
    const bool list = p_.kv_lookup_table == FmhaKvLookup::sglang;
    const std::string where =
        list ? number(place)
             : number(place / p_.pages_per_seq) + ", " + number(place % p_.pages_per_seq);
    refuse("page_table[" + where + "] is page " + number(index) + ", and there are " +
           number(p_.num_pages) + " pages");
  }

  void pages() const {
    if (p_.kv_lookup_table == FmhaKvLookup::sglang) return listed_pages();
    for (std::int64_t b = 0; b < p_.batch; ++b) {
      const std::int64_t count = (length(b) + p_.page_size - 1) / p_.page_size;
      for (std::int64_t i = 0; i < count; ++i) page(b * p_.pages_per_seq + i);
    }
  }

  void listed_pages() const {
    check_starts("the first places of pages", args_.page_indptr, p_.batch, p_.pages_per_seq,
                 p_.pages_per_seq);
    for (std::int64_t b = 0; b < p_.batch; ++b) {
      const std::int64_t last = args_.last_page_len[b];
      const bool none = args_.page_indptr[b] == args_.page_indptr[b + 1];
      if (last < (none ? 0 : 1) || last > p_.page_size) {
        refuse("last_page_len[" + number(b) + "] is " + number(last) + "; a page holds 1 to " +
               number(p_.page_size) + " keys");
      }
      for (std::int64_t i = args_.page_indptr[b]; i < args_.page_indptr[b + 1]; ++i) page(i);
    }
  }

  void cache_batches() const {
    const std::int64_t count = detail::outer_of_k(p_);
    const bool written = p_.family == Family::fmha_appendkv;
    std::vector<bool> taken(static_cast<std::size_t>(written ? count : 0));
    for (std::int64_t b = 0; b < p_.batch; ++b) {
      const std::int64_t index = args_.cache_batch_idx[b];
      const std::string where = "cache_batch_idx[" + number(b) + "] is " + number(index);
      if (index < 0 || index >= count) {
        refuse(where + ", and k and v have " + number(count) + " batches");
      }
      if (!written) continue;
      auto&& before = taken[static_cast<std::size_t>(index)];
      if (before) refuse(where + " like one before it, and rows would be appended twice");
      before = true;
    }
  }

  const FmhaProblemData& p_;
  const FmhaArgs& args_;
};

}  // namespace

void validate(const FmhaProblemData& p, const FmhaArgs& args, bool on_cpu) {
  check_numbers(p, args);
  Regions(p, args).check();
  check_small_tensors(p, args);
  if (on_cpu) Indices(p, args).check();
}

}  // namespace ckdisp
