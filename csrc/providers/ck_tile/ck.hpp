// The CK Tile headers, and everything in this provider that depends on their version.
#pragma once

#include <hip/hip_runtime.h>

#include <ckdisp/abi.hpp>
#include <ckdisp/generated/arches.hpp>

#if defined(CKDISP_CK_TAILS_IN_KERNEL)
#error \
    "ckdisp: these CK Tile headers choose loop tails inside the kernel, which the ck_tile \
provider does not support; use headers from before that change (ROCm 7.1 has them)"
#endif

// CK's functions on the host answer differently for different archs: whether waves have 32 lanes,
// which encoding fp8 has. Units of several archs are linked into one library, where functions of
// one name are merged; so each kind of arch gets a namespace of its own. For the same reason CK's
// question for the lanes of a wave is answered here, for the arch of the unit, and not by whatever
// device the process has. Whoever wants to share the types of CK names the namespace.
#if defined(CKDISP_CK_NAMESPACE)
#elif CK_TILE_USE_WMMA && defined(CK_USE_OCP_FP8)
#define CKDISP_CK_NAMESPACE ck_tile_rdna4
#elif CK_TILE_USE_WMMA
#define CKDISP_CK_NAMESPACE ck_tile_rdna3
#elif defined(CK_GFX950_SUPPORT)
#define CKDISP_CK_NAMESPACE ck_tile_cdna4
#else
#define CKDISP_CK_NAMESPACE ck_tile_cdna
#endif

namespace CKDISP_CK_NAMESPACE {
inline hipError_t ckdisp_device(int* device) {
  *device = 0;
  return hipSuccess;
}
inline hipError_t ckdisp_properties(hipDeviceProp_t* properties, int) {
  properties->major = CK_TILE_USE_WMMA ? 11 : 9;
  return hipSuccess;
}
}  // namespace CKDISP_CK_NAMESPACE

#pragma push_macro("hipGetDeviceProperties")
#undef hipGetDeviceProperties
#define hipGetDeviceProperties ckdisp_properties
#define hipGetDevice ckdisp_device
#define ck_tile CKDISP_CK_NAMESPACE

#include "ck_tile/core.hpp"
#include "ck_tile/host/kernel_launch.hpp"
#include "ck_tile/ops/epilogue.hpp"
#include "ck_tile/ops/gemm.hpp"
// What an op needs beside these.
#if defined(CKDISP_CK_OP_HEADER)
#include CKDISP_CK_OP_HEADER
#endif

#undef ck_tile
#undef hipGetDevice
#pragma pop_macro("hipGetDeviceProperties")

namespace ckdisp::tile {

namespace ck = ::CKDISP_CK_NAMESPACE;

using index_t = ck::index_t;
using TailNumber = ck::TailNumber;
using MemoryOperation = ck::memory_operation_enum;

// Whether a pipeline problem carries the hot loop and the tail of its kernel.
template <class Problem>
inline constexpr bool has_tails = requires {
  Problem::HasHotLoop;
  Problem::TailNum;
};

// A pipeline of CK with one hot loop and tail. CK passes both through the problem type; here all
// variants of a key share one problem, so that the compiler instantiates the layouts only once.
// The code is the same.
template <class Ck, bool HotLoop, TailNumber Tail, bool Preshuffle>
struct WithTail : Ck {
  static constexpr bool HasHotLoop = HotLoop;
  static constexpr auto TailNum = Tail;

  template <class A, class AElementwise, class B, class BElementwise, class... Lds>
  CK_TILE_DEVICE auto operator()(const A& a, const AElementwise& a_elementwise, const B& b,
                                 const BElementwise& b_elementwise, index_t num_loop,
                                 Lds... lds) const {
    if constexpr (Preshuffle) {
      return Ck::template operator()<Tail>(
          a[ck::number<0>{}], [](const typename Ck::ADataType& x) { return x; }, b[ck::number<0>{}],
          num_loop, lds...);
    } else {
      return typename Ck::template PipelineImpl<Ck::Scheduler>{}.template operator()<HotLoop, Tail>(
          a, a_elementwise, b, b_elementwise, num_loop, lds...);
    }
  }

  // As convolutions call it: one window for each operand, and its elements as they are.
  template <class A, class B, class... Lds>
  CK_TILE_DEVICE auto operator()(const A& a, const B& b, index_t num_loop, Lds... lds) const {
    const auto same = [](auto& e, const auto& x) { e = x; };
    return (*this)(ck::make_tuple(a), same, ck::make_tuple(b), same, num_loop, lds...);
  }
};

}  // namespace ckdisp::tile
