#include <ckdisp/errors.hpp>
#include <ckdisp/fmha_problem.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <cstring>

#include "fmha_family.hpp"
#include "fmha_sizes.hpp"

namespace ckdisp {
namespace {

// Strides of a dense tensor (outer, heads, rows, size); the outer index is the batch or the page,
// and 0 in mode group, where all rows belong to one.
FmhaStrides dense(FmhaLayout layout, bool has_outer, std::int64_t heads, std::int64_t rows,
                  std::int64_t size) {
  const std::int64_t outer = has_outer ? heads * rows * size : 0;
  if (layout == FmhaLayout::bhsd) return {outer, rows * size, size};
  return {outer, size, heads * size};
}

class Strides {
 public:
  Strides(FmhaProblemData& problem, FmhaLayout layout) : p_(problem), layout_(layout) {}

  void fill() {
    const bool batch = p_.mode != FmhaMode::group;
    const std::int64_t rows_q = batch ? p_.seqlen_q : p_.total_q;
    const auto matrix = [&](bool wanted) {
      return wanted ? dense(FmhaLayout::bhsd, batch, p_.nhead_q, rows_q, p_.seqlen_k)
                    : FmhaStrides{};
    };
    p_.q = dense(layout_, batch, p_.nhead_q, rows_q, p_.hdim_q);
    fill_keys(batch);
    if (p_.family == Family::fmha_appendkv) {
      p_.k_new = dense(layout_, true, p_.nhead_k, p_.seqlen_new, p_.hdim_q);
      p_.v_new = dense(layout_, true, p_.nhead_k, p_.seqlen_new, p_.hdim_v);
      return;
    }
    p_.o = dense(layout_, batch, p_.nhead_q, rows_q, p_.hdim_v);
    p_.bias = matrix(p_.bias_kind == FmhaBias::bias);
    p_.randval = matrix(p_.store_randval);
    p_.alibi_batch = p_.alibi_batch != 0 ? p_.nhead_q : 0;
    const bool backward = is_backward(p_.family);
    if (p_.lse_out || backward) p_.lse = {batch ? p_.nhead_q * rows_q : 0, rows_q, 1};
    if (!backward) return;
    p_.dbias = matrix(p_.dbias_out);
    p_.d_o = p_.o;
    p_.dq = p_.q;
    p_.dk = p_.k;
    p_.dv = p_.v;
  }

 private:
  void fill_keys(bool batch) {
    const bool outer = batch || p_.paged_kv;
    const std::int64_t rows = p_.paged_kv ? p_.page_size : batch ? p_.seqlen_k : p_.total_k;
    // Pages of vectors have the heads in front in both layouts.
    const bool vectors = p_.kv_memory_layout == FmhaKvLayout::vectorized;
    const FmhaLayout layout = vectors ? FmhaLayout::bhsd : layout_;
    p_.k = dense(layout, outer, p_.nhead_k, rows, p_.hdim_q);
    p_.v = p_.vlayout == Order::c ? dense(FmhaLayout::bhsd, outer, p_.nhead_k, p_.hdim_v, rows)
                                  : dense(layout, outer, p_.nhead_k, rows, p_.hdim_v);
  }

  FmhaProblemData& p_;
  FmhaLayout layout_;
};

// Pairs of a query and a key that the mask leaves, of one head.
double visible_pairs(const FmhaProblemData& p, std::int64_t rows, std::int64_t keys) {
  const bool window = p.mask == FmhaMask::generic;
  if (p.mask == FmhaMask::no) return static_cast<double>(rows) * static_cast<double>(keys);
  const bool bottom = window ? p.window_bottom_right : p.mask == FmhaMask::bottom_right;
  const std::int64_t left = window ? p.window_left : -1, right = window ? p.window_right : 0;
  double pairs = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t diagonal = i + (bottom ? keys - rows : 0);
    const std::int64_t begin = left < 0 ? 0 : std::clamp<std::int64_t>(diagonal - left, 0, keys);
    const std::int64_t end =
        right < 0 ? keys : std::clamp<std::int64_t>(diagonal + right + 1, 0, keys);
    const std::int64_t hidden_sink = std::clamp<std::int64_t>(p.sink, 0, begin);
    pairs += static_cast<double>(std::max<std::int64_t>(end - begin, 0) + hidden_sink);
  }
  return pairs;
}

const char* mode_name(const FmhaProblemData& p) {
  return p.mode == FmhaMode::group ? " group" : "";
}

}  // namespace

FmhaProblem::FmhaProblem(Family family) {
  std::memset(&data_, 0, sizeof data_);  // compared bytewise
  data_.family = family;
  data_.nhead_q = data_.nhead_k = 1;
}

FmhaProblem& FmhaProblem::family(Family family) {
  data_.family = family;
  return *this;
}

FmhaProblem& FmhaProblem::batch(std::int64_t count) {
  data_.batch = count;
  return *this;
}

