#include "fmha_scales.hpp"

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace ckdisp::python {

void check_scales(const char* name, FmhaQscale kind, const Tensor* scales, bool given,
                  const ScaledSizes& sizes) {
  constexpr std::int64_t block = 128;
  const std::string start = name;
  if (kind == FmhaQscale::no) {
    if (!given) return;
    throw InvalidArgument(start + " is given, and qscale is no");
  }
  std::vector<std::int64_t> shape;
  const char* each = "one number";
  if (kind == FmhaQscale::blockscale) {
    each = "one for each batch, head and 128 rows";
    shape = {sizes.batch, sizes.heads, (sizes.rows + block - 1) / block};
  } else if (kind == FmhaQscale::kv_blockscale && sizes.is_key) {
    each = "one for each page and head";
    shape = {sizes.pages, sizes.heads};
  }
  const std::int64_t count = count_of(shape.data(), shape.size());
  std::string found = given ? " is one number" : " is missing";
  if (scales == nullptr) {
    if (count <= 1) return;
  } else {
    const bool fits = count == 1 ? count_of(*scales) == 1
                                 : std::equal(shape.begin(), shape.end(), scales->shape,
                                              scales->shape + scales->ndim);
    if (fits) return;
    found = " has shape " + shape_text(*scales);
  }
  throw InvalidArgument(start + found + ", and " + to_name(kind) + " has " + each + "; pass " +
                        (count == 1 ? "a number" : shape_text(shape.data(), shape.size())));
}

}  // namespace ckdisp::python
