// Blocks of Q, K, V and of weights as tiles of AMX. Numbers of more than eight bits are sums of two
// bf16. Of the products of weights, which are rounded, that of both small parts is left out.
#pragma once

#include "../amx.hpp"
#include "bf16_parts.hpp"
#include "core.hpp"

namespace ckdisp::cpu {
namespace {

// A weight is the sum of `WeightParts` bf16.
template <class T, int WeightParts>
struct FmhaAmxBlocks {
  using S = typename T::S;
  using F = typename T::F;
  using U = typename T::S::U;
  using Thread = Tiles;
  static constexpr int lanes = T::lanes;
  static constexpr int parts = T::in == Dtype::fp16 ? 2 : 1, weight_parts = WeightParts;
  using Numbers = Bf16Parts<S, parts>;
  using Weights = Bf16Parts<S, weight_parts>;

  // A panel of rows or columns is two tiles, which are `step` numbers deep.
  static constexpr int mr = 32, nr = 32, step = 32;
  static constexpr Index tiles_of_step = parts * 2 * Tiles::bytes;
  static_assert(T::nr == nr && lanes == 16);

  // Whether products must not have infinite factors: a small part that is zero would make them NaN.
  static constexpr bool finite_only = parts > 1 || weight_parts > 1;

  // Whether rows of Q are multiplied by the factor of scores when they are packed.
  static constexpr bool packs_factor = false;

  // By how much a score may exceed the number that powers are relative to. Sums have as many bits
  // less for their range, and are seldom multiplied.
  static constexpr float slack = 8;

  // Floats that packed numbers and weights take.
  static constexpr Index numbers(Index count) { return count * parts / 2; }
  static constexpr Index weights(Index count) { return count * weight_parts / 2; }

  // Where panels of columns, and the tiles of row `row` in each, begin.
  static CKDISP_CPU_INLINE float* panel_of(float* v, Index panel, Index length) {
    return v + panel * (length / step * tiles_of_step / 4);
  }

  static CKDISP_CPU_INLINE float* step_of(float* v, Index row) {
    return v + row / step * tiles_of_step / 4;
  }

  // Row i of packed Q is a line of `depth` numbers; zeros behind them, up to `padded`.
  static CKDISP_CPU_INLINE void put_row(float* q, Index i, Index padded, const char* line,
                                        Index depth, float) {
    char* const to = row_of(q, i, padded);
    for (Index x = 0; x < padded; x += step) {
      const Numbers numbers = Numbers::template load<T::in>(line + x * T::size_in, depth - x);
      unroll<parts>([&](auto part) CKDISP_CPU_LAMBDA {
        store(to + (part * padded + x) * 2, numbers.part[part]);
      });
    }
  }

  // Columns are lines, whose neighbours are paired in rows. A panel has room for `length` numbers
  // of a line; lines of the last one that do not exist are zero, and so are numbers that fill the
  // last tile. `from` bytes into the lines lie the first numbers.
  static CKDISP_CPU_NOINLINE void columns(float* to, const char* const* lines, Index from,
                                          Index count, Index depth, Index length) noexcept {
    for (Index first = 0; first < count; first += nr) {
      char* tiles = tiles_of(to, first / nr, length);
      for (Index x = 0; x < depth; x += step, tiles += tiles_of_step) {
        unroll<2>([&](auto side) CKDISP_CPU_LAMBDA {
          const Index some = least(lanes, count - first - side * lanes);
          U v[parts][lanes] = {};
          for (Index i = 0; i < some; ++i) {
            const char* const line = lines[first + side * lanes + i] + from;
            const Numbers numbers = Numbers::template load<T::in>(line + x * T::size_in, depth - x);
            unroll<parts>([&](auto part) CKDISP_CPU_LAMBDA { v[part][i] = numbers.part[part]; });
          }
          unroll<parts>([&](auto part) CKDISP_CPU_LAMBDA {
            transpose(v[part]);
            for (Index i = 0; i < lanes; ++i) {
              store(tile_at(tiles, part, side) + i * 64, v[part][i]);
            }
          });
        });
      }
    }
  }

