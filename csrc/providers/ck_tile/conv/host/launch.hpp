// Launching a grouped convolution on the caller's stream, with what comes before and after it.
#pragma once

#include "../../host/calls.hpp"
#include "support.hpp"

namespace ckdisp::tile {

template <ConvUnit Key>
struct Launcher<Key> {
  using Problem = ConvProblemData;
  using Data = ConvArgs;
  static constexpr Op op = Op::conv;
  static constexpr const ConvKey& key = Key::key;
  using Loop = MainLoop<Key>;
  using Arguments = ConvArguments<Key>;
  using C = typename EpilogueOf<Key, false>::C;
  static constexpr bool prepares = Loop::is_bwd_data || key.split_k, converts = key.two_stage;

  static std::uint64_t workspace_size(const ConvProblemData& p) {
    return key.two_stage ? static_cast<std::uint64_t>(ConvSizes(p).wei) * sizeof(C) : 0;
  }

  static bool run(const ConvProblemData& p, const ConvArgs& data, void* workspace,
                  const Launch& launch, Refusal* refusal) {
    if (p.n == 0) return true;
    if (!pointers_fit(data, workspace, refusal)) return false;
    const hip::Api* const api = usable(launch, refusal);
    if (api == nullptr) return false;
    ConvArgs used = data;
    if (key.two_stage) used.result = workspace;
    return Reach<Key>::each_part(
        p, [&](const ConvPart& part) { return run_part(*api, part, used, launch, refusal); });
  }

  // Parts of a sum add to the weights. Of a data gradient, pixels that no tap reaches stay as they
  // are; with a stride of 1 there are none.
  static bool needs_prepare(const ConvProblemData& p) {
    if (p.n == 0) return false;
    if constexpr (Loop::is_bwd_data) {
      return p.stride[0] != 1 || p.stride[1] != 1 || p.stride[2] != 1;
    } else {
      return p.k_batch > 1;
    }
  }

  static bool prepare(const ConvProblemData& p, const ConvArgs& data, void* workspace,
                      const Launch& launch, Refusal* refusal) {
    if (!needs_prepare(p)) return true;
    if (!pointers_fit(data, workspace, refusal)) return false;
    const hip::Api* const api = usable(launch, refusal);
    if (api == nullptr) return false;
    const ConvSizes s(p);
    const std::int64_t count = Loop::is_bwd_data ? p.n * s.in_image : s.wei;
    const int error = api->MemsetAsync(key.two_stage ? workspace : data.result, 0,
                                       static_cast<std::size_t>(count) * sizeof(C), launch.stream);
    return error == hip::kSuccess ||
           failed(*api, refusal, "zeroing the result (hipMemsetAsync)", error);
  }

  static bool needs_convert(const ConvProblemData& p) { return key.two_stage && p.n > 0; }

  static bool convert(const ConvProblemData& p, const ConvArgs& data, void* workspace,
                      const Launch& launch, Refusal* refusal) {
    using Stage = Convert<Key>;
    const hip::Api* const api = usable(launch, refusal);
    if (api == nullptr) return false;
    if (!pointers_fit(data, workspace, refusal)) return false;
    void* const function =
        Functions<Key>::find(*api, &convert_functions[launch.device], launch.device, refusal,
                             [] { return convert_name(CodeOf<Key>::value.key); });
    if (function == nullptr) return false;
    const std::int64_t count = ConvSizes(p).wei;
    const typename Stage::Args args{static_cast<const typename Stage::From*>(workspace),
                                    static_cast<typename Stage::To*>(data.result), count};
    const auto blocks = static_cast<unsigned>(ceil_div(count, Stage::block_elements));
    return start(*api, function, {blocks, 1, 1}, Stage::block_size, args, launch.stream, refusal);
  }

 private:
  static bool run_part(const hip::Api& api, const ConvPart& part, ConvArgs data,
                       const Launch& launch, Refusal* refusal) {
    if constexpr (key.split_image) {
      data.in = static_cast<const typename Loop::In*>(data.in) + part.in;
      data.result = static_cast<C*>(data.result) + part.out;
    }
    return ConvLaunches<Key>::each(
        Arguments::make(part.problem, part.images, data),
        [&](const auto& args, const Variant& variant) {
          const std::size_t index = Variants<Key>::find(variant);
          if (index == Variants<Key>::count) {
            return refuse(refusal, Reason::failed, "no variant of the kernel has the loop tail");
          }
          void* const function = Functions<Key>::of_variant(api, index, launch.device, refusal);
          if (function == nullptr) return false;
          const dim3 grid = Arguments::Ck::GridSize(args);
          // They are the kernel's only ones; of a data gradient they are large.
          static_assert(sizeof args == sizeof(typename Kernel<Key>::Args));
          return start(api, function, {grid.x, grid.y, grid.z}, Kernel<Key>::block_size, args,
                       launch.stream, refusal);
        });
  }

  static inline constinit void* convert_functions[kMaxDevices] = {};

  // Every stage asks first, so that none has written when a later one refuses.
  static bool pointers_fit(const ConvArgs& data, const void* workspace, Refusal* refusal) {
    constexpr std::size_t a = key.vector[0] * sizeof(typename Loop::A),
                          b = key.vector[1] * sizeof(typename Loop::B),
                          c = key.vector[2] * sizeof(C);
    if (!pointer_fits(Loop::is_fwd ? "the input" : "the output", Loop::is_fwd ? data.in : data.out,
                      a, refusal) ||
        !pointer_fits(Loop::is_bwd_weight ? "the input" : "the weights",
                      Loop::is_bwd_weight ? data.in : data.wei, b, refusal)) {
      return false;
    }
    if constexpr (key.two_stage) {
      using Stage = Convert<Key>;
      return pointer_fits("the workspace", workspace, c, refusal) &&
             pointer_fits("the result", data.result, sizeof(typename Stage::To) * Stage::width,
                          refusal);
    } else {
      return pointer_fits("the result", data.result, c, refusal);
    }
  }
};

}  // namespace ckdisp::tile
