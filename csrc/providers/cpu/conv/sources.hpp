// The panels of the implicit GEMMs of a convolution, packed straight from its tensors.
#pragma once

#include "../pack.hpp"
#include "geometry.hpp"

namespace ckdisp::cpu {
namespace {

// Lines that lie anywhere.
struct AnyLines {
  const char* const* lines;
  CKDISP_CPU_INLINE const char* operator[](Index i) const { return lines[i]; }
};

// Elements of a line that are packed at a time, so that a copy of them fits the stack.
constexpr int kLongest = 256;

// A panel of gathered pixels, contiguous along k: A of forward and of backward data.
template <class T, Dtype D>
class GatheredRows {
  static constexpr Index size = size_of(D);
  static constexpr int copy_bytes = kLongest * size_of(D);

 public:
  GatheredRows(const Geometry& g, const Runs& runs, const char* source)
      : g_(g), runs_(runs), source_(source) {}

  CKDISP_CPU_INLINE void pack(std::uint32_t* to, Index row, Index k, Index depth) const {
    const Index width = least(T::mr, g_.rows() - row);
    Index base[T::mr], at[T::mr][kDims];  // first pixel of the image, and coordinates without taps
    Walker walker(g_, row);
    for (Index i = 0; i < width; ++i, walker.next()) {
      base[i] = walker.image() * g_.axis[0].pixels;
      for (int d = 0; d < kDims; ++d) at[i][d] = g_.axis[d].source(walker.at(d), 0);
    }
    for_pieces(g_, runs_, T::kr, k, depth, kLongest, [&](const Piece& piece) {
      alignas(64) char copies[T::mr][copy_bytes];
      const char* lines[T::mr];
      for (Index i = 0; i < width; ++i) {
        lines[i] = line_of(base[i], at[i], piece, copies[i]);
      }
      pack_along_k<T, D, T::mr>(to, AnyLines{lines}, width, piece.count);
      to += piece.units * T::mr;
    });
  }

 private:
  // The elements of a piece for one pixel, copied where some of them lie outside of the source.
  CKDISP_CPU_INLINE const char* line_of(Index base, const Index* at, const Piece& piece,
                                        char* copy) const {
    const Axis *depth = &g_.axis[0], *height = &g_.axis[1], *width = &g_.axis[2];
    const Index z = at[0] + piece.j[0] * depth->tap_step;
    const Index y = at[1] + piece.j[1] * height->tap_step;
    const bool outside = z < 0 || z >= depth->pixels || y < 0 || y >= height->pixels;
    const Index x = at[2] + piece.j[2] * width->tap_step;
    const Index line = ((base + z) * height->pixels + y) * width->pixels;
    const Index from = runs_.merged ? x * g_.channels + piece.offset : x * g_.pixel + piece.offset;
    if (runs_.merged) {
      const Index end = width->pixels * g_.channels;
      if (!outside && from >= 0 && from + piece.count <= end) {
        return source_ + (line * g_.pixel + from) * size;
      }
      const Index low = outside ? piece.count : most(0, -from);
      const Index high = outside ? piece.count : least(piece.count, most(0, end - from));
      __builtin_memset(copy, 0, static_cast<std::size_t>(piece.count * size));
      if (low < high) {
        __builtin_memcpy(copy + low * size, source_ + (line * g_.pixel + from + low) * size,
                         static_cast<std::size_t>((high - low) * size));
      }
      return copy;
    }
    if (!outside && x >= 0 && x < width->pixels) return source_ + (line * g_.pixel + from) * size;
    __builtin_memset(copy, 0, static_cast<std::size_t>(piece.count * size));
    return copy;
  }

  const Geometry& g_;
  const Runs& runs_;
  const char* source_;
};

// Panels of the weights k, taps, c of one group, as B of forward (along k) and of backward data.
template <class T, Dtype D, bool Backward>
class Weights {
  static constexpr Index size = size_of(D);

 public:
  Weights(const ConvProblemData& p, const Geometry& g, const Runs& runs, const char* weights)
      : p_(p), g_(g), runs_(runs), weights_(weights) {}

  CKDISP_CPU_INLINE void pack(std::uint32_t* to, Index column, Index k, Index depth) const {
    const Index columns = Backward ? p_.c : p_.k;
    const Index width = least(T::nr, columns - column);
    const Index line = p_.filter[0] * p_.filter[1] * p_.filter[2] * p_.c * size;
    for_pieces(g_, runs_, T::kr, k, depth, runs_.padded, [&](const Piece& piece) {
      // A merged run of ascending taps is one stretch of memory; else a tap at a time.
      const bool whole = !Backward && runs_.merged;
      Index done = 0;
      while (done < piece.count) {
        const Index at = piece.offset + done;
        const Index tap = runs_.merged && !whole ? at / g_.channels : 0;
        const Index channel = runs_.merged && !whole ? at % g_.channels : at;
        const Index count = whole ? piece.count : least(piece.count - done, g_.channels - channel);
        const Index filter = filter_tap(piece, tap);
        if constexpr (Backward) {
          const char* from = weights_ + channel * line + (filter * p_.c + column) * size;
          pack_across_k<T, D, T::nr>(to + done / T::kr * T::nr, EvenLines{from, line}, width,
                                     columns - column, count);
        } else {
          const char* from = weights_ + column * line + (filter * p_.c + channel) * size;
          pack_along_k<T, D, T::nr>(to + done / T::kr * T::nr, EvenLines{from, line}, width, count);
        }
        done += count;
      }
      to += piece.units * T::nr;
    });
  }

