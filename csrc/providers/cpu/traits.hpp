// What a GEMM key means on a CPU: vectors, units, register tile and cache blocks.
#pragma once

#include "amx.hpp"
#include "convert.hpp"

namespace ckdisp::cpu {
namespace {

constexpr const ArchFacts& facts(Arch arch) { return kArches[static_cast<int>(arch)]; }

// How one step of the main loop multiplies. A unit is 32 bits of packed A or B: one float, or two
// values of neighbouring k.
enum class Math { fp32, bf16_pair, int16_pair };

template <class Kernel>
struct Traits {
  static constexpr const GemmKey& key = Kernel::key;
  static constexpr int bytes = facts(key.arch).vector_bytes;
  using S = Simd<bytes>;
  using F = typename S::F;
  using I = typename S::I;
  using U = typename S::U;
  static constexpr int lanes = S::lanes;

  static constexpr bool integer = key.dtype_a == Dtype::int8;
  static constexpr int kr = key.warp[2];  // values of k in a unit
  static constexpr Math math = integer ? Math::int16_pair : kr == 2 ? Math::bf16_pair : Math::fp32;
  using Acc = std::conditional_t<integer, std::int32_t, float>;
  using AccV = std::conditional_t<integer, I, F>;

  static constexpr int mr = key.warp[0];
  static constexpr int nr = key.warp[1];
  static constexpr int nv = nr / lanes;

  // Whether a register tile is two by two tiles of AMX, and the units that blocks are multiples of.
  static constexpr bool amx = key.arch == Arch::x86_64_v4_amx && math == Math::bf16_pair &&
                              mr == 2 * Tiles::rows && nv == 2;
  static constexpr int unit_step = amx ? Tiles::rows : 1;
  using Thread = std::conditional_t<amx, Tiles, NoTiles>;

  static constexpr bool a_along_k = key.layout == Layout::rcr || key.layout == Layout::rrr;
  static constexpr bool b_along_k = key.layout == Layout::rcr || key.layout == Layout::ccr;
  static constexpr int size_a = size_of(key.dtype_a);
  static constexpr int size_b = size_of(key.dtype_b);
  static constexpr int size_c = size_of(key.dtype_c);
  static constexpr int size_d = size_of(key.dtype_d);

  static_assert(key.provider == Provider::cpu);
  static_assert(bytes > 0, "not a CPU level");
  static_assert(nr % lanes == 0, "the columns of a register tile must fill whole vectors");
  static_assert(amx || mr * nv + nv + 1 <= facts(key.arch).vector_registers,
                "the register tile needs more vector registers than the level has");
  static_assert(key.dtype_acc == (integer ? Dtype::int32 : Dtype::fp32));
  static_assert((key.dtype_a == Dtype::int8) == (key.dtype_b == Dtype::int8));
  static_assert(kr == 1 || kr == 2);
  static_assert(integer ? kr == 2
                        : kr == 1 || (key.dtype_a == Dtype::bf16 && key.dtype_b == Dtype::bf16),
                "only int8 and bf16 values are multiplied in pairs");
  static_assert(key.num_d >= 0 && key.num_d <= kMaxD);
};

CKDISP_CPU_INLINE const char* at(const void* base, Index bytes) {
  return static_cast<const char*>(base) + bytes;
}
CKDISP_CPU_INLINE char* at(void* base, Index bytes) { return static_cast<char*>(base) + bytes; }

// acc + a * b, lane by lane, over the kr values of each unit.
template <class T>
CKDISP_CPU_INLINE typename T::AccV multiply_add(typename T::AccV acc, typename T::U a,
                                                typename T::U b) {
  using F = typename T::F;
  using I = typename T::I;
  using U = typename T::U;
  if constexpr (T::math == Math::fp32) {
    return acc + bits<F>(a) * bits<F>(b);
  } else if constexpr (T::math == Math::bf16_pair) {
#ifdef __AVX512BF16__
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
    return acc;
#else
    acc += bits<F>(a & 0xffff0000u) * bits<F>(b & 0xffff0000u);
    return acc + bits<F>(a << 16) * bits<F>(b << 16);
#endif
  } else {
#if defined(__AVX512VNNI__)
    if constexpr (T::bytes == 64) {
      __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
      return acc;
    }
#endif
#if defined(__AVX2__)
    U both;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(both) : "v"(a), "v"(b));
    return bits<I>(bits<U>(acc) + both);
#elif defined(__SSE2__)
    U both = a;
    __asm__("pmaddwd %1, %0" : "+x"(both) : "x"(b));
    return bits<I>(bits<U>(acc) + both);
#else
    const I high = (bits<I>(a) >> 16) * (bits<I>(b) >> 16);
    const I low = (bits<I>(a << 16) >> 16) * (bits<I>(b << 16) >> 16);
    return bits<I>(bits<U>(acc) + bits<U>(high) + bits<U>(low));
#endif
  }
}

// Lanes of units from `count` values along k at p (zeros behind them).
template <class T, Dtype D>
CKDISP_CPU_INLINE typename T::U units_along_k(const void* p, Index count) {
  using S = typename T::S;
  using U = typename T::U;
  if constexpr (T::math == Math::fp32) {
    return bits<U>(load_as_float<D, S>(p, count));
  } else if constexpr (T::math == Math::bf16_pair) {
    return load_partial<U, 2>(p, count);
  } else {
    const typename S::P x = load_partial<typename S::P, 1>(p, count);
    return bits<U>(__builtin_convertvector(x, typename S::S));
  }
}

// Lanes of units from rows k and k + 1 (if kr is 2; null if it does not exist) of a matrix that is
// contiguous across k: `count` values of each row.
template <class T, Dtype D>
CKDISP_CPU_INLINE typename T::U units_across_k(const void* p, const void* next, Index count) {
  using S = typename T::S;
  using U = typename T::U;
  using R = Raw<D, S>;
  const R x = load_partial<R, size_of(D)>(p, count);
  if constexpr (T::math == Math::fp32) {
    return bits<U>(to_float<D, S>(x));
  } else {
    const R y = next != nullptr ? load_partial<R, size_of(D)>(next, count) : R{};
    if constexpr (T::math == Math::bf16_pair) {
      return __builtin_convertvector(x, U) | __builtin_convertvector(y, U) << 16;
    } else {
      return (bits<U>(to_int<D, S>(x)) & 0xffffu) | bits<U>(to_int<D, S>(y)) << 16;
    }
  }
}

}  // namespace
}  // namespace ckdisp::cpu
