#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "fmha_resolver.hpp"
#include "fmha_scales.hpp"
#include "output.hpp"

namespace ckdisp::python {
namespace {

// Every family but the appending one.
class Attend : FmhaResolver {
 public:
  Attend(Family family, const FmhaOptions& options, const CallStream& stream)
      : FmhaResolver(family, options, stream) {}

  FmhaCall call() {
    q_ = &take("q", kRows);
    group_ = options_.has("cu_seqlens_q");
    view_q_ = rows_of(*q_, layout_, !group_);
    take_keys();
    take_lengths();
    check_shapes();
    set_features();
    take_backward();
    choose_types();
    find_place(out_ ? &*out_ : nullptr);
    describe();
    validate(call_.problem);  // before memory is taken for sizes that cannot be
    if (is_backward()) {
      make_gradients();
    } else {
      make_outputs();
    }
    call_.first = *q_;
    return std::move(call_);
  }

 private:
  bool is_backward() const { return family_ == Family::fmha_bwd_dq_dk_dv; }

  void take_keys() {
    k_ = &take("k", is_prefill() || is_paged() ? kPages : kRows);
    v_ = &take("v", is_prefill() || is_paged() ? kPages : kRows);
    if (is_prefill() && k_->ndim == 5) {
      take_vectors();
      return;
    }
    const bool has_outer = !group_ || is_paged();
    view_k_ = rows_of(*k_, layout_, has_outer);
    view_v(has_outer);
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

  // The longest of the sequences that begin at `starts`; read only from the CPU's memory. Not more
  // than the `total`: first rows past the end are refused with their place.
  std::int64_t longest(const char* option, const std::int32_t* starts, std::int64_t total) const {
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
    return std::min(most, total);
  }

  // Without first rows all sequences are as long as the tensor.
  void refuse_longest(const char* option, std::int64_t rows) const {
    const std::int64_t given = options_.integer(option, rows);
    if (given == rows) return;
    throw InvalidArgument(std::string(option) + " is " + std::to_string(given) +
                          ", and without cu_seqlens_q every sequence has the " +
                          std::to_string(rows) + " rows of its tensor; leave it away");
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
      length_q_ = longest("max_seqlen_q", args.seqstart_q, view_q_.rows);
    } else {
      length_q_ = view_q_.rows;
      if (options_.has("cu_seqlens_k")) {
        throw InvalidArgument("cu_seqlens_k is given and cu_seqlens_q is not; pass both, or none");
      }
      refuse_longest("max_seqlen_q", length_q_);
    }
    args.seqlen_k = indices("seqlens_k", 1, batch_);
    take_cache();
    if (is_paged()) {
      take_pages();
    } else if (group_) {
      if (args.seqstart_k == nullptr) {
        throw InvalidArgument("cu_seqlens_k is missing: pass the first row of each sequence of k");
      }
      length_k_ = longest("max_seqlen_k", args.seqstart_k, view_k_.rows);
    } else {
      length_k_ = view_k_.rows;
      refuse_longest("max_seqlen_k", length_k_);
    }
    builder_.batch(batch_).lengths(length_q_, length_k_);
    if (group_) builder_.group(view_q_.rows, is_paged() ? batch_ * length_k_ : view_k_.rows);
  }