 private:
  CKDISP_CPU_INLINE Index filter_tap(const Piece& piece, Index along_width) const {
    const Index z = g_.axis[0].tap(piece.j[0]), y = g_.axis[1].tap(piece.j[1]);
    const Index x = g_.axis[2].tap(piece.j[2] + along_width);
    return (z * p_.filter[1] + y) * p_.filter[2] + x;
  }

  const ConvProblemData& p_;
  const Geometry& g_;
  const Runs& runs_;
  const char* weights_;
};

// Columns (taps, c) of gathered pixels, contiguous across k, which runs over the pixels: B of
// backward weight.
template <class T, Dtype D>
class GatheredColumns {
 public:
  // `source` is the first channel of a group, behind `skipped` channels of other groups.
  GatheredColumns(const Geometry& g, const Runs& runs, const char* source, Index skipped)
      : g_(g),
        runs_(runs),
        source_(source),
        elements_(g.images * g.axis[0].pixels * g.axis[1].pixels * g.axis[2].pixels * g.pixel -
                  skipped) {}

  CKDISP_CPU_INLINE void pack(std::uint32_t* to, Index column, Index k, Index depth) const {
    const Index width = least(T::nr, runs_.count * runs_.run - column);
    Lines lines(*this, column, width, k);
    pack_across_k<T, D, T::nr>(to, lines, T::nr, T::nr, depth);
  }

 private:
  static constexpr Index size = size_of(D);
  // Whole vectors are read.
  static constexpr Index readable = round_up(T::nr, T::lanes);

  class Lines {
   public:
    Lines(const GatheredColumns& of, Index column, Index width, Index row)
        : g_(of.g_),
          runs_(of.runs_),
          source_(of.source_),
          elements_(of.elements_),
          walker_(g_, row) {
      for_pieces(g_, runs_, 1, column, width, readable,
                 [&](const Piece& piece) { pieces_[count_++] = piece; });
      __builtin_memset(copies_, 0, sizeof copies_);
    }

    // The next line; asked in order.
    CKDISP_CPU_INLINE const char* operator[](Index) {
      char* const copy = copies_[turn_ ^= 1];
      const char* line = line_of(copy);
      walker_.next();
      return line;
    }
    CKDISP_CPU_INLINE const char* ahead(const char* line) const { return line; }

   private:
    CKDISP_CPU_INLINE const char* line_of(char* copy) {
      const Axis *depth = &g_.axis[0], *height = &g_.axis[1], *across = &g_.axis[2];
      const Index line_end = across->pixels * g_.pixel;
      Index filled = 0;
      for (int i = 0; i < count_; ++i) {
        const Piece& piece = pieces_[i];
        const Index z = depth->source(walker_.at(0), piece.j[0]);
        const Index y = height->source(walker_.at(1), piece.j[1]);
        const Index x = across->source(walker_.at(2), piece.j[2]);
        bool inside = z >= 0 && z < depth->pixels && y >= 0 && y < height->pixels;
        const Index from = x * g_.pixel + piece.offset;
        Index low = 0, high = piece.count;  // the elements that exist
        if (runs_.merged) {
          low = most(0, -from);
          high = least(high, line_end - from);
        } else {
          inside = inside && x >= 0 && x < across->pixels;
        }
        const Index line = (walker_.image() * depth->pixels + z) * height->pixels + y;
        const Index first = line * line_end + from;
        const char* const data = source_ + first * size;
        const bool whole = inside && low == 0 && high == piece.count;
        if (count_ == 1 && whole && first + readable <= elements_) return data;
        char* const to = copy + filled * size;
        __builtin_memset(to, 0, static_cast<std::size_t>(piece.count * size));
        if (inside && low < high) {
          __builtin_memcpy(to + low * size, data + low * size,
                           static_cast<std::size_t>((high - low) * size));
        }
        filled += piece.count;
      }
      return copy;
    }

    const Geometry& g_;
    const Runs& runs_;
    const char* source_;
    Index elements_;  // from source_ on
    Walker walker_;
    Piece pieces_[readable];
    int count_ = 0, turn_ = 0;
    alignas(64) char copies_[2][readable * size];
  };

  const Geometry& g_;
  const Runs& runs_;
  const char* source_;
  Index elements_;  // from source_ on
};

}  // namespace
}  // namespace ckdisp::cpu
