// Which problems a kernel takes, how long it takes, and its launch on the caller's stream.
#pragma once

#include "../host/cuda_words.hpp"

#include "../host/cudart.hpp"
#include "../host/module.hpp"
#include "../host/table.hpp"
#include "cost.hpp"
#include "tma_kernel.hpp"
#include "unaligned_kernel.hpp"

namespace ckdisp::sm90 {

// One matrix of a problem: `lines` of `line` elements, `ld` apart.
struct Matrix {
  const char* name;
  std::int64_t lines, line, ld;
  std::size_t size;  // bytes of an element
};

struct Matrices {
  Matrix a, b, c;
};

template <class Key>
Matrices matrices_of(const GemmProblemData& p) {
  constexpr bool rows_a = a_is_row(Key::key.layout), rows_b = b_is_row(Key::key.layout);
  return {{"A", rows_a ? p.m : p.k, rows_a ? p.k : p.m, p.lda, sizeof(Element<Key::key.dtype_a>)},
          {"B", rows_b ? p.k : p.n, rows_b ? p.n : p.k, p.ldb, sizeof(Element<Key::key.dtype_b>)},
          {"C", p.m, p.n, p.ldc, sizeof(Element<Key::key.dtype_c>)}};
}

template <class Key>
struct Launcher {
  static constexpr GemmKey key = Key::key;
  using K = Kernel<Key>;

  static bool supports(const GemmProblemData& p, Refusal* refusal) {
    if (!has_types_of(key, p, refusal) || !has_operation_of(key, p, refusal)) return false;
    if (p.shuffled_b != 0) {
      return refuse(refusal, Reason::layout, "B is in the order of a preshuffle kernel");
    }
    if (p.k_batch != 1) {
      return refuse(refusal, Reason::split_k, "K is to be split in %d parts, the kernel has one",
                    static_cast<int>(p.k_batch));
    }
    constexpr std::int64_t most = 0x7fffffff;
    if (p.m > most || p.n > most || p.k > most) {
      return refuse(refusal, Reason::shape,
                    "M %lld, N %lld, K %lld: a size is more than the 2^31 - 1 of the kernel",
                    static_cast<long long>(p.m), static_cast<long long>(p.n),
                    static_cast<long long>(p.k));
    }
    const std::int64_t tiles = ceil_div(p.m, key.tile[0]) * ceil_div(p.n, key.tile[1]);
    if (tiles > most / 2) {
      return refuse(refusal, Reason::shape, "C has %lld tiles, more than one launch can hold",
                    static_cast<long long>(tiles));
    }
    if constexpr (uses_tma<Key>) {
      if (p.k == 0 && p.m > 0 && p.n > 0) {
        return refuse(refusal, Reason::shape, "K is 0, and the kernel loads at least one tile");
      }
      const Matrices all = matrices_of<Key>(p);
      return fits_tma(all.a, refusal) && fits_tma(all.b, refusal) && fits_tma(all.c, refusal);
    }
    return true;
  }

  static double seconds(const GemmProblemData& p) { return Cost<Key>::seconds(p); }

  static bool run(const GemmProblemData& p, const GemmArgs& data, const Launch& launch,
                  Refusal* refusal) {
    if (p.m == 0 || p.n == 0) return true;
    if constexpr (uses_tma<Key>) {
      if (!pointer_fits("A", data.a, refusal) || !pointer_fits("B", data.b, refusal) ||
          !pointer_fits("C", data.c, refusal)) {
        return false;
      }
    }
    const cuda::Api* const api = usable(launch, refusal);
    if (api == nullptr) return false;
    const Place* const place = place_on(*api, index_of_device(launch.device), refusal);
    if (place == nullptr) return false;
    alignas(64) unsigned char storage[sizeof(typename K::Params)];
    cuda::LaunchConfig config{
        {1, 1, 1}, {K::threads, 1, 1}, K::shared_bytes, launch.stream, nullptr, 0};
    auto* const params = make_params(storage, p, data, *place, config.grid);
    cuda::LaunchAttribute cluster = cluster_attribute();
    config.attributes = &cluster;
    config.attribute_count = K::blocks_per_cluster > 1 ? 1 : 0;
    void* parameters[] = {params};
    const int error = api->LaunchKernelEx(&config, place->function, parameters, nullptr);
    return error == cuda::kSuccess ||
           failed(*api, refusal, "launching the kernel (cuLaunchKernelEx)", error);
  }

 private:
  // What is known of a device once the kernel was loaded there.
  struct Place {
    void* function;
    int multiprocessors, clusters;
  };
  static inline constinit Place* places[kMaxDevices] = {};

  static cuda::LaunchAttribute cluster_attribute() {
    cuda::LaunchAttribute out{};
    if constexpr (uses_tma<Key>) {
      out.id = cuda::kLaunchClusterDimension;
      out.value[0] = static_cast<unsigned>(key.wave[K::first]);
      out.value[1] = static_cast<unsigned>(key.wave[K::second]);
      out.value[2] = 1;
    }
    return out;
  }

