// Pipeline `direct`: convolutions of small groups that have as many input as output channels, one
// of each in depthwise ones. Vectors run over the channels of all groups, which lie side by side.
// Of a key's register tile, m is the number of pixels and n that of channels.
#pragma once

#include "direct_weights.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct ConvDirect {
  using T = Traits<Core<Kernel>>;
  using S = typename T::S;
  using F = typename T::F;
  using I = typename T::I;
  static constexpr const ConvKey& key = Kernel::key;
  static constexpr bool forward = key.family == Family::conv_fwd;
  static constexpr bool weights = key.family == Family::conv_bwd_weight;
  static constexpr Dtype type_a = T::key.dtype_a, type_b = T::key.dtype_b, type_c = T::key.dtype_c;
  static constexpr int size_a = size_of(type_a), size_c = size_of(type_c);
  static constexpr int pixels = T::mr, vectors = T::nv, lanes = T::lanes, block = T::nr;

  static bool supports(const ConvProblemData& p, Refusal* refusal) {
    if (p.c == p.k && p.c > 0 && lanes % p.c == 0) return true;
    return refuse(refusal, Reason::channels,
                  "a group has %lld input and %lld output channels; a direct kernel takes equal "
                  "numbers that divide %d",
                  static_cast<long long>(p.c), static_cast<long long>(p.k), lanes);
  }

  static double seconds(const ConvProblemData& p, int threads) {
    // Two loads a cycle, one for each multiplication of a vector, at 2.5 GHz, or one permutation;
    // and every tensor once.
    const auto multiplied = static_cast<double>(out_pixels(p) * filter_taps(p) * p.c) *
                            static_cast<double>(ceil_div(p.g * p.c, lanes));
    const auto moved = static_cast<double>(p.g * p.c) *
                       static_cast<double>(in_pixels(p) * size_of(key.dtype_in) +
                                           out_pixels(p) * size_of(key.dtype_out));
    return (multiplied / (p.c == 1 ? 5e9 : 2.5e9) + moved / 1e10) / threads;
  }

  static std::uint64_t workspace_size(const ConvProblemData& p, int threads) {
    return weights ? 0 : static_cast<std::uint64_t>(Parts(p, threads).size);
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, void* workspace, int threads) {
    if constexpr (weights) {
      DirectWeights<Kernel>::run(p, args, threads);
    } else {
      const Parts parts(p, threads);
      auto* const taps = static_cast<float*>(workspace);
      transpose_weights(p, args.wei, taps);
      char* const zeros = at(workspace, parts.zeros);
      for (Index i = 0; i < parts.meetings - parts.zeros; ++i) zeros[i] = 0;
      for_each_geometry<forward>(p, [&](const Geometry& g) {
        const Call call{p, g, forward ? args.in : args.out, taps, zeros, args.result, p.g * p.c};
        gather(call, at(workspace, parts.meetings), threads);
      });
    }
  }

 private:
  static Index padded(const ConvProblemData& p) { return round_up(p.g * p.c, block); }

  // Where the pixels of a row along the width meet the source at one tap of the filter. Inside, the
  // first says it for all.
  struct Meeting {
    Index tap;
    const char* pixel[pixels];
  };

  // The workspace in bytes: the weights in whole blocks of channels, the channels of a pixel
  // outside of the source, and each thread's meetings at the edges and inside.
  struct Parts {
    Index zeros, meetings, size;

    Parts(const ConvProblemData& p, int threads) {
      zeros = filter_taps(p) * p.c * padded(p) * Index{sizeof(float)};
      meetings = zeros + round_up(padded(p) * size_a, 64);
      size = meetings + threads * 2 * filter_taps(p) * Index{sizeof(Meeting)};
    }
  };

  // Where the weights of a vector of the result's channels begin: taps x summed channels of a group
  // x lanes, in the order of use.
  static Index weights_of(const ConvProblemData& p, Index channel) {
    return channel * filter_taps(p) * p.c;
  }

  static void transpose_weights(const ConvProblemData& p, const void* from, float* to) {
    const Index taps = filter_taps(p), channels = p.g * p.c, depth = p.c;
    for (Index vector = 0; vector < padded(p); vector += lanes) {
      for (Index t = 0; t < taps; ++t) {
        for (Index d = 0; d < depth; ++d) {
          for (Index i = vector; i < vector + lanes; ++i) {
            const Index group = i / depth * depth;
            const Index out = forward ? i : group + d, in = forward ? d : i - group;
            const char* const own = at(from, ((out * taps + t) * depth + in) * size_of(type_b));
            *to++ = i < channels ? load_as_float<type_b, S>(own, 1)[0] : 0.0f;
          }
        }
      }
    }
  }

  // What stays the same for all rows of pixels.
  struct Call {
    const ConvProblemData& p;
    const Geometry& g;
    const void* source;
    const float* taps;
    const char* zeros;
    void* result;
    Index channels;
  };

  // Pixels of the result in a row along the width: the first, and how many.
  struct Pixels {
    Index image, z, y, x, count;
  };

  // What they meet, at each tap whose line meets the source.
  struct Meetings {
    Meeting* list;
    Index count;
    Index offset;  // from where the list says that the first pixel is
  };

  // Rows of pixels along the width.
  static void gather(const Call& call, void* meetings, int threads) {
    const Geometry& g = call.g;
    const Index lines = g.images * g.axis[0].rows * g.axis[1].rows;
    if (lines == 0 || g.axis[2].rows == 0) return;
    const Index parts = least(lines, Index{threads} * parts_per_thread);
    std::int64_t counter = 0;
    parallel(threads, [&](int thread, int team) {
      auto* const own = static_cast<Meeting*>(meetings) + thread * 2 * filter_taps(call.p);
      Tickets tickets(&counter, parts, team);
      for (Index part = tickets.take(); part >= 0; part = tickets.take()) {
        for (Index line = part_start(lines, parts, part); line < part_start(lines, parts, part + 1);
             ++line) {
          one_line(call, line, own);
        }
      }
    });
  }

  static CKDISP_CPU_NOINLINE void one_line(const Call& call, Index line,
                                           Meeting* meetings) noexcept {
    const Geometry& g = call.g;
    const Axis& width = g.axis[2];
    const Index rows_y = g.axis[1].rows;
    Pixels some{line / rows_y / g.axis[0].rows, line / rows_y % g.axis[0].rows, line % rows_y, 0,
                pixels};
    const auto [low, high] = width.inner();
    const Index step = width.step * g.pixel * size_a;
    Meetings inner{meetings + filter_taps(call.p), 0, 0};
    some.x = low;
    if (high - low >= pixels) find_meetings(call, some, &inner);
    for (some.x = 0; some.x < width.rows; some.x += pixels) {
      some.count = least(pixels, width.rows - some.x);
      if (some.x >= low && some.x + pixels <= high) {
        inner.offset = (some.x - low) * step;
        all_channels<true>(call, some, inner);
      } else {
        Meetings edge{meetings, 0, 0};
        find_meetings(call, some, &edge);
        all_channels<false>(call, some, edge);
      }
    }
  }

  static void find_meetings(const Call& call, const Pixels& some, Meetings* found) {
    const Axis *az = &call.g.axis[0], *ay = &call.g.axis[1], *ax = &call.g.axis[2];
    const Index size = call.g.pixel * size_a;
    for (Index jz = 0; jz < az->taps; ++jz) {
      const Index sz = az->source(some.z, jz);
      if (!az->has(sz)) continue;
      for (Index jy = 0; jy < ay->taps; ++jy) {
        const Index sy = ay->source(some.y, jy);
        if (!ay->has(sy)) continue;
        const Index row = ((some.image * az->pixels + sz) * ay->pixels + sy) * ax->pixels;
        const char* const line = at(call.source, row * size);
        const Index tap_row = (az->tap(jz) * call.p.filter[1] + ay->tap(jy)) * call.p.filter[2];
        for (Index jx = 0; jx < ax->taps; ++jx) {
          Meeting* const meeting = &found->list[found->count++];
          meeting->tap = tap_row + ax->tap(jx);
          for (Index i = 0; i < pixels; ++i) {
            const Index source = ax->source(some.x + i, jx);
            const bool there = i < some.count && ax->has(source);
            meeting->pixel[i] = there ? line + source * size : call.zeros;
          }
        }
      }
    }
  }

  // Channels in the inner loop: pixels lie at distances that caches and prefetching dislike.
  // `Inner`: all pixels meet the source at each tap, the same distance apart.
  template <bool Inner>
  static void all_channels(const Call& call, const Pixels& some, const Meetings& meetings) {
    Index channel = 0;
    const auto run = [&](auto whole) {
      if (call.p.c == 1) {
        depthwise<Inner, whole>(call, some, meetings, channel);
      } else {
        grouped<Inner, whole>(call, some, meetings, channel);
      }
    };
    for (; channel + block <= call.channels; channel += block) run(std::true_type{});
    if (channel < call.channels) run(std::false_type{});
  }

  // f(pixel, tap) of each meeting: pixel(i) is where the channels from `channel` begin that pixel i
  // of the row meets.
  template <bool Inner, class F>
  static CKDISP_CPU_INLINE void each_meeting(const Call& call, const Meetings& meetings,
                                             Index channel, const F& f) {
    const Index offset = meetings.offset + channel * size_a;
    const Index step = call.g.axis[2].step * call.g.pixel * size_a;
    for (Index j = 0; j < meetings.count; ++j) {
      const Meeting& meeting = meetings.list[j];
      if constexpr (Inner) {
        const char* const first = meeting.pixel[0] + offset;
        f([&](Index i) CKDISP_CPU_LAMBDA { return first + i * step; }, meeting.tap);
      } else {
        f([&](Index i) CKDISP_CPU_LAMBDA { return meeting.pixel[i] + offset; }, meeting.tap);
      }
    }
  }

  // `Whole`: all channels of the block exist.
  template <bool Inner, bool Whole>
  static CKDISP_CPU_NOINLINE void depthwise(const Call& call, const Pixels& some,
                                            const Meetings& meetings, Index channel) noexcept {
    const Index rest = call.channels - channel;
    const float* const packed = call.taps + weights_of(call.p, channel);
    const Index apart = weights_of(call.p, lanes);
    F acc[pixels][vectors] = {};
    each_meeting<Inner>(
        call, meetings, channel, [&](const auto& pixel, Index tap) CKDISP_CPU_LAMBDA {
          const float* const own = packed + tap * lanes;
          unroll<vectors>([&](auto v) CKDISP_CPU_LAMBDA {
            const Index count = Whole ? lanes : least(lanes, rest - v * lanes);
            if (!Whole && count <= 0) return;
            const F w = load<F>(own + v * apart);
            unroll<pixels>([&](auto i) CKDISP_CPU_LAMBDA {
              acc[i][v] += load_as_float<type_a, S>(pixel(i) + v * lanes * size_a, count) * w;
            });
          });
        });
    unroll<vectors>([&](auto v) CKDISP_CPU_LAMBDA {
      const Index count = Whole ? lanes : least(lanes, rest - v * lanes);
      if (!Whole && count <= 0) return;
      F out[pixels];
      unroll<pixels>([&](auto i) CKDISP_CPU_LAMBDA { out[i] = acc[i][v]; });
      put<Inner>(call, some, channel + v * lanes, count, out);
    });
  }

  // The same where several channels are summed.
  template <bool Inner, bool Whole>
  static CKDISP_CPU_NOINLINE void grouped(const Call& call, const Pixels& some,
                                          const Meetings& meetings, Index channel) noexcept {
    const Index depth = call.p.c;
    const I first = first_lanes<S>(depth);
    for (Index v = 0; v < block; v += lanes) {
      const Index own = channel + v;
      const Index count = Whole ? lanes : least(lanes, call.channels - own);
      if (!Whole && count <= 0) return;
      const float* const packed = call.taps + weights_of(call.p, own);
      F acc[pixels] = {};
      each_meeting<Inner>(call, meetings, own, [&](const auto& pixel, Index tap) CKDISP_CPU_LAMBDA {
        const float* w = packed + tap * depth * lanes;
        F source[pixels];
        unroll<pixels>([&](auto i) CKDISP_CPU_LAMBDA {
          source[i] = load_as_float<type_a, S>(pixel(i), count);
        });
        for (Index d = 0; d < depth; ++d, w += lanes) {
          const I index = first + splat<I>(static_cast<std::int32_t>(d));
          const F weight = load<F>(w);
          unroll<pixels>(
              [&](auto i) CKDISP_CPU_LAMBDA { acc[i] += permute<S>(source[i], index) * weight; });
        }
      });
      put<Inner>(call, some, own, count, acc);
    }
  }

  template <bool Inner>
  static CKDISP_CPU_INLINE void put(const Call& call, const Pixels& some, Index channel,
                                    Index count, const F (&values)[pixels]) {
    const Axis *az = &call.g.axis[0], *ay = &call.g.axis[1], *ax = &call.g.axis[2];
    const auto& size = forward ? call.p.out : call.p.in;
    const Index row =
        ((some.image * size[0] + az->own(some.z)) * size[1] + ay->own(some.y)) * size[2];
    unroll<pixels>([&](auto i) CKDISP_CPU_LAMBDA {
      if (!Inner && i >= some.count) return;
      char* const to =
          at(call.result, ((row + ax->own(some.x + i)) * call.channels + channel) * size_c);
      store_partial<size_c>(to, from_float<type_c, S>(values[i]), count);
    });
  }
};

}  // namespace
}  // namespace ckdisp::cpu
