// From accumulators to C: scale, fused element-wise operation with the D tensors, conversion.
#pragma once

#include "math.hpp"
#include "traits.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct Finish {
  using T = Traits<Kernel>;
  using S = typename T::S;
  using F = typename T::F;
  using I = typename T::I;
  using U = typename T::U;
  using AccV = typename T::AccV;
  static constexpr const GemmKey& key = Kernel::key;
  static constexpr Elementwise op = key.elementwise;
  static constexpr int lanes = T::lanes;

  // C holds the accumulators as they are.
  static constexpr bool c_is_accumulator = key.dtype_c == key.dtype_acc;

  // Nothing happens to the accumulators behind the main loop.
  static CKDISP_CPU_INLINE bool trivial(const GemmArgs& args) {
    return c_is_accumulator && op == Elementwise::passthrough && key.num_d == 0 &&
           args.scale == 1.0f;
  }

  // Writes rows x cols of C at (row, col) from accumulators `lds` apart; `from` may be C itself.
  static CKDISP_CPU_NOINLINE void tile(const GemmProblemData& p, const GemmArgs& args,
                                       const typename T::Acc* from, Index lds, Index row, Index col,
                                       Index rows, Index cols) noexcept {
    for (Index i = 0; i < rows; ++i) {
      const typename T::Acc* source = from + i * lds;
      char* to = at(args.c, ((row + i) * p.ldc + col) * T::size_c);
      for (Index j = 0; j < cols; j += lanes) {
        const Index count = least(lanes, cols - j);
        const AccV acc = load_partial<AccV, 4>(source + j, count);
        const auto out = convert(p, args, acc, row + i, col + j, count);
        store_partial<T::size_c>(to + j * T::size_c, out, count);
      }
    }
  }

 private:
  static constexpr bool can_stay_integer =
      T::integer && (key.num_d == 0 || is_integer(key.dtype_d)) &&
      (op == Elementwise::passthrough || op == Elementwise::add || op == Elementwise::multiply ||
       op == Elementwise::relu || (op == Elementwise::clamp && is_integer(key.dtype_c)));

  static CKDISP_CPU_INLINE Raw<key.dtype_c, S> convert(const GemmProblemData& p,
                                                       const GemmArgs& args, AccV acc, Index row,
                                                       Index col, Index count) {
    if constexpr (can_stay_integer) {
      if (args.scale == 1.0f) {
        return from_int<key.dtype_c, S>(apply_int(p, args, acc, row, col, count));
      }
    }
    F x;
    if constexpr (T::integer) {
      x = __builtin_convertvector(acc, F);
    } else {
      x = acc;
    }
    return from_float<key.dtype_c, S>(apply(p, args, x * args.scale, row, col, count));
  }

  // The piece of D number `index` that belongs to C at (row, col .. col + count).
  static CKDISP_CPU_INLINE Raw<key.dtype_d, S> load_d(const GemmProblemData& p,
                                                      const GemmArgs& args, int index, Index row,
                                                      Index col, Index count) {
    using R = Raw<key.dtype_d, S>;
    constexpr int size = T::size_d;
    const Index ldd = p.ldd[index];
    if constexpr (key.layout_d == Order::r) {
      return load_partial<R, size>(at(args.d[index], (row * ldd + col) * size), count);
    } else {
      char buffer[sizeof(R)] = {};
      for (Index j = 0; j < count; ++j) {
        const Index column = ldd == 0 ? 0 : (col + j) * ldd;
        __builtin_memcpy(buffer + j * size, at(args.d[index], (column + row) * size), size);
      }
      return load<R>(buffer);
    }
  }

  static CKDISP_CPU_INLINE F apply(const GemmProblemData& p, const GemmArgs& args, F x, Index row,
                                   Index col, Index count) {
    constexpr bool product = op == Elementwise::multiply || op == Elementwise::multi_d_multiply;
    if constexpr (key.num_d > 0) {
      F d = to_float<key.dtype_d, S>(load_d(p, args, 0, row, col, count));
      for (int index = 1; index < key.num_d; ++index) {
        const F next = to_float<key.dtype_d, S>(load_d(p, args, index, row, col, count));
        d = product ? d * next : d + next;
      }
      x = product ? x * d : x + d;
    }
    switch (op) {
      case Elementwise::relu:
        return x < 0.0f ? F{} : x;
      case Elementwise::gelu:
        return x * normal_cdf<S>(x);
      case Elementwise::fast_gelu: {
        const F u = x * (1.5957691216f + 0.0713548162726f * x * x);  // twice the tanh's argument
        return x * logistic<S>(u);
      }
      case Elementwise::sigmoid:
        return logistic<S>(x);
      case Elementwise::tanh:
        return hyperbolic_tangent<S>(x);
      case Elementwise::swish:
        return x * logistic<S>(x);
      case Elementwise::hard_swish: {
        F gate = x + 3.0f;
        gate = gate < 0.0f ? F{} : gate;
        gate = gate > 6.0f ? splat<F>(6.0f) : gate;
        return x * gate / 6.0f;
      }
      case Elementwise::clamp: {
        x = x < args.clamp_min ? splat<F>(args.clamp_min) : x;
        return x > args.clamp_max ? splat<F>(args.clamp_max) : x;
      }
      default:
        return x;
    }
  }

  static CKDISP_CPU_INLINE I apply_int(const GemmProblemData& p, const GemmArgs& args, I x,
                                       Index row, Index col, Index count) {
    if constexpr (key.num_d > 0) {
      for (int index = 0; index < key.num_d; ++index) {
        const I d = to_int<key.dtype_d, S>(load_d(p, args, index, row, col, count));
        const U y = op == Elementwise::multiply ? bits<U>(x) * bits<U>(d) : bits<U>(x) + bits<U>(d);
        x = bits<I>(y);
      }
    }
    if constexpr (op == Elementwise::relu) x = x < 0 ? I{} : x;
    if constexpr (op == Elementwise::clamp) {
      const I low = splat<I>(bound(args.clamp_min));
      const I high = splat<I>(bound(args.clamp_max));
      x = x < low ? low : x;
      x = x > high ? high : x;
    }
    return x;
  }

  // A bound of clamp as the nearest int32: the same as to clamp first and to round then.
  static CKDISP_CPU_INLINE std::int32_t bound(float x) {
    return from_float<Dtype::int32, S>(splat<F>(x))[0];
  }
};

}  // namespace
}  // namespace ckdisp::cpu
