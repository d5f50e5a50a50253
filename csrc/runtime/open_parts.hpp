// Problems that leave it to the kernel into how many parts its sums are split.
#pragma once

#include <ckdisp/abi.hpp>
#include <ckdisp/device.hpp>

#include <cstdint>

namespace ckdisp::detail {

inline bool is_open(const GemmProblemData& problem) { return problem.k_batch == 0; }
inline bool is_open(const ConvProblemData& problem) { return problem.k_batch == 0; }
inline bool is_open(const FmhaProblemData&) { return false; }

inline int k_batch_of(const GemmProblemData& problem) { return problem.k_batch; }
inline int k_batch_of(const ConvProblemData& problem) { return problem.k_batch; }
inline int k_batch_of(const FmhaProblemData&) { return 0; }

inline void set_k_batch(GemmProblemData& problem, int parts) { problem.k_batch = parts; }
inline void set_k_batch(ConvProblemData& problem, int parts) { problem.k_batch = parts; }
inline void set_k_batch(FmhaProblemData&, int) {}

// The problem as kernels compute it.
template <class Problem>
class OpenParts {
 public:
  OpenParts(const Problem& problem, const Launch& launch) : given_(problem) {
    if (!is_open(problem)) return;
    asked_ = problem;
    if (launch.device >= 0) units_ = device(launch.device).compute_units;
  }

  // As this one does; holds until the next call.
  const Problem& of(const ckdisp_kernel& kernel) {
    if (!is_open(given_)) return given_;
    const bool chooses = kernel.choose_k_batch != nullptr;
    set_k_batch(asked_, chooses ? kernel.choose_k_batch(&given_, units_) : 1);
    return asked_;
  }

 private:
  const Problem& given_;
  Problem asked_;  // where the given one is open
  int units_ = 0;
};

// With the parts that were chosen, where the problem leaves them open.
template <class Problem>
Problem with_parts(const Problem& problem, std::int64_t parts) {
  Problem out = problem;
  if (is_open(problem)) set_k_batch(out, static_cast<int>(parts));
  return out;
}

}  // namespace ckdisp::detail
