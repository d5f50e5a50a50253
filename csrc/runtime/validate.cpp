// Refuses problems and arguments that can never work, before anything runs.
#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>
#include <ckdisp/problem.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace ckdisp {
namespace {

[[noreturn]] void refuse(const std::string& text) { throw InvalidArgument(text); }

// One matrix as it lies in memory: `lines` rows (row-major) or columns of `length` elements.
struct Matrix {
  const char* name;
  std::int64_t lines, length, ld;
  int element;

  std::int64_t line_bytes() const { return length * element; }
  std::int64_t pitch() const { return ld * element; }
  bool empty() const { return lines == 0 || length == 0; }
  // From the first byte to behind the last.
  std::int64_t extent() const { return empty() ? 0 : (lines - 1) * pitch() + line_bytes(); }
};

Matrix matrix(const char* name, bool row_major, std::int64_t rows, std::int64_t columns,
              std::int64_t ld, Dtype dtype) {
  return row_major ? Matrix{name, rows, columns, ld, size_of(dtype)}
                   : Matrix{name, columns, rows, ld, size_of(dtype)};
}

Matrix matrix_a(const GemmProblemData& p) {
  const bool row = p.layout == Layout::rcr || p.layout == Layout::rrr;
  return matrix("A", row, p.m, p.k, p.lda, p.dtype_a);
}
Matrix matrix_b(const GemmProblemData& p) {
  const bool row = p.layout == Layout::rrr || p.layout == Layout::crr;
  return matrix("B", row, p.k, p.n, p.ldb, p.dtype_b);
}
Matrix matrix_c(const GemmProblemData& p) { return matrix("C", true, p.m, p.n, p.ldc, p.dtype_c); }
Matrix matrix_d(const GemmProblemData& p, int i) {
  static constexpr const char* kNames[kMaxD] = {"D0", "D1", "D2", "D3"};
  Matrix d = matrix(kNames[i], p.layout_d == Order::r, p.m, p.n, p.ldd[i], p.dtype_d);
  if (d.ld == 0 && d.lines > 0) {  // one line, used for all
    d.lines = 1;
    d.ld = d.length;
  }
  return d;
}

void check_matrix(const Matrix& m) {
  if (m.ld < m.length && m.lines > 1) {
    refuse(std::string("the leading dimension of ") + m.name + " is " + std::to_string(m.ld) +
           ", less than the " + std::to_string(m.length) +
           " elements it must hold; pass at least that");
  }
  std::int64_t elements = 0, total = 0;
  if (m.ld < 0 || __builtin_mul_overflow(m.lines, m.ld, &elements) ||
      __builtin_add_overflow(elements, m.length, &elements) ||
      __builtin_mul_overflow(elements, std::int64_t{m.element}, &total)) {
    refuse(std::string(m.name) + " of " + std::to_string(m.lines) + " lines " +
           std::to_string(m.ld) + " apart is too large to index; split the problem");
  }
}

void check_sizes(const GemmProblemData& p) {
  const auto text = [&] {
    return "m=" + std::to_string(p.m) + ", n=" + std::to_string(p.n) + ", k=" + std::to_string(p.k);
  };
  if (p.m < 0 || p.n < 0 || p.k < 0) {
    refuse("sizes cannot be negative: " + text());
  }
  std::int64_t work = 0;
  if (__builtin_mul_overflow(p.m, p.n, &work) ||
      __builtin_mul_overflow(work, std::max<std::int64_t>(p.k, 1), &work) ||
      __builtin_mul_overflow(work, std::int64_t{2}, &work)) {
    refuse("the problem " + text() + " is too large: its operations overflow 63 bits; split it");
  }
}

void check_d_count(const GemmProblemData& p) {
  int least = 0, most = kMaxD;
  switch (p.elementwise) {
    case Elementwise::passthrough:
      most = 0;
      break;
    case Elementwise::add:
    case Elementwise::multiply:
      least = most = 1;
      break;
    case Elementwise::multi_d_add:
    case Elementwise::multi_d_multiply:
      least = 1;
      break;
    default:
      break;
  }
  if (p.num_d >= least && p.num_d <= most) return;
  const std::string takes =
      least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
  refuse(std::string("the operation '") + to_name(p.elementwise) + "' takes " + takes +
         " D tensors, not " + std::to_string(p.num_d));
}

void check_types(const GemmProblemData& p) {
  for (const Dtype dtype : {p.dtype_a, p.dtype_b, p.dtype_c, p.dtype_acc, p.dtype_d}) {
    if (!is_valid(dtype)) refuse("an element type is outside of the known ones");
  }
  if (!is_valid(p.layout) || !is_valid(p.layout_d) || !is_valid(p.elementwise)) {
    refuse("the layout or operation is outside of the known ones");
  }
  const bool integer = p.dtype_a == Dtype::int8;
  if (p.dtype_a == Dtype::int32 || p.dtype_b == Dtype::int32) {
    refuse("int32 is a type of results, not of inputs; use int8");
  }
  if (integer != (p.dtype_b == Dtype::int8)) {
    refuse(std::string("A is ") + to_name(p.dtype_a) + " and B is " + to_name(p.dtype_b) +
           ": integers multiply only integers; convert one of them");
  }
  if (p.dtype_acc != (integer ? Dtype::int32 : Dtype::fp32)) {
    refuse(std::string("the accumulator of ") + to_name(p.dtype_a) + " inputs is " +
           (integer ? "int32" : "fp32") + ", not " + to_name(p.dtype_acc));
  }
  if (!integer && (p.dtype_c == Dtype::int8 || p.dtype_c == Dtype::int32)) {
    refuse(std::string("C cannot be ") + to_name(p.dtype_c) + " when the inputs are " +
           to_name(p.dtype_a) + "; use a floating-point type");
  }
}

struct Region {
  Matrix matrix;
  const void* data;

