#include <ckdisp/names.hpp>

#include "snapshot.hpp"

namespace ckdisp::detail {

std::uint64_t Signature::packed() const {
  std::uint64_t bits = 0;
  const auto append = [&](int value, int width) {
    bits = bits << width | static_cast<unsigned>(value);
  };
  for (const Dtype dtype : {a, b, c, acc}) append(static_cast<int>(dtype), 8);
  append(num_d > 0 ? static_cast<int>(d) : 0, 8);
  append(static_cast<int>(layout), 8);
  append(static_cast<int>(elementwise), 8);
  append(num_d, 4);
  append(num_d > 0 ? static_cast<int>(order_d) : 0, 1);
  append(shuffled_b ? 1 : 0, 1);
  return bits;
}

Signature signature_of(const GemmProblemData& p) {
  return {p.dtype_a, p.dtype_b,  p.dtype_c,     p.dtype_acc, p.dtype_d,
          p.layout,  p.layout_d, p.elementwise, p.num_d,     p.shuffled_b != 0};
}

Signature signature_of(const GemmKey& k) {
  return {k.dtype_a, k.dtype_b,  k.dtype_c,     k.dtype_acc, k.dtype_d,
          k.layout,  k.layout_d, k.elementwise, k.num_d,     k.family == Family::gemm_preshuffle};
}

bool same_signature(const GemmKey& key, const GemmProblemData& problem, Refusal* refusal) {
  const Signature has = signature_of(key), want = signature_of(problem);
  if (has.a != want.a || has.b != want.b || has.c != want.c || has.acc != want.acc) {
    return refuse(refusal, Reason::dtype, "computes %s x %s -> %s in %s, not %s x %s -> %s in %s",
                  to_name(has.a), to_name(has.b), to_name(has.c), to_name(has.acc), to_name(want.a),
                  to_name(want.b), to_name(want.c), to_name(want.acc));
  }
  if (has.layout != want.layout) {
    return refuse(refusal, Reason::layout, "reads layout %s, not %s", to_name(has.layout),
                  to_name(want.layout));
  }
  if (has.shuffled_b != want.shuffled_b) {
    return refuse(refusal, Reason::layout,
                  has.shuffled_b ? "reads a B that was reordered ahead of time"
                                 : "reads B as it is, not reordered");
  }
  if (has.elementwise != want.elementwise) {
    return refuse(refusal, Reason::elementwise, "applies '%s', not '%s'", to_name(has.elementwise),
                  to_name(want.elementwise));
  }
  if (has.num_d != want.num_d) {
    return refuse(refusal, Reason::num_d, "takes %d D tensors, not %d", has.num_d, want.num_d);
  }
  if (want.num_d > 0 && has.d != want.d) {
    return refuse(refusal, Reason::dtype, "reads D of %s, not %s", to_name(has.d), to_name(want.d));
  }
  if (want.num_d > 0 && has.order_d != want.order_d) {
    return refuse(refusal, Reason::layout, "reads D in order %s, not %s", to_name(has.order_d),
                  to_name(want.order_d));
  }
  return true;
}

}  // namespace ckdisp::detail
