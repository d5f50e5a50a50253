#include "after_fork.hpp"

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "team.hpp"

namespace ckdisp::detail {
namespace {

// A thread that works for the one thread that a fork left.
class Helper {
 public:
  Helper() { std::thread(&Helper::serve, this).detach(); }

  void run(void (*function)(void*), void* argument) {
    std::unique_lock lock(mutex_);
    function_ = function;
    argument_ = argument;
    changed_.notify_all();
    changed_.wait(lock, [&] { return function_ == nullptr; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return function_ != nullptr; });
      function_(argument_);
      function_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  void (*function_)(void*) = nullptr;
  void* argument_ = nullptr;
};

// Only one thread of a process is the one that a fork left, so there is at most one of each.
thread_local bool left_by_fork = false;
thread_local Helper* helper = nullptr;  // never freed: its thread runs until the process ends

void in_child() {
  left_by_fork = true;
  helper = nullptr;  // the thread of the parent's is not here
  forget_team();
}

}  // namespace

void watch_forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, in_child);
  (void)registered;  // without memory for it, forks go unnoticed
}

void run_launch(void (*function)(void*), void* argument) {
  if (!left_by_fork) return function(argument);
  if (helper == nullptr) helper = new Helper;
  helper->run(function, argument);
}

}  // namespace ckdisp::detail