  std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(data); }
  std::uintptr_t end() const { return begin() + static_cast<std::uintptr_t>(matrix.extent()); }
};

// Whether any byte belongs to both: walks the lines of two matrices whose ranges intersect, which
// may still be disjoint, as two column blocks of one array are.
bool overlap(const Region& x, const Region& y) {
  if (x.matrix.empty() || y.matrix.empty()) return false;
  if (x.end() <= y.begin() || y.end() <= x.begin()) return false;
  std::int64_t i = 0, j = 0;
  while (i < x.matrix.lines && j < y.matrix.lines) {
    const std::uintptr_t x0 = x.begin() + static_cast<std::uintptr_t>(i * x.matrix.pitch());
    const std::uintptr_t y0 = y.begin() + static_cast<std::uintptr_t>(j * y.matrix.pitch());
    if (x0 + static_cast<std::uintptr_t>(x.matrix.line_bytes()) <= y0) {
      ++i;
    } else if (y0 + static_cast<std::uintptr_t>(y.matrix.line_bytes()) <= x0) {
      ++j;
    } else {
      return true;
    }
  }
  return false;
}

void check_region(const Region& c, const Region& input) {
  if (input.matrix.empty()) return;
  if (input.data == nullptr) refuse(std::string(input.matrix.name) + " is null but not empty");
  if (overlap(c, input)) {
    refuse(std::string("C shares memory with ") + input.matrix.name +
           ": the result would be read while it is written; pass another output");
  }
}

void check_scalars(const GemmProblemData& p, const GemmArgs& args) {
  if (!std::isfinite(args.scale)) {
    refuse("scale is " + std::to_string(args.scale) + "; pass a finite number");
  }
  if (p.elementwise == Elementwise::clamp && !(args.clamp_min <= args.clamp_max)) {
    refuse("clamp bounds " + std::to_string(args.clamp_min) + ", " +
           std::to_string(args.clamp_max) + " are NaN or reversed; pass min <= max");
  }
}

void check_shuffled(const GemmProblemData& p) {
  if (p.shuffled_b > 1) refuse("shuffled_b is neither 0 nor 1");
  const Matrix b = matrix_b(p);
  if (b.ld != b.length && b.lines > 1) {
    refuse("a reordered B lies dense, and its leading dimension is " + std::to_string(b.ld) +
           " instead of " + std::to_string(b.length) + "; pass it as it was made");
  }
}

}  // namespace

void validate(const GemmProblemData& p) {
  check_sizes(p);
  check_types(p);
  check_d_count(p);
  if (p.k_batch < 0) {
    refuse("k_batch is " + std::to_string(p.k_batch) +
           "; pass 1 or more, or 0 for the kernel's choice");
  }
  if (p.shuffled_b != 0) check_shuffled(p);
  check_matrix(matrix_a(p));
  check_matrix(matrix_b(p));
  check_matrix(matrix_c(p));
  for (int i = 0; i < p.num_d; ++i) check_matrix(matrix_d(p, i));
}

void validate(const GemmProblemData& p, const GemmArgs& args) {
  check_scalars(p, args);
  if (p.m == 0 || p.n == 0) return;
  const Region c{matrix_c(p), args.c};
  if (args.c == nullptr) refuse("C is null but not empty");
  check_region(c, {matrix_a(p), args.a});
  check_region(c, {matrix_b(p), args.b});
  for (int i = 0; i < p.num_d; ++i) {
    check_region(c, {matrix_d(p, i), args.d[i]});
  }
}

}  // namespace ckdisp
