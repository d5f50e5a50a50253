// Attention: what one call computes, without pointers. C++17.
#pragma once

#include <cstdint>
#include <string>

#include <ckdisp/abi.hpp>

namespace ckdisp {

// How dense tensors lie: (batch, head, row, number) or (batch, row, head, number). In mode group,
// whose sequences lie one behind the other, without the batch; in pages with pages in its place.
enum class FmhaLayout { bhsd, bshd };

// Builds an FmhaProblemData step by step:
//
//   FmhaProblem(Family::fmha_fwd)
//       .batch(2).heads(32, 8).head_dim(128).lengths(1024, 1024)
//       .dtype(FmhaDtype::bf16).mask(FmhaMask::bottom_right).lse()
//
// What is not set: fp32, as many heads of K as of Q, no mask, no bias and no other feature; tensors
// are dense and lie as the layout says. A plan with several stages is asked for by its leading
// family: fmha_splitkv, or fmha_bwd_dq_dk_dv for all of the backward pass.
class FmhaProblem {
 public:
  explicit FmhaProblem(Family family = Family::fmha_fwd);

  FmhaProblem& family(Family family);
  FmhaProblem& batch(std::int64_t count);
  FmhaProblem& heads(std::int64_t count) { return heads(count, count); }
  FmhaProblem& heads(std::int64_t of_q, std::int64_t of_k);
  FmhaProblem& head_dim(std::int64_t size) { return head_dim(size, size); }
  FmhaProblem& head_dim(std::int64_t of_q_and_k, std::int64_t of_v);
  // Rows of each sequence; in mode group of the longest, and in a cache the room of each.
  FmhaProblem& lengths(std::int64_t of_q, std::int64_t of_k);
  // Mode group: rows of all sequences.
  FmhaProblem& group(std::int64_t total_q, std::int64_t total_k);
  FmhaProblem& dtype(FmhaDtype dtype);
  FmhaProblem& layout(FmhaLayout layout);
  FmhaProblem& vlayout(Order order);
  FmhaProblem& mask(FmhaMask mask);
  // The keys beside the diagonal that a query sees; -1 sees all on that side. The diagonal is that
  // of FmhaMask::top_left or bottom_right. Windows that are a triangle, or see all, become that.
  FmhaProblem& window(std::int64_t left, std::int64_t right,
                      FmhaMask diagonal = FmhaMask::bottom_right);
  FmhaProblem& sink(std::int64_t keys);
  FmhaProblem& bias(FmhaBias kind);
  FmhaProblem& alibi(bool slopes_per_batch = false);
  FmhaProblem& lse(bool stored = true);
  FmhaProblem& dropout(bool drops = true, bool store_randval = false);
  FmhaProblem& soft_cap(bool caps = true);
  // Mode group: leaves out sequences of FmhaArgs::min_seqlen_q rows of Q or less.
  FmhaProblem& skip_min_seqlen_q(bool skips = true);
  FmhaProblem& qscale(FmhaQscale kind);
  FmhaProblem& pages(std::int64_t page_size, std::int64_t count, std::int64_t per_sequence);
  // K and V have `count` batches, of which FmhaArgs::cache_batch_idx chooses.
  FmhaProblem& cache_batches(std::int64_t count);
  FmhaProblem& kv_cache(FmhaKvLayout memory, FmhaKvLookup lookup);
  FmhaProblem& splits(std::int64_t count);
  FmhaProblem& append(std::int64_t rows);
  FmhaProblem& rope(FmhaRope kind, std::int64_t rotary_dim);
  FmhaProblem& deterministic(bool fixed_order = true);
  FmhaProblem& dbias(bool computed = true);

  // The problem with every default filled in. Strides of tensors that are not dense are set in it.
  FmhaProblemData data() const;

 private:
  FmhaProblemData data_;
  FmhaLayout layout_ = FmhaLayout::bhsd;
};

// Throws InvalidArgument when no kernel could ever compute the problem: sizes that are negative or
// overflow, heads that do not divide, features that the family lacks or that exclude each other.
void validate(const FmhaProblemData& problem);

// Throws InvalidArgument for arguments that must not run: null or overlapping memory, numbers that
// are not finite or outside of their range, and, if the memory is the CPU's to read, first rows,
// lengths and pages that lie outside of the tensors. `problem` must be valid.
void validate(const FmhaProblemData& problem, const FmhaArgs& args, bool on_cpu = true);

// Multiplications and additions of the GEMMs, of the pairs of query and key that the mask leaves:
// two GEMMs in a forward pass, five in a backward one. In mode group as if all lengths were equal.
double flops(const FmhaProblemData& problem);
// Bytes of the tensors that a call reads and writes, each once.
double bytes(const FmhaProblemData& problem);

// "fmha.fwd batch 2 heads 32:8 lengths 1024:1024 head_dim 128:128 bf16 bottom_right lse".
std::string to_string(const FmhaProblemData& problem);

}  // namespace ckdisp
