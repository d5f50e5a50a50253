#include <ckdisp/cpu.hpp>
#include <ckdisp/device.hpp>
#include <ckdisp/dispatcher.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "after_fork.hpp"
#include "choice.hpp"
#include "decision_cache.hpp"
#include "dispatch_errors.hpp"
#include "fmha_plan.hpp"
#include "run_decision.hpp"
#include "team.hpp"

namespace ckdisp {

using detail::Candidates;
using detail::Choice;
using detail::Decision;
using detail::HandedOn;
using detail::Indexed;
using detail::KernelRecord;
using detail::Question;
using detail::Target;

namespace {

constexpr int kMaxThreads = 4096;  // both fit the cache tag
constexpr int kMaxDevice = device_number(DeviceKind::cuda, kMaxDevices - 1);

// What runs side by side on a device that is not here.
constexpr int kUsualComputeUnits = 64;

}  // namespace

struct Dispatcher::Impl {
  template <class>
  struct CachesOf;
  template <class... Problem>
  struct CachesOf<std::variant<Problem...>> {
    using type = std::tuple<detail::DecisionCache<Problem>...>;
  };
  using Caches = typename CachesOf<AnyProblem>::type;

  Impl(Registry kernels, DispatcherOptions chosen)
      : registry(std::move(kernels)),
        options(std::move(chosen)),
        home(options.arches.empty() ? Target::cpu(host_arches())
                                    : Target::planned(options.arches)) {
    if (options.num_threads == 0) options.num_threads = default_num_threads();
    check_threads(options.num_threads);
    detail::watch_forks();
  }

  static void check_threads(int count) {
    if (count >= 1 && count <= kMaxThreads) return;
    throw InvalidArgument("the number of threads is " + std::to_string(count) + "; pass 1 to " +
                          std::to_string(kMaxThreads) + ", or 0 for the default");
  }

  Launch complete(Launch launch) const {
    if (launch.num_threads == 0) launch.num_threads = options.num_threads;
    check_threads(launch.num_threads);
    if (launch.device < -1 || launch.device > kMaxDevice) {
      throw InvalidArgument("the device is " + std::to_string(launch.device) +
                            "; pass -1 for the CPU, or the number of a device");
    }
    return launch;
  }

  // The same for a call that runs now, on no more threads than there can be.
  Launch running(Launch launch) const {
    launch = complete(launch);
    if (launch.device < 0) launch.num_threads = detail::team(launch.num_threads);
    return launch;
  }

  // Where a call runs; `made` keeps a device's. Throws DeviceError for a device that is not here
  // or not planned for.
  const Target& target_of(const Launch& launch, std::optional<Target>* made) const {
    if (launch.device < 0) return home;
    made->emplace(Target::device(launch.device));
    if (home.is_plan()) home.check_planned(**made);
    return **made;
  }

  template <class Problem>
  Decision<Problem> decide(const Problem& problem, const Launch& launch) const {
    const std::uint64_t generation = registry.generation();
    const std::uint64_t tag = generation << 24 |
                              static_cast<std::uint64_t>(launch.device + 1) << 16 |
                              static_cast<std::uint64_t>(launch.num_threads);
    Decision<Problem> decision;
    auto& cache = std::get<detail::DecisionCache<Problem>>(caches);
    if (cache.find(problem, tag, &decision)) return decision;
    validate(problem);
    const auto view = registry.snapshot();
    std::optional<Target> made;
    decision = solve(Question<Problem>{*view, problem, launch, target_of(launch, &made)}, nullptr);
    if (view->generation == generation) cache.store(problem, tag, decision);
    return decision;
  }

  // The kernels that solve a problem: `main` does the main work, or is chosen if it is null.
  template <class Problem>
  Decision<Problem> solve(const Question<Problem>& question, const KernelRecord* main) const {
    const KernelRecord* kernel = main != nullptr ? main : choose(question);
    detail::OpenParts<Problem> parts(question.problem, question.launch);
    const Problem& asked = parts.of(*kernel->table);
    const auto needs = detail::needs_of(*kernel->table, &asked, question.launch);
    return {{{kernel, needs}}, 1, detail::k_batch_of(asked)};
  }
  Decision<FmhaProblemData> solve(const Question<FmhaProblemData>& question,
                                  const KernelRecord* main) const {
    const auto& [view, problem, launch, target, none] = question;
    const auto stage = [&](Family family, std::int64_t splits, const KernelRecord* first,
                           const KernelRecord* given) {
      const FmhaProblemData part = detail::as_stage(problem, family, splits);
      return made_choice(Question<FmhaProblemData>{view, part, launch, target, first}, given);
    };
    if (problem.family == Family::fmha_splitkv) {
      const std::int64_t splits = detail::choose_splits(problem, workers(launch));
      const Choice part = stage(problem.family, splits, nullptr, main);
      const Choice sum = stage(Family::fmha_splitkv_combine, splits, part.kernel, nullptr);
      return {{part, sum}, 2, splits};
    }
    if (problem.family == Family::fmha_bwd_dq_dk_dv) {
      if (main == nullptr) main = choose(question);
      const FmhaKey& key = Kernel(main).fmha_key();
      const std::int64_t parts = detail::parts_of_dq(key, problem);
      const Choice gradients = stage(problem.family, parts, nullptr, main);
      const Choice sums = stage(Family::fmha_bwd_dot_do_o, parts, main, nullptr);
      if (!detail::accumulates_dq(key)) return {{sums, gradients}, 2, parts};
      return {
          {sums, gradients, stage(Family::fmha_bwd_convert_dq, parts, main, nullptr)}, 3, parts};
    }
    return {{made_choice(question, main)}, 1, problem.num_splits};
  }

