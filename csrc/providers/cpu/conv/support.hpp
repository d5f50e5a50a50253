// Which problems the convolution kernels take, whatever their pipeline.
#pragma once

#include "../../signature.hpp"
#include "core.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct ConvSupport {
  static constexpr const ConvKey& key = Kernel::key;
  // Byte offsets and padded sizes stay far below 2^63.
  static constexpr Index largest = Index{1} << 40;
  static constexpr const char* dimensions[kMaxSpatial] = {"depth", "height", "width"};

  static bool supports(const ConvProblemData& p, Refusal* refusal) {
    return has_operation_of(key, p, refusal) && has_types_of(key, p, refusal) &&
           parts(p, refusal) && sizes(p, refusal) && tensors(p, refusal) && special(p, refusal);
  }

 private:
  static bool parts(const ConvProblemData& p, Refusal* refusal) {
    if (p.k_batch == 1) return true;
    return refuse(refusal, Reason::split_k,
                  "the sums are to be split into %d parts, a CPU kernel takes only 1",
                  static_cast<int>(p.k_batch));
  }

  static bool in_range(const char* what, const char* dimension, Index size, Index low,
                       Refusal* refusal) {
    if (size >= low && size <= largest) return true;
    return refuse(refusal, Reason::shape, "%s%s is %lld, it must be between %lld and %lld", what,
                  dimension, static_cast<long long>(size), static_cast<long long>(low),
                  static_cast<long long>(largest));
  }

  static bool sizes(const ConvProblemData& p, Refusal* refusal) {
    if (!in_range("the number of images", "", p.n, 0, refusal) ||
        !in_range("the number of groups", "", p.g, 1, refusal) ||
        !in_range("the number of input channels of a group", "", p.c, 0, refusal) ||
        !in_range("the number of output channels of a group", "", p.k, 0, refusal)) {
      return false;
    }
    for (int i = 0; i < kMaxSpatial; ++i) {
      if (!in_range("the input's ", dimensions[i], p.in[i], 0, refusal) ||
          !in_range("the filter's ", dimensions[i], p.filter[i], 1, refusal) ||
          !in_range("the output's ", dimensions[i], p.out[i], 0, refusal) ||
          !in_range("the stride along the ", dimensions[i], p.stride[i], 1, refusal) ||
          !in_range("the dilation along the ", dimensions[i], p.dilation[i], 1, refusal) ||
          !in_range("the left padding of the ", dimensions[i], p.left_pad[i], 0, refusal) ||
          !in_range("the right padding of the ", dimensions[i], p.right_pad[i], 0, refusal)) {
        return false;
      }
      const Index reach = (p.filter[i] - 1) * static_cast<double>(p.dilation[i]) < largest
                              ? (p.filter[i] - 1) * p.dilation[i]
                              : largest + 1;
      if (!in_range("the reach of the filter along the ", dimensions[i], reach, 0, refusal)) {
        return false;
      }
    }
    return true;
  }

  // The tensors have fewer than 2^58 elements, counting no size as less than 1.
  static bool tensors(const ConvProblemData& p, Refusal* refusal) {
    const struct {
      const char* name;
      const std::int64_t* spatial;
      Index sizes[3];
    } rows[] = {{"input", p.in, {p.n, p.g, p.c}},
                {"weights", p.filter, {p.g, p.k, p.c}},
                {"output", p.out, {p.n, p.g, p.k}}};
    for (const auto& row : rows) {
      double elements = 1;
      for (const Index size : row.sizes) elements *= static_cast<double>(most(size, 1));
      for (int i = 0; i < kMaxSpatial; ++i) {
        elements *= static_cast<double>(most(row.spatial[i], 1));
      }
      if (elements >= static_cast<double>(Index{1} << 58)) {
        return refuse(refusal, Reason::shape,
                      "the %s has %.3g elements, it must have fewer than %g", row.name, elements,
                      static_cast<double>(Index{1} << 58));
      }
    }
    return true;
  }

  // Only filters of one pixel that moves by one are GEMMs on the tensors as they are.
  static bool special(const ConvProblemData& p, Refusal* refusal) {
    if constexpr (key.specialization != ConvSpecialization::default_) {
      static_assert(key.specialization == ConvSpecialization::filter1x1_stride1_pad0);
      for (int i = 0; i < kMaxSpatial; ++i) {
        if (p.filter[i] != 1 || p.stride[i] != 1 || p.left_pad[i] != 0 || p.right_pad[i] != 0) {
          return refuse(refusal, Reason::specialization,
                        "along the %s the filter is %lld, the stride %lld and the padding %lld and "
                        "%lld; the kernel takes only filter 1, stride 1 and no padding",
                        dimensions[i], static_cast<long long>(p.filter[i]),
                        static_cast<long long>(p.stride[i]), static_cast<long long>(p.left_pad[i]),
                        static_cast<long long>(p.right_pad[i]));
        }
      }
    }
    return true;
  }
};

}  // namespace
}  // namespace ckdisp::cpu
