// Calls CK Tile kernels as the runtime would. Takes commands from standard input and answers each
// with one line; the units under test give CKDISP_PROBES, the names of their tables of probes.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ck_tile_probe_table.hpp"

using namespace ckdisp;

#define DECLARE(name) extern "C" const Probe name[];
#define USE(name) name,
CKDISP_PROBES(DECLARE)
static const Probe* const kTables[] = {CKDISP_PROBES(USE)};

namespace {

const Probe* find(const char* name) {
  for (const Probe* table : kTables) {
    for (const Probe* probe = table; probe->kernel != nullptr; ++probe) {
      if (std::strcmp(probe->kernel->name, name) == 0) return probe;
    }
  }
  return nullptr;
}

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

std::string describe(bool ok, const Refusal& refusal) {
  if (ok) return "ok";
  return std::string(EnumNames<Reason>::values[static_cast<int>(refusal.reason)]) + ": " +
         refusal.text;
}

// What a plan does for one call.
std::string run(const ckdisp_kernel& kernel, const GemmProblemData& p, const GemmArgs& args,
                const Launch& launch) {
  Refusal refusal{};
  if (kernel.needs_prepare != nullptr && kernel.needs_prepare(&p) &&
      !kernel.prepare(&p, &args, nullptr, &launch, &refusal)) {
    return "prepare: " + describe(false, refusal);
  }
  return describe(kernel.run(&p, &args, nullptr, &launch, &refusal), refusal);
}

}  // namespace

int main() {
  char command[32], name[300];
  while (std::scanf("%31s%299s", command, name) == 2) {
    const Probe* const probe = find(name);
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
      Refusal refusal{};
      const bool ok = kernel.supports(&p, &refusal);
      std::printf("%s\n", describe(ok, refusal).c_str());
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
      if (is("run")) {
        std::printf("%s\n", run(kernel, p, args, launch).c_str());
      } else {
        std::vector<std::string> texts(8);
        std::vector<std::thread> threads;
        for (std::string& text : texts) {
          threads.emplace_back([&] { text = run(kernel, p, args, launch); });
        }
        for (std::thread& thread : threads) thread.join();
        for (const std::string& text : texts) std::printf("%s ", text.c_str());
        std::printf("\n");
      }
    } else {
      return 4;
    }
    std::fflush(stdout);
  }
  return 0;
}