  // The problem as its main kernel sees it.
  template <class Problem>
  const Problem& resolved(const Problem& problem, const Launch&) const {
    return problem;
  }
  FmhaProblemData resolved(const FmhaProblemData& problem, const Launch& launch) const {
    if (problem.family != Family::fmha_splitkv) return problem;
    return detail::as_stage(problem, problem.family,
                            detail::choose_splits(problem, workers(launch)));
  }

  // What works at once: threads, or blocks of a device at two for each compute unit.
  int workers(const Launch& launch) const {
    if (launch.device >= 0) return 2 * device(launch.device).compute_units;
    const bool gpu = !home.arches().empty() && detail::is_gpu(home.arches().front());
    return gpu ? 2 * kUsualComputeUnits : launch.num_threads;
  }

  template <class Problem>
  Choice made_choice(const Question<Problem>& question, const KernelRecord* given) const {
    const KernelRecord* kernel = given != nullptr ? given : choose(question);
    return {kernel, detail::needs_of(*kernel->table, &question.problem, question.launch)};
  }

  template <class Problem>
  const KernelRecord* choose(const Question<Problem>& question) const {
    const auto& [view, problem, launch, target, first] = question;
    const Candidates* candidates = question.candidates();
    if (!detail::has_signature_anywhere(question)) {
      throw detail::kernel_not_found(registry, problem, target.arches());
    }
    if (options.ordering || options.strategy == Strategy::first) {
      const std::vector<Kernel> supporting = detail::supporting(question, *candidates);
      if (!supporting.empty()) {
        return (options.ordering ? ask(problem, supporting) : supporting.front()).record();
      }
    } else if (const Indexed* best = detail::cheapest(question, *candidates)) {
      return question.kernel_of(*best).record();
    }
    refuse_all(detail::examine_all(question), problem, target);
  }

  // A problem that a device could solve lacks the device; any other lacks a kernel.
  template <class Problem>
  [[noreturn]] static void refuse_all(const std::vector<Candidate>& all, const Problem& problem,
                                      const Target& target) {
    const bool waits = std::any_of(all.begin(), all.end(), [](const Candidate& c) {
      return c.reason == Reason::device && detail::is_gpu(c.kernel.arch());
    });
    if (waits && target.device() < 0) throw detail::needs_device(problem, all);
    throw detail::unsupported(problem, all);
  }

  template <class Problem>
  Kernel ask(const Problem& problem, const std::vector<Kernel>& supporting) const {
    const std::vector<Kernel> order = options.ordering(problem, supporting);
    if (order.empty()) {
      throw UnsupportedProblem("the dispatcher's callback chose none of the " +
                               std::to_string(supporting.size()) + " kernels that support " +
                               to_string(problem) + "; return at least one of them");
    }
    if (std::find(supporting.begin(), supporting.end(), order.front()) == supporting.end()) {
      throw InvalidArgument(std::string("the dispatcher's callback chose ") + order.front().name() +
                            ", which is not among the kernels that support the problem; return "
                            "kernels out of the list it was given");
    }
    return order.front();
  }

  // With the named kernel for the main work; throws unless it can.
  template <class Problem>
  Decision<Problem> decide_with(std::string_view kernel_name, const Problem& problem,
                                const Launch& launch) const {
    const std::optional<Kernel> kernel = registry.find(kernel_name);
    if (!kernel) throw detail::kernel_not_found(registry, kernel_name);
    check_kernel(*kernel, resolved(problem, launch), launch);
    const auto view = registry.snapshot();
    std::optional<Target> made;
    return solve(Question<Problem>{*view, problem, launch, target_of(launch, &made)},
                 kernel->record());
  }

