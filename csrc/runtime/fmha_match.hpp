// Which attention kernels are for which problems.
//
// A problem is a set of bits, one for each choice it makes, and a kernel the set of those that it
// refuses: a kernel is for a problem when the two sets have nothing in common. That is one
// operation for each of thousands of kernels. Keys of a CPU and of a GPU say different things: on a
// CPU a flag means that the kernel can, and `any`, `no` or `none` that a call decides; on a GPU a
// flag means that the kernel does exactly that.
#pragma once

#include <ckdisp/abi.hpp>

#include <cstdint>

namespace ckdisp::detail {

// The choices of a problem, and those that a kernel refuses. Family and dtype are not among them.
std::uint64_t fmha_choices(const FmhaProblemData& problem);
std::uint64_t fmha_refused(const FmhaKey& key);

// Whether the kernel is made for such sizes: head dimensions, lengths that need padding, pages.
bool fits_sizes(const FmhaKey& key, const FmhaProblemData& problem, Refusal* refusal);

// Whether a kernel of a later stage agrees with that of the first, on how data lie that one hands
// to the other.
bool follows(const FmhaKey& first, const FmhaKey& later, Refusal* refusal);

}  // namespace ckdisp::detail
