#include "fmha_plan.hpp"

#include <ckdisp/errors.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "fmha_family.hpp"
#include "fmha_sizes.hpp"

namespace ckdisp::detail {
namespace {

constexpr std::uint64_t kAlignment = 64;

// Hands out pieces of memory, one behind the other.
class Pieces {
 public:
  std::uint64_t take(std::initializer_list<std::int64_t> factors) {
    std::int64_t size = 4;
    std::uint64_t end = 0;
    for (const std::int64_t factor : factors) {
      if (__builtin_mul_overflow(size, factor, &size)) refuse();
    }
    if (__builtin_add_overflow(bytes_, static_cast<std::uint64_t>(size), &end) ||
        end > std::uint64_t{1} << 60) {
      refuse();
    }
    const std::uint64_t begin = bytes_;
    bytes_ = (end + kAlignment - 1) / kAlignment * kAlignment;
    return begin;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] static void refuse() {
    throw InvalidArgument(
        "what the stages hand on does not fit 63 bits; take fewer splits, or split the problem");
  }

  std::uint64_t bytes_ = 0;
};

bool is_split(Family family) {
  return family == Family::fmha_splitkv || family == Family::fmha_splitkv_combine;
}

}  // namespace

bool is_leading(Family family) {
  return family != Family::fmha_splitkv_combine && family != Family::fmha_bwd_dot_do_o &&
         family != Family::fmha_bwd_convert_dq;
}

std::span<const Family> followers(Family leading) {
  static constexpr Family kOfSplit[] = {Family::fmha_splitkv_combine};
  static constexpr Family kOfBackward[] = {Family::fmha_bwd_dot_do_o, Family::fmha_bwd_convert_dq};
  if (leading == Family::fmha_splitkv) return kOfSplit;
  if (leading == Family::fmha_bwd_dq_dk_dv) return kOfBackward;
  return {};
}

FmhaProblemData as_stage(const FmhaProblemData& problem, Family family, std::int64_t num_splits) {
  FmhaProblemData out = problem;
  out.family = family;
  out.num_splits = num_splits;
  return out;
}

std::int64_t choose_splits(const FmhaProblemData& p, int workers) {
  constexpr std::int64_t kRows = 64, kKeys = 256, kMost = 128;
  if (p.num_splits > 0) return p.num_splits;
  const double tasks = static_cast<double>(p.batch) * static_cast<double>(p.nhead_q) *
                       static_cast<double>((p.seqlen_q + kRows - 1) / kRows);
  const std::int64_t most = std::clamp<std::int64_t>(p.seqlen_k / kKeys, 1, kMost);
  if (tasks == 0) return 1;
  const auto used = [&](std::int64_t splits) {
    const double rounds = tasks * static_cast<double>(splits) / workers;
    return rounds / std::ceil(rounds);
  };
  double best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) best = std::max(best, used(splits));
  std::int64_t splits = 1;
  while (used(splits) < 0.85 * best) ++splits;
  return splits;
}

bool accumulates_dq(const FmhaKey& key) {
  if (key.provider == Provider::cpu) return key.dtype != FmhaDtype::fp32;
  return !(key.use_trload && key.max_seq_len_q > 0);
}

std::int64_t parts_of_dq(const FmhaKey& key, const FmhaProblemData& p) {
  if (key.provider == Provider::cpu || !key.deterministic || !accumulates_dq(key)) return 1;
  return std::max<std::int64_t>(1, (p.seqlen_k + key.tile[1] - 1) / key.tile[1]);
}

HandedOn handed_on(const FmhaProblemData& p, bool accumulates) {
  HandedOn out;
  Pieces pieces;
  if (is_split(p.family)) {
    out.lse_acc = pieces.take({p.num_splits, p.batch, p.nhead_q, p.seqlen_q});
    out.o_acc = pieces.take({p.num_splits, p.batch, p.nhead_q, p.seqlen_q, p.hdim_v});
  } else if (is_backward(p.family)) {
    out.delta = pieces.take({extent_of_q(p, p.lse, 1).elements()});
    if (accumulates) {
      out.dq_acc = pieces.take({p.num_splits, p.batch, p.nhead_q, p.seqlen_q, p.hdim_q});
    }
  }
  out.bytes = pieces.bytes();
  return out;
}

void place(const HandedOn& where, void* workspace, FmhaArgs& args) {
  const auto at = [&](std::uint64_t offset) {
    return offset == HandedOn::kNowhere
               ? nullptr
               : reinterpret_cast<float*>(static_cast<char*>(workspace) + offset);
  };
  args.lse_acc = at(where.lse_acc);
  args.o_acc = at(where.o_acc);
  args.delta = at(where.delta);
  args.dq_acc = at(where.dq_acc);
}

}  // namespace ckdisp::detail