  // Throws unless this very kernel can serve the problem.
  template <class Problem>
  void check_kernel(Kernel kernel, const Problem& problem, const Launch& launch) const {
    std::optional<Target> made;
    const Target& target = target_of(launch, &made);
    const auto view = registry.snapshot();
    const Candidate candidate =
        detail::examine(Question<Problem>{*view, problem, launch, target}, kernel);
    if (!candidate.supported) refuse_all({candidate}, problem, target);
  }

  // Kernels of later stages, which refused the main one's problem, are asked about their own.
  template <class Problem>
  void explain_followers(std::vector<Candidate>&, const Question<Problem>&) const {}
  void explain_followers(std::vector<Candidate>& all,
                         const Question<FmhaProblemData>& question) const {
    const auto& [view, problem, launch, target, none] = question;
    const KernelRecord* main =
        !all.empty() && all.front().supported ? all.front().kernel.record() : nullptr;
    for (const Family family : detail::followers(problem.family)) {
      const FmhaProblemData part = detail::as_stage(problem, family, problem.num_splits);
      const Question<FmhaProblemData> asked{view, part, launch, target, main};
      const auto begin = std::stable_partition(all.begin(), all.end(), [&](const Candidate& c) {
        return c.kernel.fmha_key().family != family;
      });
      std::vector<Candidate> own;
      for (auto it = begin; it != all.end(); ++it) {
        own.push_back(detail::examine(asked, it->kernel));
      }
      all.erase(begin, all.end());
      rank(own, part, target);
      const auto is_supported = [](const Candidate& c) { return c.supported; };
      const auto refused = std::find_if_not(own.begin(), own.end(), is_supported);
      all.insert(std::find_if_not(all.begin(), all.end(), is_supported), own.begin(), refused);
      all.insert(all.end(), refused, own.end());
    }
  }

  // Sorts the supporting candidates by preference to the front and numbers them.
  template <class Problem>
  void rank(std::vector<Candidate>& all, const Problem& problem, const Target& target) const {
    const auto end = std::stable_partition(all.begin(), all.end(),
                                           [](const Candidate& c) { return c.supported; });
    if (options.ordering && end != all.begin()) {
      std::vector<Kernel> supporting;
      for (auto it = all.begin(); it != end; ++it) supporting.push_back(it->kernel);
      const std::vector<Kernel> order = options.ordering(problem, supporting);
      std::stable_sort(all.begin(), end, [&](const Candidate& a, const Candidate& b) {
        return std::find(order.begin(), order.end(), a.kernel) <
               std::find(order.begin(), order.end(), b.kernel);
      });
    } else if (options.strategy == Strategy::heuristic) {
      std::stable_sort(all.begin(), end, [&](const Candidate& a, const Candidate& b) {
        const int x = target.rank(a.kernel), y = target.rank(b.kernel);
        return x != y ? x < y : a.cost < b.cost;
      });
    }
    int place = 0;
    for (auto it = all.begin(); it != end; ++it) it->rank = place++;
  }

  // Marks the kernels that a call would take; none where it would throw.
  template <class Problem>
  void mark_chosen(std::vector<Candidate>& all, const Problem& problem,
                   const Launch& launch) const {
    Decision<Problem> decision;
    try {
      decision = decide(problem, launch);
    } catch (const KernelNotFound&) {
      return;
    } catch (const UnsupportedProblem&) {
      return;
    } catch (const DeviceError&) {
      return;
    }
    for (Candidate& candidate : all) {
      for (int i = 0; i < decision.count; ++i) {
        candidate.chosen |= decision.choices[i].kernel == candidate.kernel.record();
      }
    }
  }

