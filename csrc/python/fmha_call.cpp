#include "fmha_call.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "cached.hpp"
#include "fmha_tensors.hpp"
#include "output.hpp"
#include "place.hpp"

namespace ckdisp::python {
namespace {

constexpr std::size_t kMostTensors = 28;  // so that references to them stay valid

// "bshd" of several names; the value is that of the enumeration.
template <class E, std::size_t N>
E one_of(const FmhaOptions& options, const char* name, const char* const (&names)[N], E otherwise) {
  if (!options.has(name)) return otherwise;
  return static_cast<E>(detail::parse_name(options.text(name), names, N, name));
}

FmhaLayout layout_of(const FmhaOptions& options) {
  constexpr const char* kNames[] = {"bhsd", "bshd"};
  return one_of(options, "layout", kNames, FmhaLayout::bhsd);
}

FmhaDtype dtype_of_pair(const Tensor& q, Dtype out) {
  const auto pair = [&](Dtype in, Dtype o) { return q.dtype == in && out == o; };
  if (pair(Dtype::fp32, Dtype::fp32)) return FmhaDtype::fp32;
  if (pair(Dtype::fp16, Dtype::fp16)) return FmhaDtype::fp16;
  if (pair(Dtype::bf16, Dtype::bf16)) return FmhaDtype::bf16;
  if (pair(Dtype::bf8, Dtype::bf8)) return FmhaDtype::bf8;
  if (pair(Dtype::fp8, Dtype::fp8)) return FmhaDtype::fp8;
  if (pair(Dtype::fp8, Dtype::fp16)) return FmhaDtype::fp8fp16;
  if (pair(Dtype::fp8, Dtype::bf16)) return FmhaDtype::fp8bf16;
  if (pair(Dtype::fp8, Dtype::fp32)) return FmhaDtype::fp8fp32;
  throw InvalidArgument(std::string("no attention turns ") + to_name(q.dtype) + " into " +
                        to_name(out) +
                        "; the result is of the type of q, or fp16, bf16 or fp32 for fp8");
}

// The type of O where a call does not say it.
Dtype default_result(Dtype input) { return input == Dtype::fp8 ? Dtype::bf16 : input; }

class Resolver {
 public:
  Resolver(Family family, const FmhaOptions& options, const CallStream& stream)
      : family_(family),
        options_(options),
        stream_(stream),
        layout_(layout_of(options)),
        builder_(family) {
    call_.keep.reserve(kMostTensors);
  }

  FmhaCall call() {
    builder_.layout(layout_);
    if (family_ == Family::fmha_appendkv) {
      append();
    } else {
      attend();
    }
    call_.first = call_.keep.front();
    return std::move(call_);
  }

 private:
  bool is_backward() const { return family_ == Family::fmha_bwd_dq_dk_dv; }
  bool is_prefill() const { return family_ == Family::fmha_batch_prefill; }
  bool is_paged() const { return options_.has("page_table"); }

  Tensor& take(nb::handle object, const char* name, const Ranks& ranks) {
    call_.keep.push_back(import_tensor(object, name, stream_, ranks));
    return call_.keep.back();
  }
  Tensor& take(const char* name, const Ranks& ranks) { return take(options_[name], name, ranks); }
  // Null when it was not given.
  Tensor* find(const char* name, const Ranks& ranks) {
    return options_.has(name) ? &take(name, ranks) : nullptr;
  }

  // Whole numbers, one dimension of `count` of them, or two of `count` rows.
  const std::int32_t* indices(const char* name, int ndim, std::int64_t count,
                              std::int64_t* width = nullptr) {
    const Tensor* t = find(name, kTable);
    if (t == nullptr) return nullptr;
    check_holds(*t, Dtype::int32, "an index");
    check_dense(*t);
    if (t->ndim != ndim || (count >= 0 && t->shape[0] != count)) {
      throw InvalidArgument(
          std::string(name) + " has shape " + shape_text(*t) + "; pass " +
          (ndim == 1 ? "a vector" : "a matrix") +
          (count >= 0 ? " with " + std::to_string(count) + " rows" : std::string()));
    }
    if (width != nullptr) *width = t->shape[ndim - 1];
    return static_cast<const std::int32_t*>(t->data);
  }

