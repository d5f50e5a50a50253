// Windows: a box of source pixels, padding included, as packed units in the order pixels, channels.
// Every tap of every row of the box is then at a fixed distance from the row's first one.
#pragma once

#include "../traits.hpp"
#include "geometry.hpp"

namespace ckdisp::cpu {
namespace {

constexpr int kSides = kDims + 1;

// One dimension of a convolution's rows, images included. Position w of a window whose first row is
// r0 is source pixel r0 * step + origin + w * scale; row r meets at tap j position
// (r - r0) * hop + j * reach.
struct Side {
  Index rows, pixels;
  Index step, origin, scale, hop;
  Index taps, reach;
  Index tap_first, tap_stride;  // in positions of the whole filter
  Index own_first, own_stride;  // elements to the pixel of row 0, and between those of rows
  Index pixel;                  // elements between pixels of the source

  Index window(Index count) const { return (count - 1) * hop + (taps - 1) * reach + 1; }
  bool plain() const { return taps == 1 && step == 1 && origin == 0 && rows == pixels; }
};

// The sides of a geometry. The last one is that of register tiles.
struct Sides {
  Side side[kSides];

  Sides() = default;

  // `own_pixel` elements lie between the pixels that rows stand for, of which `own` are in an
  // image.
  Sides(const Geometry& g, const std::int64_t (&own)[kDims], Index own_pixel,
        const std::int64_t (&filter)[kDims]) {
    Index pixel = g.pixel, tap = 1;
    for (int d = kDims - 1; d >= 0; --d) {
      const Axis& axis = g.axis[d];
      Side& s = side[d + 1];
      const bool one = axis.taps <= 1;
      s.rows = axis.rows;
      s.pixels = axis.pixels;
      s.step = axis.step;
      s.origin = axis.origin;
      s.scale = one ? axis.step : 1;
      s.hop = one ? 1 : axis.step;
      s.taps = axis.taps;
      s.reach = one ? 0 : axis.tap_step;
      s.tap_first = axis.tap_first * tap;
      s.tap_stride = axis.tap_stride * tap;
      s.own_first = axis.out_first * own_pixel;
      s.own_stride = axis.out_stride * own_pixel;
      s.pixel = pixel;
      pixel *= axis.pixels;
      own_pixel *= own[d];
      tap *= filter[d];
    }
    side[0] = {g.images, g.images, 1, 0, 1, 1, 1, 0, 0, 0, 0, own_pixel, pixel};
    merge();
    // Tiles run along a dimension that fills them.
    constexpr Index few = 4;
    if (side[kDims].rows < few) {
      int longest = kDims;
      for (int i = 0; i < kDims; ++i) {
        if (side[i].rows > side[longest].rows) longest = i;
      }
      const Side last = side[kDims];
      side[kDims] = side[longest];
      side[longest] = last;
    }
  }

  bool empty() const { return side[0].rows * side[1].rows * side[2].rows * side[3].rows == 0; }
  Index taps() const { return side[0].taps * side[1].taps * side[2].taps * side[3].taps; }

 private:
  // Makes one side of two whose pixels follow each other in both tensors.
  void merge() {
    int inner = kDims;
    for (int i = kDims - 1; i >= 0; --i) {
      const Side outer = side[i];
      Side& to = side[inner];
      if (outer.plain() && to.plain() && outer.pixel == to.pixel * to.pixels &&
          outer.own_stride == to.own_stride * to.rows && outer.own_first == 0 &&
          to.own_first == 0) {
        to.rows *= outer.rows;
        to.pixels *= outer.pixels;
        to.tap_first += outer.tap_first;  // the one tap need not be that of position 0
      } else {
        side[--inner] = outer;
      }
    }
    while (inner > 0) side[--inner] = {1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0};
  }
};

// Copies `count` elements as units.
template <class T, Dtype D>
CKDISP_CPU_INLINE void copy_units(std::uint32_t* to, const char* from, Index count) {
  constexpr Index step = Index{T::lanes} * T::kr;
  for (Index i = 0; i < count; i += step) {
    store(to, units_along_k<T, D>(from, least(step, count - i)));
    from += step * size_of(D);
    to += T::lanes;
  }
}

// A box of rows.
struct Box {
  Index first[kSides], count[kSides];
};

// How windows are laid out.
struct WindowLayout {
  Index channels;      // of a pixel
  Index line[kSides];  // units between positions of each side; the last: of a pixel
};

// Fills the window of a box from the channels at `source`. Writes up to a vector behind the window.
template <class T, Dtype D>
CKDISP_CPU_NOINLINE void fill_window(const Sides& sides, const WindowLayout& layout, const Box& box,
                                     const char* source, std::uint32_t* to) noexcept {
  constexpr Index size = size_of(D);
  Index length[kSides], start[kSides];
  for (int i = 0; i < kSides; ++i) {
    const Side& s = sides.side[i];
    length[i] = s.window(box.count[i]);
    start[i] = box.first[i] * s.step + s.origin;
  }
  const Side& last = sides.side[kDims];
  // Positions low .. high of a line are inside of the source.
  const Index low = least(length[3], start[3] >= 0 ? 0 : ceil_div(-start[3], last.scale));
  Index high = start[3] >= last.pixels ? 0 : ceil_div(last.pixels - start[3], last.scale);
  high = most(low, least(length[3], high));
  const Index pitch = layout.line[kDims];
  const Index from_pixel = last.pixel * last.scale * size;
  const bool dense = from_pixel == layout.channels * size && pitch * T::kr == layout.channels;
  const auto clear = [&](std::uint32_t* p, Index positions) {
    __builtin_memset(p, 0, static_cast<std::size_t>(positions * pitch * 4));
  };
  for (Index i = 0; i < length[0]; ++i) {
    for (Index j = 0; j < length[1]; ++j) {
      for (Index k = 0; k < length[2]; ++k) {
        const Index at[3] = {i, j, k};
        const char* from = source;
        std::uint32_t* line = to;
        bool inside = true;
        for (int d = 0; d < kDims; ++d) {
          const Side& s = sides.side[d];
          const Index pixel = start[d] + at[d] * s.scale;
          inside = inside && pixel >= 0 && pixel < s.pixels;
          from += pixel * s.pixel * size;
          line += at[d] * layout.line[d];
        }
        if (!inside || low == high) {
          clear(line, length[3]);
          continue;
        }
        clear(line, low);
        from += (start[3] + low * last.scale) * last.pixel * size;
        if (dense) {
          copy_units<T, D>(line + low * pitch, from, (high - low) * layout.channels);
        } else {
          for (Index w = low; w < high; ++w) {
            copy_units<T, D>(line + w * pitch, from, layout.channels);
            from += from_pixel;
          }
        }
        clear(line + high * pitch, length[3] - high);
      }
    }
  }
}

}  // namespace
}  // namespace ckdisp::cpu
