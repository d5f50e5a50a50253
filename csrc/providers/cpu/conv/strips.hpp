// The inner loops of pipeline `direct`: strips of pixels of one vector of channels, in registers.
// Each source pixel is read once for up to three taps, which it meets for three of the pixels.
#pragma once

#include "../traits.hpp"

namespace ckdisp::cpu {
namespace {

// The first channel of its group for each lane, where whole groups of `depth` fill a vector.
template <class S>
CKDISP_CPU_INLINE typename S::I first_lanes(Index depth) {
  typename S::I out;
  for (int i = 0; i < S::lanes; ++i) out[i] = i;
  return out & -static_cast<std::int32_t>(depth);  // a power of two
}

// What the sums of a vector of channels run over.
enum class Summed {
  own,      // the channel itself: depthwise
  lanes,    // those of its group, which are lanes of the same vector
  vectors,  // those of its group, which are whole vectors
};

// A line of the source, and the number of its first tap in the filter.
struct MetLine {
  const float* line;
  Index tap;
};

// Some pixels of a line of the result. Distances in floats, but for those of the result in bytes.
struct Strip {
  const MetLine* met;
  Index lines;
  const float* weights;  // taps x depth x lanes
  Index offset;          // in each line, of the first pixel's first tap
  Index step;            // from pixel to pixel
  Index taps, tap_step;
  Index first_weight, weight_step;  // of taps along the line
  Index depth;                      // summed channels
  Index vector;                     // from one vector of source channels to the next
  char* to;
  Index to_step;
  Index channels;   // of the result's vector
  Index next_line;  // from a line of the result to the one to fetch
  bool odd;         // whether a vector is the second in its cache lines
};

// `To` is the type of the result.
template <class T, Dtype To>
struct Strips {
  using S = typename T::S;
  using F = typename T::F;
  using I = typename T::I;
  static constexpr int lanes = T::lanes;
  static constexpr int longest = T::mr * T::nv;
  // On long lines of depthwise ones: all registers but those of three weights and a pixel.
  static constexpr int wide = static_cast<int>(
      most(longest, least(longest * 3 / 2, facts(T::key.arch).vector_registers - 4)));

  // About how many strips a line of so many pixels takes, for estimates of time: those of `some`
  // from `longest` on, though `line` may begin with wider or shorter ones. Short strips take as
  // long as long ones, whose sums hide the latency of each other.
  static constexpr Index strips(Index pixels) {
    Index count = 0;
    for (Index size = longest, left = pixels; left > 0; size = size > 4 ? size / 2 : 1) {
      const Index rest = left % size;
      const bool again = pixels >= size && 2 * rest > size;
      count += left / size + again;
      left = again ? 0 : rest;
    }
    return count;
  }

  template <Summed How>
  static CKDISP_CPU_INLINE void line(const Strip& strip, Index pixels) {
    // Neighbouring taps of near pixels are what the loops slide along.
    const bool slides = strip.tap_step == lanes;
    if constexpr (How == Summed::own) {
      if (slides && strip.step == lanes && pixels >= 4 * wide) {
        return some<How, 1, wide>(strip, 0, pixels);
      }
    }
    if (slides && strip.step == lanes) {
      some<How, 1, longest>(strip, 0, pixels);
    } else if (slides && strip.step == 2 * lanes) {
      some<How, 2, longest>(strip, 0, pixels);
    } else {
      some<How, 0, least(longest, 4)>(strip, 0, pixels);
    }
  }

 private:
  // Pixels from `first` to before `end`. A strip that would be more than half full begins earlier:
  // some pixels are computed twice.
  template <Summed How, int Apart, int Pixels>
  static CKDISP_CPU_INLINE void some(const Strip& strip, Index first, Index end) {
    const Index rest = (end - first) % Pixels;
    const bool again = end >= Pixels && 2 * rest > Pixels;
    const Index strips = (end - first) / Pixels + again;
    if (strips > 0) {
      sums<How, Apart, Pixels>(strip, first, end, strips);
      if (again) return;
      first += strips * Pixels;
    }
    if constexpr (Pixels > 1) {
      if (first < end) some<How, Apart, (Pixels > 4 ? Pixels / 2 : 1)>(strip, first, end);
    }
  }

  template <Summed How, int Apart, int Pixels>
  static CKDISP_CPU_NOINLINE void sums(const Strip& strip, Index first, Index end,
                                       Index strips) noexcept {
    if constexpr (How == Summed::own && Apart != 0) {
      if (strip.taps == 3 && strip.lines > 0 && strip.channels == lanes) {
        return three_taps<Apart, Pixels>(strip, first, end, strips);
      }
    }
    const Index depth = strip.depth;
    for (; strips > 0; --strips, first += Pixels) {
      if (first + Pixels > end) first = end - Pixels;
      F acc[Pixels] = {};
      const Index offset = strip.offset + first * strip.step;
      for (Index i = 0; i < strip.lines; ++i) {
        const float* from = strip.met[i].line + offset;
        const float* w = strip.weights + strip.met[i].tap * depth * lanes + strip.first_weight;
        Index tap = 0;
        if constexpr (Apart != 0) {
          for (; tap + 3 <= strip.taps; tap += 3) {
            channels<How, Apart, 3>(strip, from, w, acc);
            from += 3 * lanes;
            w += 3 * strip.weight_step;
          }
        }
        for (; tap < strip.taps; ++tap) {
          channels<How, Apart, 1>(strip, from, w, acc);
          from += strip.tap_step;
          w += strip.weight_step;
        }
      }
      char* to = strip.to + first * strip.to_step;
      unroll<Pixels>([&](auto i) CKDISP_CPU_LAMBDA {
        store_partial<size_of(To)>(to, from_float<To, S>(acc[i]), strip.channels);
        to += strip.to_step;
      });
    }
  }

