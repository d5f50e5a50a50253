// Basics of every CPU kernel: inlining, unrolling, OpenMP.
//
// Everything in this folder lives in an unnamed namespace. Units of different CPU levels are linked
// into one program, and code of one level must never be merged with that of another: internal
// linkage makes sure that it is not.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <ckdisp/abi.hpp>
#include <ckdisp/generated/arches.hpp>

#ifdef _OPENMP
#include <omp.h>
#endif

#define CKDISP_CPU_INLINE inline __attribute__((always_inline))
#define CKDISP_CPU_LAMBDA __attribute__((always_inline))
#define CKDISP_CPU_NOINLINE __attribute__((noinline))

namespace ckdisp::cpu {
namespace {

using Index = std::int64_t;

template <int I>
using Int = std::integral_constant<int, I>;

template <class F, int... I>
CKDISP_CPU_INLINE void unroll(F&& f, std::integer_sequence<int, I...>) {
  (f(Int<I>{}), ...);
}

// f(Int<0>{}), ..., f(Int<N - 1>{}), written out: indices are constants, arrays become registers.
template <int N, class F>
CKDISP_CPU_INLINE void unroll(F&& f) {
  unroll(f, std::make_integer_sequence<int, N>{});
}

constexpr Index ceil_div(Index a, Index b) { return (a + b - 1) / b; }
constexpr Index round_up(Index a, Index b) { return ceil_div(a, b) * b; }
constexpr Index least(Index a, Index b) { return a < b ? a : b; }
constexpr Index most(Index a, Index b) { return a > b ? a : b; }

// Start of part `i` of `parts` nearly equal parts of `n`.
constexpr Index part_start(Index n, Index parts, Index i) {
  return n / parts * i + least(i, n % parts);
}

// Parts of the work for each thread. More than one, taken as threads come free: a thread that the
// system holds up for a while does not hold up the others.
constexpr int parts_per_thread = 4;

// Hands out the parts of one phase after the other. Each thread asks until it gets none, so a phase
// uses up parts + team numbers.
class Tickets {
 public:
  Tickets(std::int64_t* counter, Index parts, int team)
      : counter_(counter), parts_(parts), team_(team) {}
  void next_phase() { start_ += parts_ + team_; }
  // A part of this phase, or -1.
  Index take() {
    const Index part = __atomic_fetch_add(counter_, 1, __ATOMIC_RELAXED) - start_;
    return part < parts_ ? part : -1;
  }

 private:
  std::int64_t* counter_;
  Index parts_, team_;
  Index start_ = 0;
};

// Threads to use: one inside a parallel region of the caller, who has split the work already.
inline int usable_threads(const Launch* launch) {
#ifdef _OPENMP
  if (launch != nullptr && launch->num_threads > 1 && !omp_in_parallel()) {
    return launch->num_threads;
  }
#endif
  (void)launch;
  return 1;
}

// Calls body(thread, team) on `threads` threads; the runtime may give a smaller team.
template <class Body>
inline void parallel(int threads, const Body& body) {
#ifdef _OPENMP
  if (threads > 1) {
#pragma omp parallel num_threads(threads)
    body(omp_get_thread_num(), omp_get_num_threads());
    return;
  }
#endif
  (void)threads;
  body(0, 1);
}

// Waits for the whole team of parallel(). A team of one must not: the barrier would bind to the
// caller's team.
inline void barrier(int team) {
#ifdef _OPENMP
  if (team > 1) {
#pragma omp barrier
  }
#endif
  (void)team;
}

}  // namespace
}  // namespace ckdisp::cpu
