// How a direction of a convolution reads one tensor pixel by pixel: which pixel of the source each
// row of the implicit GEMM meets at each tap of the filter.
#pragma once

#include "../traits.hpp"

namespace ckdisp::cpu {
namespace {

constexpr int kDims = kMaxSpatial;

// Source pixel of row coordinate r and tap j in one dimension: r * step + origin + j * tap_step.
// The tap is number tap_first + j * tap_stride of the filter.
struct Axis {
  Index rows;    // row coordinates
  Index pixels;  // of the source; outside lie zeros
  Index step, origin;
  Index taps, tap_step;
  Index tap_first, tap_stride;
  Index out_first, out_stride;  // coordinate of the row's own pixel: out_first + r * out_stride

  Index source(Index r, Index j) const { return r * step + origin + j * tap_step; }
  Index tap(Index j) const { return tap_first + j * tap_stride; }
  Index own(Index r) const { return out_first + r * out_stride; }
};

struct Geometry {
  Axis axis[kDims];
  Index images;
  Index channels;  // of one group in the source
  Index pixel;     // elements between pixels of the source: the channels of all groups

  Index rows() const { return images * axis[0].rows * axis[1].rows * axis[2].rows; }
  Index taps() const { return axis[0].taps * axis[1].taps * axis[2].taps; }
};

// Forward, and with the roles of rows and sums exchanged backward weight: rows are output pixels.
inline Geometry forward_geometry(const ConvProblemData& p) {
  Geometry g{};
  for (int d = 0; d < kDims; ++d) {
    g.axis[d] = {p.out[d], p.in[d], p.stride[d], -p.left_pad[d], p.filter[d], p.dilation[d], 0, 1,
                 0,        1};
  }
  g.images = p.n;
  g.channels = p.c;
  g.pixel = p.g * p.c;
  return g;
}

constexpr Index greatest_divisor(Index a, Index b) {
  return b == 0 ? a : greatest_divisor(b, a % b);
}

// Backward data in one dimension, for the input pixels i with (i + pad) % stride == residue. Output
// pixel o meets input pixel i at tap t where o * stride + t * dilation == i + pad, so that all
// pixels of a residue meet the same taps: every (stride / gcd)-th one, in descending order of o.
// Here taps are numbered backwards, for o to ascend.
inline Axis backward_axis(const ConvProblemData& p, int d, Index residue) {
  const Index s = p.stride[d], dilation = p.dilation[d], pad = p.left_pad[d];
  const Index divisor = greatest_divisor(s, dilation);
  const Index first = ((residue - pad) % s + s) % s;
  Axis axis{};
  axis.rows = first < p.in[d] ? ceil_div(p.in[d] - first, s) : 0;
  axis.pixels = p.out[d];
  axis.out_first = first;
  axis.out_stride = s;
  axis.step = 1;
  const Index steps = s / divisor;  // taps of a residue are this far apart
  Index tap = 0;
  while (tap < p.filter[d] && tap < steps && (first + pad - tap * dilation) % s != 0) ++tap;
  if (tap >= p.filter[d] || tap >= steps) return axis;  // no tap reaches these pixels
  axis.taps = ceil_div(p.filter[d] - tap, steps);
  axis.tap_step = dilation / divisor;
  axis.tap_first = tap + (axis.taps - 1) * steps;
  axis.tap_stride = -steps;
  axis.origin = (first + pad - axis.tap_first * dilation) / s;
  return axis;
}

// Numbers of the residues of a dimension: at most one for each input pixel.
inline Index residues(const ConvProblemData& p, int d) { return least(p.stride[d], p.in[d]); }

// Backward data for one residue of each dimension: rows are input pixels, the source is the output.
inline Geometry backward_geometry(const ConvProblemData& p, const Index (&residue)[kDims]) {
  Geometry g{};
  for (int d = 0; d < kDims; ++d) {
    // Counted from the residue of pixel 0, so that each of the first pixels begins a class.
    const Index s = p.stride[d];
    g.axis[d] = backward_axis(p, d, (residue[d] + p.left_pad[d]) % s);
  }
  g.images = p.n;
  g.channels = p.k;
  g.pixel = p.g * p.k;
  return g;
}

// Walks over the rows of a geometry in order.
class Walker {
 public:
  Walker(const Geometry& g, Index row) : g_(g) {
    for (int d = kDims - 1; d >= 0; --d) {
      const Index count = most(1, g.axis[d].rows);
      r_[d] = row % count;
      row /= count;
    }
    image_ = row;
  }
  CKDISP_CPU_INLINE void next() {
    for (int d = kDims - 1; d >= 0; --d) {
      if (++r_[d] < g_.axis[d].rows) return;
      r_[d] = 0;
    }
    ++image_;
  }
  Index image() const { return image_; }
  Index at(int d) const { return r_[d]; }

 private:
  const Geometry& g_;
  Index image_, r_[kDims];
};

// The sum over taps and channels as runs, which lie side by side in memory: all channels of all
// taps of one line along the width where neighbouring taps are neighbouring pixels, else the
// channels of one tap. A run fills whole units.
struct Runs {
  bool merged;   // a run holds all taps along the width
  Index run;     // elements of a run
  Index padded;  // the same in whole units
  Index count;   // runs

  Runs(const Geometry& g, int kr) {
    const Axis& width = g.axis[kDims - 1];
    merged = width.tap_step == 1 && g.pixel == g.channels && g.channels % kr == 0;
    run = g.channels * (merged ? width.taps : 1);
    padded = round_up(run, kr);
    count = g.axis[0].taps * g.axis[1].taps * (merged ? 1 : width.taps);
  }
  Index size() const { return count * padded; }
};

// A piece of the sum inside one run: which taps it starts at, and its elements.
struct Piece {
  Index j[kDims];  // taps; the last is 0 in a merged run
  Index offset;    // in the run
  Index count;     // elements that exist
  Index units;     // units of packed panels that it fills
  Index index;     // of the run
};

// Calls f(piece) for the pieces of elements k .. k + depth.
template <class F>
CKDISP_CPU_INLINE void for_pieces(const Geometry& g, const Runs& runs, int kr, Index k, Index depth,
                                  Index longest, const F& f) {
  if (depth == 0) return;  // no taps
  const Index width = runs.merged ? 1 : g.axis[kDims - 1].taps;
  Piece piece{};
  piece.index = k / runs.padded;
  piece.offset = k % runs.padded;
  while (depth > 0) {
    Index rest = piece.index;
    piece.j[2] = rest % width;
    rest /= width;
    piece.j[1] = rest % g.axis[1].taps;
    piece.j[0] = rest / g.axis[1].taps;
    const Index taken = least(least(runs.padded - piece.offset, depth), longest);
    piece.count = most(0, least(taken, runs.run - piece.offset));
    piece.units = ceil_div(taken, kr);
    f(piece);
    depth -= taken;
    piece.offset += taken;
    if (piece.offset == runs.padded) {
      piece.offset = 0;
      ++piece.index;
    }
  }
}

}  // namespace
}  // namespace ckdisp::cpu
