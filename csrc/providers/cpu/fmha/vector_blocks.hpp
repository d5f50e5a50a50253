// Blocks of Q, K and V as floats, which vectors multiply.
#pragma once

#include "pack.hpp"
#include "tile.hpp"

namespace ckdisp::cpu {
namespace {

template <class T>
struct FmhaVectorBlocks {
  using S = typename T::S;
  using Tile = FmhaTile<T>;
  using Pack = FmhaPack<T, T::in>;
  using Thread = NoTiles;

  // Rows of Q are padded to whole vectors.
  static constexpr int mr = T::mr, nr = T::nr, step = T::lanes;

  // Whether products must not have infinite factors.
  static constexpr bool finite_only = false;

  // Whether rows of Q are multiplied by the factor of scores when they are packed.
  static constexpr bool packs_factor = true;

  // By how much a score may exceed the number that powers are relative to.
  static constexpr float slack = 0;

  // Floats that packed rows of weights take: they are used as they are.
  static constexpr Index weights(Index) { return 0; }

  // Row i of packed Q is a line of `depth` numbers times `factor`; zeros behind them, up to
  // `padded`.
  static CKDISP_CPU_INLINE void put_row(float* q, Index i, Index padded, const char* line,
                                        Index depth, float factor) {
    widen_line<T, T::in>(q + i * padded, line, depth, padded, factor);
  }

  static CKDISP_CPU_INLINE float* panel_of(float* v, Index panel, Index length) {
    return v + panel * nr * length;
  }

  // Columns are lines: panels of `depth` rows.
  static CKDISP_CPU_INLINE void columns(float* to, const char* const* lines, Index from,
                                        Index count, Index depth, Index) {
    Pack::columns(to, lines, from, count, depth, 1.0f);
  }

  // Columns are positions in a line: panels of `length` rows, of which `count` lines exist.
  static CKDISP_CPU_INLINE void rows(float* to, const char* const* lines, Index count, Index width,
                                     Index length) {
    Pack::rows(to, lines, count, width, length);
  }

  // c[r][j] = row i + r of Q times column j of K, for j in start .. end, whole panels.
  static CKDISP_CPU_INLINE typename Tile::Strip scores_of(const float* q, Index i, Index padded,
                                                          const float* k, Index depth, Index start,
                                                          Index end, float* c, Index apart) {
    return {q + i * padded, padded, k + start * depth, nr, nr * depth, depth, (end - start) / nr,
            c + start,      apart};
  }
  static CKDISP_CPU_INLINE void scores(const float* q, Index i, Index padded, Index rows,
                                       const float* k, Index depth, Index start, Index end,
                                       float* c, Index apart, bool) {
    Tile::template choose<ARows::along_k>(rows)(
        scores_of(q, i, padded, k, depth, start, end, c, apart), nullptr);
  }

  // o = keep * o + weights times rows start .. end of V, of which a panel has `length`.
  static CKDISP_CPU_INLINE void values(const float* weights, Index rows, const float* v,
                                       Index length, Index start, Index end, float* o, Index width,
                                       const float* keep, float*) {
    Tile::template choose<ARows::along_k>(rows)({weights + start, length, v + start * nr, nr,
                                                 nr * length, end - start, width / nr, o, width},
                                                keep);
  }
  // The same of one row and any numbers, with nothing but what start .. end have.
  static CKDISP_CPU_INLINE void values_of_row(const float* weights, const float* v, Index length,
                                              Index start, Index end, float* o, Index width,
                                              float keep) {
    values(weights, 1, v, length, start, end, o, width, &keep, nullptr);
  }

  // Whether all numbers of the first `count` rows of V are finite.
  static bool finite(const float* v, Index length, Index count, Index width) {
    for (Index x = 0; x < width; x += nr) {
      if (!all_finite<Dtype::fp32, S>(v + x * length, count * nr)) return false;
    }
    return true;
  }
};

}  // namespace
}  // namespace ckdisp::cpu
