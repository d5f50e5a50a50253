// What a provider asks first: whether a problem has the types and the operation of a key.
//
// Internal linkage, since units of different archs and CPU levels are linked into one program.
#pragma once

#include <cstddef>

#include <ckdisp/abi.hpp>

namespace ckdisp {
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

// The type of something in a kernel's key and in a problem.
struct TypeRow {
  const char* name;
  Dtype wanted, given;
};

template <std::size_t N>
inline bool all_equal(const TypeRow (&rows)[N], Refusal* refusal) {
  for (const TypeRow& row : rows) {
    if (row.wanted != row.given) {
      return refuse(refusal, Reason::dtype, "the type of %s is %s, the kernel's is %s", row.name,
                    name_of(row.given), name_of(row.wanted));
    }
  }
  return true;
}

inline bool has_types_of(const GemmKey& key, const GemmProblemData& p, Refusal* refusal) {
  const TypeRow rows[] = {
      {"A", key.dtype_a, p.dtype_a},
      {"B", key.dtype_b, p.dtype_b},
      {"C", key.dtype_c, p.dtype_c},
      {"the accumulator", key.dtype_acc, p.dtype_acc},
      {"D", key.dtype_d, key.num_d > 0 && p.num_d > 0 ? p.dtype_d : key.dtype_d}};
  return all_equal(rows, refusal);
}

// All of the operation but for the parts of K.
inline bool has_operation_of(const GemmKey& key, const GemmProblemData& p, Refusal* refusal) {
  if (p.layout != key.layout) {
    return refuse(refusal, Reason::layout, "the layout is %s, the kernel's is %s",
                  name_of(p.layout), name_of(key.layout));
  }
  if (p.elementwise != key.elementwise) {
    return refuse(refusal, Reason::elementwise, "the operation is %s, the kernel's is %s",
                  name_of(p.elementwise), name_of(key.elementwise));
  }
  if (p.num_d != key.num_d) {
    return refuse(refusal, Reason::num_d, "there are %d D tensors, the kernel takes %d",
                  static_cast<int>(p.num_d), static_cast<int>(key.num_d));
  }
  if (key.num_d > 0 && p.layout_d != key.layout_d) {
    return refuse(refusal, Reason::layout, "the order of D is %s, the kernel's is %s",
                  name_of(p.layout_d), name_of(key.layout_d));
  }
  return true;
}

inline bool has_types_of(const ConvKey& key, const ConvProblemData& p, Refusal* refusal) {
  const TypeRow rows[] = {{"the input", key.dtype_in, p.dtype_in},
                          {"the weights", key.dtype_wei, p.dtype_wei},
                          {"the output", key.dtype_out, p.dtype_out},
                          {"the accumulator", key.dtype_acc, p.dtype_acc}};
  return all_equal(rows, refusal);
}

// The direction and the layout.
inline bool has_operation_of(const ConvKey& key, const ConvProblemData& p, Refusal* refusal) {
  if (p.family != key.family) {
    return refuse(refusal, Reason::direction, "the problem is %s, the kernel is for %s",
                  name_of(p.family), name_of(key.family));
  }
  if (p.layout != key.layout) {
    return refuse(refusal, Reason::layout, "the layout is %s, the kernel's is %s",
                  name_of(p.layout), name_of(key.layout));
  }
  return true;
}

}  // namespace
}  // namespace ckdisp
