#include "dispatch_errors.hpp"

#include <ckdisp/names.hpp>

#include <set>
#include <string>

#include "hip.hpp"
#include "snapshot.hpp"

namespace ckdisp::detail {
namespace {

constexpr std::size_t kMaxListed = 8;

// The shell command that builds a kernel for the problem, and what to do with the result.
std::string build_command(const GemmProblemData& p, Arch arch) {
  const bool plain = p.elementwise == Elementwise::passthrough && p.num_d == 0;
  std::string where = "dtype_a=";
  where += to_name(p.dtype_a);
  const auto append = [&](const char* field, const std::string& value) {
    where += std::string(" --where ") + field + "=" + value;
  };
  append("dtype_b", to_name(p.dtype_b));
  append("dtype_c", to_name(p.dtype_c));
  append("layout", to_name(p.layout));
  if (!plain) {
    append("elementwise", to_name(p.elementwise));
    append("num_d", std::to_string(p.num_d));
  }
  if (p.num_d > 0) {
    append("dtype_d", to_name(p.dtype_d));
    append("layout_d", to_name(p.layout_d));
  }
  return std::string("ckdisp generate ") + (plain ? "gemm.standard" : "gemm.multi_d") + " --arch " +
         to_name(arch) + " --where " + where +
         " --out kernels && ckdisp build kernels; then add kernels/libckdisp_kernels.so to the "
         "registry (in Python, KernelSet.sweep(...).build() and Registry.merge() do both)";
}

bool is_eight_bit_float(Dtype dtype) { return dtype == Dtype::fp8 || dtype == Dtype::bf8; }

// Whether kernels for the pair of input types can be built at all.
bool can_multiply(Dtype a, Dtype b) {
  return a == b || (is_eight_bit_float(a) && is_eight_bit_float(b));
}

// What the registry has for the same element types, so that a wrong layout shows at once.
std::string near_misses(const Registry& registry, const GemmProblemData& problem) {
  std::set<std::string> found;
  const auto view = registry.snapshot();
  for (const Entry& entry : view->entries) {
    const GemmKey& key = entry.kernel.gemm_key();
    if (key.dtype_a != problem.dtype_a || key.dtype_b != problem.dtype_b) continue;
    found.insert(std::string(to_name(key.layout)) + " " + to_name(key.elementwise) +
                 " d=" + std::to_string(key.num_d) + " -> " + to_name(key.dtype_c));
  }
  if (found.empty()) return "; it has none for these inputs";
  std::string text = "; for these inputs it has";
  std::size_t listed = 0;
  for (const std::string& item : found) {
    if (listed == kMaxListed) {
      return text + " and " + std::to_string(found.size() - listed) + " more";
    }
    text += (listed++ == 0 ? " " : ", ") + item;
  }
  return text;
}

}  // namespace

KernelNotFound kernel_not_found(const Registry& registry, const GemmProblemData& problem,
                                const std::vector<Arch>& arches) {
  const std::string remedy = can_multiply(problem.dtype_a, problem.dtype_b)
                                 ? "Build one: " + build_command(problem, arches.front())
                                 : std::string("No kernel multiplies ") + to_name(problem.dtype_a) +
                                       " by " + to_name(problem.dtype_b) +
                                       ": convert one to the type of the other";
  return KernelNotFound("registry '" + registry.name() + "' (" + std::to_string(registry.size()) +
                        " kernels) has no kernel for " + to_string(problem) +
                        near_misses(registry, problem) + ". " + remedy);
}

KernelNotFound kernel_not_found(const Registry& registry, std::string_view name) {
  std::vector<const char*> known;
  for (const Kernel kernel : registry.kernels()) known.push_back(kernel.name());
  return KernelNotFound("registry '" + registry.name() + "' (" + std::to_string(known.size()) +
                        " kernels) has no kernel named '" + std::string(name) + "'" +
                        suggest(name, known.data(), known.size()));
}

UnsupportedProblem unsupported(const GemmProblemData& problem,
                               const std::vector<Candidate>& candidates) {
  std::string text = "no kernel supports " + to_string(problem) + ":";
  std::size_t refused = 0;
  for (const Candidate& candidate : candidates) {
    Refusal other{};
    const bool related =
        candidates.size() == 1 || same_signature(candidate.kernel.gemm_key(), problem, &other);
    if (!related || ++refused > kMaxListed) continue;
    text += std::string("\n  ") + candidate.kernel.name() + ": [" + to_name(candidate.reason) +
            "] " + candidate.text;
  }
  if (refused > kMaxListed) {
    text += "\n  and " + std::to_string(refused - kMaxListed) + " more; see explain()";
  }
  return UnsupportedProblem(text);
}

DeviceError needs_device(const GemmProblemData& problem, const std::vector<Candidate>& candidates) {
  std::set<std::string> arches;
  for (const Candidate& candidate : candidates) {
    if (candidate.reason == Reason::device) arches.insert(candidate.kernel.table()->arch);
  }
  std::string where;
  for (const std::string& arch : arches) where += (where.empty() ? "" : " and ") + arch;
  const DeviceList here = device_list();
  return DeviceError("the kernels for " + to_string(problem) + " run on " + where +
                     " devices, and the call is for the CPU; " +
                     (here.devices.empty() ? "there is no device here: " + here.why
                                           : "move the data to a device (" + listing(here.devices) +
                                                 "), or build a kernel for the CPU"));
}

}  // namespace ckdisp::detail