  // Of depthwise ones with three taps along the line. Strips are short: all else counts too.
  template <int Apart, int Pixels>
  static CKDISP_CPU_INLINE void three_taps(const Strip& strip, Index first, Index end,
                                           Index strips) {
    const float* const weights = strip.weights + strip.first_weight;
    const Index weight_step = strip.weight_step, to_step = strip.to_step, offset = strip.offset;
    const MetLine* const met = strip.met;
    const MetLine* const last = met + strip.lines;
    // The next line is fetched, so that its stores do not wait: half of the pixels for each of two
    // vectors.
    constexpr int half = (Pixels + 1) / 2;
    const Index next_line = strip.next_line + (strip.odd ? half * to_step : 0);
    char* const line = strip.to;
    for (; strips > 0; --strips, first += Pixels) {
      if (first + Pixels > end) first = end - Pixels;
      const Index start = offset + first * (Apart * lanes);
      F acc[Pixels];
      char* to = line + first * to_step;
      const char* ahead = to + next_line;
      const auto add = [&](const MetLine* from, auto begins) CKDISP_CPU_LAMBDA {
        const float* in = from->line + start;
        __asm__("" : "+r"(in));  // hides that taps share pixels: too many to keep in registers
        slide<Apart, 3, begins>(weights + from->tap * lanes, weight_step, acc,
                                [&](int i) CKDISP_CPU_LAMBDA {
                                  if (begins && i < half) {
                                    __builtin_prefetch(ahead, 1);
                                    ahead += to_step;
                                  }
                                  return load<F>(in + i * lanes);
                                });
      };
      add(met, std::true_type{});
      for (const MetLine* from = met + 1; from != last; ++from) {
        add(from, std::false_type{});
      }
      unroll<Pixels>([&](auto i) CKDISP_CPU_LAMBDA {
        store(to, from_float<To, S>(acc[i]));
        to += to_step;
      });
    }
  }

  // All summed channels of `Taps` taps.
  template <Summed How, int Apart, int Taps, int Pixels>
  static CKDISP_CPU_INLINE void channels(const Strip& strip, const float* from, const float* w,
                                         F (&acc)[Pixels]) {
    const Index weight_step = strip.weight_step;
    const Index step = Apart == 0 ? strip.step : Apart * lanes;
    __asm__("" : "+r"(from));  // hides that taps share pixels: too many to keep in registers
    if constexpr (How == Summed::own) {
      slide<Apart, Taps>(w, weight_step, acc, [&](int i) CKDISP_CPU_LAMBDA {
        return load<F>(from + (Apart == 0 ? i * step : i * lanes));
      });
    } else if constexpr (How == Summed::lanes) {
      I index = first_lanes<S>(strip.depth);
      for (Index d = 0; d < strip.depth; ++d, w += lanes) {
        slide<Apart, Taps>(w, weight_step, acc, [&](int i) CKDISP_CPU_LAMBDA {
          return permute<S>(load<F>(from + (Apart == 0 ? i * step : i * lanes)), index);
        });
        index += 1;
      }
    } else {
      for (Index first = 0; first < strip.depth; first += lanes, from += strip.vector) {
        for (Index d = 0; d < lanes; ++d, w += lanes) {
          slide<Apart, Taps>(w, weight_step, acc, [&](int i) CKDISP_CPU_LAMBDA {
            return splat<F>(from[d + (Apart == 0 ? i * step : i * lanes)]);
          });
        }
      }
    }
  }

  // acc[p] += source(p * Apart + t) * weight t, each source pixel read once. Sums may begin here.
  template <int Apart, int Taps, bool Begins = false, int Pixels, class Source>
  static CKDISP_CPU_INLINE void slide(const float* w, Index weight_step, F (&acc)[Pixels],
                                      const Source& source) {
    F weight[Taps];
    unroll<Taps>([&](auto t) CKDISP_CPU_LAMBDA { weight[t] = load<F>(w + t * weight_step); });
    if constexpr (Apart == 0) {
      static_assert(Taps == 1);
      unroll<Pixels>([&](auto p) CKDISP_CPU_LAMBDA { acc[p] += source(p) * weight[0]; });
    } else {
      unroll<(Pixels - 1) * Apart + Taps>([&](auto i) CKDISP_CPU_LAMBDA {
        constexpr int low = i < Taps ? 0 : (i - Taps) / Apart + 1;
        constexpr int high = i / Apart < Pixels ? i / Apart : Pixels - 1;
        if constexpr (low <= high) {
          const F in = source(i);
          unroll<high - low + 1>([&](auto k) CKDISP_CPU_LAMBDA {
            constexpr int p = low + k;
            if constexpr (Begins && i == p * Apart) {
              acc[p] = in * weight[0];
            } else {
              acc[p] += in * weight[i - p * Apart];
            }
          });
        }
      });
    }
  }
};

}  // namespace
}  // namespace ckdisp::cpu
