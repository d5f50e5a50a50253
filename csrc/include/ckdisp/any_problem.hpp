// What is common to the problems of every op. C++17.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include <ckdisp/conv_problem.hpp>
#include <ckdisp/fmha_problem.hpp>
#include <ckdisp/problem.hpp>

namespace ckdisp {

// A problem of any op.
using AnyProblem = std::variant<GemmProblemData, ConvProblemData, FmhaProblemData>;

// The op, key and arguments that belong to a problem, and the most kernels that solve one.
template <class Problem>
struct OpOf;
template <>
struct OpOf<GemmProblemData> {
  static constexpr Op op = Op::gemm;
  static constexpr int kernels = 1;
  using Key = GemmKey;
  using Args = GemmArgs;
};
template <>
struct OpOf<ConvProblemData> {
  static constexpr Op op = Op::conv;
  static constexpr int kernels = 1;
  using Key = ConvKey;
  using Args = ConvArgs;
};
template <>
struct OpOf<FmhaProblemData> {
  static constexpr Op op = Op::fmha;
  static constexpr int kernels = 3;
  using Key = FmhaKey;
  using Args = FmhaArgs;
};

// The data of a problem, which may be given as its builder.
template <class Problem, class = typename OpOf<Problem>::Key>
const Problem& data_of(const Problem& problem) {
  return problem;
}
template <class Builder, class Problem = decltype(std::declval<const Builder&>().data())>
Problem data_of(const Builder& builder) {
  return builder.data();
}

// The arguments of a problem or builder.
template <class Problem>
using ArgsOf = typename OpOf<std::decay_t<decltype(data_of(std::declval<const Problem&>()))>>::Args;

}  // namespace ckdisp
