// Attention that takes several kernels: plans, their memory, and what each stage is given.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "allocations.hpp"
#include "check.hpp"
#include "mock.hpp"

using namespace ckdisp;

namespace {

// What the kernels of this file were given, call by call.
struct Seen {
  Family family;
  std::int64_t num_splits;
  FmhaArgs args;
  void* workspace;
};
Seen seen[16];
int calls = 0;

const ckdisp_kernel* recorder(const std::string& name, const FmhaKey& key,
                              std::uint64_t (*workspace)(const void*, const Launch*)) {
  auto* table = new ckdisp_kernel(*mock::kernel<0>(name, key));
  table->needs_prepare = nullptr;
  table->prepare = nullptr;
  table->needs_convert = nullptr;
  table->convert = nullptr;
  table->workspace_size = workspace;
  table->run = [](const void* problem, const void* args, void* memory, const Launch*, Refusal*) {
    const auto& p = *static_cast<const FmhaProblemData*>(problem);
    seen[calls++] = {p.family, p.num_splits, *static_cast<const FmhaArgs*>(args), memory};
    return true;
  };
  return table;
}

std::uint64_t no_bytes(const void*, const Launch*) { return 0; }
std::uint64_t some_bytes(const void*, const Launch*) { return 1000; }

FmhaKey key_of(Family family, FmhaDtype dtype = FmhaDtype::fp16, Arch arch = Arch::generic) {
  FmhaKey key = mock::default_fmha_key(family, arch);
  key.dtype = dtype;
  return key;
}

Registry all_kernels(FmhaDtype dtype = FmhaDtype::fp16) {
  const auto make = [&](const char* name, Family family, auto* bytes) {
    return recorder(name, key_of(family, dtype), bytes);
  };
  return mock::registry({make("fwd", Family::fmha_fwd, no_bytes),
                         make("split", Family::fmha_splitkv, some_bytes),
                         make("combine", Family::fmha_splitkv_combine, no_bytes),
                         make("dot", Family::fmha_bwd_dot_do_o, no_bytes),
                         make("main", Family::fmha_bwd_dq_dk_dv, some_bytes),
                         make("convert", Family::fmha_bwd_convert_dq, no_bytes)});
}

FmhaProblem example(Family family, FmhaDtype dtype = FmhaDtype::fp16) {
  return FmhaProblem(family).batch(1).heads(2).head_dim(64).lengths(8, 4096).dtype(dtype);
}

std::vector<char> memory(std::size_t{16} << 20);

FmhaArgs arguments() {
  FmhaArgs args;
  const auto part = [](int i) { return &memory[static_cast<std::size_t>(i) << 20]; };
  args.q = part(0), args.k = part(2), args.v = part(4), args.o = part(6);
  args.lse = reinterpret_cast<float*>(part(7));
  args.d_o = part(8), args.dq = part(9), args.dk = part(10), args.dv = part(12);
  args.scale = 0.125f;
  return args;
}

std::int64_t splits_for(int threads, const FmhaProblem& problem) {
  DispatcherOptions options;
  options.num_threads = threads;
  const Dispatcher dispatcher(all_kernels(), options);
  return dispatcher.plan(problem).stages[0].num_splits;
}

void splits_keep_the_threads_busy() {
  const FmhaProblem two = example(Family::fmha_splitkv);  // two heads, one tile of rows: two tasks
  CHECK(splits_for(1, two) == 1 && splits_for(2, two) == 1);
  CHECK(splits_for(4, two) == 2);
  CHECK(splits_for(16, two) == 7);   // 14 of 16 threads work
  CHECK(splits_for(64, two) == 14);  // of at most 16, since a part has at least 256 keys
  CHECK(splits_for(3, two) == 3);    // two rounds of three, instead of one of two
  CHECK(splits_for(4, FmhaProblem(two).lengths(1000, 4096)) == 1);
  CHECK(splits_for(64, FmhaProblem(two).lengths(1, 1 << 20)) == 28);
  CHECK(splits_for(4096, FmhaProblem(two).lengths(1, 1 << 20)) == 109);
  CHECK(splits_for(64, FmhaProblem(two).splits(5)) == 5);
  CHECK(splits_for(64, FmhaProblem(two).batch(0)) == 1);
}

void a_split_is_followed_by_the_sum() {
  const Dispatcher dispatcher(all_kernels());
  const FmhaProblem problem = example(Family::fmha_splitkv).splits(5).lse();
  const Plan plan = dispatcher.plan(problem);
  CHECK(plan.stages.size() == 2 && dispatcher.select(problem).name() == std::string("split"));
  CHECK(plan.stages[0].kernel.name() == std::string("split"));
  CHECK(plan.stages[1].kernel.name() == std::string("combine"));
  // lse_acc and o_acc, each a multiple of 64 bytes, then the kernel's own.
  const std::uint64_t lse = 5 * 2 * 8 * 4, o = lse * 64;
  CHECK(lse % 64 == 0 && plan.workspace_bytes == lse + o + 1000);
  CHECK(plan.stages[0].workspace_offset == lse + o && plan.stages[0].workspace_bytes == 1000);
  CHECK(to_string(plan) == "kernel  split, 5 parts\nkernel  combine, 5 parts\nscratch memory " +
                               std::to_string(plan.workspace_bytes) + " bytes");
  calls = 0;
  dispatcher.run(problem, arguments());
  CHECK(calls == 2 && seen[0].family == Family::fmha_splitkv);
  CHECK(seen[1].family == Family::fmha_splitkv_combine && seen[1].num_splits == 5);
  const FmhaArgs& args = seen[0].args;
  CHECK(args.lse_acc == seen[1].args.lse_acc && args.o_acc == seen[1].args.o_acc);
  CHECK(reinterpret_cast<char*>(args.o_acc) - reinterpret_cast<char*>(args.lse_acc) ==
        static_cast<std::ptrdiff_t>(lse));
  CHECK(static_cast<char*>(seen[0].workspace) - reinterpret_cast<char*>(args.lse_acc) ==
        static_cast<std::ptrdiff_t>(lse + o));
  CHECK(args.delta == nullptr && args.dq_acc == nullptr && args.q == arguments().q);
}

void plans_run_stage_by_stage() {
  const Dispatcher dispatcher(all_kernels());
  const FmhaProblem problem = example(Family::fmha_splitkv).splits(3);
  const Plan plan = dispatcher.plan(problem);
  calls = 0;
  dispatcher.run(plan, problem, arguments());
  CHECK(calls == 2 && seen[0].args.o_acc == seen[1].args.o_acc && seen[1].num_splits == 3);
  dispatcher.run(plan.stages[1], problem, arguments());
  CHECK(calls == 3 && seen[2].args.o_acc == seen[0].args.o_acc);
  const std::vector<double> seconds = dispatcher.time(plan, problem, arguments());
  CHECK(seconds.size() == 2 && seconds[0] >= 0 && seconds[1] >= 0 && calls == 5);
  Stage strange = plan.stages[1];
  strange.num_splits = 0;
  CHECK_THROWS(dispatcher.run(strange, problem, arguments()), InvalidArgument, "no plan");
  const Plan named = dispatcher.plan("split", problem);
  CHECK(named.stages.size() == 2 && named.stages[0].num_splits == 3);
  CHECK_THROWS(dispatcher.plan("combine", problem), UnsupportedProblem,
               "[family] computes fmha.splitkv_combine, not fmha.splitkv");
  calls = 0;
  dispatcher.run("split", problem, arguments());
  CHECK(calls == 2);
  CHECK_THROWS(dispatcher.run(example(Family::fmha_splitkv_combine), arguments()), InvalidArgument,
               "works on what others hand it; ask for fmha.splitkv");
}

void a_backward_pass_has_two_or_three_stages() {
  const Dispatcher half(all_kernels());
  const FmhaProblem problem = example(Family::fmha_bwd_dq_dk_dv);
  CHECK(half.plan(problem).stages.size() == 3);
  CHECK(half.select(problem).name() == std::string("main"));
  calls = 0;
  half.run(problem, arguments());
  CHECK(calls == 3 && seen[0].family == Family::fmha_bwd_dot_do_o);
  CHECK(seen[1].family == Family::fmha_bwd_dq_dk_dv);
  CHECK(seen[2].family == Family::fmha_bwd_convert_dq && seen[2].num_splits == 1);
  for (int i = 0; i < 3; ++i) {
    CHECK(seen[i].args.delta == seen[0].args.delta && seen[i].args.delta != nullptr);
    CHECK(seen[i].args.dq_acc == seen[0].args.dq_acc && seen[i].args.dq_acc != nullptr);
  }
  // Row sums, then dQ in fp32: 16 rows.
  CHECK(half.plan(problem).workspace_bytes == 16 * 4 + 16 * 64 * 4 + 1000);
  // In fp32 dQ is summed where it belongs.
  const Dispatcher full(all_kernels(FmhaDtype::fp32));
  calls = 0;
  full.run(example(Family::fmha_bwd_dq_dk_dv, FmhaDtype::fp32), arguments());
  CHECK(calls == 2 && seen[1].args.dq_acc == nullptr && seen[1].args.delta != nullptr);
}

Registry gpu_kernels(int tile_of_conversion) {
  FmhaKey main = key_of(Family::fmha_bwd_dq_dk_dv, FmhaDtype::fp16, Arch::gfx942);
  FmhaKey convert = key_of(Family::fmha_bwd_convert_dq, FmhaDtype::fp16, Arch::gfx942);
  main.deterministic = convert.deterministic = true;
  main.tile[1] = 128;
  convert.tile[1] = tile_of_conversion;
  return mock::registry(
      {recorder("main", main, no_bytes), recorder("convert", convert, no_bytes),
       recorder("dot", key_of(Family::fmha_bwd_dot_do_o, FmhaDtype::fp16, Arch::gfx942),
                no_bytes)});
}

void calls_are_for_their_family() {
  const Dispatcher dispatcher(all_kernels());
  calls = 0;
  dispatcher.run_fwd(example(Family::fmha_fwd), arguments());
  dispatcher.run_splitkv(example(Family::fmha_splitkv).data(), arguments());
  dispatcher.run_bwd(example(Family::fmha_bwd_dq_dk_dv), arguments());
  CHECK(calls == 1 + 2 + 3);
  CHECK_THROWS(dispatcher.run_fwd(example(Family::fmha_splitkv), arguments()), InvalidArgument,
               "the problem is fmha.splitkv, and this call is for fmha.fwd");
}

void parts_of_a_deterministic_sum_agree() {
  DispatcherOptions options;
  options.arches = {"gfx942"};
  const FmhaProblem problem = example(Family::fmha_bwd_dq_dk_dv).deterministic();
  const Plan plan = Dispatcher(gpu_kernels(128), options).plan(problem);
  CHECK(plan.stages.size() == 3 && plan.stages[2].num_splits == 4096 / 128);
  CHECK(plan.workspace_bytes == 16 * 4 + 32 * 16 * 64 * 4);
  CHECK_THROWS(Dispatcher(gpu_kernels(64), options).plan(problem), UnsupportedProblem,
               "convert: [stage] sums parts of 64 keys, and the stage before makes 128");
  // A mask, bias or dropout of the problem is none of the business of the other stages.
  FmhaKey main = key_of(Family::fmha_bwd_dq_dk_dv, FmhaDtype::fp16, Arch::gfx942);
  main.mask = FmhaMask::generic;
  main.bias = FmhaBias::alibi;
  main.dropout = true;
  const Registry kernels = mock::registry(
      {recorder("main", main, no_bytes),
       recorder("convert", key_of(Family::fmha_bwd_convert_dq, FmhaDtype::fp16, Arch::gfx942),
                no_bytes),
       recorder("dot", key_of(Family::fmha_bwd_dot_do_o, FmhaDtype::fp16, Arch::gfx942),
                no_bytes)});
  const FmhaProblem masked =
      example(Family::fmha_bwd_dq_dk_dv).mask(FmhaMask::top_left).alibi().dropout();
  CHECK(Dispatcher(kernels, options).plan(masked).stages.size() == 3);
}

void stages_stay_on_one_architecture() {
  DispatcherOptions options;
  options.arches = {"gfx942", "gfx950"};
  const Registry mixed = mock::registry(
      {recorder("split", key_of(Family::fmha_splitkv, FmhaDtype::fp16, Arch::gfx942), no_bytes),
       recorder("combine", key_of(Family::fmha_splitkv_combine, FmhaDtype::fp16, Arch::gfx950),
                no_bytes)});
  FmhaProblem problem = example(Family::fmha_splitkv);
  CHECK_THROWS(Dispatcher(mixed, options).plan(problem), UnsupportedProblem,
               "combine: [stage] is for another architecture than the main stage");
}

void explains_every_stage() {
  const Dispatcher dispatcher(all_kernels());
  const std::vector<Candidate> all = dispatcher.explain(example(Family::fmha_bwd_dq_dk_dv));
  CHECK(all.size() == 6);
  for (int i = 0; i < 3; ++i) {
    CHECK(all[static_cast<std::size_t>(i)].rank == 0 && all[static_cast<std::size_t>(i)].chosen);
  }
  CHECK(all[0].kernel.name() == std::string("main"));
  CHECK(all[3].reason == Reason::family && all[3].rank == -1 && !all[3].chosen);
  const Dispatcher alone(
      mock::registry({recorder("split", key_of(Family::fmha_splitkv), no_bytes)}));
  CHECK_THROWS(alone.select(example(Family::fmha_splitkv)), KernelNotFound,
               "ckdisp generate fmha.splitkv_combine --arch");
  const std::vector<Candidate> split = alone.explain(example(Family::fmha_splitkv));
  CHECK(split.size() == 1 && split[0].supported && split[0].rank == 0 && !split[0].chosen);
}

void repeated_calls_allocate_nothing() {
  const Dispatcher dispatcher(all_kernels());
  const FmhaProblemData problem = example(Family::fmha_bwd_dq_dk_dv).data();
  const FmhaArgs args = arguments();
  Launch launch;
  launch.num_threads = 1;
  calls = 0;
  dispatcher.run(problem, args, launch);
  const long before = allocations;
  dispatcher.run(problem, args, launch);
  dispatcher.run(problem, args, launch);
  CHECK(allocations == before && calls == 9);
}

}  // namespace

int main() {
  splits_keep_the_threads_busy();
  a_split_is_followed_by_the_sum();
  plans_run_stage_by_stage();
  a_backward_pass_has_two_or_three_stages();
  calls_are_for_their_family();
  parts_of_a_deterministic_sum_agree();
  stages_stay_on_one_architecture();
  explains_every_stage();
  repeated_calls_allocate_nothing();
  std::puts("ok");
}