  Registry registry;
  DispatcherOptions options;
  Target home;  // of calls without a device
  mutable Caches caches;
};

Dispatcher::Dispatcher(Registry registry, DispatcherOptions options)
    : impl_(std::make_unique<Impl>(std::move(registry), std::move(options))) {}
Dispatcher::~Dispatcher() = default;
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;

template <class Data>
Kernel Dispatcher::select_data(const Data& problem, Launch launch) const {
  const Decision<Data> decision = impl_->decide(problem, impl_->complete(launch));
  return detail::main_kernel(decision);
}

template <class Data>
std::vector<Candidate> Dispatcher::explain_data(const Data& problem, Launch launch) const {
  launch = impl_->complete(launch);
  validate(problem);
  std::optional<Target> made;
  const Target& target = impl_->target_of(launch, &made);
  const auto view = impl_->registry.snapshot();
  const Data& resolved = impl_->resolved(problem, launch);
  const Question<Data> question{*view, resolved, launch, target};
  std::vector<Candidate> all = detail::examine_all(question);
  impl_->rank(all, problem, target);
  impl_->explain_followers(all, question);
  impl_->mark_chosen(all, problem, launch);
  return all;
}

namespace {

template <class Data>
Plan plan_of(const Decision<Data>& decision, const Data& problem) {
  const HandedOn memory = detail::memory_of(problem, decision);
  Plan out{{}, detail::bytes_of(decision, memory)};
  for (int i = 0; i < decision.count; ++i) {
    const auto& [kernel, needs] = decision.choices[i];
    Stage stage{Kernel(kernel),        StageKind::prepare,  memory.bytes,
                needs.workspace_bytes, out.workspace_bytes, decision.num_splits};
    const auto add = [&](StageKind kind) {
      stage.kind = kind;
      out.stages.push_back(stage);
    };
    if (needs.prepare) add(StageKind::prepare);
    add(StageKind::kernel);
    if (needs.convert) add(StageKind::convert);
  }
  return out;
}

}  // namespace

template <class Data>
Plan Dispatcher::plan_data(const Data& problem, Launch launch) const {
  return plan_of(impl_->decide(problem, impl_->complete(launch)), problem);
}

template <class Data>
Plan Dispatcher::plan_data(std::string_view kernel_name, const Data& problem, Launch launch) const {
  launch = impl_->complete(launch);
  validate(problem);
  return plan_of(impl_->decide_with(kernel_name, problem, launch), problem);
}

template <class Data>
bool Dispatcher::has_signature_data(const Data& problem, Launch launch) const {
  launch = impl_->complete(launch);
  std::optional<Target> made;
  const Target& target = impl_->target_of(launch, &made);
  const auto view = impl_->registry.snapshot();
  return detail::has_signature(Question<Data>{*view, problem, launch, target});
}

template <class Data>
void Dispatcher::run_data(const Data& problem, const ArgsOf<Data>& args, Launch launch) const {
  launch = impl_->running(launch);
  detail::check_unnamed(problem);
  const Decision<Data> decision = impl_->decide(problem, launch);
  detail::check_args(problem, args, launch);
  if (impl_->home.is_plan()) detail::check_place(detail::main_kernel(decision), launch);
  detail::run_decision(decision, problem, args, launch);
}

template <class Data>
void Dispatcher::run_data(std::string_view kernel_name, const Data& problem,
                          const ArgsOf<Data>& args, Launch launch) const {
  launch = impl_->running(launch);
  detail::check_named(problem);
  validate(problem);
  detail::check_args(problem, args, launch);
  const Decision<Data> decision = impl_->decide_with(kernel_name, problem, launch);
  if (impl_->home.is_plan()) detail::check_place(detail::main_kernel(decision), launch);
  detail::run_decision(decision, problem, args, launch);
}

template <class Data>
void Dispatcher::run_data(const Stage& stage, const Data& problem, const ArgsOf<Data>& args,
                          Launch launch) const {
  launch = impl_->running(launch);
  const Data& part = detail::stage_problem(problem, stage);
  validate(part);
  detail::check_args(part, args, launch);
  impl_->check_kernel(stage.kernel, part, launch);
  if (impl_->home.is_plan()) detail::check_place(stage.kernel, launch);
  detail::run_stage(stage, part, args, launch);
}

void Dispatcher::run_family(Family family, const FmhaProblemData& problem, const FmhaArgs& args,
                            Launch launch) const {
  if (problem.family != family) {
    throw InvalidArgument(std::string("the problem is ") + to_name(problem.family) +
                          ", and this call is for " + to_name(family));
  }
  run_data(problem, args, launch);
}

const Registry& Dispatcher::registry() const { return impl_->registry; }
int Dispatcher::num_threads() const { return impl_->options.num_threads; }
const std::vector<Arch>& Dispatcher::arches() const { return impl_->home.arches(); }

#define CKDISP_DISPATCHER_OF(Data)                                                               \
  template Kernel Dispatcher::select_data(const Data&, Launch) const;                            \
  template std::vector<Candidate> Dispatcher::explain_data(const Data&, Launch) const;           \
  template Plan Dispatcher::plan_data(const Data&, Launch) const;                                \
  template Plan Dispatcher::plan_data(std::string_view, const Data&, Launch) const;              \
  template bool Dispatcher::has_signature_data(const Data&, Launch) const;                       \
  template void Dispatcher::run_data(const Data&, const ArgsOf<Data>&, Launch) const;            \
  template void Dispatcher::run_data(std::string_view, const Data&, const ArgsOf<Data>&, Launch) \
      const;                                                                                     \
  template void Dispatcher::run_data(const Stage&, const Data&, const ArgsOf<Data>&, Launch) const;

CKDISP_DISPATCHER_OF(GemmProblemData)
CKDISP_DISPATCHER_OF(ConvProblemData)
CKDISP_DISPATCHER_OF(FmhaProblemData)
#undef CKDISP_DISPATCHER_OF

}  // namespace ckdisp
