// The table of a kernel.
#pragma once

#include "traits.hpp"

namespace ckdisp::cpu {
namespace {

// `Entry` has the entry points as static functions.
template <class Kernel, class Entry>
constexpr ckdisp_kernel table_of(Op op) {
  return {sizeof(ckdisp_kernel),
          op,
          Kernel::name,
          facts(Kernel::key.arch).name,
          EnumNames<Provider>::values[0],
          &Kernel::key,
          sizeof(Kernel::key),
          &Entry::supports,
          &Entry::cost,
          &Entry::workspace_size,
          &Entry::run};
}

}  // namespace
}  // namespace ckdisp::cpu

// Defines the constant `symbol`, the only symbol of a unit that others can see.
#define CKDISP_CPU_KERNEL(symbol, table)                                           \
  extern "C" {                                                                     \
  extern const ckdisp::ckdisp_kernel symbol __attribute__((visibility("hidden"))); \
  constexpr ckdisp::ckdisp_kernel symbol = table;                                  \
  }
