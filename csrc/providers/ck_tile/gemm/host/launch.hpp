// Launching the right variant of a GEMM kernel on the caller's stream.
#pragma once

#include "../../host/calls.hpp"
#include "support.hpp"

namespace ckdisp::tile {

template <GemmUnit Key>
struct Launcher<Key> {
  using Problem = GemmProblemData;
  using Data = GemmArgs;
  static constexpr Op op = Op::gemm;
  static constexpr bool prepares = Key::key.split_k, converts = false;
  static constexpr const GemmKey& key = Key::key;
  using Check = CkCheck<Key>;
  using Args = typename Kernel<Key>::Args;

  static std::uint64_t workspace_size(const GemmProblemData&) { return 0; }

  static bool run(const GemmProblemData& p, const GemmArgs& data, void*, const Launch& launch,
                  Refusal* refusal) {
    if (p.m == 0 || p.n == 0) return true;
    if (!takes(data, refusal)) return false;
    const hip::Api* const api = usable(launch, refusal);
    if (api == nullptr) return false;
    const Parts<Key> parts(p.k, p.k_batch);
    const std::size_t index = Variants<Key>::find(parts.variant(p.k_batch > 1));
    if (index == Variants<Key>::count) {
      return refuse(refusal, Reason::failed, "no variant of the kernel is for K %lld in %d part(s)",
                    static_cast<long long>(p.k), static_cast<int>(p.k_batch));
    }
    void* const function = Functions<Key>::of_variant(*api, index, launch.device, refusal);
    if (function == nullptr) return false;
    const Sizes s = Support<Key>::sizes_of(p);
    unsigned grid_x = 0;
    if (!blocks(*api, s, index, function, launch.device, &grid_x, refusal)) return false;
    const unsigned grid_z = key.persistent ? 1 : static_cast<unsigned>(s.k_batch);
    const Args args = arguments(s, data);
    return start(*api, function, {grid_x, 1, grid_z}, Kernel<Key>::block_size, args, launch.stream,
                 refusal);
  }

  // Parts of a split K add to C.
  static bool needs_prepare(const GemmProblemData& p) {
    return p.k_batch > 1 && p.m > 0 && p.n > 0;
  }

  static bool prepare(const GemmProblemData& p, const GemmArgs& data, void*, const Launch& launch,
                      Refusal* refusal) {
    if (!needs_prepare(p)) return true;
    if (!takes(data, refusal)) return false;  // what run() refuses must leave C as it is
    const hip::Api* const api = usable(launch, refusal);
    if (api == nullptr) return false;
    constexpr std::size_t size = sizeof(Element<key.dtype_c>);
    const auto rows = static_cast<std::size_t>(p.m);
    const std::size_t row = static_cast<std::size_t>(p.n) * size;
    const std::size_t pitch = static_cast<std::size_t>(p.ldc) * size;
    const int error = rows == 1 || pitch == row
                          ? api->MemsetAsync(data.c, 0, rows * row, launch.stream)
                          : api->Memset2DAsync(data.c, pitch, 0, row, rows, launch.stream);
    return error == hip::kSuccess || failed(*api, refusal, "zeroing C (hipMemsetAsync)", error);
  }

 private:
  // Blocks of a persistent variant that a device holds at once.
  static inline constinit int held_blocks[Variants<Key>::count][kMaxDevices] = {};

  static Args arguments(const Sizes& s, const GemmArgs& data) {
    if constexpr (Kernel<Key>::has_bounds) {
      return {Check::arguments(s, data), {data.clamp_min, data.clamp_max}};
    } else {
      return {Check::arguments(s, data)};
    }
  }

  static bool takes(const GemmArgs& data, Refusal* refusal) {
    if (data.scale != 1.0f) {
      return refuse(refusal, Reason::scale, "the scale is %g, a CK Tile GEMM has only 1",
                    static_cast<double>(data.scale));
    }
    return pointers_fit(data, refusal);
  }

  static bool pointers_fit(const GemmArgs& data, Refusal* refusal) {
    if (!pointer_fits("A", data.a, Check::vector_a * sizeof(Element<key.dtype_a>), refusal) ||
        !pointer_fits("B", data.b, Check::vector_b * sizeof(Element<key.dtype_b>), refusal) ||
        !pointer_fits("C", data.c, Check::vector_c * sizeof(Element<key.dtype_c>), refusal)) {
      return false;
    }
    for (int i = 0; i < key.num_d; ++i) {
      constexpr std::size_t bytes = Check::vector_d() * sizeof(Element<key.dtype_d>);
      if (!pointer_fits("D", data.d[i], bytes, refusal)) return false;
    }
    return true;
  }

  static bool blocks(const hip::Api& api, const Sizes& s, std::size_t index, void* function,
                     int device, unsigned* count, Refusal* refusal) {
    if constexpr (!key.persistent) {
      *count = static_cast<unsigned>(ceil_div(s.m, key.tile[0]) * ceil_div(s.n, key.tile[1]));
      return true;
    } else {
      int* const slot = &held_blocks[index][device];
      int held = __atomic_load_n(slot, __ATOMIC_RELAXED);
      if (held == 0) {
        int units = 0, each = 0;
        if (const int error =
                api.DeviceGetAttribute(&units, hip::kAttributeMultiprocessorCount, device);
            error != hip::kSuccess) {
          return failed(api, refusal, "counting compute units (hipDeviceGetAttribute)", error);
        }
        if (const int error = api.ModuleOccupancyMaxActiveBlocksPerMultiprocessor(
                &each, function, Kernel<Key>::block_size, 0);
            error != hip::kSuccess) {
          return failed(api, refusal,
                        "asking for the occupancy "
                        "(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor)",
                        error);
        }
        held = units * each;
        if (held <= 0) {
          return refuse(refusal, Reason::failed,
                        "%d compute units hold %d blocks each of this kernel: none would run",
                        units, each);
        }
        __atomic_store_n(slot, held, __ATOMIC_RELAXED);
      }
      *count = static_cast<unsigned>(held);
      return true;
    }
  }
};

}  // namespace ckdisp::tile
