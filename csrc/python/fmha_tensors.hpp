// The tensors of an attention call.
#pragma once

#include <string>

#include <ckdisp/fmha_problem.hpp>

#include "tensor.hpp"

namespace ckdisp::python {

inline constexpr Ranks kRows{3, 4, "four dimensions, or three with cu_seqlens"};
inline constexpr Ranks kPages{4, kMaxRank, "four dimensions, or five in pages of vectors"};
inline constexpr Ranks kCells{2, 4, "(batch, heads, seqlen_q, seqlen_k), or fewer to repeat it"};
inline constexpr Ranks kSums{2, 3, "(batch, heads, seqlen_q), or (heads, rows) with cu_seqlens"};
inline constexpr Ranks kTable{1, 2, "one or two dimensions"};
inline constexpr Ranks kAny{0, kMaxRank, "at most five dimensions"};

// A tensor (outer, heads, rows, size): its dimensions in that order, whatever the layout.
struct RowView {
  std::int64_t outer, heads, rows, size;
  FmhaStrides strides;
};

// Throws InvalidArgument unless the tensor has three dimensions without, four with an outer one,
// and the numbers of its rows lie one behind the other.
RowView rows_of(const Tensor& tensor, FmhaLayout layout, bool has_outer);

// Strides of the tensor where it has several of something, else those of a dense one.
FmhaStrides strides_of(const RowView& view, const FmhaStrides& dense);

// Strides of a tensor that is repeated along the dimensions that it lacks or has one of.
FmhaStrides repeated_strides(const Tensor& tensor, std::int64_t outer, std::int64_t heads,
                             std::int64_t rows, std::int64_t size);

// Throws InvalidArgument unless the tensor holds this type, and lies dense in memory.
void check_holds(const Tensor& tensor, Dtype wanted, const char* why);
void check_dense(const Tensor& tensor);

// Shape of a result (outer, heads, rows, size) in the layout; without outer in mode group.
nb::tuple shape_of_rows(FmhaLayout layout, bool has_outer, const RowView& view);

}  // namespace ckdisp::python
