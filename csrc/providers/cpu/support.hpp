// Which problems a kernel takes, and what one costs.
#pragma once

#include "../signature.hpp"
#include "packed.hpp"
#include "skinny.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct Support {
  using T = Traits<Kernel>;
  static constexpr const GemmKey& key = Kernel::key;
  static constexpr bool skinny = key.pipeline == Pipeline::skinny;
  // Byte offsets and padded sizes stay far below 2^63.
  static constexpr Index largest = Index{1} << 40;

  static bool supports(const GemmProblemData& p, Refusal* refusal) {
    return has_types_of(key, p, refusal) && operation(p, refusal) && sizes(p, refusal) &&
           leading_dimensions(p, refusal);
  }

 private:
  static bool operation(const GemmProblemData& p, Refusal* refusal) {
    if (!has_operation_of(key, p, refusal)) return false;
    if (p.k_batch != 1) {
      return refuse(refusal, Reason::split_k,
                    "K is to be split into %d parts, a CPU kernel takes only 1",
                    static_cast<int>(p.k_batch));
    }
    return true;
  }

  static bool sizes(const GemmProblemData& p, Refusal* refusal) {
    const struct {
      const char* name;
      Index size;
    } rows[] = {{"M", p.m}, {"N", p.n}, {"K", p.k}};
    for (const auto& row : rows) {
      if (row.size < 0 || row.size > largest) {
        return refuse(refusal, Reason::shape, "%s is %lld, it must be between 0 and %lld", row.name,
                      static_cast<long long>(row.size), static_cast<long long>(largest));
      }
    }
    if (skinny && p.m > key.tile[0]) {
      return refuse(refusal, Reason::skinny, "M is %lld, a kernel for few rows takes at most %d",
                    static_cast<long long>(p.m), static_cast<int>(key.tile[0]));
    }
    return true;
  }

  static bool leading_dimensions(const GemmProblemData& p, Refusal* refusal) {
    if (!leading_dimension("lda", p.lda, T::a_along_k ? p.k : p.m, T::a_along_k ? p.m : p.k,
                           refusal) ||
        !leading_dimension("ldb", p.ldb, T::b_along_k ? p.k : p.n, T::b_along_k ? p.n : p.k,
                           refusal) ||
        !leading_dimension("ldc", p.ldc, p.n, p.m, refusal)) {
      return false;
    }
    constexpr bool rows = key.layout_d == Order::r;
    for (int i = 0; i < key.num_d; ++i) {
      const char name[] = {'l', 'd', 'd', static_cast<char>('0' + i), '\0'};
      if (p.ldd[i] != 0 &&
          !leading_dimension(name, p.ldd[i], rows ? p.n : p.m, rows ? p.m : p.n, refusal)) {
        return false;
      }
    }
    return true;
  }

  // `count` lines of `line` elements, `ld` apart.
  static bool leading_dimension(const char* name, Index ld, Index line, Index count,
                                Refusal* refusal) {
    if (count > 1 && ld < line) {
      return refuse(refusal, Reason::leading_dimension, "%s is %lld, it must be at least %lld",
                    name, static_cast<long long>(ld), static_cast<long long>(line));
    }
    Index end = 0;
    if (__builtin_mul_overflow(ld, count, &end) || end > (Index{1} << 58) ||
        end < -(Index{1} << 58)) {
      return refuse(refusal, Reason::shape,
                    "%s is %lld for %lld lines, which overflows the address of the last one", name,
                    static_cast<long long>(ld), static_cast<long long>(count));
    }
    return true;
  }
};

}  // namespace
}  // namespace ckdisp::cpu
