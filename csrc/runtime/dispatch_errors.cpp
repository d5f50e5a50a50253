#include "dispatch_errors.hpp"

#include <ckdisp/names.hpp>

#include <set>
#include <string>
#include <utility>

#include "devices.hpp"
#include "fmha_family.hpp"
#include "snapshot.hpp"
#include "target.hpp"

namespace ckdisp::detail {
namespace {

constexpr std::size_t kMaxListed = 8;

// The shell command that builds kernels of `family`, and what to do with the result.
class BuildCommand {
 public:
  BuildCommand(const char* family, Arch arch)
      : text_(std::string("ckdisp generate ") + family + " --arch " + to_name(arch)) {}
  void where(const char* field, const std::string& value) {
    text_ += std::string(" --where ") + field + "=" + value;
  }
  std::string text() const {
    return text_ +
           " --out kernels && ckdisp build kernels; then add kernels/libckdisp_kernels.so to the "
           "registry (in Python, KernelSet.sweep(...).build() and Registry.merge() do both)";
  }

 private:
  std::string text_;
};

std::string build_command(const GemmProblemData& p, Arch arch) {
  const bool plain = p.elementwise == Elementwise::passthrough && p.num_d == 0;
  BuildCommand command(plain ? "gemm.standard" : "gemm.multi_d", arch);
  command.where("dtype_a", to_name(p.dtype_a));
  command.where("dtype_b", to_name(p.dtype_b));
  command.where("dtype_c", to_name(p.dtype_c));
  command.where("layout", to_name(p.layout));
  if (!plain) {
    command.where("elementwise", to_name(p.elementwise));
    command.where("num_d", std::to_string(p.num_d));
  }
  if (p.num_d > 0) {
    command.where("dtype_d", to_name(p.dtype_d));
    command.where("layout_d", to_name(p.layout_d));
  }
  return command.text();
}

std::string build_command(const ConvProblemData& p, Arch arch) {
  BuildCommand command(to_name(p.family), arch);
  command.where("dtype_in", to_name(p.dtype_in));
  command.where("dtype_wei", to_name(p.dtype_wei));
  command.where("dtype_out", to_name(p.dtype_out));
  command.where("layout", to_name(p.layout));
  return command.text();
}

// A kernel of a CPU takes every choice that it can, one of a GPU exactly these.
std::string build_command(const FmhaProblemData& p, Arch arch) {
  BuildCommand command(to_name(p.family), arch);
  command.where("dtype", to_name(p.dtype));
  if (!is_gpu(arch)) return command.text();
  const unsigned compares = fmha_family(p.family).compares;
  const auto flag = [](bool on) { return on ? "true" : "false"; };
  command.where("hdim_q", std::to_string(p.hdim_q));
  command.where("hdim_v", std::to_string(p.hdim_v));
  command.where("mode", to_name(p.mode));
  if ((compares & kFmhaMask) != 0) command.where("mask", to_name(p.mask));
  if ((compares & kFmhaBias) != 0) command.where("bias", to_name(p.bias_kind));
  if ((compares & kFmhaLse) != 0) command.where("lse", flag(p.lse_out));
  if ((compares & kFmhaDropout) != 0) command.where("dropout", flag(p.dropout));
  if ((compares & kFmhaSoftCap) != 0) command.where("logits", flag(p.logits));
  return command.text();
}

// The element types of the two tensors that are multiplied.
std::pair<Dtype, Dtype> factors(const GemmProblemData& p) { return {p.dtype_a, p.dtype_b}; }
std::pair<Dtype, Dtype> factors(const ConvProblemData& p) {
  switch (p.family) {
    case Family::conv_bwd_data:
      return {p.dtype_out, p.dtype_wei};
    case Family::conv_bwd_weight:
      return {p.dtype_out, p.dtype_in};
    default:
      return {p.dtype_in, p.dtype_wei};
  }
}

std::pair<Dtype, Dtype> factors(const FmhaProblemData& p) {
  return {input_type(p.dtype), input_type(p.dtype)};
}

bool is_eight_bit_float(Dtype dtype) { return dtype == Dtype::fp8 || dtype == Dtype::bf8; }

// Whether kernels for the pair of input types can be built at all.
bool can_multiply(Dtype a, Dtype b) {
  return a == b || (is_eight_bit_float(a) && is_eight_bit_float(b));
}

// A kernel for the same element types, in the words of a near miss; empty for other types.
std::string near_miss(const GemmKey& key, const GemmProblemData& problem) {
  if (key.dtype_a != problem.dtype_a || key.dtype_b != problem.dtype_b) return "";
  return std::string(to_name(key.layout)) + " " + to_name(key.elementwise) +
         " d=" + std::to_string(key.num_d) + " -> " + to_name(key.dtype_c);
}

std::string near_miss(const ConvKey& key, const ConvProblemData& problem) {
  if (key.dtype_in != problem.dtype_in || key.dtype_wei != problem.dtype_wei) return "";
  return std::string(to_name(key.family)) + " " + to_name(key.layout) + " -> " +
         to_name(key.dtype_out);
}

// Of kernels of the same family and type, how they differ.
std::string near_miss(const FmhaKey& key, const FmhaProblemData& problem) {
  if (key.family != problem.family || key.dtype != problem.dtype) return "";
  Refusal refusal{};
  if (same_signature(key, problem, &refusal)) return "";
  return std::string("one that ") + refusal.text;
}

// What the registry has for the same element types, so that a wrong layout shows at once.
template <class Problem>
std::string near_misses(const Registry& registry, const Problem& problem) {
  std::set<std::string> found;
  const auto view = registry.snapshot();
  for (const Entry& entry : view->entries) {
    if (entry.kernel.op() != OpOf<Problem>::op) continue;
    const auto* key = static_cast<const typename OpOf<Problem>::Key*>(entry.kernel.table()->key);
    found.insert(near_miss(*key, problem));
  }
  found.erase("");
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

template <class Problem>
KernelNotFound kernel_not_found(const Registry& registry, const Problem& problem,
                                const std::vector<Arch>& arches) {
  const auto [a, b] = factors(problem);
  const std::string remedy = can_multiply(a, b)
                                 ? "Build one: " + build_command(problem, arches.front())
                                 : std::string("No kernel multiplies ") + to_name(a) + " by " +
                                       to_name(b) + ": convert one to the type of the other";
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

template <class Problem>
UnsupportedProblem unsupported(const Problem& problem, const std::vector<Candidate>& candidates) {
  std::string text = "no kernel supports " + to_string(problem) + ":";
  std::size_t refused = 0;
  for (const Candidate& candidate : candidates) {
    Refusal other{};
    const bool related =
        candidates.size() == 1 || same_signature(candidate.kernel, problem, &other);
    if (!related || ++refused > kMaxListed) continue;
    text += std::string("\n  ") + candidate.kernel.name() + ": [" + to_name(candidate.reason) +
            "] " + candidate.text;
  }
  if (refused > kMaxListed) {
    text += "\n  and " + std::to_string(refused - kMaxListed) + " more; see explain()";
  }
  return UnsupportedProblem(text);
}

template <class Problem>
DeviceError needs_device(const Problem& problem, const std::vector<Candidate>& candidates) {
  std::set<std::string> arches;
  std::set<DeviceKind> kinds;
  for (const Candidate& candidate : candidates) {
    if (candidate.reason != Reason::device) continue;
    arches.insert(candidate.kernel.table()->arch);
    kinds.insert(device_kind(candidate.kernel.arch()));
  }
  std::string where;
  for (const std::string& arch : arches) where += (where.empty() ? "" : " and ") + arch;
  const DeviceList here = device_list({kinds.begin(), kinds.end()});
  return DeviceError("the kernels for " + to_string(problem) + " run on " + where +
                     " devices, and the call is for the CPU; " +
                     (here.devices.empty() ? "there is no device here: " + here.why
                                           : "move the data to a device (" + listing(here.devices) +
                                                 "), or build a kernel for the CPU"));
}

#define CKDISP_ERRORS_OF(Problem)                                                         \
  template KernelNotFound kernel_not_found(const Registry&, const Problem&,               \
                                           const std::vector<Arch>&);                     \
  template UnsupportedProblem unsupported(const Problem&, const std::vector<Candidate>&); \
  template DeviceError needs_device(const Problem&, const std::vector<Candidate>&);

CKDISP_ERRORS_OF(GemmProblemData)
CKDISP_ERRORS_OF(ConvProblemData)
CKDISP_ERRORS_OF(FmhaProblemData)
#undef CKDISP_ERRORS_OF

}  // namespace ckdisp::detail
