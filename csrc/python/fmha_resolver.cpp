#include "fmha_resolver.hpp"

#include <utility>
#include <vector>

namespace ckdisp::python {
namespace {

constexpr std::size_t kMostTensors = 28;  // so that references to them stay valid

FmhaLayout layout_of(const FmhaOptions& options) {
  constexpr const char* kNames[] = {"bhsd", "bshd"};
  return one_of(options, "layout", kNames, FmhaLayout::bhsd);
}

}  // namespace

FmhaDtype dtype_of_pair(const Tensor& q, Dtype result) {
  const auto pair = [&](Dtype in, Dtype o) { return q.dtype == in && result == o; };
  if (pair(Dtype::fp32, Dtype::fp32)) return FmhaDtype::fp32;
  if (pair(Dtype::fp16, Dtype::fp16)) return FmhaDtype::fp16;
  if (pair(Dtype::bf16, Dtype::bf16)) return FmhaDtype::bf16;
  if (pair(Dtype::bf8, Dtype::bf8)) return FmhaDtype::bf8;
  if (pair(Dtype::fp8, Dtype::fp8)) return FmhaDtype::fp8;
  if (pair(Dtype::fp8, Dtype::fp16)) return FmhaDtype::fp8fp16;
  if (pair(Dtype::fp8, Dtype::bf16)) return FmhaDtype::fp8bf16;
  if (pair(Dtype::fp8, Dtype::fp32)) return FmhaDtype::fp8fp32;
  throw InvalidArgument(std::string("no attention turns ") + to_name(q.dtype) + " into " +
                        to_name(result) +
                        "; the result is of the type of q, or fp16, bf16 or fp32 for fp8");
}

FmhaResolver::FmhaResolver(Family family, const FmhaOptions& options, const CallStream& stream)
    : family_(family),
      options_(options),
      stream_(stream),
      layout_(layout_of(options)),
      builder_(family) {
  call_.keep.reserve(kMostTensors);
  builder_.layout(layout_);
}

Tensor& FmhaResolver::take(nb::handle object, const char* name, const Ranks& ranks) {
  call_.keep.push_back(import_tensor(object, name, stream_, ranks));
  return call_.keep.back();
}

const std::int32_t* FmhaResolver::indices(const char* name, int ndim, std::int64_t count,
                                          std::int64_t* width) {
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

void FmhaResolver::take_cache() {
  call_.args.cache_batch_idx = indices("cache_batch_idx", 1, batch_);
  if (call_.args.cache_batch_idx == nullptr) return;
  if (view_k_.outer == 0 && batch_ > 0) {
    throw InvalidArgument("cache_batch_idx chooses among the batches of k, which has none");
  }
  builder_.cache_batches(view_k_.outer);
}

void FmhaResolver::take_pages() {
  FmhaArgs& args = call_.args;
  std::int64_t width = 0;
  const bool list = options_.choice("kv_lookup", FmhaKvLookup::none) == FmhaKvLookup::sglang;
  args.page_table = indices("page_table", list ? 1 : 2, list ? -1 : batch_, &width);
  args.page_indptr = indices("page_indptr", 1, batch_ + 1);
  args.last_page_len = indices("last_page_len", 1, batch_);
  if (!list && (args.page_indptr != nullptr || args.last_page_len != nullptr)) {
    throw InvalidArgument(
        "page_indptr and last_page_len say where pages are in one list; pass kv_lookup='sglang', "
        "or a page_table of rows without them");
  }
  length_k_ = options_.integer("max_seqlen_k", width * view_k_.rows);
  builder_.pages(view_k_.rows, view_k_.outer, width);
  if (!is_prefill()) return;
  builder_.kv_cache(dense_keys_ ? FmhaKvLayout::vectorized : FmhaKvLayout::linear,
                    list ? FmhaKvLookup::sglang : FmhaKvLookup::vllm);
}

void FmhaResolver::find_place(const Tensor* more) {
  std::vector<const Tensor*> all;
  for (const Tensor& t : call_.keep) all.push_back(&t);
  if (more != nullptr) all.push_back(more);
  place_ = place_of(all, stream_, all.front()->dtype);
  call_.launch = place_.launch;
}

void FmhaResolver::disagree(const Tensor& a, const Tensor& b, const char* what) {
  throw InvalidArgument(std::string(a.name) + " has shape " + shape_text(a) + " and " + b.name +
                        " " + shape_text(b) + ": " + what);
}

void FmhaResolver::check_keys() const {
  if (view_v_.heads != view_k_.heads) disagree(*k_, *v_, "the heads must be equal");
  if (view_v_.rows != view_k_.rows) disagree(*k_, *v_, "the rows must be equal");
  if (view_v_.outer != view_k_.outer) disagree(*k_, *v_, "the batches must be equal");
}

void FmhaResolver::view_v(bool has_outer) {
  const Order order = options_.choice("vlayout", Order::r);
  builder_.vlayout(order);
  view_v_ = rows_of(*v_, order == Order::c ? FmhaLayout::bhsd : layout_, has_outer);
  if (order == Order::c) std::swap(view_v_.rows, view_v_.size);
}

FmhaStrides FmhaResolver::strides_of_v() const {
  RowView v = view_v_;
  if (call_.problem.vlayout == Order::c) std::swap(v.rows, v.size);
  return strides_of(v, call_.problem.v);
}

}  // namespace ckdisp::python
