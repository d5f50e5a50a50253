// Launching the right variant of an attention kernel on the caller's stream.
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <utility>

#include "../../host/calls.hpp"
#include "backward.hpp"
#include "before.hpp"
#include "cost.hpp"
#include "forward.hpp"
#include "paged.hpp"
#include "splitkv.hpp"

namespace ckdisp::tile {
namespace {

// The mangled name of ckdisp_fmha<key, variant>: see device.hpp.
inline std::string fmha_kernel_name(const char* key, int variant) {
  return "_Z11ckdisp_fmhaI" + std::to_string(std::strlen(key)) + key + "Li" +
         std::to_string(variant) + "EEvN6ckdisp4tile10FmhaKernelIT_XT0_EE4ArgsE";
}

}  // namespace

template <FmhaUnit Key>
struct Launcher<Key> {
  using Problem = FmhaProblemData;
  using Data = FmhaArgs;
  static constexpr Op op = Op::fmha;
  static constexpr const FmhaKey& key = Key::key;
  static constexpr Family family = key.family;
  using Before = FmhaBefore<Key>;
  static constexpr bool prepares = Before::exists, converts = false;
  using Call = FmhaCall<family, Key>;

  static std::uint64_t workspace_size(const FmhaProblemData& p) {
    return Before::workspace_size(p);
  }

  static bool run(const FmhaProblemData& p, const FmhaArgs& a, void* workspace,
                  const Launch& launch, Refusal* refusal) {
    if (!has_blocks(p)) return true;
    if (!takes(p, a, refusal)) return false;
    if (family == Family::fmha_appendkv && a.q == nullptr && p.seqlen_new == 0) return true;
    const hip::Api* const api = usable(launch, refusal);
    if (api == nullptr) return false;
    return launch_variant(*api, p, Before::seen(a, workspace), launch, refusal,
                          std::make_integer_sequence<int, FmhaOf<Key>::variants>{});
  }

  static bool needs_prepare(const FmhaProblemData& p) {
    return Before::is_needed(p, has_blocks(p));
  }

  static bool prepare(const FmhaProblemData& p, const FmhaArgs& a, void* workspace,
                      const Launch& launch, Refusal* refusal) {
    if (!needs_prepare(p)) return true;
    if (has_blocks(p) && !takes(p, a, refusal)) return false;
    const hip::Api* const api = usable(launch, refusal);
    return api != nullptr && Before::run(*api, p, a, workspace, has_blocks(p), launch, refusal);
  }

 private:
  static bool has_blocks(const FmhaProblemData& p) {
    if (p.batch == 0 || p.nhead_q == 0) return false;
    if constexpr (family == Family::fmha_bwd_dq_dk_dv) {
      return p.seqlen_k > 0 && p.seqlen_q > 0;
    } else if constexpr (family == Family::fmha_appendkv) {
      return p.seqlen_new > 0 || p.seqlen_q > 0;
    } else {
      return p.seqlen_q > 0;
    }
  }

  static bool takes(const FmhaProblemData& p, const FmhaArgs& a, Refusal* refusal) {
    using Limits = Support<Key>;
    constexpr std::size_t in = sizeof(typename FmhaTypesOf<key.dtype>::In);
    constexpr std::size_t q = Limits::vector_q * in, v = Limits::vector_v * in;
    if constexpr (family == Family::fmha_splitkv_combine) {
      return there({{"lse_acc", a.lse_acc}, {"o_acc", a.o_acc}}, refusal);
    } else if constexpr (family == Family::fmha_bwd_dot_do_o) {
      return pointer_fits("O", a.o, v, refusal) && pointer_fits("dO", a.d_o, v, refusal) &&
             there({{"delta", a.delta}}, refusal);
    } else if constexpr (family == Family::fmha_bwd_convert_dq) {
      return pointer_fits("dQ", a.dq, q, refusal) && there({{"dq_acc", a.dq_acc}}, refusal);
    } else {
      // A cache may be appended to without queries.
      const bool has_q = family != Family::fmha_appendkv || (a.q != nullptr && p.seqlen_q > 0);
      if ((has_q && !pointer_fits("Q", a.q, q, refusal)) || !pointer_fits("K", a.k, q, refusal) ||
          !pointer_fits("V", a.v, v, refusal)) {
        return false;
      }
      if constexpr (family == Family::fmha_fwd) {
        if (p.mode == FmhaMode::batch && a.seqlen_k != nullptr) {
          return refuse(refusal, Reason::mode,
                        "sequences of K have lengths of their own, which the kernel reads in mode "
                        "group only");
        }
        if (a.cache_batch_idx != nullptr) {
          return refuse(refusal, Reason::feature,
                        "cache_batch_idx is given, and the kernel reads the batches of K that Q "
                        "has");
        }
      }
      if constexpr (family == Family::fmha_splitkv) {
        if (key.bias == FmhaBias::alibi && a.seqlen_k != nullptr &&
            !Support<Key>::alibi_of_many_lengths(p, refusal)) {
          return false;
        }
        return there({{"lse_acc", a.lse_acc}, {"o_acc", a.o_acc}}, refusal);
      } else if constexpr (family == Family::fmha_bwd_dq_dk_dv) {
        return pointer_fits("dO", a.d_o, v, refusal) && pointer_fits("dK", a.dk, q, refusal) &&
               pointer_fits("dV", a.dv, v, refusal) &&
               there({{"delta", a.delta},
                      {"dQ", FmhaOf<Key>::accumulates ? static_cast<void*>(a.dq_acc) : a.dq}},
                     refusal);
      } else if constexpr (family == Family::fmha_appendkv) {
        return (p.seqlen_new == 0 || (pointer_fits("the new K", a.k_new, q, refusal) &&
                                      pointer_fits("the new V", a.v_new, v, refusal))) &&
               there({{"the lengths of K", a.seqlen_k}}, refusal);
      } else {
        return pointer_fits("O", a.o, 1, refusal);
      }
    }
  }

  struct Named {
    const char* name;
    const void* data;
  };
  static bool there(std::initializer_list<Named> pointers, Refusal* refusal) {
    for (const Named& pointer : pointers) {
      if (pointer.data == nullptr) {
        return refuse(refusal, Reason::stage, "%s is null, and the kernel needs it", pointer.name);
      }
    }
    return true;
  }

  template <int... I>
  static bool launch_variant(const hip::Api& api, const FmhaProblemData& p, const FmhaArgs& a,
                             const Launch& launch, Refusal* refusal,
                             std::integer_sequence<int, I...>) {
    const int wanted = Call::variant(p, a);
    bool done = false;
    (void)((I == wanted && ((done = launch_one<I>(api, p, a, launch, refusal)), true)) || ...);
    return done;
  }

  template <int I>
  static bool launch_one(const hip::Api& api, const FmhaProblemData& p, const FmhaArgs& a,
                         const Launch& launch, Refusal* refusal) {
    void* const function =
        Functions<Key>::find(api, &functions[I][launch.device], launch.device, refusal,
                             [] { return fmha_kernel_name(CodeOf<Key>::value.key, I); });
    if (function == nullptr) return false;
    const dim3 grid = Call::template grid<I>(p, a);
    const typename FmhaKernel<Key, I>::Args args{Call::template arguments<I>(p, a)};
    return start(api, function, {grid.x, grid.y, grid.z}, fmha_block_size(key), args, launch.stream,
                 refusal);
  }

  static inline constinit void* functions[FmhaOf<Key>::variants][kMaxDevices] = {};
};

}  // namespace ckdisp::tile
