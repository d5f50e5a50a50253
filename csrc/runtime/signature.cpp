#include <ckdisp/names.hpp>

#include <cassert>

#include "snapshot.hpp"

namespace ckdisp::detail {
namespace {

// Bits appended one behind the other, ahead of them the op.
class Packer {
 public:
  explicit Packer(Op op) { append(op, 2); }
  template <class T>
  void append(T value, int width = 8) {
    bits_ = bits_ << width | static_cast<std::uint64_t>(value);
    width_ += width;
    assert(width_ <= 64);
  }
  std::uint64_t bits() const { return bits_; }

 private:
  std::uint64_t bits_ = 0;
  int width_ = 0;
};

// The type and order of D count only when there is one.
struct GemmSignature {
  Dtype a, b, c, acc, d;
  Layout layout;
  Order order_d;
  Elementwise elementwise;
  int num_d;
  bool shuffled_b;

  std::uint64_t packed() const {
    Packer packer(Op::gemm);
    for (const Dtype dtype : {a, b, c, acc}) packer.append(dtype);
    packer.append(num_d > 0 ? d : Dtype{});
    packer.append(layout);
    packer.append(elementwise);
    packer.append(num_d, 4);
    packer.append(num_d > 0 ? order_d : Order{}, 1);
    packer.append(shuffled_b, 1);
    return packer.bits();
  }
};

GemmSignature signature_of(const GemmProblemData& p) {
  return {p.dtype_a, p.dtype_b,  p.dtype_c,     p.dtype_acc, p.dtype_d,
          p.layout,  p.layout_d, p.elementwise, p.num_d,     p.shuffled_b != 0};
}

GemmSignature signature_of(const GemmKey& k) {
  return {k.dtype_a, k.dtype_b,  k.dtype_c,     k.dtype_acc, k.dtype_d,
          k.layout,  k.layout_d, k.elementwise, k.num_d,     k.family == Family::gemm_preshuffle};
}

// Keys and problems of convolutions name these fields alike.
template <class T>
std::uint64_t packed_conv(const T& x) {
  Packer packer(Op::conv);
  packer.append(x.family);
  packer.append(x.layout);
  for (const Dtype dtype : {x.dtype_in, x.dtype_wei, x.dtype_out, x.dtype_acc}) {
    packer.append(dtype);
  }
  return packer.bits();
}

// The rest is for fmha_choices().
template <class T>
std::uint64_t packed_fmha(const T& x) {
  Packer packer(Op::fmha);
  packer.append(x.family);
  packer.append(x.dtype);
  return packer.bits();
}

}  // namespace

std::uint64_t packed_signature(const GemmProblemData& p) { return signature_of(p).packed(); }
std::uint64_t packed_signature(const GemmKey& k) { return signature_of(k).packed(); }
std::uint64_t packed_signature(const ConvProblemData& p) { return packed_conv(p); }
std::uint64_t packed_signature(const ConvKey& k) { return packed_conv(k); }
std::uint64_t packed_signature(const FmhaProblemData& p) { return packed_fmha(p); }
std::uint64_t packed_signature(const FmhaKey& k) { return packed_fmha(k); }

bool same_signature(const GemmKey& key, const GemmProblemData& problem, Refusal* refusal) {
  const GemmSignature has = signature_of(key), want = signature_of(problem);
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

bool same_signature(const ConvKey& key, const ConvProblemData& problem, Refusal* refusal) {
  if (key.family != problem.family) {
    return refuse(refusal, Reason::direction, "computes %s, not %s", to_name(key.family),
                  to_name(problem.family));
  }
  if (key.layout != problem.layout) {
    return refuse(refusal, Reason::layout, "reads layout %s, not %s", to_name(key.layout),
                  to_name(problem.layout));
  }
  const struct {
    const char* name;
    Dtype has, want;
  } types[] = {{"input", key.dtype_in, problem.dtype_in},
               {"weights", key.dtype_wei, problem.dtype_wei},
               {"output", key.dtype_out, problem.dtype_out},
               {"accumulator", key.dtype_acc, problem.dtype_acc}};
  for (const auto& type : types) {
    if (type.has == type.want) continue;
    return refuse(refusal, Reason::dtype, "the type of the %s is %s, not %s", type.name,
                  to_name(type.has), to_name(type.want));
  }
  return true;
}

}  // namespace ckdisp::detail