  void attend() {
    q_ = &take("q", kRows);
    group_ = options_.has("cu_seqlens_q");
    view_q_ = rows_of(*q_, layout_, !group_);
    take_keys();
    take_lengths();
    check_shapes();
    set_features();
    take_backward();
    choose_types();
    place();
    describe();
    validate(call_.problem);  // before memory is taken for sizes that cannot be
    if (is_backward()) {
      make_gradients();
    } else {
      make_outputs();
    }
  }

  void take_keys() {
    k_ = &take("k", is_prefill() || is_paged() ? kPages : kRows);
    v_ = &take("v", is_prefill() || is_paged() ? kPages : kRows);
    if (is_prefill() && k_->ndim == 5) {
      take_vectors();
      return;
    }
    const bool has_outer = !group_ || is_paged();
    view_k_ = rows_of(*k_, layout_, has_outer);
    const bool column = options_.choice("vlayout", Order::r) == Order::c;
    view_v_ = rows_of(*v_, column ? FmhaLayout::bhsd : layout_, has_outer);
    if (column) std::swap(view_v_.rows, view_v_.size);
    builder_.vlayout(column ? Order::c : Order::r);
  }

  // Pages of vectors: K is (pages, heads, size / x, rows, x), V (pages, heads, rows / x, size, x).
  void take_vectors() {
    check_dense(*k_);
    check_dense(*v_);
    if (v_->ndim != 5) {
      throw InvalidArgument("k has shape " + shape_text(*k_) + " and v " + shape_text(*v_) +
                            "; pass both in pages of vectors, or none");
    }
    const std::int64_t *k = k_->shape, *v = v_->shape;
    view_k_ = {k[0], k[1], k[3], k[2] * k[4], {}};
    view_v_ = {v[0], v[1], v[2] * v[4], v[3], {}};
    dense_keys_ = true;
  }

  // The longest of the sequences that begin at `starts`; read only from the CPU's memory.
  std::int64_t longest(const char* option, const std::int32_t* starts) const {
    if (options_.has(option)) return options_.integer(option, 0);
    if (q_->device >= 0) {
      throw InvalidArgument(std::string(option) +
                            " is missing: first rows on a device are not read; pass the length "
                            "of the longest sequence");
    }
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < batch_; ++i) {
      most = std::max<std::int64_t>(most, std::int64_t{starts[i + 1]} - starts[i]);
    }
    return most;
  }

  void take_lengths() {
    FmhaArgs& args = call_.args;
    batch_ = view_q_.outer;
    if (group_) {
      std::int64_t count = 0;
      args.seqstart_q = indices("cu_seqlens_q", 1, -1, &count);
      if (count < 1) throw InvalidArgument("cu_seqlens_q is empty; pass batch + 1 first rows");
      batch_ = count - 1;
      args.seqstart_k = indices("cu_seqlens_k", 1, count);
      length_q_ = longest("max_seqlen_q", args.seqstart_q);
    } else {
      length_q_ = view_q_.rows;
      if (options_.has("cu_seqlens_k")) {
        throw InvalidArgument("cu_seqlens_k is given and cu_seqlens_q is not; pass both, or none");
      }
    }
    args.seqlen_k = indices("seqlens_k", 1, batch_);
    args.cache_batch_idx = indices("cache_batch_idx", 1, batch_);
    if (is_paged()) {
      take_pages();
    } else if (group_) {
      if (args.seqstart_k == nullptr) {
        throw InvalidArgument("cu_seqlens_k is missing: pass the first row of each sequence of k");
      }
      length_k_ = longest("max_seqlen_k", args.seqstart_k);
    } else {
      length_k_ = view_k_.rows;
    }
    builder_.batch(batch_).lengths(length_q_, length_k_);
    if (group_) builder_.group(view_q_.rows, is_paged() ? batch_ * length_k_ : view_k_.rows);
  }

