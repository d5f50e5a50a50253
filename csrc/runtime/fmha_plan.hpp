// Attention that takes several kernels: their order, their number of parts, and the memory in which
// one hands its results to the next.
#pragma once

#include <ckdisp/abi.hpp>

#include <cstdint>
#include <span>

namespace ckdisp::detail {

// Whether the problem may be asked for by itself: not the combination, the row sums and the
// conversion, which work on what other stages hand them.
bool is_leading(Family family);

// The families of the other stages of a plan, all that it may have.
std::span<const Family> followers(Family leading);

// The same problem as one stage sees it.
FmhaProblemData as_stage(const FmhaProblemData& problem, Family family, std::int64_t num_splits);

// Parts of the keys of a split-KV problem for `workers` that work at once: what the problem says,
// else as many as keep the workers busy. The work comes in batch x heads x tiles of 64 rows of Q;
// with s parts it fills ceil(tasks * s / workers) rounds, and the fewest parts are taken that use
// at least 85 % as much of their rounds as the best number does. A part has at least 256 keys, and
// there are at most 128.
std::int64_t choose_splits(const FmhaProblemData& problem, int workers);

// Whether a kernel of fmha.bwd_dq_dk_dv sums dQ in fp32 in the workspace, for another to convert:
// on a CPU unless dQ is fp32 itself, on a GPU unless it holds all of Q at once.
bool accumulates_dq(const FmhaKey& key);
// Parts of that sum: a deterministic kernel of a GPU makes one for each of its tiles of keys.
std::int64_t parts_of_dq(const FmhaKey& key, const FmhaProblemData& problem);

// Where in the workspace lie what the stages hand on; the scratch memory of the kernels themselves
// follows at `bytes`. What a problem does not need is kNowhere.
struct HandedOn {
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};
  std::uint64_t lse_acc = kNowhere, o_acc = kNowhere, delta = kNowhere, dq_acc = kNowhere;
  std::uint64_t bytes = 0;
};
// Of a stage, or of the leading problem with its number of splits. Throws InvalidArgument for
// memory of more than 63 bits.
HandedOn handed_on(const FmhaProblemData& problem, bool accumulates_dq);

// Sets the pointers of what lies in the workspace.
void place(const HandedOn& where, void* workspace, FmhaArgs& args);

}  // namespace ckdisp::detail
