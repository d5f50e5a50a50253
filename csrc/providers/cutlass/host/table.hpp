// The host pass of a unit: the kernel's entry in the table of its library.
#pragma once

#include "module.hpp"

namespace ckdisp::sm90 {

// supports(), seconds() and run() for the problems of a key.
template <class Key>
struct Launcher;

template <class Key>
struct Table {
  using Do = Launcher<Key>;
  static const GemmProblemData& problem_of(const void* problem) {
    return *static_cast<const GemmProblemData*>(problem);
  }
  static bool supports(const void* problem, Refusal* refusal) {
    return Do::supports(problem_of(problem), refusal);
  }
  static double cost(const void* problem, const Launch*) {
    return Do::seconds(problem_of(problem));
  }
  static std::uint64_t workspace_size(const void*, const Launch*) { return 0; }
  static bool run(const void* problem, const void* args, void*, const Launch* launch,
                  Refusal* refusal) {
    return Do::run(problem_of(problem), *static_cast<const GemmArgs*>(args), *launch, refusal);
  }

  static constexpr ckdisp_kernel make() {
    return {sizeof(ckdisp_kernel),
            Op::gemm,
            Key::name,
            Key::target,
            EnumNames<Provider>::values[static_cast<int>(Provider::cutlass)],
            &Key::key,
            sizeof Key::key,
            &supports,
            &cost,
            &workspace_size,
            &run};
  }
};

}  // namespace ckdisp::sm90

// Defines the constant `symbol`. The object of the device pass defines symbol_code and
// symbol_modules: see embed.S.
#define CKDISP_CUTLASS_KERNEL(symbol, Key)                                          \
  extern "C" {                                                                      \
  extern const unsigned char symbol##_code[] __attribute__((visibility("hidden"))); \
  extern void* symbol##_modules[] __attribute__((visibility("hidden")));            \
  extern const ckdisp::ckdisp_kernel symbol __attribute__((visibility("hidden")));  \
  }                                                                                 \
  template <>                                                                       \
  struct ckdisp::sm90::CodeOf<Key> {                                                \
    static constexpr Code value{symbol##_code, symbol##_modules, #symbol};          \
  };                                                                                \
  extern "C" constexpr ckdisp::ckdisp_kernel symbol = ckdisp::sm90::Table<Key>::make();
