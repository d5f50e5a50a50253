// Problems: what one call computes, without pointers. C++17.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include <ckdisp/abi.hpp>

namespace ckdisp {

// The default type of C for inputs of type `input`, and of the accumulator.
Dtype default_output(Dtype input);
Dtype default_accumulator(Dtype input);

// Builds a GemmProblemData step by step: C = elementwise(scale * A x B, D...).
//
//   GemmProblem().shape(16, 4096, 4096).dtype(Dtype::bf16).layout(Layout::rcr)
//
// What is not set: fp32, layout rcr, dense leading dimensions, no element-wise operation; C and
// the accumulator follow the type of A, every D the type of C.
class GemmProblem {
 public:
  GemmProblem();
  GemmProblem(std::int64_t m, std::int64_t n, std::int64_t k) : GemmProblem() { shape(m, n, k); }

  GemmProblem& shape(std::int64_t m, std::int64_t n, std::int64_t k);
  GemmProblem& dtype(Dtype a_and_b);
  GemmProblem& dtype(Dtype a, Dtype b);
  GemmProblem& output(Dtype c);
  GemmProblem& accumulator(Dtype acc);
  GemmProblem& layout(Layout layout);
  // Elements from one row (row-major) or column (column-major) to the next.
  GemmProblem& leading_dimensions(std::int64_t lda, std::int64_t ldb, std::int64_t ldc);
  GemmProblem& elementwise(Elementwise operation);
  GemmProblem& d(int count, Order order = Order::r);
  GemmProblem& d(int count, Order order, Dtype dtype);
  // One per D; 0 repeats a single row (order r) or column (order c).
  GemmProblem& d_leading_dimensions(std::initializer_list<std::int64_t> ldd);
  GemmProblem& k_batch(int parts);
  // B is in the order that a preshuffle kernel reads. Only run() with the kernel's name takes it.
  GemmProblem& shuffled_b(bool shuffled = true);

  // The problem with every default filled in.
  GemmProblemData data() const;

 private:
  GemmProblemData data_;
  bool c_set_ = false, acc_set_ = false, d_set_ = false;
  bool lda_set_ = false, ldb_set_ = false, ldc_set_ = false;
  unsigned ldd_set_ = 0;
};

// Throws InvalidArgument when no kernel could ever compute the problem: negative or overflowing
// sizes, short leading dimensions, a D count that the operation does not take, mixed integer and
// floating-point types.
void validate(const GemmProblemData& problem);

// Throws InvalidArgument for arguments that must not run: null or overlapping memory, a scale that
// is not finite, bounds of clamp that are NaN or reversed. `problem` must be valid.
void validate(const GemmProblemData& problem, const GemmArgs& args);

// Floating-point operations of the multiplication, 2 m n k.
double flops(const GemmProblemData& problem);
// Bytes of A, B, C and every D.
double bytes(const GemmProblemData& problem);

// "gemm m=16 n=64 k=32 fp16 x fp16 -> fp16 rcr relu d=1:fp16:r".
std::string to_string(const GemmProblemData& problem);

}  // namespace ckdisp
