#include <ckdisp/cpu.hpp>
#include <ckdisp/dispatcher.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/generated/arches.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "after_fork.hpp"
#include "decision_cache.hpp"
#include "dispatch_errors.hpp"
#include "snapshot.hpp"
#include "workspace.hpp"

namespace ckdisp {

using detail::Decision;
using detail::Indexed;
using detail::Snapshot;

namespace {

constexpr int kNotHere = -1;
constexpr int kMaxThreads = 4096;  // fits the cache tag

std::array<int, kArchCount> ranks_of(const std::vector<Arch>& arches) {
  std::array<int, kArchCount> ranks;
  ranks.fill(kNotHere);
  for (std::size_t i = 0; i < arches.size(); ++i) {
    ranks[static_cast<std::size_t>(arches[i])] = static_cast<int>(i);
  }
  return ranks;
}

const std::vector<Indexed>* candidates_of(const Snapshot& view, const GemmProblemData& problem) {
  const auto found = view.by_signature.find(detail::signature_of(problem).packed());
  return found != view.by_signature.end() ? &found->second : nullptr;
}

}  // namespace

struct Dispatcher::Impl {
  Impl(Registry kernels, DispatcherOptions chosen)
      : registry(std::move(kernels)),
        options(std::move(chosen)),
        arches(host_arches()),
        arch_rank(ranks_of(arches)) {
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
    return launch;
  }

  int rank_of(Arch arch) const { return arch_rank[static_cast<std::size_t>(arch)]; }

  Decision decide(const GemmProblemData& problem, const Launch& launch) const {
    const std::uint64_t generation = registry.generation();
    const std::uint64_t tag = generation << 16 | static_cast<std::uint64_t>(launch.num_threads);
    Decision decision;
    if (cache.find(problem, tag, &decision)) return decision;
    validate(problem);
    const auto view = registry.snapshot();
    const detail::KernelRecord* chosen = choose(*view, problem, launch);
    decision = {chosen, chosen->table->workspace_size(&problem, &launch)};
    if (view->generation == generation) cache.store(problem, tag, decision);
    return decision;
  }

  const detail::KernelRecord* choose(const Snapshot& view, const GemmProblemData& problem,
                                     const Launch& launch) const {
    const std::vector<Indexed>* candidates = candidates_of(view, problem);
    if (candidates == nullptr) throw detail::kernel_not_found(registry, problem, arches);
    const Indexed* best = nullptr;
    if (options.ordering) {
      const std::vector<Kernel> supporting = supporting_of(view, *candidates, problem);
      if (!supporting.empty()) return ask(problem, supporting).record();
    } else if (options.strategy == Strategy::first) {
      for (const Indexed& candidate : *candidates) {
        if (usable(candidate, problem)) {
          best = &candidate;
          break;
        }
      }
    } else {
      best = cheapest(*candidates, problem, launch);
    }
    if (best == nullptr) throw detail::unsupported(problem, explain_all(view, problem, launch));
    return view.entries[best->entry].kernel.record();
  }

  // The code of a kernel that does not run here is never called, not even its checks.
  bool usable(const Indexed& candidate, const GemmProblemData& problem) const {
    return rank_of(candidate.arch) != kNotHere && candidate.supports(&problem, nullptr);
  }

  const Indexed* cheapest(const std::vector<Indexed>& candidates, const GemmProblemData& problem,
                          const Launch& launch) const {
    const Indexed* best = nullptr;
    int best_rank = static_cast<int>(kArchCount);
    double best_cost = 0;
    for (const Indexed& candidate : candidates) {
      const int rank = rank_of(candidate.arch);
      if (rank == kNotHere || rank > best_rank) continue;
      if (!candidate.supports(&problem, nullptr)) continue;
      const double cost = candidate.cost(&problem, &launch);
      if (rank == best_rank && !(cost < best_cost)) continue;
      best = &candidate;
      best_rank = rank;
      best_cost = cost;
    }
    return best;
  }

  std::vector<Kernel> supporting_of(const Snapshot& view, const std::vector<Indexed>& candidates,
                                    const GemmProblemData& problem) const {
    std::vector<Kernel> out;
    for (const Indexed& candidate : candidates) {
      if (usable(candidate, problem)) out.push_back(view.entries[candidate.entry].kernel);
    }
    return out;
  }