  void take_pages() {
    FmhaArgs& args = call_.args;
    std::int64_t width = 0;
    const bool list = options_.choice("kv_lookup", FmhaKvLookup::none) == FmhaKvLookup::sglang;
    args.page_table = indices("page_table", list ? 1 : 2, list ? -1 : batch_, &width);
    args.page_indptr = indices("page_indptr", 1, batch_ + 1);
    args.last_page_len = indices("last_page_len", 1, batch_);
    length_k_ = options_.integer("max_seqlen_k", width * view_k_.rows);
    builder_.pages(view_k_.rows, view_k_.outer, width);
    if (!is_prefill()) return;
    builder_.kv_cache(dense_keys_ ? FmhaKvLayout::vectorized : FmhaKvLayout::linear,
                      list ? FmhaKvLookup::sglang : FmhaKvLookup::vllm);
  }

  [[noreturn]] static void disagree(const Tensor& a, const Tensor& b, const char* what) {
    throw InvalidArgument(std::string(a.name) + " has shape " + shape_text(a) + " and " + b.name +
                          " " + shape_text(b) + ": " + what);
  }

  void check_shapes() const {
    if (view_k_.size != view_q_.size) disagree(*q_, *k_, "the head dimensions must be equal");
    check_keys();
    const bool cache = call_.args.cache_batch_idx != nullptr;
    if (!group_ && !is_paged() && !cache && view_k_.outer != view_q_.outer) {
      disagree(*q_, *k_, "the batches must be equal");
    }
    for (const Tensor* t : {k_, v_}) check_holds(*t, q_->dtype, "the type of q");
  }
  void check_keys() const {
    if (view_v_.heads != view_k_.heads) disagree(*k_, *v_, "the heads must be equal");
    if (view_v_.rows != view_k_.rows) disagree(*k_, *v_, "the rows must be equal");
    if (view_v_.outer != view_k_.outer) disagree(*k_, *v_, "the batches must be equal");
  }

