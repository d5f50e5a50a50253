// Which problems a grouped convolution kernel takes. As for a GEMM, reasons are found before CK's
// own check, which has the last word, is asked.
#pragma once

#include "../../../signature.hpp"
#include "reach.hpp"

namespace ckdisp::tile {

template <ConvUnit Key>
struct Support<Key> {
  static constexpr const ConvKey& key = Key::key;
  using Loop = MainLoop<Key>;
  static constexpr std::int64_t largest = kLargest;
  // Blocks in the second and third dimension of a grid.
  static constexpr std::int64_t kLayers = 65535;

  static bool supports(const ConvProblemData& p, Refusal* refusal) {
    if (!has_types_of(key, p, refusal) || !has_operation_of(key, p, refusal) ||
        !splits(p, refusal) || !specialized(p, refusal) || !channels_fit(p, refusal) ||
        !sizes_fit(p, refusal)) {
      return false;
    }
    if (p.n == 0) return !Loop::is_bwd_weight || no_images(refusal);
    return reachable(p, refusal) && Reach<Key>::each_part(p, [&](const ConvPart& part) {
             return ck_accepts(part.problem, part.images, refusal);
           });
  }

 private:
  static bool no_images(Refusal* refusal) {
    return refuse(refusal, Reason::shape, "there are no images, the kernel needs at least 1");
  }

  static bool splits(const ConvProblemData& p, Refusal* refusal) {
    const int parts = p.k_batch;
    if (parts == 1) return true;
    if (parts < 1 || parts > kLayers) {
      return refuse(refusal, Reason::split_k, "k_batch is %d, it must be between 1 and %lld", parts,
                    number(kLayers));
    }
    if (!Loop::is_bwd_weight) {
      return refuse(refusal, Reason::split_k,
                    "k_batch is %d, and %s kernels cannot split their sums: it must be 1", parts,
                    name_of(key.family));
    }
    if (!key.split_k) {
      return refuse(refusal, Reason::split_k, "k_batch is %d, the kernel was built without split_k",
                    parts);
    }
    return true;
  }

  static bool specialized(const ConvProblemData& p, Refusal* refusal) {
    constexpr auto kind = key.specialization;
    constexpr bool pointwise = kind == ConvSpecialization::filter1x1_pad0 ||
                               kind == ConvSpecialization::filter1x1_stride1_pad0;
    constexpr bool by_three = kind == ConvSpecialization::filter3x3;
    for (int i = kMaxSpatial - Loop::Layout::rank; i < kMaxSpatial; ++i) {
      const bool fits =
          (!pointwise || (p.filter[i] == 1 && p.left_pad[i] == 0 && p.right_pad[i] == 0)) &&
          (kind != ConvSpecialization::filter1x1_stride1_pad0 || p.stride[i] == 1) &&
          (!by_three || p.filter[i] == 3);
      if (!fits) {
        return refuse(refusal, Reason::specialization,
                      "the kernel is for %s; there is a filter of %lld with stride %lld and pads "
                      "%lld and %lld",
                      name_of(kind), number(p.filter[i]), number(p.stride[i]),
                      number(p.left_pad[i]), number(p.right_pad[i]));
      }
    }
    if (by_three && p.c != 1) {
      return refuse(refusal, Reason::specialization,
                    "the kernel is for filter3x3, which CK Tile has for 1 input channel in a "
                    "group; there are %lld",
                    number(p.c));
    }
    if (p.g % key.groups_to_merge != 0) {
      return refuse(refusal, Reason::specialization,
                    "there are %lld groups, not a multiple of the %d that the kernel merges",
                    number(p.g), static_cast<int>(key.groups_to_merge));
    }
    return true;
  }

  static bool whole_vectors(const char* what, std::int64_t channels, int vector, const char* tensor,
                            Refusal* refusal) {
    if (channels % vector == 0) return true;
    return refuse(refusal, Reason::channels,
                  "there are %lld %s channels in a group, not a multiple of %d, the width of the "
                  "kernel's accesses to %s",
                  number(channels), what, vector, tensor);
  }

