// Which kernels of a registry may serve a problem, and which is best.
#pragma once

#include <ckdisp/dispatcher.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fmha_match.hpp"
#include "open_parts.hpp"
#include "snapshot.hpp"
#include "target.hpp"

namespace ckdisp::detail {

// What is asked of the kernels. `first` is that of an earlier stage, which they must agree with;
// null when there is none.
template <class Problem>
struct Question {
  const Snapshot& view;
  const Problem& problem;
  const Launch& launch;
  const Target& target;
  const KernelRecord* first = nullptr;

  const Candidates* candidates() const {
    const auto found = view.by_signature.find(packed_signature(problem));
    return found != view.by_signature.end() ? &found->second : nullptr;
  }
  Kernel kernel_of(const Indexed& candidate) const { return view.entries[candidate.entry].kernel; }
};

// What a key says about sizes and about other stages; of most ops, nothing.
template <class Problem>
bool fits_key(const Question<Problem>&, Kernel, Refusal*) {
  return true;
}
inline bool fits_key(const Question<FmhaProblemData>& question, Kernel kernel, Refusal* refusal) {
  if (!fits_sizes(kernel.fmha_key(), question.problem, refusal)) return false;
  if (question.first == nullptr) return true;
  const Kernel first(question.first);
  if (is_gpu(kernel.arch()) && kernel.arch() != first.arch()) {
    return refuse(refusal, Reason::stage, "is for another architecture than the main stage");
  }
  return follows(first.fmha_key(), kernel.fmha_key(), refusal);
}

// Kernels of other architectures are never asked: a CPU's may hold instructions, even in their
// checks, that this machine lacks.
template <class Problem>
bool usable(const Question<Problem>& question, const Indexed& candidate) {
  return !candidate.picky || question.target.rank(question.kernel_of(candidate)) != Target::kNever;
}

// Calls found(candidate, problem as it computes it) for the kernels of one architecture that
// support the problem.
template <class Problem, class Found>
void each_supporting(const Question<Problem>& question, const Candidates& candidates, Arch arch,
                     const Found& found) {
  const std::uint64_t wanted = choices(question.problem);
  OpenParts<Problem> parts(question.problem, question.launch);
  for (const Indexed& candidate : candidates.of(arch)) {
    if ((candidate.refused & wanted) != 0) continue;
    if (!fits_key(question, question.kernel_of(candidate), nullptr)) continue;
    if (!usable(question, candidate)) continue;
    const Problem* asked = &question.problem;
    if (is_open(*asked)) asked = &parts.of(*question.kernel_of(candidate).table());
    if (candidate.supports(asked, nullptr)) found(candidate, *asked);
  }
}

// The cheapest kernel of the best architecture that has one; null when none has.
template <class Problem>
const Indexed* cheapest(const Question<Problem>& question, const Candidates& candidates) {
  for (const Arch arch : question.target.arches()) {
    const Indexed* best = nullptr;
    double best_cost = 0;
    each_supporting(question, candidates, arch,
                    [&](const Indexed& candidate, const Problem& asked) {
                      const double cost = candidate.cost(&asked, &question.launch);
                      if (best != nullptr && !(cost < best_cost)) return;
                      best = &candidate;
                      best_cost = cost;
                    });
    if (best != nullptr) return best;
  }
  return nullptr;
}

// All of them, in the registry's order.
template <class Problem>
std::vector<Kernel> supporting(const Question<Problem>& question, const Candidates& candidates) {
  std::vector<std::uint32_t> entries;
  for (const Arch arch : question.target.arches()) {
    each_supporting(question, candidates, arch, [&](const Indexed& candidate, const Problem&) {
      entries.push_back(candidate.entry);
    });
  }
  std::sort(entries.begin(), entries.end());
  std::vector<Kernel> out;
  for (const std::uint32_t entry : entries) out.push_back(question.view.entries[entry].kernel);
  return out;
}

// Whether some kernel that may run there makes the choices of the problem.
template <class Problem>
bool has_signature(const Question<Problem>& question) {
  const Candidates* candidates = question.candidates();
  if (candidates == nullptr) return false;
  const std::uint64_t wanted = choices(question.problem);
  for (const Arch arch : question.target.arches()) {
    for (const Indexed& candidate : candidates->of(arch)) {
      if ((candidate.refused & wanted) == 0 && usable(question, candidate)) return true;
    }
  }
  return false;
}

// Whether any kernel does, of whatever architecture.
template <class Problem>
bool has_signature_anywhere(const Question<Problem>& question) {
  const Candidates* candidates = question.candidates();
  if (candidates == nullptr) return false;
  const std::uint64_t wanted = choices(question.problem);
  return std::any_of(candidates->all().begin(), candidates->all().end(),
                     [&](const Indexed& candidate) { return (candidate.refused & wanted) == 0; });
}

// What there is to say about one kernel; without its rank.
template <class Problem>
Candidate examine(const Question<Problem>& question, Kernel kernel) {
  const auto& [view, problem, launch, target, first] = question;
  Refusal refusal{};
  Candidate out{kernel, false, Reason::none, "", 0, -1, false, 0};
  OpenParts<Problem> parts(problem, launch);
  const bool may_run = target.rank(kernel) != Target::kNever;
  // Only a CPU kernel's checks may hold instructions that this machine lacks.
  const bool may_ask = may_run || is_gpu(kernel.arch());
  const bool fits =
      same_signature(kernel, problem, &refusal) && fits_key(question, kernel, &refusal);
  const Problem& asked = fits && may_ask ? parts.of(*kernel.table()) : problem;
  if (fits && (!may_ask || kernel.table()->supports(&asked, &refusal))) {
    if (may_run) {
      out.supported = true;
      out.cost = kernel.table()->cost(&asked, &launch);
      out.k_batch = k_batch_of(asked);
    } else {
      target.refuse_kernel(kernel, &out.reason, &out.text);
    }
    return out;
  }
  out.reason = refusal.reason;
  out.text = refusal.text;
  return out;
}

// Every kernel of the op, in the registry's order.
template <class Problem>
std::vector<Candidate> examine_all(const Question<Problem>& question) {
  std::vector<Candidate> out;
  out.reserve(question.view.entries.size());
  for (const Entry& entry : question.view.entries) {
    if (entry.kernel.op() == OpOf<Problem>::op) out.push_back(examine(question, entry.kernel));
  }
  return out;
}

}  // namespace ckdisp::detail