  void set_features() {
    FmhaArgs& args = call_.args;
    builder_.heads(view_q_.heads, view_k_.heads).head_dim(view_q_.size, view_v_.size);
    set_mask(builder_, options_);
    bias_ = find("bias", kCells);
    if (bias_ != nullptr) builder_.bias(FmhaBias::bias);
    take_slopes();
    const double p = options_.real("dropout_p", 0);
    const bool drops = p != 0;  // NaN too, which is refused with the other numbers
    builder_.dropout(drops, options_.flag("return_randval"));
    args.dropout_p = static_cast<float>(p);
    args.seed = options_.word("seed");
    args.offset = options_.word("offset");
    const double cap = options_.real("logits_soft_cap", 0);
    builder_.soft_cap(cap != 0);
    args.soft_cap = static_cast<float>(cap);
    args.scale = static_cast<float>(options_.real(
        "scale", 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(view_q_.size, 1)))));
    builder_.lse(options_.flag("return_lse"))
        .skip_min_seqlen_q(options_.flag("skip_min_seqlen_q"))
        .splits(options_.integer("num_splits", 0))
        .deterministic(options_.flag("deterministic"))
        .dbias(options_.flag("return_dbias"));
    take_scales();
  }

  void take_slopes() {
    const Tensor* slopes = find("alibi_slopes", kTable);
    if (slopes == nullptr) return;
    if (bias_ != nullptr) {
      throw InvalidArgument("bias and alibi_slopes exclude each other; pass one of them");
    }
    check_holds(*slopes, Dtype::fp32, "a slope");
    check_dense(*slopes);
    const bool each = slopes->ndim == 2;
    if (slopes->shape[slopes->ndim - 1] != view_q_.heads || (each && slopes->shape[0] != batch_)) {
      throw InvalidArgument("alibi_slopes has shape " + shape_text(*slopes) + "; pass (" +
                            std::to_string(view_q_.heads) + ",), or (" + std::to_string(batch_) +
                            ", " + std::to_string(view_q_.heads) + ")");
    }
    builder_.alibi(each);
    call_.args.alibi_slopes = static_cast<const float*>(slopes->data);
  }

  // Scales of quantised tensors: numbers, or tensors.
  void take_scales() {
    constexpr const char* kNames[] = {"q_scale", "k_scale", "v_scale"};
    const float** const places[] = {&call_.args.q_scale, &call_.args.k_scale, &call_.args.v_scale};
    bool any = false, one = true;
    for (int i = 0; i < 3; ++i) {
      const nb::handle value = options_[kNames[i]];
      call_.scales[i] = 1;
      if (value.is_none() || PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr())) {
        any = any || !value.is_none();
        call_.scales[i] = static_cast<float>(options_.real(kNames[i], 1));
        continue;  // point_scales() points to it
      }
      const Tensor& t = take(kNames[i], kAny);
      check_holds(t, Dtype::fp32, "a scale");
      check_dense(t);
      std::int64_t count = 1;
      for (int d = 0; d < t.ndim; ++d) count *= t.shape[d];
      one = one && count == 1;
      any = true;
      *places[i] = static_cast<const float*>(t.data);
    }
    const FmhaQscale kind = one ? FmhaQscale::pertensor : FmhaQscale::blockscale;
    if (any) builder_.qscale(options_.choice("qscale", kind));
  }

  void take_backward() {
    if (!is_backward()) return;
    o_ = &take("o", kRows);
    do_ = &take("do", kRows);
    lse_ = &take("lse", kSums);
  }

  void choose_types() {
    if (options_.has("out") && !is_backward()) {
      out_.emplace(import_tensor(options_["out"], "out", stream_, kRows));
      check_writable(*out_);
    }
    const nb::handle wanted = options_["out_dtype"];
    const Dtype result =
        wanted.is_none() ? (out_ ? out_->dtype : default_result(q_->dtype)) : dtype_of(wanted);
    builder_.dtype(dtype_of_pair(*q_, result));
    if (out_) check_type(*out_, result);
  }

  void place() {
    std::vector<const Tensor*> all;
    for (const Tensor& t : call_.keep) all.push_back(&t);
    if (out_) all.push_back(&*out_);
    place_ = place_of(all, stream_, all.front()->dtype);
    call_.launch = place_.launch;
  }

  // The problem with the strides of the tensors, and the pointers to them.
  void describe() {
    FmhaProblemData& p = call_.problem = builder_.data();
    FmhaArgs& args = call_.args;
    p.q = strides_of(view_q_, p.q);
    if (!dense_keys_) {
      p.k = strides_of(view_k_, p.k);
      p.v = strides_of_v();
    }
    args.q = q_->data;
    args.k = k_->data;
    args.v = v_->data;
    if (bias_ == nullptr) return;
    check_holds(*bias_, size_of(q_->dtype) == 1 ? Dtype::fp32 : q_->dtype, "the type of the bias");
    const std::int64_t rows = group_ ? view_q_.rows : length_q_;
    p.bias = repeated_strides(*bias_, view_q_.outer, view_q_.heads, rows, length_k_);
    args.bias = bias_->data;
  }

  FmhaStrides strides_of_v() const {
    RowView v = view_v_;
    if (call_.problem.vlayout == Order::c) std::swap(v.rows, v.size);
    return strides_of(v, call_.problem.v);
  }

  // A new tensor, which becomes the next result.
  void* result(const nb::tuple& shape, Dtype dtype) {
    Tensor made;
    nb::object object = new_output(*q_, shape, dtype, place_.fnuz, kAny, &made);
    call_.results.push_back({std::move(object)});
    void* data = made.data;
    call_.keep.push_back(std::move(made));
    return data;
  }

  nb::tuple cells_shape() const {
    const std::int64_t rows = group_ ? view_q_.rows : length_q_;
    return group_ ? nb::make_tuple(view_q_.heads, rows, length_k_)
                  : nb::make_tuple(view_q_.outer, view_q_.heads, rows, length_k_);
  }

  void make_outputs() {
    FmhaProblemData& p = call_.problem;
    FmhaArgs& args = call_.args;
    RowView o = view_q_;
    o.size = view_v_.size;
    if (out_) {
      p.o = use("out", *out_, o, p.o);
      args.o = out_->data;
      call_.results.push_back({nb::borrow(options_["out"]), false});
      call_.keep.push_back(std::move(*out_));
    } else {
      args.o = result(shape_of_rows(layout_, !group_, o), output_type(p.dtype));
    }
    if (p.lse_out) {
      args.lse = static_cast<float*>(result(
          group_ ? nb::make_tuple(o.heads, o.rows) : nb::make_tuple(o.outer, o.heads, o.rows),
          Dtype::fp32));
    }
    if (p.store_randval) {
      args.randval = result(cells_shape(), Dtype::int8);
      call_.results.back().is_bytes = true;
    }
  }

  // Strides of a given tensor, which must have the shape of `like`.
  FmhaStrides use(const char* name, const Tensor& t, const RowView& like,
                  const FmhaStrides& dense) const {
    const RowView view = rows_of(t, layout_, t.ndim == 4);
    const bool same = t.ndim == (group_ ? 3 : 4) && view.outer == like.outer &&
                      view.heads == like.heads && view.rows == like.rows && view.size == like.size;
    if (!same) {
      const nb::tuple wanted = shape_of_rows(layout_, !group_, like);
      throw InvalidArgument(std::string(name) + " has shape " + shape_text(t) + ", the " +
                            (name == std::string("out") ? "result" : "call") + " has " +
                            nb::cast<std::string>(nb::str(wanted)));
    }
    return strides_of(view, dense);
  }

  void make_gradients() {
    FmhaProblemData& p = call_.problem;
    FmhaArgs& args = call_.args;
    RowView o = view_q_;
    o.size = view_v_.size;
    for (const Tensor* t : {o_, do_}) check_holds(*t, q_->dtype, "the type of q");
    p.o = use("o", *o_, o, p.o);
    p.d_o = use("do", *do_, o, p.d_o);
    args.o = o_->data;
    args.d_o = do_->data;
    check_lse();
    args.lse = static_cast<float*>(lse_->data);
    const struct {
      const char* name;
      const RowView* like;
      FmhaStrides* strides;
      void** data;
    } rows[] = {{"dq", &view_q_, &p.dq, &args.dq},
                {"dk", &view_k_, &p.dk, &args.dk},
                {"dv", &view_v_, &p.dv, &args.dv}};
    const nb::handle out = options_["out"];
    if (!out.is_none() && (PySequence_Check(out.ptr()) == 0 || nb::len(out) != 3)) {
      options_.refuse("out", "three tensors, for dq, dk and dv");
    }
    for (int i = 0; i < 3; ++i) {
      const auto& row = rows[i];
      if (out.is_none()) {
        *row.data = result(shape_of_rows(layout_, !group_, *row.like), q_->dtype);
        continue;
      }
      const nb::object given(out[i]);
      const Tensor& t = take(given, row.name, kRows);
      check_writable(t);
      check_holds(t, q_->dtype, "the type of q");
      *row.strides = use(row.name, t, *row.like, *row.strides);
      *row.data = t.data;
      call_.results.push_back({given, false});
    }
    if (p.dbias_out) args.dbias = result(cells_shape(), q_->dtype);
  }

  void check_lse() const {
    check_holds(*lse_, Dtype::fp32, "an LSE");
    const std::int64_t rows = group_ ? view_q_.rows : length_q_;
    const std::int64_t sizes[] = {view_q_.outer, view_q_.heads, rows};
    const std::int64_t* wanted = group_ ? sizes + 1 : sizes;
    const std::size_t count = group_ ? 2 : 3;
    if (static_cast<std::size_t>(lse_->ndim) != count ||
        !std::equal(wanted, wanted + count, lse_->shape)) {
      throw InvalidArgument("lse has shape " + shape_text(*lse_) + ", that of this call has " +
                            shape_text(wanted, count));
    }
    check_dense(*lse_);
  }

  // Caches are written where they are; a query is rotated in a copy.
  void append() {
    k_ = &take("k", kPages);
    v_ = &take("v", kPages);
    q_ = k_;
    view_k_ = rows_of(*k_, layout_, true);
    view_v_ = rows_of(*v_, layout_, true);
    check_keys();
    const Tensor& k_new = take("k_new", kRows);
    const Tensor& v_new = take("v_new", kRows);
    const RowView new_k = rows_of(k_new, layout_, true), new_v = rows_of(v_new, layout_, true);
    check_new(k_new, new_k, *k_, view_k_);
    check_new(v_new, new_v, *v_, view_v_);
    if (new_k.rows != new_v.rows || new_k.outer != new_v.outer) {
      disagree(k_new, v_new, "the batches and rows must be equal");
    }
    for (const Tensor* t : {k_, v_}) check_writable(*t);
    for (const Tensor* t : {v_, &k_new, &v_new}) check_holds(*t, k_->dtype, "the type of k");
    batch_ = new_k.outer;
    length_k_ = view_k_.rows;
    call_.args.seqlen_k = indices("seqlens_k", 1, batch_);
    call_.args.cache_batch_idx = indices("cache_batch_idx", 1, batch_);
    if (is_paged()) take_pages();
    take_rotation();
    const Tensor* query = find("q", kRows);
    view_q_ = query != nullptr ? rows_of(*query, layout_, true)
                               : RowView{batch_, view_k_.heads, 0, view_k_.size, {}};
    if (query != nullptr) {
      check_holds(*query, k_->dtype, "the type of k");
      if (view_q_.size != view_k_.size) disagree(*query, *k_, "the head dimensions must be equal");
      if (view_q_.outer != batch_) disagree(*query, k_new, "the batches must be equal");
    }
    set_mask(builder_, options_);
    builder_.batch(batch_)
        .heads(view_q_.heads, view_k_.heads)
        .head_dim(view_k_.size, view_v_.size)
        .lengths(view_q_.rows, length_k_)
        .dtype(dtype_of_pair(*k_, default_result(k_->dtype)))
        .append(new_k.rows);
    place();
    FmhaProblemData& p = call_.problem = builder_.data();
    p.k = strides_of(view_k_, p.k);
    p.v = strides_of(view_v_, p.v);
    p.k_new = strides_of(new_k, p.k_new);
    p.v_new = strides_of(new_v, p.v_new);
    validate(p);
    call_.args.k = k_->data;
    call_.args.v = v_->data;
    call_.args.k_new = k_new.data;
    call_.args.v_new = v_new.data;
    if (query != nullptr) copy_query(*query);
  }

  static void check_new(const Tensor& added, const RowView& a, const Tensor& cache,
                        const RowView& c) {
    if (a.heads != c.heads || a.size != c.size) {
      disagree(added, cache, "the heads and head dimensions must be equal");
    }
  }

  void take_rotation() {
    const FmhaRope kind = options_.choice("rope", FmhaRope::none);
    if (kind == FmhaRope::none) return;
    const Tensor& cos = take("rotary_cos", kMatrix);
    const Tensor& sin = take("rotary_sin", kMatrix);
    for (const Tensor* t : {&cos, &sin}) {
      check_holds(*t, k_->dtype, "the type of k");
      check_dense(*t);
      if (t->ndim != 2 || t->shape[0] < length_k_ || t->shape[1] != cos.shape[1]) {
        throw InvalidArgument(std::string(t->name) + " has shape " + shape_text(*t) +
                              "; pass a row of rotary_dim / 2 numbers for each of the " +
                              std::to_string(length_k_) + " places of a sequence");
      }
    }
    builder_.rope(kind, 2 * cos.shape[1]);
    call_.args.rotary_cos = cos.data;
    call_.args.rotary_sin = sin.data;
  }

  // The kernel rotates where the query lies, so it gets a copy, which is the result.
  void copy_query(const Tensor& query) {
    Tensor made;
    nb::object copy = cached().copy_of(query.object);
    made = import_tensor(copy, "q", stream_, kRows);
    call_.problem.q = strides_of(rows_of(made, layout_, true), call_.problem.q);
    call_.args.q = made.data;
    call_.keep.push_back(std::move(made));
    call_.results.push_back({std::move(copy), false});
  }

  Family family_;
  const FmhaOptions& options_;
  const CallStream& stream_;
  FmhaLayout layout_;
  FmhaProblem builder_;
  FmhaCall call_{};
  const Tensor *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *bias_ = nullptr;
  const Tensor *o_ = nullptr, *do_ = nullptr, *lse_ = nullptr;
  std::optional<Tensor> out_;
  RowView view_q_{}, view_k_{}, view_v_{};
  bool group_ = false, dense_keys_ = false;
  std::int64_t batch_ = 0, length_q_ = 0, length_k_ = 0;
  Place place_;
};

}  // namespace

