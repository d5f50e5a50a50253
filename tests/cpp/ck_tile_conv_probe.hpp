// Computes convolutions on the host with the arguments that kernels get: with CK's descriptors of
// A, B and C, the grid and the loops over K that the kernels make of them. The tensors hold small
// integers, so that sums are exact.
#pragma once

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "ck_tile_conv_probe_table.hpp"
#include "providers/ck_tile/conv.hpp"

namespace ckdisp::tile {

struct Tensors {
  std::vector<double> in, wei, out;
};

// Calls f(in, wei, out) with the places of every product of a convolution.
template <class F>
void each_product(const ConvProblemData& p, const F& f) {
  using Index = std::int64_t;
  const auto for_each = [](const Index(&size)[3], const auto& body) {
    for (Index d = 0; d < size[0]; ++d) {
      for (Index h = 0; h < size[1]; ++h) {
        for (Index w = 0; w < size[2]; ++w) body(std::array<Index, 3>{d, h, w});
      }
    }
  };
  const auto flat = [](const std::array<Index, 3>& at, const Index(&size)[3]) {
    return (at[0] * size[1] + at[1]) * size[2] + at[2];
  };
  const ConvSizes s(p);
  for_each(p.out, [&](const std::array<Index, 3>& o) {
    for_each(p.filter, [&](const std::array<Index, 3>& tap) {
      std::array<Index, 3> i{};
      for (std::size_t d = 0; d < 3; ++d) {
        i[d] = o[d] * p.stride[d] + tap[d] * p.dilation[d] - p.left_pad[d];
        if (i[d] < 0 || i[d] >= p.in[d]) return;
      }
      for (Index n = 0; n < p.n; ++n) {
        for (Index g = 0; g < p.g; ++g) {
          for (Index k = 0; k < p.k; ++k) {
            for (Index c = 0; c < p.c; ++c) {
              f(((n * s.in_pixels + flat(i, p.in)) * p.g + g) * p.c + c,
                ((g * p.k + k) * s.taps + flat(tap, p.filter)) * p.c + c,
                ((n * s.out_pixels + flat(o, p.out)) * p.g + g) * p.k + k);
            }
          }
        }
      }
    });
  });
}

template <class Key>
struct ConvProbe {
  static constexpr const ConvKey& key = Key::key;
  using Loop = MainLoop<Key>;
  using Arguments = ConvArguments<Key>;
  using CkArgs = typename Kernel<Key>::CkArgs;

  // Offsets of every element of a descriptor of two dimensions, or -1 outside of the tensor.
  struct Places {
    index_t rows, columns;
    std::vector<std::int64_t> at;

    template <class Descriptor>
    explicit Places(const Descriptor& descriptor)
        : rows(descriptor.get_length(ck::number<0>{})),
          columns(descriptor.get_length(ck::number<1>{})) {
      for (index_t i = 0; i < rows; ++i) {
        for (index_t j = 0; j < columns; ++j) {
          const auto where = ck::make_tensor_coordinate(descriptor, ck::make_multi_index(i, j));
          const bool inside =
              ck::coordinate_has_valid_offset_assuming_top_index_is_valid(descriptor, where);
          at.push_back(inside ? std::int64_t{where.get_offset()} : -1);
        }
      }
    }
    std::int64_t operator()(index_t i, index_t j) const {
      return at[static_cast<std::size_t>(i) * static_cast<std::size_t>(columns) +
                static_cast<std::size_t>(j)];
    }
  };

  // One GEMM on one layer of the grid: where A, B and C start, and which part of K it sums.
  struct Layer {
    std::int64_t a, b, c;
    index_t first_k, last_k;
    bool adds;
  };
  static void multiply(const Places& a, bool a_has_k_first, const Places& b, bool b_has_k_first,
                       const Places& c, const Layer& layer, const std::vector<double>& in_a,
                       const std::vector<double>& in_b, std::vector<double>& result) {
    const index_t depth = std::min(layer.last_k, a_has_k_first ? a.rows : a.columns);
    const auto read = [](const std::vector<double>& from, std::int64_t start, std::int64_t place) {
      return place < 0 ? 0.0 : from.at(static_cast<std::size_t>(start + place));
    };
    for (index_t m = 0; m < c.rows; ++m) {
      for (index_t n = 0; n < c.columns; ++n) {
        if (c(m, n) < 0) continue;
        double sum = 0;
        for (index_t k = layer.first_k; k < depth; ++k) {
          const double x = read(in_a, layer.a, a_has_k_first ? a(k, m) : a(m, k));
          if (x == 0) continue;
          sum += x * read(in_b, layer.b, b_has_k_first ? b(k, n) : b(n, k));
        }
        double& to = result.at(static_cast<std::size_t>(layer.c + c(m, n)));
        to = layer.adds ? to + sum : sum;
      }
    }
  }