  // Columns are positions in a line, of which there are `width`; lines are paired to rows. A panel
  // has room for `length` lines; those that fill the last tile are zero.
  static CKDISP_CPU_NOINLINE void rows(float* to, const char* const* lines, Index count,
                                       Index width, Index length) noexcept {
    using H = typename S::H;
    struct Halves {
      H side[2];
    };
    for (Index j = 0; j < round_up(count, step); j += 2) {
      for (Index x = 0; x < width; x += nr) {
        const auto line = [&](Index i) CKDISP_CPU_LAMBDA {
          return i < count ? Numbers::template load<T::in>(lines[i] + x * T::size_in, width - x)
                           : Numbers{};
        };
        const Numbers even = line(j), odd = line(j + 1);
        char* const tiles = tiles_of(to, x / nr, length) + j / step * tiles_of_step;
        unroll<parts>([&](auto part) CKDISP_CPU_LAMBDA {
          const Halves low = bits<Halves>(even.part[part]), high = bits<Halves>(odd.part[part]);
          unroll<2>([&](auto side) CKDISP_CPU_LAMBDA {
            store(tile_at(tiles, part, side) + j % step / 2 * 64,
                  widen_halves<S>(low.side[side]) | widen_halves<S>(high.side[side]) << 16);
          });
        });
      }
    }
  }

  // c[r][j] = row i + r of Q times column j of K, for j in start .. end, whole panels. Rows of c
  // are `apart` floats from each other; there are those of whole tiles. `finite`: all factors are.
  static CKDISP_CPU_INLINE void scores(const float* q, Index i, Index padded, Index rows,
                                       const float* k, Index depth, Index start, Index end,
                                       float* c, Index apart, bool finite = true) {
    if (finite_only && !finite) {
      return scores_of_any(q, i, padded, rows, k, depth, start, end, c, apart);
    }
    const auto strip =
        rows <= lanes ? &products<1, parts, parts, false> : &products<2, parts, parts, false>;
    for (Index j = start; j < end; j += nr) {
      strip(row_of(q, i, padded), padded * parts * 2, padded * 2, tiles_of(k, j / nr, padded),
            padded / step, c + j, apart);
    }
  }

  // Packs columns start .. end, whole steps, of rows of weights that have room for `length`.
  static CKDISP_CPU_INLINE void put_weights(float* to, const float* from, Index rows, Index length,
                                            Index start, Index end) {
    for (Index r = 0; r < rows; ++r) {
      const float* const line = from + r * length;
      for (Index j = start; j < end; j += step) {
        put_weights(to, r, length, j, load<F>(line + j), load<F>(line + j + lanes));
      }
    }
  }

  // Packs them as columns: weights of a panel of rows, `apart` floats from each other, become
  // columns first .. of rows start .. end, which have room for `length`.
  static CKDISP_CPU_NOINLINE void put_columns(float* to, const float* from, Index apart,
                                              Index first, Index length, Index start,
                                              Index end) noexcept {
    for (Index j = start; j < end; j += lanes) {
      F low[lanes], high[lanes];
      for (Index r = 0; r < lanes; ++r) {
        low[r] = load<F>(from + r * apart + j);
        high[r] = load<F>(from + (lanes + r) * apart + j);
      }
      transpose(low);
      transpose(high);
      for (Index i = 0; i < lanes; ++i) put_weights(to, j + i, length, first, low[i], high[i]);
    }
  }

  // c += rows of packed weights, which have room for `length`, from column start to end, times
  // these rows of V, of which a panel has room for `rows_of_v`.
  static CKDISP_CPU_INLINE void sums(const float* weights, Index rows, Index length, Index start,
                                     Index end, const float* v, Index rows_of_v, float* c,
                                     Index width) {
    const auto strip = rows <= lanes ? &products<1, weight_parts, parts, true>
                                     : &products<2, weight_parts, parts, true>;
    for (Index x = 0; x < width; x += nr) {
      strip(weight_at(weights, 0, length, 0) + start * 2, length * weight_parts * 2, length * 2,
            tiles_of(v, x / nr, rows_of_v) + start / step * tiles_of_step, (end - start) / step,
            c + x, width);
    }
  }

  // o = keep * o + weights times rows start .. end of V, of which a panel has room for `length`, as
  // have rows of weights. `packed` has room for such rows.
  static CKDISP_CPU_INLINE void values(const float* scores, Index rows, const float* v,
                                       Index length, Index start, Index end, float* o, Index width,
                                       const float* keep, float* packed) {
    end = round_up(end, step);
    put_weights(packed, scores, rows, length, start, end);
    for (Index r = 0; r < rows; ++r) {
      if (keep[r] == 1) continue;
      for (Index x = 0; x < width; x += lanes) {
        store(o + r * width + x, keep[r] * load<F>(o + r * width + x));
      }
    }
    sums(packed, rows, length, start, end, v, length, o, width);
  }
  // The same of one row and any numbers, with nothing but what start .. end have.
  static CKDISP_CPU_NOINLINE void values_of_row(const float* scores, const float* v, Index length,
                                                Index start, Index end, float* o, Index width,
                                                float keep) noexcept {
    for (Index x = 0; x < width; x += lanes) {
      F sum = keep * load<F>(o + x);
      for (Index j = start; j < end; ++j) {
        sum += scores[j] * numbers_of(v, length, j, x);
      }
      store(o + x, sum);
    }
  }

