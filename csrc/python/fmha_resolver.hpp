// What the calls of all families of attention do to turn their arguments into a problem.
#pragma once

#include <cstdint>
#include <string>

#include "fmha_call.hpp"
#include "fmha_tensors.hpp"
#include "place.hpp"

namespace ckdisp::python {

// One of several names; the value is that of the enumeration.
template <class E, std::size_t N>
E one_of(const FmhaOptions& options, const char* name, const char* const (&names)[N], E otherwise) {
  if (!options.has(name)) return otherwise;
  return static_cast<E>(detail::parse_name(options.text(name), names, N, name));
}

// The dtype of an attention with such inputs and such a result; throws InvalidArgument for none.
FmhaDtype dtype_of_pair(const Tensor& q, Dtype result);
// The type of the result where a call does not say it.
inline Dtype default_result(Dtype input) { return input == Dtype::fp8 ? Dtype::bf16 : input; }

class FmhaResolver {
 protected:
  FmhaResolver(Family family, const FmhaOptions& options, const CallStream& stream);

  bool is_prefill() const { return family_ == Family::fmha_batch_prefill; }
  bool is_paged() const { return options_.has("page_table"); }

  // Tensors stay where they are in the call.
  Tensor& take(nb::handle object, const char* name, const Ranks& ranks);
  Tensor& take(const char* name, const Ranks& ranks) { return take(options_[name], name, ranks); }
  // Null when it was not given.
  Tensor* find(const char* name, const Ranks& ranks) {
    return options_.has(name) ? &take(name, ranks) : nullptr;
  }
  // Whole numbers, one dimension of `count` of them, or two of `count` rows; null when not given.
  const std::int32_t* indices(const char* name, int ndim, std::int64_t count,
                              std::int64_t* width = nullptr);
  // Which batch of K and V each batch uses, if that is said.
  void take_cache();
  // The page table; sets the length of K.
  void take_pages();
  // Where all tensors lie, which is where the call runs.
  void find_place(const Tensor* more = nullptr);

  [[noreturn]] static void disagree(const Tensor& a, const Tensor& b, const char* what);
  // That K and V belong together.
  void check_keys() const;
  // The rows of V, which `vlayout` may turn to columns: (batch, heads, size, rows).
  void view_v(bool has_outer);
  FmhaStrides strides_of_v() const;

  Family family_;
  const FmhaOptions& options_;
  const CallStream& stream_;
  FmhaLayout layout_;
  FmhaProblem builder_;
  FmhaCall call_{};
  const Tensor *k_ = nullptr, *v_ = nullptr;
  RowView view_q_{}, view_k_{}, view_v_{};
  bool dense_keys_ = false;  // pages of vectors, which have no rows
  std::int64_t batch_ = 0, length_k_ = 0;
  Place place_;
};

FmhaCall resolve_attend(Family family, const FmhaOptions& options, const CallStream& stream);
FmhaCall resolve_append(const FmhaOptions& options, const CallStream& stream);

}  // namespace ckdisp::python