Family fmha_family_from(std::string_view name) {
  constexpr const char* kNames[] = {
      "fwd",           "splitkv",      "splitkv_combine", "pagedkv",        "appendkv",
      "batch_prefill", "bwd_dot_do_o", "bwd_dq_dk_dv",    "bwd_convert_dq", "bwd"};
  const std::string_view prefix = "fmha.";
  if (name.substr(0, prefix.size()) == prefix) name = name.substr(prefix.size());
  const std::size_t code = detail::parse_name(name, kNames, std::size(kNames), "family");
  if (code == std::size(kNames) - 1) return Family::fmha_bwd_dq_dk_dv;
  return static_cast<Family>(static_cast<std::size_t>(Family::fmha_fwd) + code);
}

// `mask` names the diagonal, `window` the keys on each side of it that are seen; a mask without a
// window is the triangle below it, and a window without a mask lies at the bottom right.
void set_mask(FmhaProblem& builder, const FmhaOptions& options) {
  constexpr const char* kNames[] = {"no", "top_left", "bottom_right"};
  const auto mask = one_of(options, "mask", kNames, FmhaMask::no);
  if (const auto window = options.pair("window")) {
    builder.window(window->first, window->second,
                   mask == FmhaMask::no ? FmhaMask::bottom_right : mask);
  } else {
    builder.mask(mask);
  }
  builder.sink(options.integer("sink", 0));
}

void FmhaCall::point_scales() {
  if (problem.qscale == FmhaQscale::no) return;
  const float** const places[] = {&args.q_scale, &args.k_scale, &args.v_scale};
  for (int i = 0; i < 3; ++i) {
    if (*places[i] != nullptr) continue;
    if (launch.device >= 0) {
      throw InvalidArgument(
          "scales of tensors on a device must lie there too; pass q_scale, k_scale and v_scale as "
          "tensors of one number");
    }
    *places[i] = &scales[i];
  }
}

FmhaCall resolve_fmha(Family family, const FmhaOptions& options, const CallStream& stream) {
  return Resolver(family, options, stream).call();
}

nb::object finish_results(const FmhaCall& call) {
  nb::list all;
  for (const FmhaCall::Result& result : call.results) {
    const nb::object made =
        result.is_made ? finish_output(call.first, result.object) : result.object;
    all.append(result.is_bytes ? cached().as_bytes(made) : made);
  }
  if (nb::len(all) == 0) return nb::none();
  return nb::len(all) == 1 ? nb::object(all[0]) : nb::tuple(all);
}

}  // namespace ckdisp::python
