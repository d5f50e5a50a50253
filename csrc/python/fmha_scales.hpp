// The scales of quantised tensors.
#pragma once

#include <cstdint>

#include <ckdisp/generated/enums.hpp>

#include "tensor.hpp"

namespace ckdisp::python {

// What a tensor has that is scaled.
struct ScaledSizes {
  std::int64_t batch, heads, rows;
  std::int64_t pages;
  bool is_key;  // K or V
};

// Throws InvalidArgument unless there are as many scales as a kernel reads: one, one for each
// batch, head and 128 rows (blockscale), or one for each page and head (kv_blockscale, of K and V).
// `scales` is null for one number, and where nothing is `given`, which is 1.
void check_scales(const char* name, FmhaQscale kind, const Tensor* scales, bool given,
                  const ScaledSizes& sizes);

}  // namespace ckdisp::python