  // Whether all numbers of the first `count` rows are finite, in panels of columns that have room
  // for `length`.
  static CKDISP_CPU_NOINLINE bool finite(const float* v, Index length, Index count,
                                         Index width) noexcept {
    F zeros{};
    for (Index x = 0; x < width; x += lanes) {
      for (Index j = 0; j < count; ++j) {
        const F values = numbers_of(v, length, j, x);
        zeros += values - values;
      }
    }
    return sum_of_lanes(zeros) == 0;
  }

 private:
  // Scores of any numbers.
  static CKDISP_CPU_NOINLINE void scores_of_any(const float* q, Index i, Index padded, Index rows,
                                                const float* k, Index depth, Index start, Index end,
                                                float* c, Index apart) noexcept {
    for (Index r = 0; r < rows; ++r) {
      for (Index j = start; j < end; j += lanes) {
        F sum{};
        for (Index x = 0; x < depth; ++x) {
          sum += number_of(q, i + r, padded, x) * numbers_of(k, padded, x, j);
        }
        store(c + r * apart + j, sum);
      }
    }
  }

  // Columns x .. x + lanes of row j in panels that have room for `length` rows.
  static CKDISP_CPU_INLINE F numbers_of(const float* v, Index length, Index j, Index x) {
    const char* const pair =
        tile_at(tiles_of(v, x / nr, length) + j / step * tiles_of_step, 0, x % nr / lanes) +
        j % step / 2 * 64;
    F sum{};
    unroll<parts>([&](auto part) CKDISP_CPU_LAMBDA {
      const U both = load<U>(pair + part * 2 * Tiles::bytes);
      sum += bits<F>(j % 2 == 1 ? both & 0xffff0000u : both << 16);
    });
    return sum;
  }
  // Number x of row i of Q.
  static CKDISP_CPU_INLINE float number_of(const float* q, Index i, Index padded, Index x) {
    float sum = 0;
    unroll<parts>([&](auto part) CKDISP_CPU_LAMBDA {
      const auto upper = load<std::uint16_t>(row_of(q, i, padded) + (part * padded + x) * 2);
      sum += bits<float>(std::uint32_t{upper} << 16);
    });
    return sum;
  }

  // A panel's tiles of both sides, of each part, of each step.
  static CKDISP_CPU_INLINE char* tiles_of(const float* v, Index panel, Index length) {
    return reinterpret_cast<char*>(panel_of(const_cast<float*>(v), panel, length));
  }
  static CKDISP_CPU_INLINE char* row_of(const float* q, Index i, Index padded) {
    return at(const_cast<float*>(q), i * padded * parts * 2);
  }
  static CKDISP_CPU_INLINE char* tile_at(char* tiles, Index part, Index side) {
    return tiles + (part * 2 + side) * Tiles::bytes;
  }

  static CKDISP_CPU_INLINE char* weight_at(const float* weights, Index row, Index length,
                                           int part) {
    return at(const_cast<float*>(weights), (row * weight_parts + part) * length * 2);
  }
  // Neighbours of a row, from column j.
  static CKDISP_CPU_INLINE void put_weights(float* to, Index row, Index length, Index j, F low,
                                            F high) {
    const Weights both = Weights::of(low, high);
    unroll<weight_parts>([&](auto part) CKDISP_CPU_LAMBDA {
      store(weight_at(to, row, length, part) + j * 2, both.part[part]);
    });
  }

  // C = A B, or added to C, A being weights: `Height` tiles of rows of A times a panel of B. Bytes
  // lie between rows of A and between their parts, floats between rows of C.
  template <int Height, int PartsA, int PartsB, bool Add>
  static CKDISP_CPU_NOINLINE void products(const char* a, Index lda, Index part_of_a, const char* b,
                                           Index steps, float* c, Index ldc) noexcept {
    using Sums = TileSums<Height, 2>;
    Sums::begin(c, ldc, Add);
    for (Index s = 0; s < steps; ++s) {
      unroll<PartsB>([&](auto pb) CKDISP_CPU_LAMBDA {
        Sums::load_b(b + pb * 2 * Tiles::bytes, Tiles::bytes, 64);
        unroll<(Add && pb > 0 ? 1 : PartsA)>([&](auto pa) CKDISP_CPU_LAMBDA {
          Sums::add_products(a + pa * part_of_a, Tiles::rows * lda, lda);
        });
      });
      a += 64;
      b += PartsB * 2 * Tiles::bytes;
    }
    Sums::put(c, ldc);
  }
};

}  // namespace
}  // namespace ckdisp::cpu
