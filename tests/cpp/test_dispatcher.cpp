// Choice of kernels, explanations, plans, the decision cache, and many threads at once.
#include <cstdint>
#include <thread>

#include "allocations.hpp"
#include "check.hpp"
#include "mock.hpp"

using namespace ckdisp;
using namespace mock;

namespace {

void reset() {
  for (Behaviour& b : behaviours) {
    b.supported = b.succeeds = b.prepare_succeeds = true;
    b.failure = Reason::failed;
    b.prepares = false;
    b.cost = 1;
    b.workspace = 0;
    b.runs = b.asked = b.prepared = 0;
  }
}

GemmKey on(Arch arch) {
  GemmKey key = default_key();
  key.arch = arch;
  return key;
}

std::string chosen(const Dispatcher& dispatcher) { return dispatcher.select(problem()).name(); }

void heuristic_takes_the_cheapest() {
  reset();
  behaviours[0].cost = 3;
  behaviours[1].cost = 2;
  const Registry kernels = registry({kernel<0>("a"), kernel<1>("b"), kernel<1>("c")});
  CHECK(chosen(Dispatcher(kernels)) == "b");  // a tie goes by name
  behaviours[1].supported = false;
  CHECK(chosen(Dispatcher(kernels)) == "a");
  DispatcherOptions first;
  first.strategy = Strategy::first;
  behaviours[1].supported = true;
  CHECK(chosen(Dispatcher(kernels, first)) == "a");
}

void ties_go_by_priority() {
  reset();
  Registry kernels = registry({kernel<0>("a")});
  kernels.add(library({kernel<1>("z")}), Priority::high);
  CHECK(chosen(Dispatcher(kernels)) == "z");
}

void better_architectures_come_first() {
  reset();
  const std::vector<Arch> here = host_arches();
  CHECK(here.back() == Arch::generic);
  if (here.size() < 2) return;
  behaviours[0].cost = 1;
  behaviours[1].cost = 9;
  const Registry kernels = registry({kernel<0>("plain"), kernel<1>("best", on(here.front()))});
  CHECK(chosen(Dispatcher(kernels)) == "best");
  behaviours[1].supported = false;
  CHECK(chosen(Dispatcher(kernels)) == "plain");
  ::setenv("CKDISP_CPU_LEVEL", "generic", 1);
  behaviours[1].supported = true;
  CHECK(chosen(Dispatcher(kernels)) == "plain");
  ::setenv("CKDISP_CPU_LEVEL", "x86-64-v9", 1);
  CHECK_THROWS(Dispatcher(kernels), InvalidArgument, "generic");
  ::unsetenv("CKDISP_CPU_LEVEL");
}

void never_asks_kernels_of_other_machines() {
  reset();
  ::setenv("CKDISP_CPU_LEVEL", "generic", 1);
  const Dispatcher dispatcher(registry({kernel<2>("better", on(Arch::x86_64_v4_bf16))}));
  ::unsetenv("CKDISP_CPU_LEVEL");
  CHECK_THROWS(dispatcher.select(problem()), UnsupportedProblem,
               "[arch] was built for x86-64-v4-bf16");
  const std::vector<Candidate> all = dispatcher.explain(problem());
  CHECK(all.size() == 1 && all[0].reason == Reason::arch && all[0].rank == -1);
  CHECK(behaviours[2].asked == 0);
}

void explains() {
  reset();
  behaviours[0].cost = 5;
  behaviours[1].cost = 4;
  behaviours[2].supported = false;
  GemmKey other = default_key();
  other.layout = Layout::ccr;
  const Dispatcher dispatcher(
      registry({kernel<0>("a"), kernel<1>("b"), kernel<2>("c"), kernel<3>("d", other)}));
  const std::vector<Candidate> all = dispatcher.explain(problem());
  CHECK(all.size() == 4);
  CHECK(all[0].kernel.name() == std::string("b") && all[0].rank == 0 && all[0].cost == 4);
  CHECK(all[1].kernel.name() == std::string("a") && all[1].rank == 1);
  CHECK(all[2].reason == Reason::pad && all[2].text == "mock 2 refuses" && !all[2].supported);
  CHECK(all[3].reason == Reason::layout && all[3].text == "reads layout ccr, not rcr");
}

void says_what_is_missing() {
  reset();
  const Dispatcher dispatcher(registry({kernel<0>("a")}));
  const auto relu = GemmProblem(4, 4, 4).dtype(Dtype::bf16).elementwise(Elementwise::relu).d(1);
  CHECK_THROWS(dispatcher.select(relu), KernelNotFound, "ckdisp generate gemm.multi_d --arch ");
  CHECK_THROWS(dispatcher.select(relu), KernelNotFound, "it has none for these inputs");
  const auto layout = GemmProblem(4, 4, 4).layout(Layout::crr);
  CHECK_THROWS(dispatcher.select(layout), KernelNotFound, "it has rcr passthrough d=0 -> fp32");
  CHECK_THROWS(dispatcher.select(GemmProblem(-4, 4, 4)), InvalidArgument, "negative");
  CHECK_THROWS(dispatcher.run("aa", problem(), args()), KernelNotFound, "did you mean 'a'?");
  CHECK_THROWS(dispatcher.run("aa", GemmProblem(2, 3, 4), args()), KernelNotFound, "'a'");
  behaviours[0].supported = false;
  CHECK_THROWS(dispatcher.select(problem()), UnsupportedProblem, "a: [pad] mock 0 refuses");
  CHECK_THROWS(dispatcher.run("a", problem(), args()), UnsupportedProblem, "mock 0 refuses");
}

void kernels_with_reordered_operands_serve_no_plain_problem() {
  reset();
  GemmKey key = default_key();
  key.family = Family::gemm_preshuffle;
  const Dispatcher dispatcher(registry({kernel<0>("shuffled", key)}));
  CHECK_THROWS(dispatcher.select(problem()), KernelNotFound, "no kernel for");
  CHECK_THROWS(dispatcher.run("shuffled", problem(), args()), UnsupportedProblem, "reordered");
  const GemmProblem reordered = GemmProblem(4, 5, 6).shuffled_b();
  CHECK(dispatcher.select(reordered).name() == std::string("shuffled"));
  CHECK_THROWS(dispatcher.run(reordered, args()), InvalidArgument, "name the kernel");
  dispatcher.run("shuffled", reordered, args());
  CHECK(behaviours[0].runs == 1);
  GemmProblemData loose = reordered.data();
  loose.ldb = 9;
  CHECK_THROWS(dispatcher.run("shuffled", loose, args()), InvalidArgument, "lies dense");
  const Dispatcher plain(registry({kernel<1>("plain")}));
  CHECK_THROWS(plain.run("plain", reordered, args()), UnsupportedProblem, "not reordered");
}

void asks_a_callback_once() {
  reset();
  behaviours[2].supported = false;
  const Registry kernels = registry({kernel<0>("a"), kernel<1>("b"), kernel<2>("c")});
  int calls = 0;
  DispatcherOptions options;
  options.ordering = [&](const AnyProblem& asked, const std::vector<Kernel>& candidates) {
    ++calls;
    CHECK(std::get<GemmProblemData>(asked).m == problem().m);
    CHECK(candidates.size() == 2);
    return std::vector<Kernel>{candidates[1]};
  };
  const Dispatcher dispatcher(kernels, options);
  CHECK(chosen(dispatcher) == "b" && chosen(dispatcher) == "b" && calls == 1);
  options.ordering = [](const auto&, const auto&) { return std::vector<Kernel>(); };
  CHECK_THROWS(Dispatcher(kernels, options).select(problem()), UnsupportedProblem, "chose none");
  const Kernel refused = *kernels.find("c");
  options.ordering = [&](const auto&, const auto&) { return std::vector<Kernel>{refused}; };
  CHECK_THROWS(Dispatcher(kernels, options).select(problem()), InvalidArgument, "not among");
}

void plans_and_runs() {
  reset();
  behaviours[0].workspace = 1000;
  const Dispatcher dispatcher(registry({kernel<0>("a"), kernel<1>("b")}), {});
  behaviours[1].cost = 9;
  const Plan plan = dispatcher.plan(problem());
  CHECK(plan.stages.size() == 1 && plan.workspace_bytes == 1000);
  CHECK(plan.stages[0].kernel.name() == std::string("a") && plan.stages[0].workspace_offset == 0);
  Launch launch{};
  launch.num_threads = 3;
  dispatcher.run(problem(), args(), launch);
  CHECK(behaviours[0].runs == 1 && behaviours[0].last_threads == 3);
  CHECK(reinterpret_cast<std::uintptr_t>(behaviours[0].last_workspace) % 64 == 0);
  dispatcher.run("b", problem(), args());
  CHECK(behaviours[1].runs == 1 && behaviours[1].last_threads == dispatcher.num_threads());
  GemmArgs bad = args();
  bad.a = bad.c;
  CHECK_THROWS(dispatcher.run(problem(), bad), InvalidArgument, "shares memory");
  CHECK_THROWS(dispatcher.run("b", problem(), bad), InvalidArgument, "shares memory");
  CHECK(behaviours[0].runs == 1 && behaviours[1].runs == 1);
  behaviours[0].succeeds = false;
  CHECK_THROWS(dispatcher.run(problem(), args()), DeviceError, "a failed: mock 0 fell over");
  for (const Reason reason : {Reason::scale, Reason::alignment}) {
    behaviours[0].failure = reason;
    CHECK_THROWS(dispatcher.run(problem(), args()), UnsupportedProblem, "a cannot run this call: ");
  }
  launch.num_threads = -1;
  CHECK_THROWS(dispatcher.run(problem(), args(), launch), InvalidArgument, "threads is -1");
  launch = {};
  launch.device = -2;
  CHECK_THROWS(dispatcher.run(problem(), args(), launch), InvalidArgument, "the device is -2");
}

void prepares_before_each_run() {
  reset();
  behaviours[0].prepares = true;
  behaviours[0].workspace = 640;
  const Dispatcher dispatcher(registry({kernel<0>("a")}));
  const Plan plan = dispatcher.plan(problem());
  CHECK(plan.stages.size() == 2 && plan.workspace_bytes == 640);
  CHECK(plan.stages[0].kind == StageKind::prepare && plan.stages[1].kind == StageKind::kernel);
  for (int i = 1; i <= 3; ++i) {
    dispatcher.run(problem(), args());
    CHECK(behaviours[0].runs == i && behaviours[0].prepared == i);
  }
  dispatcher.run("a", problem(), args());
  CHECK(behaviours[0].prepared == 4);
  dispatcher.run(plan.stages[0], problem(), args());
  CHECK(behaviours[0].prepared == 5 && behaviours[0].runs == 4);
  for (int i = 5; i <= 6; ++i) {  // as a timer does
    dispatcher.run(plan.stages[1], problem(), args());
    CHECK(behaviours[0].prepared == 5 && behaviours[0].runs == i);
  }
  GemmArgs bad = args();
  bad.c = nullptr;
  CHECK_THROWS(dispatcher.run(plan.stages[1], problem(), bad), InvalidArgument, "C is null");
  behaviours[0].prepare_succeeds = false;
  CHECK_THROWS(dispatcher.run(problem(), args()), DeviceError, "a failed: mock 0 is not ready");
  CHECK(behaviours[0].runs == 6);
}

void remembers_without_allocating() {
  reset();
  behaviours[0].workspace = 4096;
  const Dispatcher dispatcher(registry({kernel<0>("a")}));
  const GemmProblem builder = GemmProblem(4, 5, 6);
  dispatcher.run(builder, args());
  const int asked = behaviours[0].asked;
  const long before = allocations;
  for (int i = 0; i < 100; ++i) {
    dispatcher.run(builder, args());
    (void)dispatcher.select(builder);
  }
  CHECK(allocations == before);
  CHECK(behaviours[0].asked == asked && behaviours[0].runs == 101);
}

void forgets_when_the_registry_changes() {
  reset();
  behaviours[0].cost = 5;
  Registry kernels = registry({kernel<0>("a")});
  const Dispatcher dispatcher(kernels);
  CHECK(chosen(dispatcher) == "a");
  kernels.add(library({kernel<1>("b")}));
  CHECK(chosen(dispatcher) == "b");
  kernels.remove("b");
  CHECK(chosen(dispatcher) == "a");
}

// Far more problems than the table has room for: every answer stays right.
void outlives_its_table() {
  reset();
  const Dispatcher dispatcher(registry({kernel<0>("a")}));
  for (int round = 0; round < 2; ++round) {
    for (int m = 1; m < 6000; ++m) {
      CHECK(dispatcher.select(problem(m, 3, 2)).name() == std::string("a"));
    }
  }
}

// First calls from many threads at once, over few enough problems that slots are contended.
void survives_threads() {
  reset();
  GemmKey other = default_key();
  other.layout = Layout::rrr;
  Registry kernels = registry({kernel<0>("a"), kernel<1>("b", other)});
  const Dispatcher dispatcher(kernels);
  const Library more = library({kernel<2>("unrelated", on(Arch::gfx942))});
  std::vector<std::thread> threads;
  for (int t = 0; t < 32; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const auto plain = GemmProblem(1 + (t + i) % 97, 3, 2);
        CHECK(dispatcher.select(plain).name() == std::string("a"));
        auto turned = plain;
        CHECK(dispatcher.select(turned.layout(Layout::rrr)).name() == std::string("b"));
        if (t == 0 && i % 50 == 0) {
          kernels.add(more);
          kernels.remove("unrelated");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void reads_thread_counts() {
  const Registry kernels = registry({kernel<0>("a")});
  ::setenv("CKDISP_NUM_THREADS", "3", 1);
  CHECK(Dispatcher(kernels).num_threads() == 3);
  ::setenv("CKDISP_NUM_THREADS", "many", 1);
  CHECK_THROWS(Dispatcher(kernels), InvalidArgument, "CKDISP_NUM_THREADS='many'");
  ::unsetenv("CKDISP_NUM_THREADS");
  ::setenv("OMP_NUM_THREADS", "2,1", 1);
  CHECK(Dispatcher(kernels).num_threads() == 2);
  ::unsetenv("OMP_NUM_THREADS");
  CHECK(Dispatcher(kernels).num_threads() >= 1);
  DispatcherOptions options;
  options.num_threads = 100000;
  CHECK_THROWS(Dispatcher(kernels, options), InvalidArgument, "1 to 4096");
}

// A kernel whose time falls with the parts of K, up to five.
namespace splitting {

int last = 0;

int parts_of(const void* problem) { return static_cast<const GemmProblemData*>(problem)->k_batch; }
bool supports(const void* problem, Refusal* refusal) {
  return parts_of(problem) >= 1 || refuse(refusal, Reason::split_k, "%d parts", parts_of(problem));
}
double cost(const void* problem, const Launch*) { return 100.0 / parts_of(problem); }
std::uint64_t workspace(const void* problem, const Launch*) {
  return static_cast<std::uint64_t>(64 * parts_of(problem));
}
bool run(const void* problem, const void*, void*, const Launch*, Refusal*) {
  last = parts_of(problem);
  return true;
}
bool needs_prepare(const void* problem) { return parts_of(problem) > 1; }
std::int32_t choose(const void* problem, std::int32_t units) {
  CHECK(parts_of(problem) == 0 && units == 0);
  return 5;
}

const ckdisp_kernel* kernel() {
  auto* made = new ckdisp_kernel(*mock::kernel<0>("splits"));
  made->supports = supports;
  made->cost = cost;
  made->workspace_size = workspace;
  made->run = run;
  made->needs_prepare = needs_prepare;
  made->choose_k_batch = choose;
  return made;
}

}  // namespace splitting

void chooses_parts() {
  mock::behaviours[0].prepare_succeeds = mock::behaviours[1].supported = true;
  mock::behaviours[1].cost = 30;
  Registry registry;
  registry.add(Library::linked(mock::table({splitting::kernel(), mock::kernel<1>("does_not")})));
  const Dispatcher dispatcher(registry);
  const auto problem = [](int parts) { return GemmProblem(8, 8, 64).k_batch(parts).data(); };

  // Open: five parts cost 20, less than 30. One part costs 100.
  CHECK(std::string(dispatcher.select(problem(0)).name()) == "splits");
  CHECK(std::string(dispatcher.select(problem(1)).name()) == "does_not");
  const Plan plan = dispatcher.plan(problem(0));
  CHECK(plan.stages.size() == 2 && plan.stages[0].kind == StageKind::prepare);
  CHECK(plan.stages[1].num_splits == 5 && plan.workspace_bytes == 320);
  CHECK(to_string(plan).find("splits, 5 parts") != std::string::npos);
  for (const Candidate& candidate : dispatcher.explain(problem(0))) {
    const bool splits = std::string(candidate.kernel.name()) == "splits";
    CHECK(candidate.supported && candidate.k_batch == (splits ? 5 : 1));
    CHECK(candidate.rank == (splits ? 0 : 1) && candidate.cost == (splits ? 20 : 30));
  }

  alignas(64) float memory[8 * 64 * 3] = {};
  GemmArgs args{};
  args.a = memory;
  args.b = memory + 8 * 64;
  args.c = memory + 2 * 8 * 64;
  for (int again = 0; again < 2; ++again) {  // decided, and remembered
    splitting::last = 0;
    dispatcher.run(problem(0), args);
    CHECK(splitting::last == 5);
  }
  dispatcher.run("splits", problem(3), args);
  CHECK(splitting::last == 3);
  dispatcher.run("splits", problem(0), args);
  CHECK(splitting::last == 5);
  dispatcher.run(plan.stages[1], problem(0), args);
  CHECK(splitting::last == 5);
  CHECK_THROWS(dispatcher.select(problem(-1)), InvalidArgument, "k_batch is -1");
}

}  // namespace

int main() {
  heuristic_takes_the_cheapest();
  ties_go_by_priority();
  better_architectures_come_first();
  never_asks_kernels_of_other_machines();
  explains();
  says_what_is_missing();
  kernels_with_reordered_operands_serve_no_plain_problem();
  asks_a_callback_once();
  plans_and_runs();
  prepares_before_each_run();
  chooses_parts();
  remembers_without_allocating();
  forgets_when_the_registry_changes();
  outlives_its_table();
  survives_threads();
  reads_thread_counts();
  std::puts("ok");
}
