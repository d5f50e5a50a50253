// How a convolution is cut into windows: where the taps of a row lie in one, and how many rows
// share one.
#pragma once

#include "window.hpp"

namespace ckdisp::cpu {
namespace {

// The size, at most `limit`, of nearly equal parts of n.
constexpr Index even_parts(Index n, Index limit) { return ceil_div(n, ceil_div(n, limit)); }

// The taps of a filter as runs of what lies side by side in a window: the channels of one pixel, or
// of all taps along the last side where pixels are small.
struct WindowRuns {
  bool merged;
  Index channels;   // of a pixel
  Index units;      // of a pixel
  Index pixel;      // units from one pixel to the next
  Index run, runs;  // units of a run; runs

  static constexpr Index line = 16;  // units

  WindowRuns() = default;
  // `small`: units of a pixel from which on its runs are long enough; `longest`: of a run;
  // `ordered`: whether the taps of a run must follow each other in the filter as well.
  WindowRuns(const Sides& sides, Index channels_of_pixel, int kr, Index small, Index longest,
             bool ordered) {
    const Side& last = sides.side[kDims];
    channels = channels_of_pixel;
    units = ceil_div(channels, kr);
    merged = last.taps > 1 && last.reach == 1 && units < small && units * last.taps <= longest &&
             (!ordered || last.tap_stride == 1);
    // An odd number of cache lines, so that neighbouring pixels fall into different sets.
    pixel = units < small ? units : (ceil_div(units, line) | 1) * line;
    run = units * taps(sides);
    runs = run == 0 ? 0 : sides.taps() / taps(sides);
  }

  Index size() const { return run * runs; }
  // Taps of a run.
  Index taps(const Sides& sides) const { return merged ? sides.side[kDims].taps : 1; }

  // Units from the first pixel of a row to each run.
  void set_offsets(const Sides& sides, const WindowLayout& layout, Index* offsets) const {
    const Side(&s)[kSides] = sides.side;
    for (Index run = 0; run < runs; ++run) {
      Index rest = run;
      Index offset = 0;
      for (int i = merged ? kDims - 1 : kDims; i >= 0; --i) {
        offset += rest % s[i].taps * s[i].reach * layout.line[i];
        rest /= s[i].taps;
      }
      offsets[run] = offset;
    }
  }

  // Position in the filter of one of a run's taps.
  Index position(const Sides& sides, Index run, Index tap) const {
    const Side(&s)[kSides] = sides.side;
    Index position = 0;
    for (int i = kDims; i >= 0; --i) {
      Index j = tap;
      if (i < kDims || !merged) {
        j = run % s[i].taps;
        run /= s[i].taps;
      }
      position += s[i].tap_first + j * s[i].tap_stride;
    }
    return position;
  }
};

// What a box of rows may take.
struct BoxLimits {
  Index rows;
  Index window;  // units
  Index slice;   // units of those channels that are used together
  Index tile;    // rows that a part of a line should be a multiple of
};

// Boxes of rows that cover a problem: whole lines first, then lines of one plane, and so on.
struct Boxes {
  Index rows[kSides];   // of a box
  Index boxes[kSides];  // that many along each side
  Index count;          // of all boxes
  Index length;         // units of a window
  WindowLayout layout;

  Boxes() = default;
  Boxes(const Sides& sides, const WindowRuns& runs, Index slice, const BoxLimits& limits) {
    const Side(&s)[kSides] = sides.side;
    for (Index& size : rows) size = 1;
    Index pixels = 1, box = 1;
    for (int i = kDims; i >= 0; --i) {
      const auto fits = [&](Index size) {
        const Index all = s[i].window(size) * pixels;
        return all * slice <= limits.slice && all * runs.pixel <= limits.window &&
               size * box <= limits.rows;
      };
      rows[i] = largest(s[i].rows, fits);
      if (rows[i] < s[i].rows) {
        rows[i] = even_parts(s[i].rows, rows[i]);
        if (i == kDims && rows[i] > limits.tile) rows[i] = round_up(rows[i], limits.tile);
        break;
      }
      box *= rows[i];
      pixels *= s[i].window(rows[i]);
    }
    count = 1;
    length = runs.pixel;
    layout.channels = runs.channels;
    for (int i = kDims; i >= 0; --i) {
      layout.line[i] = length;
      length *= s[i].window(rows[i]);
      boxes[i] = ceil_div(s[i].rows, rows[i]);
      count *= boxes[i];
    }
  }

  Box box(const Sides& sides, Index number) const {
    Box box{};
    for (int i = kDims; i >= 0; --i) {
      box.first[i] = number % boxes[i] * rows[i];
      box.count[i] = least(rows[i], sides.side[i].rows - box.first[i]);
      number /= boxes[i];
    }
    return box;
  }

  Index lines() const { return rows[0] * rows[1] * rows[2]; }  // of a box

 private:
  // The largest size up to n that fits; 1 always does.
  template <class Fits>
  static Index largest(Index n, const Fits& fits) {
    Index low = 1, high = most(1, n);
    while (low < high) {
      const Index middle = (low + high + 1) / 2;
      if (fits(middle)) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

// Calls f(units of the window, elements of the own tensor) for each line of rows of a box.
template <class F>
CKDISP_CPU_INLINE void for_lines(const Sides& sides, const WindowLayout& layout, const Box& box,
                                 const F& f) {
  const Side(&s)[kSides] = sides.side;
  for (Index i = 0; i < box.count[0]; ++i) {
    for (Index j = 0; j < box.count[1]; ++j) {
      for (Index k = 0; k < box.count[2]; ++k) {
        const Index row[kDims] = {i, j, k};
        Index window = 0;
        Index own = s[kDims].own_first + box.first[kDims] * s[kDims].own_stride;
        for (int d = 0; d < kDims; ++d) {
          window += row[d] * s[d].hop * layout.line[d];
          own += s[d].own_first + (box.first[d] + row[d]) * s[d].own_stride;
        }
        f(window, own);
      }
    }
  }
}

}  // namespace
}  // namespace ckdisp::cpu
