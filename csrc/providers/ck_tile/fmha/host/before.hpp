// What a launch does before its kernel, as a stage of its own.
#pragma once

#include "../../host/calls.hpp"
#include "../pages.hpp"
#include "zero.hpp"

namespace ckdisp::tile {
namespace {

// The mangled name of ckdisp_pages<key>.
inline std::string pages_name(const char* key) {
  return "_Z12ckdisp_pagesI" + std::to_string(std::strlen(key)) + key +
         "EvN6ckdisp4tile5PagesIT_E4ArgsE";
}

}  // namespace

// Of most families nothing.
template <class Key>
struct FmhaBefore {
  static constexpr bool exists = false;
  static std::uint64_t workspace_size(const FmhaProblemData&) { return 0; }
  static const FmhaArgs& seen(const FmhaArgs& a, void*) { return a; }
};

// Gradients start at zero. Blocks add to dQ; of dbias they leave out the tiles that a mask hides;
// and where a sequence has no queries or no keys, there are no blocks, or they write nothing.
template <class Key>
  requires(Key::key.family == Family::fmha_bwd_dq_dk_dv)
struct FmhaBefore<Key> {
  static constexpr const FmhaKey& key = Key::key;
  static constexpr bool exists = true, is_group = key.mode == FmhaMode::group,
                        accumulates = FmhaOf<Key>::accumulates;
  static constexpr std::size_t size = sizeof(typename FmhaTypesOf<key.dtype>::In);

  static std::uint64_t workspace_size(const FmhaProblemData&) { return 0; }
  static const FmhaArgs& seen(const FmhaArgs& a, void*) { return a; }

  static bool is_needed(const FmhaProblemData& p, bool has_blocks) {
    return p.batch > 0 && p.nhead_q > 0 &&
           (accumulates || may_be_empty(has_blocks) || masks_dbias(p));
  }

  static bool run(const hip::Api& api, const FmhaProblemData& p, const FmhaArgs& a, void*,
                  bool has_blocks, const Launch& launch, Refusal* refusal) {
    const std::int64_t outer = is_group ? 1 : p.batch, queries = is_group ? p.total_q : p.seqlen_q,
                       keys = is_group ? p.total_k : p.seqlen_k;
    const auto zero = [&](void* data, const FmhaStrides& strides, std::int64_t heads,
                          std::int64_t rows, std::int64_t width, std::size_t bytes) {
      return zero_lines(api, data, {strides, outer, heads, rows, width, bytes}, launch.stream,
                        refusal);
    };
    if (accumulates && !zero(a.dq_acc, {}, 1, 1, sums_of_dq(p), sizeof(float))) return false;
    if (may_be_empty(has_blocks)) {
      if ((!accumulates && !zero(a.dq, p.dq, p.nhead_q, queries, p.hdim_q, size)) ||
          !zero(a.dk, p.dk, p.nhead_k, keys, p.hdim_q, size) ||
          !zero(a.dv, p.dv, p.nhead_k, keys, p.hdim_v, size)) {
        return false;
      }
    }
    return !key.dbias || (!may_be_empty(has_blocks) && !masks_dbias(p)) ||
           zero(a.dbias, p.dbias, p.nhead_q, queries, p.seqlen_k,
                sizeof(typename FmhaTypesOf<key.dtype>::Bias));
  }

 private:
  // In mode group only the device knows the lengths.
  static bool may_be_empty(bool has_blocks) { return is_group || !has_blocks; }
  static bool masks_dbias(const FmhaProblemData& p) { return key.dbias && p.mask != FmhaMask::no; }
  static std::int64_t sums_of_dq(const FmhaProblemData& p) {
    return CkRows(p).split * p.hdim_q * (p.num_splits > 1 ? p.num_splits : 1);
  }
};

// The list of pages is copied to where it has an end that the kernel may read.
template <class Key>
  requires(Key::key.family == Family::fmha_batch_prefill)
struct FmhaBefore<Key> {
  static constexpr bool exists = true;

  static std::int64_t count(const FmhaProblemData& p) {
    return p.pages_per_seq + Pages<Key>::margin;
  }
  static std::uint64_t workspace_size(const FmhaProblemData& p) {
    return static_cast<std::uint64_t>(count(p)) * sizeof(std::int32_t);
  }
  static FmhaArgs seen(FmhaArgs a, void* workspace) {
    a.page_table = static_cast<const std::int32_t*>(workspace);
    return a;
  }
  static bool is_needed(const FmhaProblemData&, bool has_blocks) { return has_blocks; }

  static bool run(const hip::Api& api, const FmhaProblemData& p, const FmhaArgs& a, void* workspace,
                  bool, const Launch& launch, Refusal* refusal) {
    void* const function =
        Functions<Key>::find(api, &functions[launch.device], launch.device, refusal,
                             [] { return pages_name(CodeOf<Key>::value.key); });
    if (function == nullptr) return false;
    const typename Pages<Key>::Args args{a.page_table, a.page_indptr, narrow(p.batch),
                                         static_cast<std::int32_t*>(workspace), count(p)};
    const auto blocks = static_cast<unsigned>(ceil_div(count(p), Pages<Key>::block_size));
    return start(api, function, {blocks, 1, 1}, Pages<Key>::block_size, args, launch.stream,
                 refusal);
  }

 private:
  static inline constinit void* functions[kMaxDevices] = {};
};

}  // namespace ckdisp::tile
