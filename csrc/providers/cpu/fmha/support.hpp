// Which problems a kernel takes of those that have its family, types and features, and what one
// costs.
#pragma once

#include "../../signature.hpp"
#include "core.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct FmhaSupport {
  using T = FmhaTraits<Kernel>;
  static constexpr const FmhaKey& key = Kernel::key;
  // Byte offsets and padded sizes stay far below 2^63.
  static constexpr Index largest = Index{1} << 40;

  static bool supports(const FmhaProblemData& p, Refusal* refusal) {
    if (p.family != key.family) {
      return refuse(refusal, Reason::family, "the family is %s, the kernel's is %s",
                    name_of(p.family), name_of(key.family));
    }
    if (p.dtype != key.dtype) {
      return refuse(refusal, Reason::dtype, "the types are %s, the kernel's are %s",
                    name_of(p.dtype), name_of(key.dtype));
    }
    return sizes(p, refusal) && storage(p, refusal) && features(p, refusal);
  }

  // Seconds at 2.5 GHz: the multiplications, the packing of K and V once for the rows of a tile,
  // and every tensor once.
  static double seconds(const FmhaProblemData& p, int threads) {
    const auto heads = static_cast<double>(p.batch * p.nhead_q);
    const auto rows = static_cast<double>(p.seqlen_q), keys = static_cast<double>(p.seqlen_k);
    const auto width = static_cast<double>(p.hdim_q + p.hdim_v);
    if (key.family == Family::fmha_splitkv_combine || key.family == Family::fmha_bwd_dot_do_o ||
        key.family == Family::fmha_bwd_convert_dq || key.family == Family::fmha_appendkv) {
      return heads * (rows + static_cast<double>(p.seqlen_new)) * width * 1e-9 / threads;
    }
    // Multiplications of a lane in a cycle; tiles do several times more than vectors.
    constexpr double fused = key.arch == Arch::generic ? 1 : T::amx ? 8 : 2;
    const double products = heads * rows * keys * width * (is_backward(key.family) ? 2.5 : 1);
    const double tiles = static_cast<double>(ceil_div(p.seqlen_q, T::sq));
    return (products / (T::lanes * fused * 2.5e9) + heads * keys * width * tiles * 4e-10) / threads;
  }

 private:
  static bool sizes(const FmhaProblemData& p, Refusal* refusal) {
    const struct {
      const char* name;
      Index size;
    } rows[] = {{"the batch", p.batch},
                {"the number of query heads", p.nhead_q},
                {"the number of key heads", p.nhead_k},
                {"the head dimension of Q", p.hdim_q},
                {"the head dimension of V", p.hdim_v},
                {"the length of Q", p.seqlen_q},
                {"the length of K", p.seqlen_k}};
    for (const auto& row : rows) {
      if (row.size < 0 || row.size > largest) {
        return refuse(refusal, Reason::shape, "%s is %lld, it must be between 0 and %lld", row.name,
                      static_cast<long long>(row.size), static_cast<long long>(largest));
      }
    }
    if (p.nhead_k == 0 ? p.nhead_q != 0 : p.nhead_q % p.nhead_k != 0) {
      return refuse(refusal, Reason::shape, "%lld query heads are no multiple of %lld key heads",
                    static_cast<long long>(p.nhead_q), static_cast<long long>(p.nhead_k));
    }
    const bool splits =
        key.family == Family::fmha_splitkv || key.family == Family::fmha_splitkv_combine;
    if (splits && p.num_splits < 1) {
      return refuse(refusal, Reason::splits, "the keys are in %lld parts, it must be 1 or more",
                    static_cast<long long>(p.num_splits));
    }
    return true;
  }

  static bool storage(const FmhaProblemData& p, Refusal* refusal) {
    if (p.vlayout == Order::c && (p.page_size > 0 || is_backward(key.family))) {
      return refuse(refusal, Reason::layout,
                    "a CPU kernel takes V by columns only without pages, and not backward");
    }
    if (p.kv_memory_layout != FmhaKvLayout::vectorized) return true;
    constexpr Index numbers = 16 / T::size_in;
    if (p.hdim_q % numbers != 0 || p.page_size % numbers != 0) {
      return refuse(refusal, Reason::pages,
                    "pages of vectors of %lld numbers cannot hold %lld keys of head dimension %lld",
                    static_cast<long long>(numbers), static_cast<long long>(p.page_size),
                    static_cast<long long>(p.hdim_q));
    }
    return true;
  }

  static bool features(const FmhaProblemData& p, Refusal* refusal) {
    if (p.qscale == FmhaQscale::kv_blockscale && p.page_size == 0) {
      return refuse(refusal, Reason::qscale, "each page has a scale, but there are no pages");
    }
    return true;
  }
};

}  // namespace
}  // namespace ckdisp::cpu
