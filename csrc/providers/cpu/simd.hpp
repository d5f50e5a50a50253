// Vectors of one CPU level: GCC vector extensions, which GCC and Clang compile for any machine, and
// a few instructions that those cannot express. Inline assembly instead of <immintrin.h>, because
// that header alone takes longer to compile than a whole kernel.
#pragma once

#include "base.hpp"

namespace ckdisp::cpu {
namespace {

// Vectors of `Bytes` bytes; a lane is 32 bits wide.
template <int Bytes>
struct Simd {
  static constexpr int bytes = Bytes;
  static constexpr int lanes = Bytes / 4;
  typedef float F __attribute__((vector_size(Bytes)));
  typedef std::int32_t I __attribute__((vector_size(Bytes)));
  typedef std::uint32_t U __attribute__((vector_size(Bytes)));
  typedef std::int16_t S __attribute__((vector_size(Bytes)));       // two per lane
  typedef std::uint16_t H __attribute__((vector_size(Bytes / 2)));  // one per lane
  typedef std::int16_t W __attribute__((vector_size(Bytes / 2)));   // one per lane
  typedef std::uint8_t Q __attribute__((vector_size(Bytes / 4)));   // one per lane
  typedef std::int8_t P __attribute__((vector_size(Bytes / 2)));    // two per lane
  typedef std::int8_t C __attribute__((vector_size(Bytes / 4)));    // one per lane
};

template <class To, class From>
CKDISP_CPU_INLINE To bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

template <class V>
CKDISP_CPU_INLINE V load(const void* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class V>
CKDISP_CPU_INLINE void store(void* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

template <class V, class T, int... I>
CKDISP_CPU_INLINE V splat(T x, std::integer_sequence<int, I...>) {
  return V{(static_cast<void>(I), x)...};
}

// All lanes equal to x.
template <class V>
CKDISP_CPU_INLINE V splat(std::remove_reference_t<decltype(V{}[0])> x) {
  return splat<V>(x, std::make_integer_sequence<int, sizeof(V) / sizeof x>{});
}

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define CKDISP_CPU_MASKS 1
struct __attribute__((may_alias)) Bytes64 {
  char data[64];
};
// One masked load or store of `Suffix`-bit elements; lanes that are off touch no memory.
#define CKDISP_CPU_MASKED(Suffix)                                               \
  template <class V>                                                            \
  CKDISP_CPU_INLINE V load_mask##Suffix(const void* p, std::uint64_t mask) {    \
    V v;                                                                        \
    __asm__("vmovdqu" #Suffix " %1, %0%{%2%}%{z%}"                              \
            : "=v"(v)                                                           \
            : "m"(*static_cast<const Bytes64*>(p)), "Yk"(mask));                \
    return v;                                                                   \
  }                                                                             \
  template <class V>                                                            \
  CKDISP_CPU_INLINE void store_mask##Suffix(void* p, V v, std::uint64_t mask) { \
    __asm__("vmovdqu" #Suffix " %1, %0%{%2%}"                                   \
            : "+m"(*static_cast<Bytes64*>(p))                                   \
            : "v"(v), "Yk"(mask));                                              \
  }
CKDISP_CPU_MASKED(8)
CKDISP_CPU_MASKED(16)
CKDISP_CPU_MASKED(32)
#undef CKDISP_CPU_MASKED
#endif

// The first `n` elements, of `Size` bytes each, of a vector at p; zeros behind them.
template <class V, int Size>
CKDISP_CPU_INLINE V load_partial(const void* p, Index n) {
  if (n >= static_cast<Index>(sizeof(V) / Size)) return load<V>(p);
#ifdef CKDISP_CPU_MASKS
  if constexpr (sizeof(V) >= 16) {
    const std::uint64_t mask = (std::uint64_t{1} << n) - 1;
    if constexpr (Size == 1) return load_mask8<V>(p, mask);
    if constexpr (Size == 2) return load_mask16<V>(p, mask);
    if constexpr (Size == 4) return load_mask32<V>(p, mask);
  }
#endif
  V v{};
  char buffer[sizeof(V)];
  store(buffer, v);
  const char* from = static_cast<const char*>(p);
  for (Index i = 0; i < n * Size; ++i) buffer[i] = from[i];
  return load<V>(buffer);
}

template <int Size, class V>
CKDISP_CPU_INLINE void store_partial(void* p, V v, Index n) {
  if (n >= static_cast<Index>(sizeof(V) / Size)) return store(p, v);
#ifdef CKDISP_CPU_MASKS
  if constexpr (sizeof(V) >= 16) {
    const std::uint64_t mask = (std::uint64_t{1} << n) - 1;
    if constexpr (Size == 1) return store_mask8(p, v, mask);
    if constexpr (Size == 2) return store_mask16(p, v, mask);
    if constexpr (Size == 4) return store_mask32(p, v, mask);
  }
#endif
  char buffer[sizeof(V)];
  store(buffer, v);
  char* to = static_cast<char*>(p);
  for (Index i = 0; i < n * Size; ++i) to[i] = buffer[i];
}

#if defined(__clang__) || __GNUC__ >= 12
template <class V, int... I>
CKDISP_CPU_INLINE V shuffle(V a, V b, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(a, b, I...);
}
#else
template <class V, int... I>
CKDISP_CPU_INLINE V shuffle(V a, V b, std::integer_sequence<int, I...>) {
  typedef std::int32_t M __attribute__((vector_size(sizeof(V))));
  return __builtin_shuffle(a, b, M{I...});
}
#endif

// Lane i is lane index[i] of x.
template <class S>
CKDISP_CPU_INLINE typename S::F permute(typename S::F x, typename S::I index) {
#ifdef __AVX2__
  if constexpr (S::bytes >= 32) {
    typename S::F out;
    __asm__("vpermps %2, %1, %0" : "=v"(out) : "v"(index), "vm"(x));
    return out;
  }
#endif
  typename S::F out;
  for (int i = 0; i < S::lanes; ++i) out[i] = x[index[i]];
  return out;
}

// Lane `lane` of the low or high half of two vectors interleaved in runs of `run` lanes, within
// blocks of `block` lanes.
constexpr int interleaved(int lane, int lanes, int block, int run, bool high) {
  const int base = lane / block * block;
  const int in_block = lane % block;
  const int piece = in_block / (2 * run);
  const int source = in_block / run % 2;
  return base + (high ? block / 2 : 0) + piece * run + in_block % run + source * lanes;
}

template <int Block, int Run, bool High, class V, int... I>
CKDISP_CPU_INLINE V interleave(V a, V b, std::integer_sequence<int, I...>) {
  return shuffle(a, b,
                 std::integer_sequence<int, interleaved(I, sizeof...(I), Block, Run, High)...>{});
}

template <int Block, int Run, bool High, class V>
CKDISP_CPU_INLINE V interleave(V a, V b) {
  return interleave<Block, Run, High>(a, b, std::make_integer_sequence<int, sizeof(V) / 4>{});
}

// Even or odd runs of four lanes of a, then those of b.
constexpr int quarter(int lane, int lanes, bool odd) {
  const int run = lane / 4;
  const int runs = lanes / 4;
  const int source = run / (runs / 2);
  return (run % (runs / 2) * 2 + (odd ? 1 : 0)) * 4 + lane % 4 + source * lanes;
}

template <bool Odd, class V, int... I>
CKDISP_CPU_INLINE V quarters(V a, V b, std::integer_sequence<int, I...>) {
  return shuffle(a, b, std::integer_sequence<int, quarter(I, sizeof...(I), Odd)...>{});
}

// Transposes a square of lanes x lanes: single-instruction shuffles at every level.
template <class V>
CKDISP_CPU_INLINE void transpose(V (&v)[sizeof(V) / 4]) {
  constexpr int lanes = sizeof(V) / 4;
  constexpr auto all = std::make_integer_sequence<int, lanes>{};
  V t[lanes];
  // 4 x 4 squares inside each run of four lanes.
  unroll<lanes / 4>([&](auto q) CKDISP_CPU_LAMBDA {
    constexpr int r = 4 * q;
    const V a = interleave<4, 1, false>(v[r], v[r + 1]);
    const V b = interleave<4, 1, true>(v[r], v[r + 1]);
    const V c = interleave<4, 1, false>(v[r + 2], v[r + 3]);
    const V d = interleave<4, 1, true>(v[r + 2], v[r + 3]);
    t[r] = interleave<4, 2, false>(a, c);
    t[r + 1] = interleave<4, 2, true>(a, c);
    t[r + 2] = interleave<4, 2, false>(b, d);
    t[r + 3] = interleave<4, 2, true>(b, d);
  });
  // Now t[4 q + j] holds, in run s, rows 4 q .. 4 q + 3 of column 4 s + j.
  unroll<4>([&](auto j) CKDISP_CPU_LAMBDA {
    if constexpr (lanes == 4) {
      v[j] = t[j];
    } else if constexpr (lanes == 8) {
      v[j] = quarters<false>(t[j], t[4 + j], all);
      v[4 + j] = quarters<true>(t[j], t[4 + j], all);
    } else {
      static_assert(lanes == 16);
      const V a = quarters<false>(t[j], t[4 + j], all);       // columns 0, 8 of rows 0-3, 4-7
      const V b = quarters<true>(t[j], t[4 + j], all);        // columns 4, 12
      const V c = quarters<false>(t[8 + j], t[12 + j], all);  // the same of rows 8-15
      const V d = quarters<true>(t[8 + j], t[12 + j], all);
      v[j] = quarters<false>(a, c, all);
      v[8 + j] = quarters<true>(a, c, all);
      v[4 + j] = quarters<false>(b, d, all);
      v[12 + j] = quarters<true>(b, d, all);
    }
  });
}

}  // namespace
}  // namespace ckdisp::cpu