  Kernel ask(const GemmProblemData& problem, const std::vector<Kernel>& supporting) const {
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

  Candidate examine(Kernel kernel, const GemmProblemData& problem, const Launch& launch) const {
    Refusal refusal{};
    Candidate out{kernel, false, Reason::none, "", 0, -1};
    if (!detail::same_signature(kernel.gemm_key(), problem, &refusal)) {
    } else if (rank_of(kernel.arch()) == kNotHere) {
      refuse(&refusal, Reason::arch, "was built for %s, which this machine cannot run",
             to_name(kernel.arch()));
    } else if (kernel.table()->supports(&problem, &refusal)) {
      out.supported = true;
      out.cost = kernel.table()->cost(&problem, &launch);
      return out;
    }
    out.reason = refusal.reason;
    out.text = refusal.text;
    return out;
  }

  // In the registry's order, without ranks.
  std::vector<Candidate> explain_all(const Snapshot& view, const GemmProblemData& problem,
                                     const Launch& launch) const {
    std::vector<Candidate> out;
    out.reserve(view.entries.size());
    for (const detail::Entry& entry : view.entries) {
      out.push_back(examine(entry.kernel, problem, launch));
    }
    return out;
  }

  // Sorts the supporting candidates by preference to the front and numbers them.
  void rank(std::vector<Candidate>& all, const GemmProblemData& problem) const {
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
        const int x = rank_of(a.kernel.arch()), y = rank_of(b.kernel.arch());
        return x != y ? x < y : a.cost < b.cost;
      });
    }
    int place = 0;
    for (auto it = all.begin(); it != end; ++it) it->rank = place++;
  }

  static void launch_kernel(const ckdisp_kernel* kernel, std::uint64_t workspace_bytes,
                            const GemmProblemData& problem, const GemmArgs& args,
                            const Launch& launch) {
    void* workspace = detail::Workspace::of_thread().at_least(workspace_bytes);
    Refusal refusal{};
    bool done = false;
    auto run = [&] { done = kernel->run(&problem, &args, workspace, &launch, &refusal); };
    if (launch.num_threads == 1) {
      run();
    } else {
      detail::run_launch([](void* f) { (*static_cast<decltype(run)*>(f))(); }, &run);
    }
    if (!done) throw DeviceError(std::string(kernel->name) + " failed: " + refusal.text);
  }

  Registry registry;
  DispatcherOptions options;
  std::vector<Arch> arches;
  std::array<int, kArchCount> arch_rank;
  mutable detail::DecisionCache<GemmProblemData> cache;
};

Dispatcher::Dispatcher(Registry registry, DispatcherOptions options)
    : impl_(std::make_unique<Impl>(std::move(registry), std::move(options))) {}
Dispatcher::~Dispatcher() = default;
Dispatcher::Dispatcher(Dispatcher&&) noexcept = default;
Dispatcher& Dispatcher::operator=(Dispatcher&&) noexcept = default;

Kernel Dispatcher::select(const GemmProblemData& problem) const {
  return Kernel(impl_->decide(problem, impl_->complete({})).kernel);
}

std::vector<Candidate> Dispatcher::explain(const GemmProblemData& problem) const {
  validate(problem);
  const auto view = impl_->registry.snapshot();
  std::vector<Candidate> all = impl_->explain_all(*view, problem, impl_->complete({}));
  impl_->rank(all, problem);
  return all;
}

Plan Dispatcher::plan(const GemmProblemData& problem) const {
  const Decision decision = impl_->decide(problem, impl_->complete({}));
  return {{{Kernel(decision.kernel), 0, decision.workspace_bytes}}, decision.workspace_bytes};
}

bool Dispatcher::has_signature(const GemmProblemData& problem) const {
  const auto view = impl_->registry.snapshot();
  const std::vector<Indexed>* candidates = candidates_of(*view, problem);
  return candidates != nullptr &&
         std::any_of(candidates->begin(), candidates->end(), [&](const Indexed& candidate) {
           return impl_->rank_of(candidate.arch) != kNotHere;
         });
}

void Dispatcher::run(const GemmProblemData& problem, const GemmArgs& args, Launch launch) const {
  launch = impl_->complete(launch);
  const Decision decision = impl_->decide(problem, launch);
  validate(problem, args);
  Impl::launch_kernel(decision.kernel->table, decision.workspace_bytes, problem, args, launch);
}

void Dispatcher::run(std::string_view kernel_name, const GemmProblemData& problem,
                     const GemmArgs& args, Launch launch) const {
  launch = impl_->complete(launch);
  const std::optional<Kernel> kernel = impl_->registry.find(kernel_name);
  if (!kernel) throw detail::kernel_not_found(impl_->registry, kernel_name);
  validate(problem);
  validate(problem, args);
  const Candidate candidate = impl_->examine(*kernel, problem, launch);
  if (!candidate.supported) throw detail::unsupported(problem, {candidate});
  const std::uint64_t bytes = kernel->table()->workspace_size(&problem, &launch);
  Impl::launch_kernel(kernel->table(), bytes, problem, args, launch);
}

const Registry& Dispatcher::registry() const { return impl_->registry; }
int Dispatcher::num_threads() const { return impl_->options.num_threads; }
const std::vector<Arch>& Dispatcher::arches() const { return impl_->arches; }

}  // namespace ckdisp