FmhaProblem& FmhaProblem::heads(std::int64_t of_q, std::int64_t of_k) {
  data_.nhead_q = of_q;
  data_.nhead_k = of_k;
  return *this;
}

FmhaProblem& FmhaProblem::head_dim(std::int64_t of_q_and_k, std::int64_t of_v) {
  data_.hdim_q = of_q_and_k;
  data_.hdim_v = of_v;
  return *this;
}

FmhaProblem& FmhaProblem::lengths(std::int64_t of_q, std::int64_t of_k) {
  data_.seqlen_q = of_q;
  data_.seqlen_k = of_k;
  return *this;
}

FmhaProblem& FmhaProblem::group(std::int64_t total_q, std::int64_t total_k) {
  data_.mode = FmhaMode::group;
  data_.total_q = total_q;
  data_.total_k = total_k;
  return *this;
}

FmhaProblem& FmhaProblem::dtype(FmhaDtype dtype) {
  data_.dtype = dtype;
  return *this;
}

FmhaProblem& FmhaProblem::layout(FmhaLayout layout) {
  layout_ = layout;
  return *this;
}

FmhaProblem& FmhaProblem::vlayout(Order order) {
  data_.vlayout = order;
  return *this;
}

FmhaProblem& FmhaProblem::mask(FmhaMask mask) {
  data_.mask = mask;
  data_.window_left = data_.window_right = 0;
  data_.window_bottom_right = false;
  return *this;
}

FmhaProblem& FmhaProblem::window(std::int64_t left, std::int64_t right, FmhaMask diagonal) {
  if (diagonal != FmhaMask::top_left && diagonal != FmhaMask::bottom_right) {
    throw InvalidArgument(
        std::string("a window lies at the diagonal top_left or bottom_right, not ") +
        to_name(diagonal));
  }
  if (left == -1 && right == -1) return mask(FmhaMask::no);
  if (left == -1 && right == 0) return mask(diagonal);
  data_.mask = FmhaMask::generic;
  data_.window_left = left;
  data_.window_right = right;
  data_.window_bottom_right = diagonal == FmhaMask::bottom_right;
  return *this;
}

FmhaProblem& FmhaProblem::sink(std::int64_t keys) {
  data_.sink = keys;
  return *this;
}

FmhaProblem& FmhaProblem::bias(FmhaBias kind) {
  data_.bias_kind = kind;
  return *this;
}

FmhaProblem& FmhaProblem::alibi(bool slopes_per_batch) {
  data_.alibi_batch = slopes_per_batch ? 1 : 0;  // data() makes it a stride
  return bias(FmhaBias::alibi);
}

FmhaProblem& FmhaProblem::lse(bool stored) {
  data_.lse_out = stored;
  return *this;
}

FmhaProblem& FmhaProblem::dropout(bool drops, bool store_randval) {
  data_.dropout = drops;
  data_.store_randval = store_randval;
  return *this;
}

FmhaProblem& FmhaProblem::soft_cap(bool caps) {
  data_.logits = caps;
  return *this;
}

FmhaProblem& FmhaProblem::skip_min_seqlen_q(bool skips) {
  data_.skip_min_seqlen_q = skips;
  return *this;
}

FmhaProblem& FmhaProblem::qscale(FmhaQscale kind) {
  data_.qscale = kind;
  return *this;
}

FmhaProblem& FmhaProblem::pages(std::int64_t page_size, std::int64_t count,
                                std::int64_t per_sequence) {
  data_.paged_kv = true;
  data_.page_size = page_size;
  data_.num_pages = count;
  data_.pages_per_seq = per_sequence;
  return *this;
}

FmhaProblem& FmhaProblem::cache_batches(std::int64_t count) {
  data_.cache_batches = count;
  return *this;
}

FmhaProblem& FmhaProblem::kv_cache(FmhaKvLayout memory, FmhaKvLookup lookup) {
  data_.kv_memory_layout = memory;
  data_.kv_lookup_table = lookup;
  return *this;
}

FmhaProblem& FmhaProblem::splits(std::int64_t count) {
  data_.num_splits = count;
  return *this;
}

FmhaProblem& FmhaProblem::append(std::int64_t rows) {
  data_.seqlen_new = rows;
  return *this;
}

FmhaProblem& FmhaProblem::rope(FmhaRope kind, std::int64_t rotary_dim) {
  data_.rope = kind;
  data_.rotary_dim = rotary_dim;
  return *this;
}

FmhaProblem& FmhaProblem::deterministic(bool fixed_order) {
  data_.deterministic = fixed_order;
  return *this;
}

FmhaProblem& FmhaProblem::dbias(bool computed) {
  data_.dbias_out = computed;
  return *this;
}

