// Calls grouped convolution kernels of CK Tile. The units under test give CKDISP_PROBES, the names
// of their tables of probes.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ck_tile_calls.hpp"
#include "ck_tile_conv_probe_table.hpp"

using namespace ckdisp;

#define DECLARE(name) extern "C" const Probe name[];
#define USE(name) name,
CKDISP_PROBES(DECLARE)
static const Probe* const kTables[] = {CKDISP_PROBES(USE)};

namespace {

std::int64_t read_number() {
  std::int64_t value = 0;
  if (std::scanf("%" SCNd64, &value) != 1) std::exit(2);
  return value;
}

ConvProblemData read_problem(const ConvKey& key) {
  ConvProblemData p = problem_of(key);
  for (std::int64_t* size : {&p.n, &p.g, &p.c, &p.k}) *size = read_number();
  for (auto* sizes : {&p.in, &p.filter, &p.stride, &p.dilation, &p.left_pad, &p.right_pad}) {
    for (std::int64_t& size : *sizes) size = read_number();
  }
  p.k_batch = static_cast<int>(read_number());
  set_output(&p);
  return p;
}

}  // namespace

int main() {
  char command[32], name[300];
  while (std::scanf("%31s%299s", command, name) == 2) {
    const Probe* const probe = find_probe(kTables, name);
    if (probe == nullptr) return 3;
    const ckdisp_kernel& kernel = *probe->kernel;
    const auto& key = *static_cast<const ConvKey*>(kernel.key);
    const auto is = [&](const char* text) { return std::strcmp(command, text) == 0; };
    const Launch nowhere{};
    if (is("facts")) {
      std::printf("%d %s %s %zu\n", probe->block_size, kernel.arch, kernel.provider,
                  probe->args_size);
    } else if (is("try")) {
      Trials t;
      probe->try_problems(1, static_cast<int>(read_number()), &t);
      std::printf("%d %d %d %d %s\n", t.computed, t.wrong, t.refused, t.unnamed, t.first);
    } else if (is("supports")) {
      const ConvProblemData p = read_problem(key);
      std::printf("%s\n", supports(kernel, &p).c_str());
    } else if (is("cost")) {
      const ConvProblemData p = read_problem(key);
      std::printf("%.9g\n", kernel.cost(&p, &nowhere));
    } else if (is("workspace")) {
      const ConvProblemData p = read_problem(key);
      std::printf("%" PRIu64 "\n", kernel.workspace_size(&p, &nowhere));
    } else if (is("run") || is("threads")) {
      const ConvProblemData p = read_problem(key);
      Launch launch{};
      launch.device = static_cast<int>(read_number());
      // Nobody reads or writes what is there, but for the emulated device's zeroing.
      const std::int64_t at = read_number(), bytes = read_number();
      void* const memory = std::aligned_alloc(64, static_cast<std::size_t>(bytes) * 2);
      ConvArgs args;
      const void** const tensors[] = {&args.in, &args.wei, &args.out};
      for (int i = 0; i < 3; ++i) *tensors[i] = reinterpret_cast<const void*>(at + 0x1000 * i);
      args.result = memory;
      void* const workspace = static_cast<char*>(memory) + bytes;
      const auto run = [&] { return run_stages(kernel, &p, &args, workspace, launch); };
      std::printf("%s\n", (is("run") ? run() : from_threads(run)).c_str());
      std::free(memory);
    } else {
      return 4;
    }
    std::fflush(stdout);
  }
  return 0;
}
