#include "fmha_tensors.hpp"

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>

namespace ckdisp::python {
namespace {

// That the numbers of a row lie one behind the other.
void check_row(const Tensor& t) {
  const int last = t.ndim - 1;
  if (t.regular && (t.shape[last] <= 1 || t.strides[last] == 1)) return;
  if (std::find(t.shape, t.shape + t.ndim, 0) != t.shape + t.ndim) return;  // nothing is read
  const std::string strides = joined(t.strides, static_cast<std::size_t>(t.ndim));
  throw InvalidArgument(std::string(t.name) + " has strides (" + strides +
                        "), and the last dimension must lie dense in memory; pass a contiguous "
                        "copy of " +
                        t.name);
}

}  // namespace

RowView rows_of(const Tensor& t, FmhaLayout layout, bool has_outer) {
  const int wanted = has_outer ? 4 : 3;
  const bool heads_first = layout == FmhaLayout::bhsd;
  if (t.ndim != wanted) {
    throw InvalidArgument(
        std::string(t.name) + " has shape " + shape_text(t) + "; pass " +
        (has_outer ? (heads_first ? "(batch, heads, rows, size)" : "(batch, rows, heads, size)")
                   : (heads_first ? "(heads, rows, size) with cu_seqlens"
                                  : "(rows, heads, size) with cu_seqlens")));
  }
  check_row(t);
  const int first = has_outer ? 1 : 0;
  const int head = first + (heads_first ? 0 : 1), row = first + (heads_first ? 1 : 0);
  return {has_outer ? t.shape[0] : 1,
          t.shape[head],
          t.shape[row],
          t.shape[first + 2],
          {has_outer ? t.strides[0] : 0, t.strides[head], t.strides[row]}};
}

FmhaStrides strides_of(const RowView& view, const FmhaStrides& dense) {
  return {view.outer > 1 ? view.strides.batch : dense.batch,
          view.heads > 1 ? view.strides.head : dense.head,
          view.rows > 1 ? view.strides.row : dense.row};
}

FmhaStrides repeated_strides(const Tensor& t, std::int64_t outer, std::int64_t heads,
                             std::int64_t rows, std::int64_t size) {
  check_row(t);
  const std::int64_t sizes[] = {outer, heads, rows, size};
  std::int64_t strides[4] = {};
  for (int i = 0; i < t.ndim; ++i) {
    const int at = 4 - t.ndim + i;
    const bool repeats = at < 3 && t.shape[i] == 1;
    if (!repeats && t.shape[i] != sizes[at]) {
      throw InvalidArgument(std::string(t.name) + " has shape " + shape_text(t) +
                            ", which does not broadcast to " + shape_text(sizes, 4));
    }
    strides[at] = repeats ? 0 : t.strides[i];
  }
  return {strides[0], strides[1], strides[2]};
}

void check_holds(const Tensor& t, Dtype wanted, const char* why) {
  if (t.dtype == wanted) return;
  throw InvalidArgument(std::string(t.name) + " holds " + to_name(t.dtype) + ", and " + why +
                        " is " + to_name(wanted) + "; convert it");
}

void check_dense(const Tensor& t) {
  std::int64_t dense = 1;
  bool right = t.regular;
  for (int i = t.ndim - 1; i >= 0; --i) {
    right = right && (t.shape[i] <= 1 || t.strides[i] == dense);
    dense *= t.shape[i];
  }
  if (right || dense == 0) return;
  throw InvalidArgument(std::string(t.name) + " has strides (" +
                        joined(t.strides, static_cast<std::size_t>(t.ndim)) +
                        "), and must lie dense in memory; pass a contiguous copy of it");
}

nb::tuple shape_of_rows(FmhaLayout layout, bool has_outer, const RowView& view) {
  nb::list out;
  if (has_outer) out.append(view.outer);
  out.append(layout == FmhaLayout::bhsd ? view.heads : view.rows);
  out.append(layout == FmhaLayout::bhsd ? view.rows : view.heads);
  out.append(view.size);
  return nb::tuple(out);
}

}  // namespace ckdisp::python