  static bool channels_fit(const ConvProblemData& p, Refusal* refusal) {
    constexpr int a = key.vector[0], b = key.vector[1], c = key.vector[2];
    constexpr int in = Loop::is_fwd ? a : Loop::is_bwd_data ? c : b;
    constexpr int wei = Loop::is_bwd_weight ? c : b;
    constexpr int out = Loop::is_fwd ? c : a;
    return whole_vectors("input", p.c, in, "the input", refusal) &&
           whole_vectors("input", p.c, wei, "the weights", refusal) &&
           whole_vectors("output", p.k, out, "the output", refusal);
  }

  static bool size_fits(const char* name, std::int64_t size, std::int64_t most, Refusal* refusal) {
    if (size <= most) return true;
    return refuse(refusal, Reason::shape, "%s is %lld, the kernel takes at most %lld", name,
                  number(size), number(most));
  }

  // Sizes one by one, and then their products, that nothing below overflows.
  static bool sizes_fit(const ConvProblemData& p, Refusal* refusal) {
    // Rounding up to a tile, and a padded size, must not leave the range either.
    constexpr std::int64_t most = largest / 4;
    const struct {
      const char* name;
      std::int64_t size;
    } rows[] = {{"the number of images", p.n},
                {"input channels in a group", p.c},
                {"output channels in a group", p.k}};
    for (const auto& row : rows) {
      if (!size_fits(row.name, row.size, most, refusal)) return false;
    }
    for (int i = 0; i < kMaxSpatial; ++i) {
      const struct {
        const char* name;
        std::int64_t size;
      } spatial[] = {{"an input size", p.in[i]},
                     {"a filter size", p.filter[i]},
                     {"a stride", p.stride[i]},
                     {"a dilation", p.dilation[i]},
                     {"a pad", p.left_pad[i]},
                     {"a pad", p.right_pad[i]},
                     {"the span of a filter", p.dilation[i] * (p.filter[i] - 1)}};
      for (const auto& row : spatial) {
        if (!size_fits(row.name, row.size, most, refusal)) return false;
      }
    }
    if (!size_fits("the number of groups", p.g, kLayers * key.groups_to_merge, refusal)) {
      return false;
    }
    if constexpr (Loop::is_bwd_data) {
      // The GEMMs of a data gradient: one for each combination of taps modulo the stride.
      std::int64_t gemms = 1;
      for (int i = 0; i < kMaxSpatial; ++i) {
        gemms *= std::min(p.filter[i], p.stride[i] / std::gcd(p.stride[i], p.dilation[i]));
        if (!size_fits("the number of GEMMs, one for each tap modulo the stride,", gemms,
                       Kernel<Key>::CkArgs::MaxGroupedGemmGroupsNum, refusal)) {
          return false;
        }
      }
    }
    return true;
  }

  static bool reachable(const ConvProblemData& p, Refusal* refusal) {
    return Reach<Key>::images(p) > 0 || Reach<Key>::rows(p) > 0 || too_large(p, refusal);
  }

  static bool too_large(const ConvProblemData& p, Refusal* refusal) {
    const ConvSizes s(p);
    const std::int64_t images = Loop::is_bwd_weight ? p.n : 1;
    return refuse(refusal, Reason::shape,
                  "%s of %lld input and %lld output elements and weights of %lld elements in a "
                  "group are more than the 2 GiB that the kernel's offsets reach",
                  Loop::is_bwd_weight ? "images" : "an image", number(images * s.in_image),
                  number(images * s.out_image), number(s.wei / p.g));
  }

  static bool ck_accepts(const ConvProblemData& p, std::int64_t images, Refusal* refusal) {
    const auto args = ConvArguments<Key>::make(p, images, ConvArgs{});
    if (!ConvArguments<Key>::Ck::IsSupportedArgument(args)) {
      return refuse(refusal, Reason::provider,
                    "CK Tile's own check of the arguments refuses %lld images of %lld groups of "
                    "%lld input and %lld output channels",
                    number(p.n), number(p.g), number(p.c), number(p.k));
    }
    // Threads in a dimension of the grid are of 32 bits.
    constexpr std::int64_t most = 0xffffffff / Kernel<Key>::block_size;
    const dim3 grid = ConvArguments<Key>::Ck::GridSize(args);
    return size_fits("the number of tiles of C", grid.x, std::min(most, largest), refusal) &&
           size_fits("the number of layers of images or parts", grid.z, kLayers, refusal);
  }

  static long long number(std::int64_t value) { return value; }
};

}  // namespace ckdisp::tile
