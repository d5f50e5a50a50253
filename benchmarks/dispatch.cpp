// Times a repeated dispatch and the choice among many candidates, with kernels that do nothing.
// Prints one JSON object; nanoseconds, the best of many rounds.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <ckdisp/ckdisp.hpp>

namespace {

using namespace ckdisp;

bool supports(const void* data, Refusal* refusal) {
  const auto& p = *static_cast<const GemmProblemData*>(data);
  if (p.layout != Layout::rcr) return refuse(refusal, Reason::layout, "layout");
  return p.lda >= p.k && p.ldb >= p.k && p.ldc >= p.n;
}
double cost(const void* data, const Launch* launch) {
  const auto& p = *static_cast<const GemmProblemData*>(data);
  return static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) /
         launch->num_threads;
}
std::uint64_t workspace(const void*, const Launch*) { return 0; }
bool run(const void*, const void*, void*, const Launch*, Refusal*) { return true; }

// Tables live as long as the process.
Library library(int count) {
  auto* kernels = new std::vector<const ckdisp_kernel*>;
  for (int i = 0; i < count; ++i) {
    auto* key = new GemmKey{};
    key->arch = Arch::generic;
    key->tile[0] = i;
    auto* name = new std::string("kernel_" + std::to_string(i));
    kernels->push_back(new ckdisp_kernel{sizeof(ckdisp_kernel), Op::gemm, name->c_str(), "generic",
                                         "cpu", key, sizeof(GemmKey), supports, cost, workspace,
                                         run});
  }
  return Library::linked(new ckdisp_library{kAbiMagic, kAbiVersion, sizeof(ckdisp_library),
                                            static_cast<std::uint32_t>(kernels->size()),
                                            kSchemaHash, kernels->data(), "bench", "{}"});
}

template <class Body>
double best_ns(int rounds, int calls, Body body) {
  double best = 1e18;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) body(i);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / calls);
  }
  return best;
}

}  // namespace

int main() {
  Registry registry;
  registry.add(library(1000));
  const Dispatcher dispatcher(registry);
  static float a[64], b[64], c[64];
  GemmArgs args{};
  args.a = a;
  args.b = b;
  args.c = c;

  const GemmProblem problem(8, 8, 8);
  const double run_ns = best_ns(200, 1000, [&](int) { dispatcher.run(problem, args); });
  const GemmProblemData data = problem.data();
  const double select_ns = best_ns(200, 1000, [&](int) { (void)dispatcher.select(data); });
  // Never the same shape twice: every call decides anew.
  std::int64_t m = 0;
  const double new_ns =
      best_ns(200, 50, [&](int) { (void)dispatcher.select(GemmProblem(++m, 8, 8)); });
  std::printf("{\"run_ns\": %.1f, \"select_ns\": %.1f, \"new_shape_1000_candidates_ns\": %.0f}\n",
              run_ns, select_ns, new_ns);
}
