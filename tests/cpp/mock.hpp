// Kernels and libraries made at run time, whose behaviour a test sets.
#pragma once

#include <ckdisp/ckdisp.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mock {

using namespace ckdisp;

// Kernels have no state of their own, so a behaviour is a slot that one set of functions reads.
struct Behaviour {
  bool supported = true;
  double cost = 1;
  std::uint64_t workspace = 0;
  bool succeeds = true;
  std::atomic<int> runs{0};
  std::atomic<int> asked{0};
  void* last_workspace = nullptr;
  int last_threads = 0;
};

constexpr int kBehaviours = 8;
inline Behaviour behaviours[kBehaviours];

template <int I>
struct Functions {
  static bool supports(const void*, Refusal* refusal) {
    ++behaviours[I].asked;
    return behaviours[I].supported || refuse(refusal, Reason::pad, "mock %d refuses", I);
  }
  static double cost(const void*, const Launch*) { return behaviours[I].cost; }
  static std::uint64_t workspace(const void*, const Launch*) { return behaviours[I].workspace; }
  static bool run(const void*, const void*, void* memory, const Launch* launch, Refusal* refusal) {
    ++behaviours[I].runs;
    behaviours[I].last_workspace = memory;
    behaviours[I].last_threads = launch->num_threads;
    return behaviours[I].succeeds || refuse(refusal, Reason::failed, "mock %d fell over", I);
  }
};

inline GemmKey default_key() {
  GemmKey key{};
  key.arch = Arch::generic;
  key.layout = Layout::rcr;
  key.pipeline = Pipeline::packed;
  return key;
}

template <int I>
const ckdisp_kernel* kernel(const std::string& name, const GemmKey& key = default_key()) {
  auto* text = new std::string(name);  // tables live as long as the process
  return new ckdisp_kernel{sizeof(ckdisp_kernel),
                           Op::gemm,
                           text->c_str(),
                           to_name(key.arch),
                           "cpu",
                           new GemmKey(key),
                           sizeof(GemmKey),
                           Functions<I>::supports,
                           Functions<I>::cost,
                           Functions<I>::workspace,
                           Functions<I>::run};
}

inline ckdisp_library* table(const std::vector<const ckdisp_kernel*>& kernels) {
  auto* list = new std::vector<const ckdisp_kernel*>(kernels);
  return new ckdisp_library{kAbiMagic,
                            kAbiVersion,
                            sizeof(ckdisp_library),
                            static_cast<std::uint32_t>(list->size()),
                            kSchemaHash,
                            list->data(),
                            "mock",
                            "{}"};
}

inline Library library(const std::vector<const ckdisp_kernel*>& kernels) {
  return Library::linked(table(kernels));
}

inline Registry registry(const std::vector<const ckdisp_kernel*>& kernels) {
  Registry out("mocks");
  out.add(library(kernels));
  return out;
}

inline GemmProblemData problem(std::int64_t m = 4, std::int64_t n = 5, std::int64_t k = 6) {
  return GemmProblem(m, n, k).data();
}

// Arguments over memory that is large enough for small problems.
inline GemmArgs args() {
  static float memory[4][4096];
  GemmArgs out{};
  out.a = memory[0];
  out.b = memory[1];
  out.c = memory[2];
  for (const void*& d : out.d) d = memory[3];
  return out;
}

}  // namespace mock