  // What one launch does; empty, or what is wrong with it.
  static std::string emulate(const CkArgs& args, const Variant& variant, const ConvPart& part,
                             Tensors& t, std::vector<double>& result) {
    const dim3 grid = Arguments::Ck::GridSize(args);
    const auto blocks = [](const Places& c) {
      return static_cast<index_t>(ceil_div(c.rows, key.tile[0]) * ceil_div(c.columns, key.tile[1]));
    };
    const auto loops_of = [&](index_t k) {
      return variant == Variants<Key>::for_loops(static_cast<index_t>(ceil_div(k, key.tile[2])),
                                                 variant.atomic);
    };
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned z = 0; z < grid.z; ++z) {
        Layer layer{args.group_stride_a * y,
                    args.group_stride_b * y,
                    args.group_stride_c * y,
                    0,
                    0x7fffffff,
                    false};
        if constexpr (Loop::is_fwd) {
          const std::int64_t n = std::int64_t{args.n_per_split} * z;
          layer.a += part.in + n * args.input_batch_stride;
          layer.c += part.out + n * args.output_batch_stride;
          const Places a(args.a_grid_desc_m_k), b(args.b_grid_desc_n_k), c(args.c_grid_desc_m_n);
          if (a.rows != args.GemmM || b.rows != args.GemmN || a.columns != args.GemmK ||
              a.columns != b.columns || a.rows != c.rows || b.rows != c.columns) {
            return "sizes differ from the descriptors";
          }
          if (static_cast<index_t>(grid.x) != blocks(c)) return "the grid does not cover C";
          if (!loops_of(a.columns) || variant.atomic) return "wrong variant";
          multiply(a, false, b, false, c, layer, t.in, t.wei, result);
        } else if constexpr (Loop::is_bwd_data) {
          const std::int64_t n = std::int64_t{args.n_per_split} * z;
          layer.a += n * args.output_batch_stride;
          layer.c += n * args.input_batch_stride;
          index_t start = 0;
          for (index_t i = 0; i < args.gemm_count; ++i) {
            const Places a(args.a_grid_descs_m_k[i]), b(args.b_grid_descs_n_k[i]),
                c(args.c_grid_descs_m_n[i]);
            if (args.block_starts[i] != start || args.block_ends[i] != start + blocks(c)) {
              return "a GEMM has blocks of another";
            }
            start = args.block_ends[i];
            if (!loops_of(a.columns) || variant.atomic) return "wrong variant";
            multiply(a, false, b, true, c, layer, t.out, t.wei, result);
          }
          if (static_cast<index_t>(grid.x) != start) return "the grid is not that of the GEMMs";
        } else {
          const Places a(args.a_grid_desc_k_m), b(args.b_grid_desc_k_n), c(args.c_grid_desc_m_n);
          // Each part takes as many whole steps of K.
          const auto loops =
              static_cast<index_t>(ceil_div(args.GemmK, std::int64_t{args.k_batch} * key.tile[2]));
          const index_t part = loops * key.tile[2];
          layer.first_k = static_cast<index_t>(z) * part;
          layer.last_k = layer.first_k + part;
          layer.adds = args.k_batch > 1;
          if (a.rows != args.GemmK || a.columns != args.GemmM || b.columns != args.GemmN) {
            return "sizes differ from the descriptors";
          }
          if (static_cast<index_t>(grid.x) != blocks(c)) return "the grid does not cover C";
          if (!loops_of(part) || variant.atomic != layer.adds) return "wrong variant";
          multiply(a, true, b, true, c, layer, t.out, t.in, result);
        }
      }
    }
    return {};
  }

  // Empty, or what is wrong with the kernel's arguments for `p`.
  static std::string check(const ConvProblemData& p, std::mt19937& random) {
    const ConvSizes s(p);
    const auto numbers = [&](std::int64_t count) {
      std::vector<double> made(static_cast<std::size_t>(count));
      for (double& x : made) x = static_cast<double>(random() % 7) - 3;
      return made;
    };
    Tensors t{numbers(p.n * s.in_image), numbers(s.wei), numbers(p.n * s.out_image)};
    std::vector<double>& expected = Loop::is_fwd ? t.out : Loop::is_bwd_data ? t.in : t.wei;
    expected.assign(expected.size(), 0);
    // What is not zeroed must be written.
    std::vector<double> result(expected.size(), Launcher<Key>::needs_prepare(p) ? 0 : 1e30);
    std::string wrong;
    const auto compute = [&](const ConvPart& part) {
      return ConvLaunches<Key>::each(Arguments::make(part.problem, part.images, ConvArgs{}),
                                     [&](const CkArgs& args, const Variant& variant) {
                                       wrong = emulate(args, variant, part, t, result);
                                       return wrong.empty();
                                     });
    };
    // Parts as large tensors have them.
    const bool some = random() % 2 == 0;
    if (Reach<Key>::has_parts(p) && some) {
      Reach<Key>::each_rows(p, 1 + static_cast<std::int64_t>(random() % 3), compute);
    } else {
      const bool halves = !Loop::is_bwd_weight && p.n % 2 == 0 && some;
      compute(ConvPart{p, halves ? p.n / 2 : p.n, 0, 0});
    }
    if (!wrong.empty()) return wrong;
    each_product(p, [&](std::int64_t in, std::int64_t wei, std::int64_t out) {
      const auto i = static_cast<std::size_t>(in), w = static_cast<std::size_t>(wei),
                 o = static_cast<std::size_t>(out);
      if constexpr (Loop::is_fwd) {
        t.out[o] += t.in[i] * t.wei[w];
      } else if constexpr (Loop::is_bwd_data) {
        t.in[i] += t.out[o] * t.wei[w];
      } else {
        t.wei[w] += t.out[o] * t.in[i];
      }
    });
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i] != expected[i]) {
        return "element " + std::to_string(i) + " is " + std::to_string(result[i]) + ", not " +
               std::to_string(expected[i]);
      }
    }
    return {};
  }

  static ConvProblemData random_problem(std::mt19937& random) {
    const auto below = [&](int limit) { return static_cast<std::int64_t>(random() % limit); };
    constexpr int rank = Loop::Layout::rank;
    ConvProblemData p = problem_of(key);
    p.n = 1 + below(4);
    p.g = (1 + below(2)) * key.groups_to_merge;
    // Most channels are whole vectors.
    const auto channels = [&](int a, int b) {
      return below(8) == 0 ? 1 + below(12) : std::max(a, b) * (1 + below(2));
    };
    const bool by_three = key.specialization == ConvSpecialization::filter3x3;
    p.c = by_three       ? 1
          : Loop::is_fwd ? channels(key.vector[0], key.vector[1])
                         : channels(key.vector[1], key.vector[2]);
    p.k = channels(Loop::is_fwd ? key.vector[2] : key.vector[0], 1);
    p.k_batch = key.split_k ? 1 + static_cast<int>(below(3)) : 1;
    const bool pointwise = key.specialization != ConvSpecialization::default_ && !by_three;
    for (int i = 0; i < kMaxSpatial; ++i) {
      const bool used = i >= kMaxSpatial - rank;
      const bool odd = below(16) == 0;  // for specialized kernels
      const bool free = used && (!pointwise || odd);
      p.filter[i] = by_three && used ? 3 : free ? 1 + below(4) : 1;
      p.dilation[i] = used ? 1 + below(3) : 1;
      p.stride[i] =
          used && (key.specialization != ConvSpecialization::filter1x1_stride1_pad0 || odd)
              ? 1 + below(3)
              : 1;
      p.left_pad[i] = free ? below(3) : 0;
      p.right_pad[i] = free ? below(3) : 0;
      const std::int64_t span = p.dilation[i] * (p.filter[i] - 1) + 1;
      const std::int64_t least = std::max<std::int64_t>(1, span - p.left_pad[i] - p.right_pad[i]);
      p.in[i] = used ? least + below(rank == 1 ? 20 : rank == 2 ? 6 : 3) : 1;
    }
    set_output(&p);
    return p;
  }

  static std::string text_of(const ConvProblemData& p) {
    const auto list = [](const char* name, const std::int64_t (&x)[3]) {
      return std::string(" ") + name + " " + std::to_string(x[0]) + "," + std::to_string(x[1]) +
             "," + std::to_string(x[2]);
    };
    return "n " + std::to_string(p.n) + " g " + std::to_string(p.g) + " c " + std::to_string(p.c) +
           " k " + std::to_string(p.k) + list("in", p.in) + list("filter", p.filter) +
           list("stride", p.stride) + list("dilation", p.dilation) + list("left", p.left_pad) +
           list("right", p.right_pad) + " parts " + std::to_string(p.k_batch);
  }

  static void try_problems(unsigned seed, int count, Trials* result) {
    std::mt19937 random(seed);
    *result = {};
    for (int i = 0; i < count; ++i) {
      const ConvProblemData p = random_problem(random);
      Refusal refusal{};
      if (!Support<Key>::supports(p, &refusal)) {
        ++result->refused;
        result->unnamed += refusal.reason == Reason::provider;
        continue;
      }
      const std::string wrong = check(p, random);
      if (wrong.empty()) {
        ++result->computed;
      } else if (result->wrong++ == 0) {
        std::snprintf(result->first, sizeof result->first, "%s: %s", text_of(p).c_str(),
                      wrong.c_str());
      }
    }
  }

  static constexpr Probe make(const ckdisp_kernel* kernel) {
    return {kernel, Kernel<Key>::block_size, sizeof(typename Kernel<Key>::Args), &try_problems};
  }
};

}  // namespace ckdisp::tile
