#include "fmha_scales.hpp"

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace ckdisp::python {

void check_scales(const char* name, FmhaQscale kind, const Tensor* scales,
                  const ScaledSizes& sizes) {
  constexpr std::int64_t block = 128;
  const std::string start = name;
  if (kind == FmhaQscale::no) throw InvalidArgument(start + " is given, and qscale is no");
  std::vector<std::int64_t> shape;
  const char* each = "one number";
  if (kind == FmhaQscale::blockscale) {
    each = "one for each batch, head and 128 rows";
    shape = {sizes.batch, sizes.heads, (sizes.rows + block - 1) / block};
  } else if (kind == FmhaQscale::kv_blockscale && sizes.is_key) {
    each = "one for each page and head";
    shape = {sizes.pages, sizes.heads};
  }
  const auto count_of = [](auto begin, auto end) {
    return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
  };
  const bool one = count_of(shape.begin(), shape.end()) == 1;
  if (scales == nullptr) {
    if (one) return;
  } else {
    const auto end = scales->shape + scales->ndim;
    if (one ? count_of(scales->shape, end) == 1
            : std::equal(shape.begin(), shape.end(), scales->shape, end)) {
      return;
    }
  }
  throw InvalidArgument(start + (scales == nullptr ? " is one number" : " has shape ") +
                        (scales == nullptr ? "" : shape_text(*scales)) + ", and " + to_name(kind) +
                        " has " + each + "; pass " +
                        (one ? "a number" : shape_text(shape.data(), shape.size())));
}

}  // namespace ckdisp::python
