#include "fmha_call.hpp"

#include <iterator>
#include <string>

#include "cached.hpp"
#include "fmha_resolver.hpp"
#include "output.hpp"

namespace ckdisp::python {

Family fmha_family_from(std::string_view name) {
  constexpr const char* kNames[] = {
      "fwd",           "splitkv",      "splitkv_combine", "pagedkv",        "appendkv",
      "batch_prefill", "bwd_dot_do_o", "bwd_dq_dk_dv",    "bwd_convert_dq", "bwd"};
  const std::string_view prefix = "fmha.";
  if (name.substr(0, prefix.size()) == prefix) name = name.substr(prefix.size());
  const std::size_t code = detail::parse_name(name, kNames, std::size(kNames), "family");
  if (code == std::size(kNames) - 1) return Family::fmha_bwd_dq_dk_dv;
  return static_cast<Family>(static_cast<std::size_t>(Family::fmha_fwd) + code);
}

// `mask` names the diagonal, `window` the keys on each side of it that are seen; a mask without a
// window is the triangle below it, and a window without a mask lies at the bottom right.
void set_mask(FmhaProblem& builder, const FmhaOptions& options) {
  constexpr const char* kNames[] = {"no", "top_left", "bottom_right"};
  const auto mask = one_of(options, "mask", kNames, FmhaMask::no);
  if (const auto window = options.pair("window")) {
    builder.window(window->first, window->second,
                   mask == FmhaMask::no ? FmhaMask::bottom_right : mask);
  } else {
    builder.mask(mask);
  }
  builder.sink(options.integer("sink", 0));
}

void FmhaCall::point_scales() {
  if (problem.qscale == FmhaQscale::no) return;
  const float** const places[] = {&args.q_scale, &args.k_scale, &args.v_scale};
  for (int i = 0; i < 3; ++i) {
    if (*places[i] != nullptr) continue;
    if (launch.device >= 0) {
      throw InvalidArgument(
          "scales of tensors on a device must lie there too; pass q_scale, k_scale and v_scale as "
          "tensors of one number");
    }
    *places[i] = &scales[i];
  }
}

FmhaCall resolve_fmha(Family family, const FmhaOptions& options, const CallStream& stream) {
  return family == Family::fmha_appendkv ? resolve_append(options, stream)
                                         : resolve_attend(family, options, stream);
}

nb::object finish_results(const FmhaCall& call) {
  nb::list all;
  for (const FmhaCall::Result& result : call.results) {
    const nb::object made =
        result.is_made ? finish_output(call.first, result.object) : result.object;
    all.append(result.is_bytes ? cached().as_bytes(made) : made);
  }
  if (nb::len(all) == 0) return nb::none();
  return nb::len(all) == 1 ? nb::object(all[0]) : nb::tuple(all);
}

}  // namespace ckdisp::python
