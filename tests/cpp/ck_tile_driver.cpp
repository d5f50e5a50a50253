// Calls GEMM kernels of CK Tile. The units under test give CKDISP_PROBES, the names of their tables
// of probes.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ck_tile_calls.hpp"
#include "ck_tile_probe_table.hpp"

using namespace ckdisp;

#define DECLARE(name) extern "C" const Probe name[];
#define USE(name) name,
CKDISP_PROBES(DECLARE)
static const Probe* const kTables[] = {CKDISP_PROBES(USE)};

namespace {

GemmProblemData read_problem(const GemmKey& key) {
  GemmProblemData p = problem_of(key);
  std::int64_t ldd = 0;
  if (std::scanf("%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%" SCNd64 "%d",
                 &p.m, &p.n, &p.k, &p.lda, &p.ldb, &p.ldc, &ldd, &p.k_batch) != 8) {
    std::exit(2);
  }
  for (int i = 0; i < key.num_d; ++i) p.ldd[i] = ldd;
  return p;
}

}  // namespace

int main() {
  char command[32], name[300];
  while (std::scanf("%31s%299s", command, name) == 2) {
    const Probe* const probe = find_probe(kTables, name);
    if (probe == nullptr) return 3;
    const ckdisp_kernel& kernel = *probe->kernel;
    const auto& key = *static_cast<const GemmKey*>(kernel.key);
    const auto is = [&](const char* text) { return std::strcmp(command, text) == 0; };
    if (is("facts")) {
      std::printf("%d %s %s\n", probe->block_size, kernel.arch, kernel.provider);
    } else if (is("tails")) {
      std::printf("%d\n", probe->wrong_tails(64));
    } else if (is("compare")) {
      Agreement a{};
      probe->compare(1, 4000, &a);
      std::printf("%d %d %d %d\n", a.both, a.neither, a.unnamed, a.too_strict);
    } else if (is("supports")) {
      const GemmProblemData p = read_problem(key);
      std::printf("%s\n", supports(kernel, &p).c_str());
    } else if (is("cost")) {
      const GemmProblemData p = read_problem(key);
      const Launch launch{};
      std::printf("%.9g\n", kernel.cost(&p, &launch));
    } else if (is("run") || is("threads")) {
      const GemmProblemData p = read_problem(key);
      Launch launch{};
      GemmArgs args;
      std::uint64_t at = 0;  // of A, B and D, which nobody reads
      if (std::scanf("%d%f%f%f%" SCNx64, &launch.device, &args.scale, &args.clamp_min,
                     &args.clamp_max, &at) != 5) {
        return 2;
      }
      args.a = reinterpret_cast<const void*>(at);
      args.b = reinterpret_cast<const void*>(at + 0x1000);
      for (int i = 0; i < key.num_d; ++i) {
        args.d[i] = reinterpret_cast<const void*>(at + 0x2000 + 0x1000u * static_cast<unsigned>(i));
      }
      std::vector<float> c(static_cast<std::size_t>(p.m * p.ldc + 64), 1.0f);
      auto start = reinterpret_cast<std::uintptr_t>(c.data());
      args.c = reinterpret_cast<void*>((start + 63) / 64 * 64);
      const auto run = [&] { return run_stages(kernel, &p, &args, nullptr, launch); };
      std::printf("%s\n", (is("run") ? run() : from_threads(run)).c_str());
    } else {
      return 4;
    }
    std::fflush(stdout);
  }
  return 0;
}
