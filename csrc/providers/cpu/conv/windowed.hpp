// Pipeline `packed` of convolutions: implicit GEMMs whose matrix of source pixels is read where it
// lies in windows.
#pragma once

#include "window_sums.hpp"
#include "window_weights.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct ConvWindowed {
  using Sums = WindowSums<Kernel>;
  static constexpr bool forward = Kernel::key.family == Family::conv_fwd;

  static bool supports(const ConvProblemData&, Refusal*) { return true; }

  static double seconds(const ConvProblemData& p, int threads) {
    double total = 0;
    for_each_geometry<forward>(p,
                               [&](const Geometry& g) { total += Sums::seconds(p, g, threads); });
    return total;
  }

  static std::uint64_t workspace_size(const ConvProblemData& p, int threads) {
    std::uint64_t bytes = 0;
    for_each_geometry<forward>(p, [&](const Geometry& g) {
      const std::uint64_t size = Sums::workspace_size(p, g, threads);
      if (size > bytes) bytes = size;
    });
    return bytes;
  }

  static void run(const ConvProblemData& p, const ConvArgs& args, void* workspace, int threads) {
    for_each_geometry<forward>(
        p, [&](const Geometry& g) { Sums::run(p, args, g, workspace, threads); });
  }
};

// Backward weight.
template <class Kernel>
struct ConvWindowedWeights : WindowWeights<Kernel> {
  static bool supports(const ConvProblemData&, Refusal*) { return true; }
};

}  // namespace
}  // namespace ckdisp::cpu