  void check_shapes() const {
    if (view_k_.size != view_q_.size) disagree(*q_, *k_, "the head dimensions must be equal");
    const bool cache = call_.args.cache_batch_idx != nullptr;
    if (!group_ && !is_paged() && !cache && view_k_.outer != view_q_.outer) {
      disagree(*q_, *k_, "the batches must be equal");
    }
    check_keys();
    for (const Tensor* t : {k_, v_}) check_holds(*t, q_->dtype, "the type of q");
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
    args.min_seqlen_q = options_.integer("min_seqlen_q", 0);
    builder_.lse(options_.flag("return_lse"))
        .skip_min_seqlen_q(args.min_seqlen_q != 0)
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
    const Tensor* tensors[3] = {};
    bool any = options_.has("qscale"), one = true;
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
      one = one && count_of(t) == 1;
      any = true;
      tensors[i] = &t;
      *places[i] = static_cast<const float*>(t.data);
    }
    if (!any) return;
    const FmhaQscale kind =
        options_.choice("qscale", one ? FmhaQscale::pertensor : FmhaQscale::blockscale);
    builder_.qscale(kind);
    if (kind == FmhaQscale::kv_blockscale && !is_paged()) return;  // validate() says why not
    for (int i = 0; i < 3; ++i) {
      const RowView& view = i == 0 ? view_q_ : view_k_;
      check_scales(kNames[i], kind, tensors[i], options_.has(kNames[i]),
                   {batch_, view.heads, i == 0 ? length_q_ : length_k_, view.outer, i > 0});
    }
  }

  void take_backward() {
    if (!is_backward()) return;
    o_ = &take("o", kRows);
    do_ = &take("do", kRows);
    if (!options_.has("lse")) {
      throw InvalidArgument(
          "lse is missing: the backward pass reads the LSE that the forward pass returned; call it "
          "with return_lse=True");
    }
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

  // A new tensor, which becomes the next result. What no kernel writes of it is 0, on a CPU.
  // `empty` is another number for that, of fp32.
  void* result(const nb::tuple& shape, Dtype dtype, bool is_written, float empty = 0) {
    Tensor made;
    nb::object object = new_output(*q_, shape, dtype, place_.fnuz, stream_, kAny, &made);
    call_.results.push_back({std::move(object)});
    void* data = made.data;
    if (!is_written && made.device < 0) {
      if (empty == 0) {
        std::memset(data, 0, static_cast<std::size_t>(count_of(made) * size_of(dtype)));
      } else {
        std::fill_n(static_cast<float*>(data), count_of(made), empty);
      }
    }
    call_.keep.push_back(std::move(made));
    return data;
  }

  // Whether every row belongs to a sequence that is computed.
  bool writes_rows(const std::int32_t* starts, const RowView& rows) const {
    return !group_ || q_->device >= 0 ||
           (!call_.problem.skip_min_seqlen_q && starts[batch_] == rows.rows);
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
    const bool all = writes_rows(args.seqstart_q, o);
    if (out_) {
      p.o = use("out", *out_, o, p.o);
      args.o = out_->data;
      call_.results.push_back({nb::borrow(options_["out"]), false});
      call_.keep.push_back(std::move(*out_));
    } else {
      args.o = result(shape_of_rows(layout_, !group_, o), output_type(p.dtype), all);
    }
    if (p.lse_out) {
      args.lse = static_cast<float*>(result(
          group_ ? nb::make_tuple(o.heads, o.rows) : nb::make_tuple(o.outer, o.heads, o.rows),
          Dtype::fp32, all, -std::numeric_limits<float>::infinity()));
    }
    if (p.store_randval) {
      args.randval = result(cells_shape(), Dtype::int8, !group_ && args.seqlen_k == nullptr);
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
      throw InvalidArgument("out holds no three tensors; pass those for dq, dk and dv, or None");
    }
    for (int i = 0; i < 3; ++i) {
      const auto& row = rows[i];
      if (out.is_none()) {
        const bool all = writes_rows(i == 0 ? args.seqstart_q : args.seqstart_k, *row.like);
        *row.data = result(shape_of_rows(layout_, !group_, *row.like), q_->dtype, all);
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
    if (p.dbias_out) args.dbias = result(cells_shape(), q_->dtype, !group_);
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

  const Tensor *q_ = nullptr, *bias_ = nullptr;
  const Tensor *o_ = nullptr, *do_ = nullptr, *lse_ = nullptr;
  std::optional<Tensor> out_;
  bool group_ = false;
  std::int64_t length_q_ = 0;
};

}  // namespace

FmhaCall resolve_attend(Family family, const FmhaOptions& options, const CallStream& stream) {
  return Attend(family, options, stream).call();
}

}  // namespace ckdisp::python
