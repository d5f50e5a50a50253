// The host pass of a unit: the kernel's entry in the table of its library.
#pragma once

#include "cost.hpp"
#include "launch.hpp"

namespace ckdisp::tile {

template <class Key>
struct Table {
  static const GemmProblemData& problem_of(const void* problem) {
    return *static_cast<const GemmProblemData*>(problem);
  }
  static const GemmArgs& args_of(const void* args) { return *static_cast<const GemmArgs*>(args); }

  // CK's host code may throw, and the interface is C.
  template <class F>
  static bool guarded(Refusal* refusal, const F& f) {
    try {
      return f();
    } catch (const std::exception& error) {
      return refuse(refusal, Reason::failed, "the host code of the kernel failed: %s",
                    error.what());
    } catch (...) {
      return refuse(refusal, Reason::failed, "the host code of the kernel failed");
    }
  }

  static bool supports(const void* problem, Refusal* refusal) {
    return guarded(refusal, [&] { return Support<Key>::supports(problem_of(problem), refusal); });
  }
  static double cost(const void* problem, const Launch*) {
    return Cost<Key>::seconds(problem_of(problem));
  }
  static std::uint64_t workspace_size(const void*, const Launch*) { return 0; }
  static bool run(const void* problem, const void* args, void*, const Launch* launch,
                  Refusal* refusal) {
    return guarded(refusal, [&] {
      return Launcher<Key>::run(problem_of(problem), args_of(args), *launch, refusal);
    });
  }
  static bool needs_prepare(const void* problem) {
    return Launcher<Key>::needs_prepare(problem_of(problem));
  }
  static bool prepare(const void* problem, const void* args, void*, const Launch* launch,
                      Refusal* refusal) {
    return guarded(refusal, [&] {
      return Launcher<Key>::prepare(problem_of(problem), args_of(args), *launch, refusal);
    });
  }

  static constexpr ckdisp_kernel make() {
    ckdisp_kernel table{sizeof(ckdisp_kernel),
                        Op::gemm,
                        Key::name,
                        Key::target,
                        EnumNames<Provider>::values[static_cast<int>(Provider::ck_tile)],
                        &Key::key,
                        sizeof(GemmKey),
                        &supports,
                        &cost,
                        &workspace_size,
                        &run};
    if constexpr (Key::key.split_k) {
      table.needs_prepare = &needs_prepare;
      table.prepare = &prepare;
    }
    return table;
  }
};

}  // namespace ckdisp::tile

// Defines the constant `symbol`. The object of the device pass defines symbol_code and
// symbol_modules: see embed.S.
#define CKDISP_CK_TILE_GEMM_KERNEL(symbol, Key)                                     \
  extern "C" {                                                                      \
  extern const unsigned char symbol##_code[] __attribute__((visibility("hidden"))); \
  extern void* symbol##_modules[] __attribute__((visibility("hidden")));            \
  extern const ckdisp::ckdisp_kernel symbol __attribute__((visibility("hidden")));  \
  }                                                                                 \
  template <>                                                                       \
  struct ckdisp::tile::CodeOf<Key> {                                                \
    static constexpr Code value{symbol##_code, symbol##_modules, #Key};             \
  };                                                                                \
  extern "C" constexpr ckdisp::ckdisp_kernel symbol = ckdisp::tile::Table<Key>::make();
