// Picks a kernel for a problem and runs it. C++17.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ckdisp/any_problem.hpp>
#include <ckdisp/registry.hpp>

namespace ckdisp {

enum class Strategy {
  heuristic,  // the cheapest kernel of the best architecture that has one
  first,      // the first kernel in the registry's order
};

// Orders the kernels that support a problem, best first; the first of the result is used. Called
// once per problem, from the thread that meets it first.
using Ordering = std::function<std::vector<Kernel>(const AnyProblem& problem,
                                                   const std::vector<Kernel>& candidates)>;

struct DispatcherOptions {
  Strategy strategy = Strategy::heuristic;
  Ordering ordering;    // replaces the strategy when set
  int num_threads = 0;  // of CPU kernels; 0 is default_num_threads()
  // Only kernels for these are used, best first; "gfx942" or with target features, "gfx942:xnack-".
  // For GPUs that are not here select(), explain() and plan() answer; run() needs the device.
  // Empty: the CPU levels of this machine, and for a call on a device those for its architecture.
  std::vector<std::string> arches;
};

// One line of Dispatcher::explain().
struct Candidate {
  Kernel kernel;
  bool supported;
  Reason reason;     // Reason::none when supported
  std::string text;  // why not, in words
  double cost;       // only the order matters; 0 when not supported
  int rank;          // place in the dispatcher's preference, from 0; -1 when not supported
  // Whether select() and plan() take it. None is, whatever its rank, where they throw: a problem of
  // several stages may lack the kernel of one.
  bool chosen = false;
  int k_batch = 0;  // parts into which it splits the sums of a GEMM or convolution; else 0
};

enum class StageKind {
  prepare,  // what must happen before each run and is no part of the kernel's time
  kernel,
  convert,  // a second kernel, which makes the result out of what the first left in the workspace
};

struct Stage {
  Kernel kernel;
  StageKind kind;
  std::uint64_t workspace_offset;  // of the kernel's own scratch memory
  std::uint64_t workspace_bytes;
  std::uint64_t plan_bytes;  // scratch memory of the whole plan
  // FMHA: parts of the sums that stages hand on. Else the k_batch of the problem, or the one that
  // was chosen.
  std::int64_t num_splits;
};

// The ordered steps that solve a problem, and the scratch memory they share, which is memory of
// the device that they run on. Holds for every call of the same problem and launch.
struct Plan {
  std::vector<Stage> stages;
  std::uint64_t workspace_bytes;
};

// One line for each stage, and one for the memory.
std::string to_string(const Plan& plan);

// Every member may be called from any thread. A decision met before is looked up without a lock
// and without allocating; changing the registry forgets the decisions.
//
// A registry may hold kernels for the CPU and for GPUs. `launch.device` says where a call runs: -1
// is the CPU, whose pointers are to its own memory, anything else HIP's index of a device. A call
// on a device returns when the work is on `launch.stream`.
class Dispatcher {
 public:
  // Throws InvalidArgument for a bad CKDISP_CPU_LEVEL, CKDISP_NUM_THREADS, thread count or arch of
  // a CPU, and InvalidKey for an unknown arch.
  explicit Dispatcher(Registry registry, DispatcherOptions options = {});
  ~Dispatcher();
  Dispatcher(Dispatcher&&) noexcept;
  Dispatcher& operator=(Dispatcher&&) noexcept;

  // A problem is a GemmProblemData, a ConvProblemData or an FmhaProblemData, or a builder of one.
  //
  // The kernel for a problem. Throws InvalidArgument for a problem that can never work,
  // KernelNotFound when no kernel has its signature, UnsupportedProblem when none supports it, and
  // DeviceError when the device is not here, or when only kernels of GPUs support a problem of the
  // CPU. `launch` says where it would run.
  template <class Problem>
  Kernel select(const Problem& problem, Launch launch = {}) const {
    return select_data(data_of(problem), launch);
  }
  // Every kernel of the op: the supporting ones by rank, then the others with their reasons. Where
  // a plan has kernels of several families, those of the main one first; ranks are among a
  // family's.
  template <class Problem>
  std::vector<Candidate> explain(const Problem& problem, Launch launch = {}) const {
    return explain_data(data_of(problem), launch);
  }
  template <class Problem>
  Plan plan(const Problem& problem, Launch launch = {}) const {
    return plan_data(data_of(problem), launch);
  }
  // The plan with the named kernel; UnsupportedProblem says why it cannot.
  template <class Problem>
  Plan plan(std::string_view kernel_name, const Problem& problem, Launch launch = {}) const {
    return plan_data(kernel_name, data_of(problem), launch);
  }
  // Whether some kernel that may run there has the types, layout and operation of the problem.
  template <class Problem>
  bool has_signature(const Problem& problem, Launch launch = {}) const {
    return has_signature_data(data_of(problem), launch);
  }

