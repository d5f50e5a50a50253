// Random bytes of dropout: Philox4x32-10. A byte depends on seed, offset, batch, head, row and
// column alone, so that all families agree about it.
#pragma once

#include "core.hpp"

namespace ckdisp::cpu {
namespace {

class RandomBytes {
 public:
  static constexpr int drawn = 16;  // columns at a time

  RandomBytes(const FmhaArgs& args)
      : seed_(args.seed),
        offset_(static_cast<std::uint32_t>(args.offset)),
        limit_(kept_limit(args.dropout_p)),
        factor_(1.0f / (1.0f - args.dropout_p)) {}

  // The largest byte that is kept. A probability such as 0.6 is rounded in a float, which must not
  // move a product that is whole in decimals.
  static int kept_limit(float p) { return static_cast<int>(255.0 * (1.0 - p) + 1e-4); }

  // Of columns column .. column + 16 of a row; `column` is a multiple of 16.
  CKDISP_CPU_INLINE void draw(Index head, Index row, Index column,
                              std::uint8_t (&out)[drawn]) const {
    std::uint32_t c[4] = {static_cast<std::uint32_t>(column / drawn),
                          static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(head),
                          offset_};
    auto low = static_cast<std::uint32_t>(seed_);
    auto high = static_cast<std::uint32_t>(seed_ >> 32);
    unroll<10>([&](auto) CKDISP_CPU_LAMBDA {
      const std::uint64_t x = std::uint64_t{0xd2511f53u} * c[0];
      const std::uint64_t y = std::uint64_t{0xcd9e8d57u} * c[2];
      c[0] = static_cast<std::uint32_t>(y >> 32) ^ c[1] ^ low;
      c[1] = static_cast<std::uint32_t>(y);
      c[2] = static_cast<std::uint32_t>(x >> 32) ^ c[3] ^ high;
      c[3] = static_cast<std::uint32_t>(x);
      low += 0x9e3779b9u;
      high += 0xbb67ae85u;
    });
    for (int i = 0; i < drawn; ++i) out[i] = static_cast<std::uint8_t>(c[i / 4] >> (i % 4 * 8));
  }

  // 1 / (1 - p) where columns block + start .. block + end of a row are kept, 0 where they are
  // dropped. `block` is a multiple of 16; `room` has space for end + 16 numbers.
  CKDISP_CPU_INLINE const float* factors(Index head, Index row, Index block, Index start, Index end,
                                         float* room) const {
    const Index first = start / drawn * drawn;
    for (Index j = first; j < end; j += drawn) {
      std::uint8_t bytes[drawn];
      draw(head, row, block + j, bytes);
      for (int i = 0; i < drawn; ++i) room[j + i] = bytes[i] <= limit_ ? factor_ : 0.0f;
    }
    return room + start;
  }

 private:
  std::uint64_t seed_;
  std::uint32_t offset_;
  int limit_;
  float factor_;
};

}  // namespace
}  // namespace ckdisp::cpu
