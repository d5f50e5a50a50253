// Grouped convolutions in the runtime: the builder, what is refused, and dispatch beside GEMMs.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "check.hpp"
#include "mock.hpp"

using namespace ckdisp;

namespace {

GroupedConvProblem example(Family family = Family::conv_fwd) {
  return GroupedConvProblem(family)
      .input(2, 8, {9, 10})
      .weights(12, {3, 3})
      .groups(2)
      .stride({2, 1})
      .dilation({1, 2})
      .padding({0, 2}, {1, 1});
}

void fills_in_defaults() {
  const ConvProblemData p = example().data();
  CHECK(p.n == 2 && p.g == 2 && p.c == 4 && p.k == 6 && p.layout == ConvLayout::nhwgc);
  CHECK(p.in[0] == 1 && p.in[1] == 9 && p.in[2] == 10 && p.filter[0] == 1 && p.stride[0] == 1);
  // floor((9 + 0 + 1 - 3) / 2) + 1 and 10 + 2 + 1 - 5 + 1
  CHECK(p.out[0] == 1 && p.out[1] == 4 && p.out[2] == 9 && p.k_batch == 1);
  CHECK(p.dtype_out == Dtype::fp32 && p.dtype_acc == Dtype::fp32 && rank(p) == 2);
  CHECK(flops(p) == 2.0 * 2 * 12 * 4 * 9 * 4 * 9);
  CHECK(bytes(p) == 4.0 * (2 * 8 * 90 + 12 * 4 * 9 + 2 * 12 * 36));
  CHECK(
      to_string(p) ==
      "conv.fwd n=2 g=2 c=4 k=6 9x10 filter 3x3 stride 2x1 dilation 1x2 pad 0x2:1x1 -> 4x9 fp32 x "
      "fp32 -> fp32 nhwgc");
  const ConvProblemData q = GroupedConvProblem(Family::conv_bwd_data)
                                .input(1, 3, {7})
                                .weights(5, {7})
                                .dtype(Dtype::int8)
                                .k_batch(3)
                                .data();
  CHECK(q.layout == ConvLayout::nwgc && q.out[2] == 1 && q.dtype_out == Dtype::int32);
  CHECK(q.dtype_acc == Dtype::int32 && to_string(q).find("k_batch=3") != std::string::npos);
}

void refuses_sizes() {
  CHECK_THROWS(example().groups(3).data(), InvalidArgument,
               "8 channels of the input do not divide");
  CHECK_THROWS(example().groups(0).data(), InvalidArgument, "0 groups");
  CHECK_THROWS(example().weights(13, {3, 3}).data(), InvalidArgument, "13 channels of the output");
  CHECK_THROWS(example().weights(12, {3}).data(), InvalidArgument, "the filter has 1 sizes");
  CHECK_THROWS(example().stride({1, 1, 1}).data(), InvalidArgument, "stride has 3 sizes");
  CHECK_THROWS(example().stride({0, 1}).data(), InvalidArgument, "stride 0 in height");
  CHECK_THROWS(example().dilation({1, -1}).data(), InvalidArgument, "dilation -1 in width");
  CHECK_THROWS(example().padding({0, -1}).data(), InvalidArgument, "left pad -1 in width");
  CHECK_THROWS(example().weights(12, {11, 3}).data(), InvalidArgument,
               "spans 11 pixels in height (11 with dilation 1), more than the 10");
  CHECK_THROWS(GroupedConvProblem().data(), InvalidArgument, "0 spatial dimensions");
  const std::int64_t huge = std::int64_t{1} << 40;
  CHECK_THROWS(validate(example().input(huge, 8, {huge, 10}).data()), InvalidArgument,
               "overflow 63 bits");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS(example().padding({most, 0}).data(), InvalidArgument, "overflow 63 bits");
  CHECK_THROWS(validate(example().k_batch(-1).data()), InvalidArgument, "k_batch is -1");
  CHECK(example().k_batch(0).data().k_batch == 1);  // forward sums are not split
}

void refuses_contradictions() {
  ConvProblemData p = example().data();
  validate(p);
  p.out[1] = 5;
  CHECK_THROWS(validate(p), InvalidArgument, "the output has 5 pixels in height");
  p = example().data();
  p.left_pad[0] = 1;
  p.out[0] = 2;
  CHECK_THROWS(validate(p), InvalidArgument, "layout nhwgc has no depth");
  CHECK_THROWS(validate(example(Family::gemm_standard).data()), InvalidArgument,
               "the direction of a convolution is gemm.standard");
  CHECK_THROWS(validate(example().dtype(Dtype::int8, Dtype::fp16).data()), InvalidArgument,
               "integers multiply only integers");
  CHECK_THROWS(validate(example().output(Dtype::int8).data()), InvalidArgument,
               "the output cannot be int8");
  CHECK_THROWS(validate(example(Family::conv_bwd_data).dtype(Dtype::fp8).data()), InvalidArgument,
               "gradients are fp32, fp16, bf16; only conv.fwd takes others");
}

std::vector<char> memory(1 << 16);

ConvArgs arguments(Family family) {
  ConvArgs args;
  void* const places[] = {&memory[0], &memory[20000], &memory[40000]};
  if (family == Family::conv_fwd) {
    args.in = places[0], args.wei = places[1], args.result = places[2];
  } else if (family == Family::conv_bwd_data) {
    args.result = places[0], args.wei = places[1], args.out = places[2];
  } else {
    args.in = places[0], args.result = places[1], args.out = places[2];
  }
  return args;
}

void refuses_arguments() {
  const ConvProblemData p = example().data();
  ConvArgs args = arguments(Family::conv_fwd);
  validate(p, args);
  args.wei = nullptr;
  CHECK_THROWS(validate(p, args), InvalidArgument, "the weights is null but not empty");
  args = arguments(Family::conv_fwd);
  args.result = &memory[100];
  CHECK_THROWS(validate(p, args), InvalidArgument, "the result shares memory with the input");
  args = arguments(Family::conv_fwd);
  args.out = &memory[100];
  CHECK_THROWS(validate(p, args), InvalidArgument, "pass it as the result");
  // Nothing is written without images, wherever the result lies.
  const ConvProblemData none = example().input(0, 8, {9, 10}).data();
  args = arguments(Family::conv_fwd);
  args.in = nullptr;
  args.result = &memory[20010];
  validate(none, args);
}

void dispatches_each_direction() {
  const Registry registry =
      mock::registry({mock::kernel<0>("gemm"), mock::kernel<1>("fwd", mock::default_conv_key()),
                      mock::kernel<2>("data", mock::default_conv_key(Family::conv_bwd_data)),
                      mock::kernel<3>("weight", mock::default_conv_key(Family::conv_bwd_weight))});
  const Dispatcher dispatcher(registry);
  const struct {
    Family family;
    const char* name;
    int slot;
  } rows[] = {{Family::conv_fwd, "fwd", 1},
              {Family::conv_bwd_data, "data", 2},
              {Family::conv_bwd_weight, "weight", 3}};
  for (const auto& row : rows) {
    const GroupedConvProblem problem = example(row.family);
    CHECK(dispatcher.select(problem).name() == std::string(row.name));
    const int before = mock::behaviours[row.slot].runs;
    dispatcher.run(problem, arguments(row.family));
    dispatcher.run(problem.data(), arguments(row.family));  // a decision met before
    CHECK(mock::behaviours[row.slot].runs == before + 2);
    // GEMMs are no candidates; the other directions are, and say why not.
    const std::vector<Candidate> all = dispatcher.explain(problem);
    CHECK(all.size() == 3 && all[0].rank == 0 && all[1].reason == Reason::direction);
  }
  CHECK_THROWS(dispatcher.run("gemm", example(), arguments(Family::conv_fwd)), UnsupportedProblem,
               "[op] belongs to another op");
  CHECK_THROWS(dispatcher.select(example().dtype(Dtype::bf16)), KernelNotFound,
               "ckdisp generate conv.fwd --arch");
}

void converts_behind_the_kernel() {
  const ConvKey key = mock::default_conv_key(Family::conv_bwd_weight);
  const Dispatcher dispatcher(mock::registry({mock::kernel<4>("two stages", key)}));
  mock::Behaviour& seen = mock::behaviours[4];
  seen.prepares = seen.converts = true;
  seen.workspace = 640;
  const GroupedConvProblem problem = example(Family::conv_bwd_weight);
  const ConvArgs args = arguments(Family::conv_bwd_weight);
  const Plan plan = dispatcher.plan(problem);
  CHECK(plan.stages.size() == 3 && plan.workspace_bytes == 640);
  CHECK(plan.stages[0].kind == StageKind::prepare && plan.stages[1].kind == StageKind::kernel);
  CHECK(plan.stages[2].kind == StageKind::convert);
  dispatcher.run(problem, args);
  CHECK(seen.prepared == 1 && seen.runs == 1 && seen.conversions == 1);
  dispatcher.run(plan.stages[1], problem, args);
  CHECK(seen.prepared == 1 && seen.runs == 2 && seen.conversions == 1);
  dispatcher.run(plan.stages[2], problem, args);
  CHECK(seen.prepared == 1 && seen.runs == 2 && seen.conversions == 2);
  seen.succeeds = false;
  CHECK_THROWS(dispatcher.run(problem, args), DeviceError, "fell over");
  CHECK(seen.conversions == 2);  // nothing is made of what failed
}

void lists_both_ops() {
  const ConvKey key = mock::default_conv_key();
  const Registry registry = mock::registry({mock::kernel<0>("gemm"), mock::kernel<1>("conv", key)});
  CHECK(registry.kernels(Filter().op(Op::conv)).size() == 1);
  CHECK(registry.kernels(Filter().where("dtype_in", "fp32")).size() == 1);
  CHECK(registry.kernels(Filter().where("arch", "generic")).size() == 2);
  CHECK_THROWS(Filter().where("dtype_im", "fp32"), InvalidKey, "did you mean 'dtype_in'");
  CHECK(registry.find(key)->name() == std::string("conv"));
  ConvKey other = key;
  other.groups_to_merge = 7;
  CHECK(!registry.find(other));
  CHECK(registry.find("conv")->field("specialization") == "default");
  const std::string json = registry.to_json();
  CHECK(json.find("\"dtype_in\": {\"fp32\": 1}") != std::string::npos);
  auto* half = new ckdisp_kernel(*mock::kernel<1>("half", key));
  half->convert = nullptr;  // but needs_convert is there
  CHECK_THROWS(mock::library({half}), LibraryError, "damaged entry");
  auto* small = new ckdisp_kernel(*mock::kernel<1>("small", key));
  small->key_size = sizeof(GemmKey);
  CHECK_THROWS(mock::library({small}), LibraryError, "damaged entry");
}

}  // namespace

int main() {
  fills_in_defaults();
  refuses_sizes();
  refuses_contradictions();
  refuses_arguments();
  dispatches_each_direction();
  converts_behind_the_kernel();
  lists_both_ops();
  std::puts("ok");
}
