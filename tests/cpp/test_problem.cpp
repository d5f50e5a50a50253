// Defaults of the builder, and everything that must be refused before a kernel is asked.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "check.hpp"
#include "mock.hpp"

using namespace ckdisp;

namespace {

void fills_in_defaults() {
  const GemmProblemData p = GemmProblem(2, 3, 5).data();
  CHECK(p.dtype_a == Dtype::fp32 && p.dtype_c == Dtype::fp32 && p.dtype_acc == Dtype::fp32);
  CHECK(p.layout == Layout::rcr && p.lda == 5 && p.ldb == 5 && p.ldc == 3 && p.k_batch == 1);
  const GemmProblemData q = GemmProblem(2, 3, 5).dtype(Dtype::int8).layout(Layout::crr).data();
  CHECK(q.dtype_c == Dtype::int32 && q.dtype_acc == Dtype::int32 && q.lda == 2 && q.ldb == 3);
  CHECK(GemmProblem(1, 1, 1).dtype(Dtype::fp8).data().dtype_c == Dtype::fp16);
  const GemmProblemData d = GemmProblem(2, 3, 5)
                                .dtype(Dtype::bf16)
                                .elementwise(Elementwise::relu)
                                .d(2, Order::c)
                                .d_leading_dimensions({0})
                                .data();
  CHECK(d.num_d == 2 && d.dtype_d == Dtype::bf16 && d.ldd[0] == 0 && d.ldd[1] == 2 &&
        d.ldd[2] == 0);
  CHECK(flops(p) == 60 && bytes(p) == 4 * (10 + 15 + 6));
  CHECK(to_string(d) == "gemm m=2 n=3 k=5 bf16 x bf16 -> bf16 rcr relu d=2:bf16:c");
}

void refuses_sizes() {
  const std::int64_t huge = std::int64_t{1} << 40;
  validate(GemmProblem(0, 0, 0).data());
  validate(GemmProblem(1000003, 7, 0).data());
  CHECK_THROWS(validate(GemmProblem(-1, 2, 3).data()), InvalidArgument, "m=-1");
  CHECK_THROWS(validate(GemmProblem(huge, huge, 1).data()), InvalidArgument, "too large");
  CHECK_THROWS(validate(GemmProblem(2, 2, 2).leading_dimensions(1, 2, 2).data()), InvalidArgument,
               "leading dimension of A is 1, less than the 2");
  CHECK_THROWS(validate(GemmProblem(2, 2, 2).leading_dimensions(2, 2, -2).data()), InvalidArgument,
               "leading dimension of C");
  const std::int64_t far = std::numeric_limits<std::int64_t>::max() / 4;
  CHECK_THROWS(validate(GemmProblem(8, 2, 2).leading_dimensions(far, 2, 2).data()), InvalidArgument,
               "too large to index");
  validate(GemmProblem(1, 2, 2).leading_dimensions(0, 2, 2).data());
  CHECK_THROWS(validate(GemmProblem(1, 1, 1).k_batch(-1).data()), InvalidArgument, "k_batch");
}

void refuses_types_and_counts() {
  CHECK_THROWS(validate(GemmProblem(1, 1, 1).dtype(Dtype::int8, Dtype::fp32).data()),
               InvalidArgument, "integers multiply only integers");
  CHECK_THROWS(validate(GemmProblem(1, 1, 1).dtype(Dtype::int32).data()), InvalidArgument,
               "use int8");
  CHECK_THROWS(validate(GemmProblem(1, 1, 1).accumulator(Dtype::fp16).data()), InvalidArgument,
               "accumulator");
  CHECK_THROWS(validate(GemmProblem(1, 1, 1).output(Dtype::int8).data()), InvalidArgument,
               "C cannot be int8");
  CHECK_THROWS(validate(GemmProblem(1, 1, 1).d(1).data()), InvalidArgument,
               "'passthrough' takes 0 D tensors, not 1");
  CHECK_THROWS(validate(GemmProblem(1, 1, 1).elementwise(Elementwise::add).d(2).data()),
               InvalidArgument, "'add' takes 1 D tensors, not 2");
  CHECK_THROWS(validate(GemmProblem(1, 1, 1).elementwise(Elementwise::multi_d_add).data()),
               InvalidArgument, "1 to 4");
  validate(GemmProblem(1, 1, 1).elementwise(Elementwise::gelu).d(4).data());
  CHECK_THROWS(GemmProblem().d(5), InvalidArgument, "0 to 4");
  GemmProblemData odd = GemmProblem(1, 1, 1).data();
  odd.dtype_b = static_cast<Dtype>(200);
  CHECK_THROWS(validate(odd), InvalidArgument, "element type");
}

void refuses_arguments() {
  const GemmProblemData p = GemmProblem(4, 4, 4).data();
  const GemmArgs good = mock::args();
  validate(p, good);
  GemmArgs bad = good;
  bad.b = nullptr;
  CHECK_THROWS(validate(p, bad), InvalidArgument, "B is null");
  bad = good;
  bad.c = nullptr;
  CHECK_THROWS(validate(p, bad), InvalidArgument, "C is null");
  validate(GemmProblem(0, 4, 4).data(), bad);
  bad = good;
  bad.scale = std::nanf("");
  CHECK_THROWS(validate(p, bad), InvalidArgument, "scale is");
  bad = good;
  bad.clamp_min = 2;
  bad.clamp_max = 1;
  validate(p, bad);
  const GemmProblemData clamp = GemmProblem(4, 4, 4).elementwise(Elementwise::clamp).data();
  CHECK_THROWS(validate(clamp, bad), InvalidArgument, "reversed");
}

void refuses_overlap() {
  std::vector<float> memory(1024);
  GemmArgs args = mock::args();
  args.a = memory.data();
  args.c = memory.data() + 8;
  CHECK_THROWS(validate(GemmProblem(4, 4, 4).data(), args), InvalidArgument,
               "C shares memory with A");
  // Two column blocks of one array: their ranges intersect, their elements do not.
  const GemmProblemData blocks = GemmProblem(4, 4, 4).leading_dimensions(16, 4, 16).data();
  validate(blocks, args);
  args.c = memory.data() + 3;
  CHECK_THROWS(validate(blocks, args), InvalidArgument, "C shares memory with A");
  args = mock::args();
  args.d[0] = args.c;
  const GemmProblemData add = GemmProblem(4, 4, 4).elementwise(Elementwise::add).d(1).data();
  CHECK_THROWS(validate(add, args), InvalidArgument, "C shares memory with D0");
}

void names_and_values() {
  CHECK(from_name<Dtype>("bf16") == Dtype::bf16);
  CHECK_THROWS(from_name<Elementwise>("rleu"), InvalidKey, "did you mean 'relu'?");
  CHECK(std::string(to_name(static_cast<Dtype>(99))) == "?");
}

}  // namespace

int main() {
  fills_in_defaults();
  refuses_sizes();
  refuses_types_and_counts();
  refuses_arguments();
  refuses_overlap();
  names_and_values();
  std::puts("ok");
}
