// Into how many parts a kernel splits its sums where the call leaves it open.
#pragma once

#include <algorithm>

#include "calls.hpp"
#include "machine.hpp"

namespace ckdisp::tile {

template <class Key>
constexpr bool splits_sums() {
  if constexpr (requires { Key::key.split_k; }) {
    return Key::key.split_k;
  } else {
    return false;
  }
}

// The parts whose estimated time is least, fewer where the gain is small; one where none can be
// added without loss: sums that are kept in 16 bits are rounded with each part.
template <class Key>
struct SplitK {
  using Problem = typename Launcher<Key>::Problem;
  static constexpr std::int64_t kTrips = 4;  // of the main loop that a part is worth
  static constexpr std::int64_t kMost = 1024;
  static constexpr double kGain = 0.98;
  static constexpr bool exact = sizeof(typename EpilogueOf<Key, true>::C) >= 4;

  static std::int32_t choose(Problem p, std::int32_t units) {
    p.k_batch = 1;
    if (!exact || !Support<Key>::supports(p, nullptr)) return 1;
    const double usual = machine_of(Key::key.arch).units;
    const double blocks = units > 0 ? units : usual;
    const std::int64_t most = std::min(Cost<Key>::trips(p) / kTrips, kMost);
    std::int32_t best = 1;
    double least = Cost<Key>::seconds(p, blocks);
    for (std::int32_t parts = 2; parts <= most; ++parts) {
      p.k_batch = parts;
      const double seconds = Cost<Key>::seconds(p, blocks) + kLaunch;  // zeros the sums
      if (seconds < kGain * least && Support<Key>::supports(p, nullptr)) {
        least = seconds;
        best = parts;
      }
    }
    return best;
  }
};

}  // namespace ckdisp::tile
