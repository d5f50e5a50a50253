#include <ckdisp/cpu.hpp>
#include <ckdisp/dispatcher.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "after_fork.hpp"
#include "decision_cache.hpp"
#include "dispatch_errors.hpp"
#include "run_kernel.hpp"
#include "snapshot.hpp"
#include "target.hpp"

namespace ckdisp {

using detail::Candidates;
using detail::Decision;
using detail::Indexed;
using detail::Snapshot;
using detail::Target;

namespace {

constexpr int kMaxThreads = 4096;  // both fit the cache tag
constexpr int kMaxDevice = 253;

template <class Problem>
const Candidates* candidates_of(const Snapshot& view, const Problem& problem) {
  const auto found = view.by_signature.find(detail::packed_signature(problem));
  return found != view.by_signature.end() ? &found->second : nullptr;
}

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
                            "; pass -1 for the CPU, or the index of a device");
    }
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
  Decision decide(const Problem& problem, const Launch& launch) const {
    const std::uint64_t generation = registry.generation();
    const std::uint64_t tag = generation << 24 |
                              static_cast<std::uint64_t>(launch.device + 1) << 16 |
                              static_cast<std::uint64_t>(launch.num_threads);
    Decision decision;
    auto& cache = std::get<detail::DecisionCache<Problem>>(caches);
    if (cache.find(problem, tag, &decision)) return decision;
    validate(problem);
    const auto view = registry.snapshot();
    const detail::KernelRecord* chosen = choose(*view, problem, launch);
    decision = {chosen, detail::needs_of(*chosen->table, &problem, launch)};
    if (view->generation == generation) cache.store(problem, tag, decision);
    return decision;
  }

  template <class Problem>
  const detail::KernelRecord* choose(const Snapshot& view, const Problem& problem,
                                     const Launch& launch) const {
    std::optional<Target> made;
    const Target& target = target_of(launch, &made);
    const Candidates* candidates = candidates_of(view, problem);
    if (candidates == nullptr) {
      throw detail::kernel_not_found(registry, problem, target.arches());
    }
    if (options.ordering || options.strategy == Strategy::first) {
      const std::vector<Kernel> supporting = supporting_of(view, *candidates, problem, target);
      if (!supporting.empty()) {
        return (options.ordering ? ask(problem, supporting) : supporting.front()).record();
      }
    } else if (const Indexed* best = cheapest(view, *candidates, problem, launch, target)) {
      return view.entries[best->entry].kernel.record();
    }
    refuse_all(explain_all(view, problem, launch, target), problem, target);
  }

  // Kernels of other architectures are never asked: a CPU's may hold instructions, even in their
  // checks, that this machine lacks.
  static bool usable(const Snapshot& view, const Indexed& candidate, const Target& target) {
    return !candidate.picky || target.rank(view.entries[candidate.entry].kernel) != Target::kNever;
  }

  template <class Problem>
  static const Indexed* cheapest(const Snapshot& view, const Candidates& candidates,
                                 const Problem& problem, const Launch& launch,
                                 const Target& target) {
    for (const Arch arch : target.arches()) {
      const Indexed* best = nullptr;
      double best_cost = 0;
      for (const Indexed& candidate : candidates.of(arch)) {
        if (!candidate.supports(&problem, nullptr)) continue;
        const double cost = candidate.cost(&problem, &launch);
        if (best != nullptr && !(cost < best_cost)) continue;
        if (!usable(view, candidate, target)) continue;
        best = &candidate;
        best_cost = cost;
      }
      if (best != nullptr) return best;
    }
    return nullptr;
  }

  // In the registry's order.
  template <class Problem>
  static std::vector<Kernel> supporting_of(const Snapshot& view, const Candidates& candidates,
                                           const Problem& problem, const Target& target) {
    std::vector<std::uint32_t> entries;
    for (const Arch arch : target.arches()) {
      for (const Indexed& candidate : candidates.of(arch)) {
        if (usable(view, candidate, target) && candidate.supports(&problem, nullptr)) {
          entries.push_back(candidate.entry);
        }
      }
    }
    std::sort(entries.begin(), entries.end());
    std::vector<Kernel> out;
    for (const std::uint32_t entry : entries) out.push_back(view.entries[entry].kernel);
    return out;
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

  template <class Problem>
  static Candidate examine(Kernel kernel, const Problem& problem, const Launch& launch,
                           const Target& target) {
    Refusal refusal{};
    Candidate out{kernel, false, Reason::none, "", 0, -1};
    const bool usable = target.rank(kernel) != Target::kNever;
    // Only a CPU kernel's checks may hold instructions that this machine lacks.
    const bool may_ask = usable || detail::is_gpu(kernel.arch());
    if (detail::same_signature(kernel, problem, &refusal) &&
        (!may_ask || kernel.table()->supports(&problem, &refusal))) {
      if (usable) {
        out.supported = true;
        out.cost = kernel.table()->cost(&problem, &launch);
      } else {
        target.refuse_kernel(kernel, &out.reason, &out.text);
      }
      return out;
    }
    out.reason = refusal.reason;
    out.text = refusal.text;
    return out;
  }

  // Throws unless this very kernel can serve the call.
  template <class Problem>
  void check_call(Kernel kernel, const Problem& problem, const ArgsOf<Problem>& args,
                  const Launch& launch) const {
    validate(problem);
    validate(problem, args);
    std::optional<Target> made;
    const Target& target = target_of(launch, &made);
    const Candidate candidate = examine(kernel, problem, launch, target);
    if (!candidate.supported) refuse_all({candidate}, problem, target);
    if (home.is_plan()) detail::check_place(kernel, launch);
  }

  // In the registry's order, without ranks.
  template <class Problem>
  static std::vector<Candidate> explain_all(const Snapshot& view, const Problem& problem,
                                            const Launch& launch, const Target& target) {
    std::vector<Candidate> out;
    out.reserve(view.entries.size());
    for (const detail::Entry& entry : view.entries) {
      if (entry.kernel.op() != OpOf<Problem>::op) continue;
      out.push_back(examine(entry.kernel, problem, launch, target));
    }
    return out;
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
  return Kernel(impl_->decide(problem, impl_->complete(launch)).kernel);
}

template <class Data>
std::vector<Candidate> Dispatcher::explain_data(const Data& problem, Launch launch) const {
  launch = impl_->complete(launch);
  validate(problem);
  std::optional<Target> made;
  const Target& target = impl_->target_of(launch, &made);
  const auto view = impl_->registry.snapshot();
  std::vector<Candidate> all = Impl::explain_all(*view, problem, launch, target);
  impl_->rank(all, problem, target);
  return all;
}

template <class Data>
Plan Dispatcher::plan_data(const Data& problem, Launch launch) const {
  const Decision decision = impl_->decide(problem, impl_->complete(launch));
  const std::uint64_t bytes = decision.needs.workspace_bytes;
  const Kernel kernel(decision.kernel);
  Plan out{{}, bytes};
  if (decision.needs.prepare) out.stages.push_back({kernel, StageKind::prepare, 0, bytes});
  out.stages.push_back({kernel, StageKind::kernel, 0, bytes});
  if (decision.needs.convert) out.stages.push_back({kernel, StageKind::convert, 0, bytes});
  return out;
}

template <class Data>
bool Dispatcher::has_signature_data(const Data& problem, Launch launch) const {
  std::optional<Target> made;
  const Target& target = impl_->target_of(impl_->complete(launch), &made);
  const auto view = impl_->registry.snapshot();
  const Candidates* candidates = candidates_of(*view, problem);
  if (candidates == nullptr) return false;
  for (const Arch arch : target.arches()) {
    for (const Indexed& candidate : candidates->of(arch)) {
      if (Impl::usable(*view, candidate, target)) return true;
    }
  }
  return false;
}

namespace {

// Kernels of preshuffled weights misread any other B, and others a shuffled one.
void check_unnamed(const GemmProblemData& problem) {
  if (problem.shuffled_b == 0) return;
  throw InvalidArgument(
      "B is reordered for one kernel, and another would misread it; name the kernel");
}
void check_unnamed(const ConvProblemData&) {}

}  // namespace

template <class Data>
void Dispatcher::run_data(const Data& problem, const ArgsOf<Data>& args, Launch launch) const {
  launch = impl_->complete(launch);
  check_unnamed(problem);
  const Decision decision = impl_->decide(problem, launch);
  validate(problem, args);
  if (impl_->home.is_plan()) detail::check_place(Kernel(decision.kernel), launch);
  const detail::Call call{&problem, &args, launch};
  detail::run_kernel(*decision.kernel->table, decision.needs, call);
}

template <class Data>
void Dispatcher::run_data(std::string_view kernel_name, const Data& problem,
                          const ArgsOf<Data>& args, Launch launch) const {
  launch = impl_->complete(launch);
  const std::optional<Kernel> kernel = impl_->registry.find(kernel_name);
  if (!kernel) throw detail::kernel_not_found(impl_->registry, kernel_name);
  impl_->check_call(*kernel, problem, args, launch);
  const detail::Needs needs = detail::needs_of(*kernel->table(), &problem, launch);
  detail::run_kernel(*kernel->table(), needs, {&problem, &args, launch});
}

template <class Data>
void Dispatcher::run_data(const Stage& stage, const Data& problem, const ArgsOf<Data>& args,
                          Launch launch) const {
  launch = impl_->complete(launch);
  impl_->check_call(stage.kernel, problem, args, launch);
  const ckdisp_kernel& kernel = *stage.kernel.table();
  detail::Needs needs = detail::needs_of(kernel, &problem, launch);
  needs.prepare = needs.prepare && stage.kind == StageKind::prepare;
  needs.run = stage.kind == StageKind::kernel;
  needs.convert = needs.convert && stage.kind == StageKind::convert;
  detail::run_kernel(kernel, needs, {&problem, &args, launch});
}

const Registry& Dispatcher::registry() const { return impl_->registry; }
int Dispatcher::num_threads() const { return impl_->options.num_threads; }
const std::vector<Arch>& Dispatcher::arches() const { return impl_->home.arches(); }

#define CKDISP_DISPATCHER_OF(Data)                                                               \
  template Kernel Dispatcher::select_data(const Data&, Launch) const;                            \
  template std::vector<Candidate> Dispatcher::explain_data(const Data&, Launch) const;           \
  template Plan Dispatcher::plan_data(const Data&, Launch) const;                                \
  template bool Dispatcher::has_signature_data(const Data&, Launch) const;                       \
  template void Dispatcher::run_data(const Data&, const ArgsOf<Data>&, Launch) const;            \
  template void Dispatcher::run_data(std::string_view, const Data&, const ArgsOf<Data>&, Launch) \
      const;                                                                                     \
  template void Dispatcher::run_data(const Stage&, const Data&, const ArgsOf<Data>&, Launch) const;

CKDISP_DISPATCHER_OF(GemmProblemData)
CKDISP_DISPATCHER_OF(ConvProblemData)
#undef CKDISP_DISPATCHER_OF

}  // namespace ckdisp
