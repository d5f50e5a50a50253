// The parts of a problem that offsets of 32 bits reach.
#pragma once

#include "arguments.hpp"

namespace ckdisp::tile {

// CK's indices and byte offsets are of 32 bits.
inline constexpr std::int64_t kLargest = 0x7fffffff;

// Some rows of the output of some images: a problem of its own, on tensors that start `in` and
// `out` elements behind those of the whole.
struct ConvPart {
  ConvProblemData problem;
  std::int64_t images;  // that a layer of the grid works on
  std::int64_t in, out;
};

template <class Key>
struct Reach {
  static constexpr const ConvKey& key = Key::key;
  using Loop = MainLoop<Key>;
  using C = typename EpilogueOf<Key, false>::C;
  static constexpr std::int64_t tile_m = key.tile[0], tile_n = key.tile[1];
  static constexpr int outermost = kMaxSpatial - Loop::Layout::rank;

  // The most images that a layer of the grid can work on: all, or a divisor of their number; 0 if
  // not even one.
  static std::int64_t images(const ConvProblemData& p) {
    if (within(p, p.n)) return p.n;
    if (Loop::is_bwd_weight) return 0;
    std::int64_t best = 0;
    for (std::int64_t d = 1; d * d <= p.n; ++d) {
      if (p.n % d != 0) continue;
      for (const std::int64_t count : {d, p.n / d}) {
        if (count > best && within(p, count)) best = count;
      }
    }
    return best;
  }

  // Of an image that is too large, the rows of the output that a part can have; 0 if there are
  // none. CK's own way to split images keeps their offsets, and leaves out rows where a part ends
  // within a tile; so parts are launched one by one here.
  static std::int64_t rows(const ConvProblemData& p) {
    if (!has_parts(p)) return 0;
    const std::int64_t span = span_of(p);
    std::int64_t fit = 0, most = p.out[outermost];
    while (fit < most) {
      const std::int64_t middle = fit + (most - fit + 1) / 2;
      ConvProblemData inner = p;
      inner.out[outermost] = middle;
      inner.in[outermost] = (middle - 1) * p.stride[outermost] + span;
      if (within(inner, 1)) {
        fit = middle;
      } else {
        most = middle - 1;
      }
    }
    return fit;
  }

  // Whether an image can be split: each row of the output must see one of the input.
  static bool has_parts(const ConvProblemData& p) {
    return key.split_image && p.left_pad[outermost] < span_of(p) &&
           p.right_pad[outermost] < span_of(p);
  }

  // Calls use(part) for each part until one returns false.
  template <class Use>
  static bool each_part(const ConvProblemData& p, const Use& use) {
    const std::int64_t count = images(p);
    return count > 0 ? use(ConvPart{p, count, 0, 0}) : each_rows(p, rows(p), use);
  }

  // The same for parts of `rows` rows of the output of one image.
  template <class Use>
  static bool each_rows(const ConvProblemData& p, std::int64_t rows, const Use& use) {
    if (rows <= 0) return false;
    const ConvSizes s(p);
    const std::int64_t in_row = s.in_image / p.in[outermost],
                       out_row = s.out_image / p.out[outermost];
    for (std::int64_t n = 0; n < p.n; ++n) {
      for (std::int64_t row = 0; row < p.out[outermost]; row += rows) {
        ConvPart part{p, 1, 0, 0};
        ConvProblemData& some = part.problem;
        some.n = 1;
        some.out[outermost] = std::min(rows, p.out[outermost] - row);
        const std::int64_t first = row * p.stride[outermost] - p.left_pad[outermost];
        const std::int64_t end =
            first + (some.out[outermost] - 1) * p.stride[outermost] + span_of(p);
        const std::int64_t from = std::max<std::int64_t>(first, 0),
                           to = std::min(end, p.in[outermost]);
        some.in[outermost] = to - from;
        some.left_pad[outermost] = from - first;
        some.right_pad[outermost] = end - to;
        part.in = n * s.in_image + from * in_row;
        part.out = n * s.out_image + row * out_row;
        if (!use(part)) return false;
      }
    }
    return true;
  }

 private:
  // Rows of the input that a row of the output sees.
  static std::int64_t span_of(const ConvProblemData& p) {
    return p.dilation[outermost] * (p.filter[outermost] - 1) + 1;
  }

  // Whether offsets into `images` of the problem fit 32 bits. What is stored is asked for more:
  // CK shifts stores outside of C, such as those of a tile's overhang, by 2 GiB.
  static bool within(const ConvProblemData& p, std::int64_t images) {
    const ConvSizes s(p);
    const double in = static_cast<double>(s.in_image), out = static_cast<double>(s.out_image),
                 wei = static_cast<double>(s.wei) / static_cast<double>(p.g),
                 count = static_cast<double>(images);
    constexpr double size_in = sizeof(typename Loop::In), size_wei = sizeof(typename Loop::Wei),
                     size_out = sizeof(typename Loop::Out), size_c = sizeof(C),
                     merged = key.groups_to_merge;
    double stored = 0;
    if constexpr (Loop::is_bwd_weight) {
      stored = wei / static_cast<double>(p.k) *
               static_cast<double>(round_up(p.k * key.groups_to_merge, tile_m) + tile_m);
    } else if constexpr (Loop::is_fwd) {
      stored = (count + overhang(static_cast<double>(s.out_pixels))) * out;
    } else {
      double rows = 1, padded = 1;
      for (int i = 0; i < kMaxSpatial; ++i) {
        rows *= static_cast<double>(std::max<std::int64_t>(1, p.in[i] / p.stride[i]));
        padded *= static_cast<double>(p.in[i] + p.left_pad[i] + p.right_pad[i]) /
                  static_cast<double>(p.in[i]);
      }
      stored = (count + overhang(rows)) * in * padded;
    }
    constexpr double most = kLargest;
    return count * in * size_in <= most && wei * merged * size_wei <= most &&
           count * out * size_out <= most &&
           (stored + static_cast<double>(tile_n)) * size_c <= most;
  }

  // Images that the rows of a last tile may reach behind the last one.
  static double overhang(double rows_of_image) {
    const double images = static_cast<double>(tile_m) / rows_of_image;
    return images < 1 ? 1 : images + 1;
  }
};

}  // namespace ckdisp::tile