  // Kept for good, like the module.
  static const Place* place_on(const cuda::Api& api, int index, Refusal* refusal) {
    if (Place* const known = __atomic_load_n(&places[index], __ATOMIC_ACQUIRE)) return known;
    void* const function = load(api, CodeOf<Key>::value, index, K::shared_bytes, refusal);
    if (function == nullptr) return nullptr;
    Place place{function, 0, 0};
    if (const int error = api.DeviceGetAttribute(&place.multiprocessors,
                                                 cuda::kAttributeMultiprocessorCount, index);
        error != cuda::kSuccess) {
      failed(api, refusal, "counting multiprocessors (cuDeviceGetAttribute)", error);
      return nullptr;
    }
    place.clusters = place.multiprocessors / K::blocks_per_cluster;
    if (K::blocks_per_cluster > 1) {
      cuda::LaunchAttribute cluster = cluster_attribute();
      const cuda::LaunchConfig config{
          {static_cast<unsigned>(place.multiprocessors) * K::blocks_per_cluster,
           K::blocks_per_cluster, 1},
          {K::threads, 1, 1},
          K::shared_bytes,
          nullptr,
          &cluster,
          1};
      if (const int error = api.OccupancyMaxActiveClusters(&place.clusters, function, &config);
          error != cuda::kSuccess) {
        failed(api, refusal, "counting clusters (cuOccupancyMaxActiveClusters)", error);
        return nullptr;
      }
    }
    auto* made = new Place(place);
    Place* other = nullptr;
    if (!__atomic_compare_exchange_n(&places[index], &other, made, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      delete made;
      return other;
    }
    return made;
  }

  // What TMA and CUTLASS ask of a matrix: lines of whole 16 bytes that begin at multiples of 16
  // bytes. A matrix of one line has no distance between them.
  static bool fits_tma(const Matrix& x, Refusal* refusal) {
    const auto step = static_cast<std::int64_t>(kTmaBytes / x.size);
    if (x.line % step != 0) {
      return refuse(refusal, Reason::alignment,
                    "the lines of %s have %lld elements, not a multiple of %d, which TMA needs",
                    x.name, static_cast<long long>(x.line), static_cast<int>(step));
    }
    if (x.lines > 1 && x.ld % step != 0) {
      return refuse(refusal, Reason::alignment,
                    "the leading dimension of %s is %lld, not a multiple of %d, which TMA needs",
                    x.name, static_cast<long long>(x.ld), static_cast<int>(step));
    }
    constexpr std::int64_t longest = std::int64_t{1} << 40;
    if (x.lines > 1 && x.ld >= longest / static_cast<std::int64_t>(x.size)) {
      return refuse(refusal, Reason::shape,
                    "the leading dimension of %s is %lld, more than the 2^40 bytes of TMA", x.name,
                    static_cast<long long>(x.ld));
    }
    return true;
  }

  static bool pointer_fits(const char* name, const void* pointer, Refusal* refusal) {
    if (pointer != nullptr && reinterpret_cast<std::uintptr_t>(pointer) % kTmaBytes == 0) {
      return true;
    }
    return refuse(refusal, Reason::alignment,
                  "%s is at %p, the kernel needs a multiple of %d that is not 0", name, pointer,
                  kTmaBytes);
  }

  // The distance of lines; of a single one any that TMA takes.
  static std::int64_t line_distance(const Matrix& x) { return x.lines > 1 ? x.ld : x.line; }

  template <bool rows, class Stride>
  static void set_ld(Stride& stride, std::int64_t ld) {
    cute::get<rows ? 0 : 1>(stride) = ld;
  }

  static void* make_params(unsigned char* storage, const GemmProblemData& p, const GemmArgs& data,
                           const Place& place, unsigned (&grid)[3]) {
    const Matrices all = matrices_of<Key>(p);
    const auto m = static_cast<int>(p.m), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
    if constexpr (!uses_tma<Key>) {
      constexpr bool rows_a = a_is_row(key.layout), rows_b = b_is_row(key.layout);
      grid[0] = static_cast<unsigned>(ceil_div(p.m, key.tile[0]) * ceil_div(p.n, key.tile[1]));
      return new (storage) UnalignedParams{data.a,
                                           data.b,
                                           data.c,
                                           rows_a ? p.lda : 1,
                                           rows_a ? 1 : p.lda,
                                           rows_b ? p.ldb : 1,
                                           rows_b ? 1 : p.ldb,
                                           p.ldc,
                                           m,
                                           n,
                                           k,
                                           data.scale};
    } else {
      using Gemm = typename K::Gemm;
      const Matrix &left = K::exchanged ? all.b : all.a, &right = K::exchanged ? all.a : all.b;
      typename Gemm::Arguments args{};
      args.mode = ::cutlass::gemm::GemmUniversalMode::kGemm;
      args.problem_shape = {K::exchanged ? n : m, K::exchanged ? m : n, k, 1};
      args.mainloop.ptr_A = static_cast<const typename K::A*>(K::exchanged ? data.b : data.a);
      args.mainloop.ptr_B = static_cast<const typename K::B*>(K::exchanged ? data.a : data.b);
      set_ld<K::rows_a>(args.mainloop.dA, line_distance(left));
      set_ld<!K::rows_b>(args.mainloop.dB, line_distance(right));
      args.epilogue.ptr_D = static_cast<typename K::C*>(data.c);
      set_ld<!K::exchanged>(args.epilogue.dD, line_distance(all.c));
      args.epilogue.thread.alpha = data.scale;
      args.hw_info.sm_count = place.multiprocessors;
      args.hw_info.max_active_clusters = place.clusters;
      const Walk walk = walk_of(p.m, p.n);
      using Order = std::remove_cvref_t<decltype(args.scheduler.raster_order)>;
      args.scheduler.raster_order = walk.along_m != K::exchanged ? Order::AlongM : Order::AlongN;
      args.scheduler.max_swizzle_size = walk.swizzle;
      auto* params = new (storage) typename K::Params(Gemm::to_underlying_arguments(args, nullptr));
      const dim3 shape = Gemm::get_grid_shape(*params);
      grid[0] = shape.x, grid[1] = shape.y, grid[2] = shape.z;
      return params;
    }
  }
};

}  // namespace ckdisp::sm90
