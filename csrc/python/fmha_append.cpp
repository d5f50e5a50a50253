#include <string>
#include <utility>

#include "cached.hpp"
#include "fmha_resolver.hpp"
#include "output.hpp"

namespace ckdisp::python {
namespace {

// Caches are written where they are; a query is rotated in a copy.
class Append : FmhaResolver {
 public:
  Append(const FmhaOptions& options, const CallStream& stream)
      : FmhaResolver(Family::fmha_appendkv, options, stream) {}

  FmhaCall call() {
    k_ = &take("k", kPages);
    v_ = &take("v", kPages);
    view_k_ = rows_of(*k_, layout_, true);
    view_v(true);
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
    take_cache();
    if (call_.args.cache_batch_idx == nullptr && !is_paged() && view_k_.outer != batch_) {
      disagree(*k_, k_new, "the batches must be equal, or cache_batch_idx choose among those of k");
    }
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
    find_place();
    FmhaProblemData& p = call_.problem = builder_.data();
    p.k = strides_of(view_k_, p.k);
    p.v = strides_of_v();
    p.k_new = strides_of(new_k, p.k_new);
    p.v_new = strides_of(new_v, p.v_new);
    validate(p);
    call_.args.k = k_->data;
    call_.args.v = v_->data;
    call_.args.k_new = k_new.data;
    call_.args.v_new = v_new.data;
    if (query != nullptr) copy_query(*query);
    call_.first = *k_;
    return std::move(call_);
  }

 private:
  static void check_new(const Tensor& added, const RowView& a, const Tensor& cache,
                        const RowView& c) {
    if (a.heads != c.heads || a.size != c.size) {
      disagree(added, cache, "the heads and head dimensions must be equal");
    }
  }

  void take_rotation() {
    const FmhaRope kind = options_.choice("rope", FmhaRope::none);
    if (kind == FmhaRope::none) {
      if (options_.has("rotary_cos") || options_.has("rotary_sin")) {
        throw InvalidArgument(
            "rotary_cos and rotary_sin are for a rotation, and rope is none; pass "
            "rope='interleaved' or 'half_rotated'");
      }
      return;
    }
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
};

}  // namespace

FmhaCall resolve_append(const FmhaOptions& options, const CallStream& stream) {
  return Append(options, stream).call();
}

}  // namespace ckdisp::python