FmhaProblemData FmhaProblem::data() const {
  FmhaProblemData p = data_;
  if (p.mode != FmhaMode::group) {
    // Wrong sizes are validate()'s to refuse: here they must only not overflow.
    if (__builtin_mul_overflow(p.batch, p.seqlen_q, &p.total_q)) p.total_q = -1;
    if (__builtin_mul_overflow(p.batch, p.seqlen_k, &p.total_k)) p.total_k = -1;
  }
  detail::check_sizes(p);
  Strides(p, layout_).fill();
  return p;
}

double flops(const FmhaProblemData& p) {
  if (p.family == Family::fmha_appendkv || p.batch == 0) return 0;
  const bool group = p.mode == FmhaMode::group;
  const std::int64_t rows = group ? p.total_q / p.batch : p.seqlen_q;
  const std::int64_t keys = group ? p.total_k / p.batch : p.seqlen_k;
  const double pairs =
      static_cast<double>(p.batch) * static_cast<double>(p.nhead_q) * visible_pairs(p, rows, keys);
  const auto d = static_cast<double>(p.hdim_q), dv = static_cast<double>(p.hdim_v);
  return 2 * pairs * (is_backward(p.family) ? 3 * d + 2 * dv : d + dv);
}

double bytes(const FmhaProblemData& p) {
  const auto product = [](std::int64_t a, std::int64_t b, std::int64_t c) {
    return static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(c);
  };
  const int in = size_of(input_type(p.dtype)), out = size_of(output_type(p.dtype));
  const std::int64_t d = p.hdim_q, dv = p.hdim_v;
  if (p.family == Family::fmha_appendkv) {
    return 2 * in * product(p.batch * p.seqlen_new, p.nhead_k, d + dv);
  }
  const double q = in * product(p.total_q, p.nhead_q, d),
               o = product(p.total_q, p.nhead_q, dv) * out;
  const double kv = in * product(p.total_k, p.nhead_k, d + dv);
  const double rows = product(p.total_q, p.nhead_q, 1);
  const double cells = product(p.total_q, p.nhead_q, p.seqlen_k);
  double total = q + kv + o;
  if (is_backward(p.family)) total += q + kv + o;
  if (p.lse_out || is_backward(p.family)) total += 4 * rows;
  if (p.bias_kind == FmhaBias::bias) total += cells * (in == 1 ? 4 : in) * (p.dbias_out ? 2 : 1);
  if (p.store_randval) total += cells;
  return total;
}

std::string to_string(const FmhaProblemData& p) {
  const auto pair = [](const char* name, std::int64_t a, std::int64_t b) {
    return std::string(" ") + name + " " + std::to_string(a) + ":" + std::to_string(b);
  };
  const auto flag = [](bool on, const char* text) { return std::string(on ? text : ""); };
  std::string out = to_name(p.family);
  out += mode_name(p);
  out += " batch " + std::to_string(p.batch) + pair("heads", p.nhead_q, p.nhead_k) +
         pair("lengths", p.seqlen_q, p.seqlen_k) + pair("head_dim", p.hdim_q, p.hdim_v);
  if (p.mode == FmhaMode::group) out += pair("totals", p.total_q, p.total_k);
  out += std::string(" ") + to_name(p.dtype) + flag(p.vlayout == Order::c, " v:c");
  if (p.mask == FmhaMask::generic) {
    out += pair("window", p.window_left, p.window_right) +
           (p.window_bottom_right ? " bottom_right" : " top_left");
  } else if (p.mask != FmhaMask::no) {
    out += std::string(" ") + to_name(p.mask);
  }
  if (p.sink > 0) out += " sink " + std::to_string(p.sink);
  if (p.bias_kind != FmhaBias::no) out += std::string(" ") + to_name(p.bias_kind);
  if (p.qscale != FmhaQscale::no) out += std::string(" qscale ") + to_name(p.qscale);
  out += flag(p.logits, " soft_cap") + flag(p.dropout, " dropout") +
         flag(p.store_randval, " randval") + flag(p.lse_out, " lse") +
         flag(p.skip_min_seqlen_q, " skip_min_seqlen_q") + flag(p.dbias_out, " dbias") +
         flag(p.deterministic, " deterministic");
  if (p.paged_kv) {
    out += " pages " + std::to_string(p.num_pages) + "x" + std::to_string(p.page_size);
    if (p.kv_lookup_table != FmhaKvLookup::none) {
      out += std::string(" ") + to_name(p.kv_memory_layout) + " " + to_name(p.kv_lookup_table);
    }
  }
  if (p.cache_batches > 0) out += " cache_batches " + std::to_string(p.cache_batches);
  if (p.seqlen_new > 0) out += " append " + std::to_string(p.seqlen_new);
  if (p.rope != FmhaRope::none) {
    out += std::string(" rope ") + to_name(p.rope) + " " + std::to_string(p.rotary_dim);
  }
  if (p.num_splits > 0) out += " splits " + std::to_string(p.num_splits);
  return out;
}

}  // namespace ckdisp
