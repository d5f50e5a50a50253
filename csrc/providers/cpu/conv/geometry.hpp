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

  bool has(Index source_pixel) const { return source_pixel >= 0 && source_pixel < pixels; }

  // Row coordinates whose taps all meet the source: from the first to behind the last.
  std::pair<Index, Index> inner() const {
    Index low = 0, high = rows;
    while (low < high && source(low, 0) < 0) ++low;
    while (high > low && source(high - 1, most(taps, 1) - 1) >= pixels) --high;
    return {low, high};
  }
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

// f() of every geometry that the result is made of: that of the output, or those of the input's
// pixels.
template <bool Forward, class F>
inline void for_each_geometry(const ConvProblemData& p, const F& f) {
  if constexpr (Forward) {
    f(forward_geometry(p));
  } else {
    for (Index z = 0; z < residues(p, 0); ++z) {
      for (Index y = 0; y < residues(p, 1); ++y) {
        for (Index x = 0; x < residues(p, 2); ++x) f(backward_geometry(p, {z, y, x}));
      }
    }
  }
}

}  // namespace
}  // namespace ckdisp::cpu
