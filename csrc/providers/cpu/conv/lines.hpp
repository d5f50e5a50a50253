// Lines of a block of the source's channels, as floats and with zeros where padding is: those that
// some lines of the result meet, each copied once, however many taps meet it.
#pragma once

#include "../traits.hpp"
#include "geometry.hpp"

namespace ckdisp::cpu {
namespace {

// How many axes one dimension of the result has: one, or of backward data one for each residue.
template <bool Forward>
inline Index axes(const ConvProblemData& p, int d) {
  return Forward ? 1 : residues(p, d);
}
// Pixel i of the result is row i / axes of axis i % axes.
template <bool Forward>
inline Axis axis(const ConvProblemData& p, int d, Index residue) {
  if constexpr (Forward) return forward_geometry(p).axis[d];
  return backward_axis(p, d, (residue + p.left_pad[d]) % p.stride[d]);
}

// What all axes of a dimension meet of the source.
struct Reach {
  Index span = 1;       // pixels from the first to the last tap of a row, at most
  Index low = 0, high;  // the first pixel, and the one behind the last

  template <bool Forward>
  static Reach of(const ConvProblemData& p, int d) {
    Reach reach{};
    reach.high = Forward ? p.in[d] : p.out[d];
    for (Index i = 0; i < axes<Forward>(p, d); ++i) {
      const Axis a = axis<Forward>(p, d, i);
      if (a.taps == 0 || a.rows == 0) continue;
      reach.span = most(reach.span, (a.taps - 1) * a.tap_step + 1);
      reach.low = least(reach.low, a.source(0, 0));
      reach.high = most(reach.high, a.source(a.rows - 1, a.taps - 1) + 1);
    }
    return reach;
  }
};

// How lines are kept: each as vectors of channels x positions x lanes.
struct LineLayout {
  Index pixels, pixels_y, channels;  // of the source; channels of all groups
  Index first, positions;            // the pixel at position 0; positions
  Index vectors;                     // of a block of channels
  Index slots_z, slots_y;            // a line's slot is its coordinates modulo these
  Index vector, line, size;          // floats of all positions of a vector, of a line, of all

  template <bool Forward>
  static LineLayout of(const ConvProblemData& p, Index vectors, int lanes) {
    const auto& source = Forward ? p.in : p.out;
    const Reach reach = Reach::of<Forward>(p, 2);
    LineLayout out{};
    out.pixels = source[2];
    out.pixels_y = source[1];
    out.channels = p.g * p.c;
    out.first = reach.low;
    out.positions = reach.high - reach.low;
    out.vectors = vectors;
    out.slots_z = most(1, least(Reach::of<Forward>(p, 0).span, source[0]));
    out.slots_y = most(1, least(Reach::of<Forward>(p, 1).span, source[1]));
    out.vector = out.positions * lanes;
    out.line = out.vector * vectors;
    out.size = out.line * out.slots_z * out.slots_y;
    return out;
  }

  Index slots() const { return slots_z * slots_y; }
};

// Vectors of a block of channels: of whole groups and whole cache lines, and as many as `limit`
// floats hold the lines of, and `more` floats of each vector.
template <bool Forward, class T, Dtype D>
inline Index vectors_of_block(const ConvProblemData& p, Index limit, Index more = 0) {
  constexpr Index lanes = T::lanes;
  const Index group = most(1, p.c / lanes);
  const Index size = LineLayout::of<Forward>(p, group, lanes).size + more * group;
  const Index near = ceil_div(64 / size_of(D) / lanes, group);  // groups of a cache line
  const Index groups = least(limit / most(1, size), 256 / group / lanes) / near * near;
  return group * least(most(groups, near), ceil_div(p.g * p.c, group * lanes));
}

template <class T, Dtype D>
class Lines {
 public:
  using S = typename T::S;
  static constexpr Index lanes = T::lanes, size = size_of(D);
  static constexpr int together = 4;  // vectors

  Lines(const LineLayout& layout, float* floats, Index* held)
      : layout_(layout), floats_(floats), held_(held) {
    __builtin_memset(floats, 0, static_cast<std::size_t>(layout.size) * sizeof(float));
  }

  // From now on lines are those of the channels from `channel` of an image at `source`.
  void begin(const void* source, Index channel) {
    source_ = at(source, channel * size);
    channels_ = least(layout_.channels - channel, layout_.vectors * lanes);
    for (Index i = 0; i < layout_.slots(); ++i) held_[i] = -1;
  }

  // The line at (z, y) of the source.
  CKDISP_CPU_INLINE const float* line(Index z, Index y) {
    const Index slot = z % layout_.slots_z * layout_.slots_y + y % layout_.slots_y;
    const Index number = z * layout_.pixels_y + y;
    float* const to = floats_ + slot * layout_.line;
    if (held_[slot] != number) {
      held_[slot] = number;
      fill(at(source_, number * layout_.pixels * layout_.channels * size), to);
    }
    return to;
  }

 private:
  CKDISP_CPU_NOINLINE void fill(const char* from, float* to) const noexcept {
    to -= layout_.first * lanes;
    const Index vector = layout_.vector, pixel = layout_.channels * size;
    const Index next = layout_.pixels * pixel;
    const Index whole = channels_ / lanes;
    for (Index i = 0; i < layout_.pixels; ++i, from += pixel, to += lanes) {
      Index v = 0;
      for (; v + together <= whole; v += together) {
        const char* const own = from + v * lanes * size;
        float* const out = to + v * vector;
        unroll<together>([&](auto j) CKDISP_CPU_LAMBDA {
          if constexpr (j * lanes * size % 64 == 0) {
            __builtin_prefetch(own + next + j * lanes * size, 0, 2);
          }
          store(out + j * vector, load_as_float<D, S>(own + j * lanes * size, lanes));
        });
      }
      for (; v * lanes < channels_; ++v) {
        const char* const own = from + v * lanes * size;
        store(to + v * vector, load_as_float<D, S>(own, least(lanes, channels_ - v * lanes)));
      }
    }
  }

  const LineLayout& layout_;
  float* floats_;
  Index* held_;  // number of the line in each slot
  const char* source_ = nullptr;
  Index channels_ = 0;
};

}  // namespace
}  // namespace ckdisp::cpu
