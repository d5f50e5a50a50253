#include "team.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <vector>

namespace ckdisp::detail {
namespace {

thread_local int known = 1;         // a number of threads that could be made
thread_local bool limited = false;  // whether more could not

struct Trial {
  std::mutex mutex;  // held until all threads are made, so that all are there at once
  std::atomic<int> slot{0};
  std::vector<pid_t> ids;
};

void* wait_for_others(void* argument) {
  auto& trial = *static_cast<Trial*>(argument);
#if defined(__linux__)
  trial.ids[static_cast<std::size_t>(trial.slot++)] = static_cast<pid_t>(::syscall(SYS_gettid));
#endif
  const std::lock_guard wait(trial.mutex);
  return nullptr;
}

constexpr int kSecondsToGo = 60;  // on a busy machine a thread may wait long for its last steps

// A thread that was joined may count for a moment yet, and the next one would be refused.
void wait_until_gone(const std::vector<pid_t>& ids) {
#if defined(__linux__)
  timespec start{}, now{};
  ::clock_gettime(CLOCK_MONOTONIC, &start);
  for (const pid_t id : ids) {
    while (id != 0 && ::syscall(SYS_tgkill, ::getpid(), id, 0) == 0) {
      ::sched_yield();
      ::clock_gettime(CLOCK_MONOTONIC, &now);
      if (now.tv_sec - start.tv_sec > kSecondsToGo) return;
    }
  }
#else
  (void)ids;
#endif
}

// How many of `count` threads can be made beside the calling one.
int make(int count) {
  Trial trial;
  trial.ids.resize(static_cast<std::size_t>(count));
  std::vector<pthread_t> threads;
  threads.reserve(static_cast<std::size_t>(count));
  {
    const std::lock_guard hold(trial.mutex);
    for (int i = 0; i < count; ++i) {
      pthread_t thread;
      if (::pthread_create(&thread, nullptr, wait_for_others, &trial) != 0) break;
      threads.push_back(thread);
    }
  }
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  wait_until_gone(trial.ids);
  return static_cast<int>(threads.size());
}

void tell(int wanted, int found) {
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  std::fprintf(
      stderr,
      "ckdisp: not all of %d threads can be made, so kernels run on %d; raise the limit of "
      "processes (ulimit -u, or pids.max of the container) or of memory, or set "
      "CKDISP_NUM_THREADS\n",
      wanted, found);
}

}  // namespace

int team(int wanted) {
  if (wanted <= known || limited) return std::min(wanted, known);
  const int made = make(wanted - 1);
  if (made == wanted - 1) return known = wanted;
  // Something is left to others where there is little. The number stays: threads that the OpenMP
  // runtime has by then would make the next count smaller.
  known = std::max({known, made - made / 4, 1});
  limited = true;
  tell(wanted, known);
  return known;
}

void forget_team() {
  known = 1;
  limited = false;
}

}  // namespace ckdisp::detail
