#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>
#include <ckdisp/problem.hpp>

#include <cstring>

namespace ckdisp {

Dtype default_output(Dtype input) {
  switch (input) {
    case Dtype::int8:
      return Dtype::int32;
    case Dtype::fp8:
    case Dtype::bf8:
      return Dtype::fp16;
    default:
      return input;
  }
}

Dtype default_accumulator(Dtype input) {
  return input == Dtype::int8 || input == Dtype::int32 ? Dtype::int32 : Dtype::fp32;
}

GemmProblem::GemmProblem() {
  // Problems are compared bytewise: padding too must be zero.
  std::memset(&data_, 0, sizeof data_);
  data_.k_batch = 1;
}

GemmProblem& GemmProblem::shape(std::int64_t m, std::int64_t n, std::int64_t k) {
  data_.m = m;
  data_.n = n;
  data_.k = k;
  return *this;
}

GemmProblem& GemmProblem::dtype(Dtype a_and_b) { return dtype(a_and_b, a_and_b); }

GemmProblem& GemmProblem::dtype(Dtype a, Dtype b) {
  data_.dtype_a = a;
  data_.dtype_b = b;
  return *this;
}

GemmProblem& GemmProblem::output(Dtype c) {
  data_.dtype_c = c;
  c_set_ = true;
  return *this;
}

GemmProblem& GemmProblem::accumulator(Dtype acc) {
  data_.dtype_acc = acc;
  acc_set_ = true;
  return *this;
}

GemmProblem& GemmProblem::layout(Layout layout) {
  data_.layout = layout;
  return *this;
}

GemmProblem& GemmProblem::leading_dimensions(std::int64_t lda, std::int64_t ldb, std::int64_t ldc) {
  data_.lda = lda;
  data_.ldb = ldb;
  data_.ldc = ldc;
  lda_set_ = ldb_set_ = ldc_set_ = true;
  return *this;
}

GemmProblem& GemmProblem::elementwise(Elementwise operation) {
  data_.elementwise = operation;
  return *this;
}

GemmProblem& GemmProblem::d(int count, Order order) {
  if (count < 0 || count > kMaxD) {
    throw InvalidArgument("a problem takes 0 to " + std::to_string(kMaxD) + " D tensors, not " +
                          std::to_string(count));
  }
  data_.num_d = static_cast<std::uint8_t>(count);
  data_.layout_d = order;
  return *this;
}

GemmProblem& GemmProblem::d(int count, Order order, Dtype dtype) {
  data_.dtype_d = dtype;
  d_set_ = true;
  return d(count, order);
}

GemmProblem& GemmProblem::d_leading_dimensions(std::initializer_list<std::int64_t> ldd) {
  if (ldd.size() > kMaxD) throw InvalidArgument("more leading dimensions than D tensors");
  ldd_set_ = 0;
  for (const std::int64_t value : ldd) {
    data_.ldd[ldd_set_++] = value;
  }
  return *this;
}

GemmProblem& GemmProblem::k_batch(int parts) {
  data_.k_batch = parts;
  return *this;
}

GemmProblem& GemmProblem::shuffled_b(bool shuffled) {
  data_.shuffled_b = shuffled ? 1 : 0;
  return *this;
}

GemmProblemData GemmProblem::data() const {
  GemmProblemData out = data_;
  const bool a_row = out.layout == Layout::rcr || out.layout == Layout::rrr;
  const bool b_row = out.layout == Layout::rrr || out.layout == Layout::crr;
  if (!c_set_) out.dtype_c = default_output(out.dtype_a);
  if (!acc_set_) out.dtype_acc = default_accumulator(out.dtype_a);
  if (!lda_set_) out.lda = a_row ? out.k : out.m;
  if (!ldb_set_) out.ldb = b_row ? out.n : out.k;
  if (!ldc_set_) out.ldc = out.n;
  if (!d_set_ || out.num_d == 0) out.dtype_d = out.dtype_c;
  if (out.num_d == 0) out.layout_d = Order::r;
  for (unsigned i = 0; i < kMaxD; ++i) {
    if (i >= out.num_d) {
      out.ldd[i] = 0;
    } else if (i >= ldd_set_) {
      out.ldd[i] = out.layout_d == Order::r ? out.n : out.m;
    }
  }
  return out;
}

double flops(const GemmProblemData& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
}

double bytes(const GemmProblemData& p) {
  const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n),
             k = static_cast<double>(p.k);
  double total =
      m * k * size_of(p.dtype_a) + k * n * size_of(p.dtype_b) + m * n * size_of(p.dtype_c);
  for (int i = 0; i < p.num_d; ++i) {
    const double elements = p.ldd[i] != 0 ? m * n : p.layout_d == Order::r ? n : m;
    total += elements * size_of(p.dtype_d);
  }
  return total;
}

std::string to_string(const GemmProblemData& p) {
  std::string text = "gemm m=" + std::to_string(p.m) + " n=" + std::to_string(p.n) +
                     " k=" + std::to_string(p.k) + " " + to_name(p.dtype_a) + " x " +
                     to_name(p.dtype_b) + " -> " + to_name(p.dtype_c) + " " + to_name(p.layout) +
                     " " + to_name(p.elementwise);
  if (p.num_d > 0) {
    text += " d=" + std::to_string(p.num_d) + ":" + to_name(p.dtype_d) + ":" + to_name(p.layout_d);
  }
  if (p.shuffled_b != 0) text += " shuffled_b";
  if (p.k_batch != 1) text += " k_batch=" + std::to_string(p.k_batch);
  return text;
}

}  // namespace ckdisp
