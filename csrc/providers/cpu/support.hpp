// Which problems a kernel takes, and what one costs.
#pragma once

#include "packed.hpp"
#include "skinny.hpp"

namespace ckdisp::cpu {
namespace {

// A copy of an enumeration's names with internal linkage.
template <class E>
struct Names {
  const char* values[EnumNames<E>::size];
};
template <class E>
constexpr Names<E> copy_names() {
  Names<E> names{};
  for (std::size_t i = 0; i < EnumNames<E>::size; ++i) names.values[i] = EnumNames<E>::values[i];
  return names;
}
template <class E>
constexpr Names<E> names_of = copy_names<E>();

template <class E>
inline const char* name_of(E value) {
  const auto i = static_cast<std::size_t>(value);
  return i < EnumNames<E>::size ? names_of<E>.values[i] : "?";
}

template <class... Args>
inline bool reject(Refusal* refusal, Reason reason, const char* format, Args... args) {
  if (refusal != nullptr) {
    refusal->reason = reason;
    std::snprintf(refusal->text, sizeof refusal->text, format, args...);
  }
  return false;
}

template <class Kernel>
struct Support {
  using T = Traits<Kernel>;
  static constexpr const GemmKey& key = Kernel::key;
  static constexpr bool skinny = key.pipeline == Pipeline::skinny;
  // Byte offsets and padded sizes stay far below 2^63.
  static constexpr Index largest = Index{1} << 40;

  static bool supports(const GemmProblemData& p, Refusal* refusal) {
    return types(p, refusal) && operation(p, refusal) && sizes(p, refusal) &&
           leading_dimensions(p, refusal);
  }

 private:
  static bool types(const GemmProblemData& p, Refusal* refusal) {
    const struct {
      const char* name;
      Dtype wanted, given;
    } rows[] = {{"A", key.dtype_a, p.dtype_a},
                {"B", key.dtype_b, p.dtype_b},
                {"C", key.dtype_c, p.dtype_c},
                {"the accumulator", key.dtype_acc, p.dtype_acc},
                {"D", key.dtype_d, key.num_d > 0 && p.num_d > 0 ? p.dtype_d : key.dtype_d}};
    for (const auto& row : rows) {
      if (row.wanted != row.given) {
        return reject(refusal, Reason::dtype, "the type of %s is %s, the kernel's is %s", row.name,
                      name_of(row.given), name_of(row.wanted));
      }
    }
    return true;
  }

  static bool operation(const GemmProblemData& p, Refusal* refusal) {
    if (p.layout != key.layout) {
      return reject(refusal, Reason::layout, "the layout is %s, the kernel's is %s",
                    name_of(p.layout), name_of(key.layout));
    }
    if (p.elementwise != key.elementwise) {
      return reject(refusal, Reason::elementwise, "the operation is %s, the kernel's is %s",
                    name_of(p.elementwise), name_of(key.elementwise));
    }
    if (p.num_d != key.num_d) {
      return reject(refusal, Reason::num_d, "there are %d D tensors, the kernel takes %d",
                    static_cast<int>(p.num_d), static_cast<int>(key.num_d));
    }
    if (key.num_d > 0 && p.layout_d != key.layout_d) {
      return reject(refusal, Reason::layout, "the order of D is %s, the kernel's is %s",
                    name_of(p.layout_d), name_of(key.layout_d));
    }
    if (p.k_batch != 1) {
      return reject(refusal, Reason::split_k,
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
        return reject(refusal, Reason::shape, "%s is %lld, it must be between 0 and %lld", row.name,
                      static_cast<long long>(row.size), static_cast<long long>(largest));
      }
    }
    if (skinny && p.m > key.tile[0]) {
      return reject(refusal, Reason::skinny, "M is %lld, a kernel for few rows takes at most %d",
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
      return reject(refusal, Reason::leading_dimension, "%s is %lld, it must be at least %lld",
                    name, static_cast<long long>(ld), static_cast<long long>(line));
    }
    Index end = 0;
    if (__builtin_mul_overflow(ld, count, &end) || end > (Index{1} << 58) ||
        end < -(Index{1} << 58)) {
      return reject(refusal, Reason::shape,
                    "%s is %lld for %lld lines, which overflows the address of the last one", name,
                    static_cast<long long>(ld), static_cast<long long>(count));
    }
    return true;
  }
};

}  // namespace
}  // namespace ckdisp::cpu
