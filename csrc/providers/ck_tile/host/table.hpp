// The host pass of a unit: the kernel's entry in the table of its library.
#pragma once

#include <exception>

#include "calls.hpp"
#include "split_k.hpp"

namespace ckdisp::tile {

template <class Key>
struct Table {
  using Do = Launcher<Key>;
  static const typename Do::Problem& problem_of(const void* problem) {
    return *static_cast<const typename Do::Problem*>(problem);
  }

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
  static std::uint64_t workspace_size(const void* problem, const Launch*) {
    return Do::workspace_size(problem_of(problem));
  }
  static bool needs_prepare(const void* problem) { return Do::needs_prepare(problem_of(problem)); }
  static bool needs_convert(const void* problem) { return Do::needs_convert(problem_of(problem)); }

  static std::int32_t choose_k_batch(const void* problem, std::int32_t units) {
    return SplitK<Key>::choose(problem_of(problem), units);
  }

  // The stages of a call, as C functions.
  template <auto stage>
  static bool guard(const void* problem, const void* args, void* workspace, const Launch* launch,
                    Refusal* refusal) {
    return guarded(refusal, [&] {
      return stage(problem_of(problem), *static_cast<const typename Do::Data*>(args), workspace,
                   *launch, refusal);
    });
  }

  static constexpr ckdisp_kernel make() {
    ckdisp_kernel table{sizeof(ckdisp_kernel),
                        Do::op,
                        Key::name,
                        Key::target,
                        EnumNames<Provider>::values[static_cast<int>(Provider::ck_tile)],
                        &Key::key,
                        sizeof Key::key,
                        &supports,
                        &cost,
                        &workspace_size,
                        &guard<&Do::run>};
    if constexpr (Do::prepares) {
      table.needs_prepare = &needs_prepare;
      table.prepare = &guard<&Do::prepare>;
    }
    if constexpr (Do::converts) {
      table.needs_convert = &needs_convert;
      table.convert = &guard<&Do::convert>;
    }
    if constexpr (splits_sums<Key>()) table.choose_k_batch = &choose_k_batch;
    return table;
  }
};

}  // namespace ckdisp::tile

// Defines the constant `symbol`. The object of the device pass defines symbol_code and
// symbol_modules: see embed.S.
#define CKDISP_CK_TILE_KERNEL(symbol, Key)                                          \
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