  // Computes the result. `launch.num_threads` 0 is the dispatcher's number. Refuses bad arguments
  // before anything runs: InvalidArgument, or UnsupportedProblem for a scale or an alignment of
  // pointers that the kernel cannot have. DeviceError when the kernel fails.
  template <class Problem>
  void run(const Problem& problem, const ArgsOf<Problem>& args, Launch launch = {}) const {
    run_data(data_of(problem), args, launch);
  }
  // The same for attention, by the API of the problem's family; InvalidArgument for another.
  template <class Problem>
  void run_fwd(const Problem& problem, const FmhaArgs& args, Launch launch = {}) const {
    run_family(Family::fmha_fwd, data_of(problem), args, launch);
  }
  template <class Problem>
  void run_bwd(const Problem& problem, const FmhaArgs& args, Launch launch = {}) const {
    run_family(Family::fmha_bwd_dq_dk_dv, data_of(problem), args, launch);
  }
  template <class Problem>
  void run_splitkv(const Problem& problem, const FmhaArgs& args, Launch launch = {}) const {
    run_family(Family::fmha_splitkv, data_of(problem), args, launch);
  }
  template <class Problem>
  void run_pagedkv(const Problem& problem, const FmhaArgs& args, Launch launch = {}) const {
    run_family(Family::fmha_pagedkv, data_of(problem), args, launch);
  }
  template <class Problem>
  void run_appendkv(const Problem& problem, const FmhaArgs& args, Launch launch = {}) const {
    run_family(Family::fmha_appendkv, data_of(problem), args, launch);
  }
  template <class Problem>
  void run_batch_prefill(const Problem& problem, const FmhaArgs& args, Launch launch = {}) const {
    run_family(Family::fmha_batch_prefill, data_of(problem), args, launch);
  }
  // The same with the named kernel; UnsupportedProblem says why it cannot.
  template <class Problem>
  void run(std::string_view kernel_name, const Problem& problem, const ArgsOf<Problem>& args,
           Launch launch = {}) const {
    run_data(kernel_name, data_of(problem), args, launch);
  }
  // One stage of a plan for the same problem and launch: to time a kernel without what prepares it.
  // All stages in order compute the result, from one thread, on one stream and with no other call
  // between them, which would use the same scratch memory.
  template <class Problem>
  void run(const Stage& stage, const Problem& problem, const ArgsOf<Problem>& args,
           Launch launch = {}) const {
    run_data(stage, data_of(problem), args, launch);
  }

  // All stages of a plan for the same problem and launch, without choosing kernels again.
  template <class Problem>
  void run(const Plan& plan, const Problem& problem, const ArgsOf<Problem>& args,
           Launch launch = {}) const {
    for (const Stage& stage : plan.stages) run(stage, problem, args, launch);
  }
  // The same; returns the seconds that each stage took, from start to end.
  template <class Problem>
  std::vector<double> time(const Plan& plan, const Problem& problem, const ArgsOf<Problem>& args,
                           Launch launch = {}) const {
    std::vector<double> seconds;
    for (const Stage& stage : plan.stages) {
      seconds.push_back(time_work(launch, [&] { run(stage, problem, args, launch); }));
    }
    return seconds;
  }

  const Registry& registry() const;
  int num_threads() const;
  // Architectures whose kernels calls without a device may use, best first: those of the options,
  // else the CPU levels of this machine.
  const std::vector<Arch>& arches() const;

 private:
  // Defined for the problem of each op.
  template <class Data>
  Kernel select_data(const Data& problem, Launch launch) const;
  template <class Data>
  std::vector<Candidate> explain_data(const Data& problem, Launch launch) const;
  template <class Data>
  Plan plan_data(const Data& problem, Launch launch) const;
  template <class Data>
  Plan plan_data(std::string_view kernel_name, const Data& problem, Launch launch) const;
  template <class Data>
  bool has_signature_data(const Data& problem, Launch launch) const;
  template <class Data>
  void run_data(const Data& problem, const ArgsOf<Data>& args, Launch launch) const;
  template <class Data>
  void run_data(std::string_view kernel_name, const Data& problem, const ArgsOf<Data>& args,
                Launch launch) const;
  template <class Data>
  void run_data(const Stage& stage, const Data& problem, const ArgsOf<Data>& args,
                Launch launch) const;

  void run_family(Family family, const FmhaProblemData& problem, const FmhaArgs& args,
                  Launch launch) const;
  static double time_work(const Launch& launch, const std::function<void()>& work);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ckdisp
