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
  Reason failure = Reason::failed;  // of a run that does not succeed
  bool prepares = false;            // whether prepare() must come before run()
  bool prepare_succeeds = true;
  bool converts = false;  // whether convert() must come after run()
  std::atomic<int> conversions{0};
  std::atomic<int> prepared{0};  // the run that was prepared last
  std::atomic<int> runs{0};
  std::atomic<int> asked{0};
  void* last_workspace = nullptr;
  int last_threads = 0;
  Launch last_launch{};
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
    behaviours[I].last_launch = *launch;
    return behaviours[I].succeeds || refuse(refusal, behaviours[I].failure, "mock %d fell over", I);
  }
  static bool needs_prepare(const void*) { return behaviours[I].prepares; }
  static bool prepare(const void*, const void*, void* memory, const Launch*, Refusal* refusal) {
    behaviours[I].prepared = behaviours[I].runs + 1;
    behaviours[I].last_workspace = memory;
    return behaviours[I].prepare_succeeds ||
           refuse(refusal, Reason::failed, "mock %d is not ready", I);
  }
  static bool needs_convert(const void*) { return behaviours[I].converts; }
  static bool convert(const void*, const void*, void* memory, const Launch*, Refusal*) {
    ++behaviours[I].conversions;
    behaviours[I].last_workspace = memory;
    return true;
  }
};

inline GemmKey default_key() {
  GemmKey key{};
  key.arch = Arch::generic;
  key.layout = Layout::rcr;
  key.pipeline = Pipeline::packed;
  return key;
}

inline ConvKey default_conv_key(Family family = Family::conv_fwd) {
  ConvKey key{};
  key.family = family;
  key.arch = Arch::generic;
  key.layout = ConvLayout::nhwgc;
  key.pipeline = Pipeline::packed;
  return key;
}

// Of a CPU kernel, which a call tells everything, or of a GPU's, which does exactly one thing.
inline FmhaKey default_fmha_key(Family family = Family::fmha_fwd, Arch arch = Arch::generic) {
  FmhaKey key{};
  key.family = family;
  key.arch = arch;
  key.dtype = FmhaDtype::fp16;
  const bool cpu = arch == Arch::generic;
  key.provider = cpu ? Provider::cpu : Provider::ck_tile;
  for (int& padding : key.padding) padding = 1;
  key.tile[0] = key.tile[1] = 64;
  if (!cpu) {
    key.hdim_q = key.hdim_v = 128;
    return key;
  }
  key.mode = FmhaMode::any;
  key.mask = FmhaMask::any;
  key.bias = FmhaBias::any;
  key.rope = FmhaRope::any;
  key.lse = key.dropout = key.store_randval = key.logits = key.sink = true;
  key.skip_min_seqlen_q = key.paged_kv = key.dbias = key.deterministic = true;
  return key;
}

inline Op op_of(const GemmKey&) { return Op::gemm; }
inline Op op_of(const ConvKey&) { return Op::conv; }
inline Op op_of(const FmhaKey&) { return Op::fmha; }

// `features` of the target, such as ":xnack-", are those that a GPU must have.
template <int I, class Key = GemmKey>
const ckdisp_kernel* kernel(const std::string& name, const Key& key = default_key(),
                            const std::string& features = "") {
  auto* text = new std::string(name);  // tables live as long as the process
  auto* arch = new std::string(to_name(key.arch) + features);
  return new ckdisp_kernel{sizeof(ckdisp_kernel),
                           op_of(key),
                           text->c_str(),
                           arch->c_str(),
                           "mock",
                           new Key(key),
                           sizeof(Key),
                           Functions<I>::supports,
                           Functions<I>::cost,
                           Functions<I>::workspace,
                           Functions<I>::run,
                           Functions<I>::needs_prepare,
                           Functions<I>::prepare,
                           Functions<I>::needs_convert,
                           Functions<I>::convert};
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
