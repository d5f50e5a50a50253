// A kernel library of plain loops, for tests of everything around kernels: quick to compile, runs
// on every CPU, and tells which pointers and strides the last call got.
#include <ckdisp/abi.hpp>

#include <cstddef>
#include <cstdio>
#include <cstring>

using namespace ckdisp;

// Each library of tests is this file with some things changed by definitions. A library for a GPU
// holds the same loops, which read the memory of a pretended device.
#ifndef NAIVE_ARCH
#define NAIVE_ARCH generic
#endif
#ifndef NAIVE_ABI
#define NAIVE_ABI kAbiVersion
#endif
#ifndef NAIVE_SCHEMA
#define NAIVE_SCHEMA kSchemaHash
#endif
#ifndef NAIVE_MAGIC
#define NAIVE_MAGIC kAbiMagic
#endif

namespace {

GemmProblemData last_problem;
GemmArgs last_args;
Launch last_launch;

template <Dtype T>
struct Element;
template <>
struct Element<Dtype::fp32> {
  using type = float;
};
template <>
struct Element<Dtype::int8> {
  using type = signed char;
};
template <>
struct Element<Dtype::int32> {
  using type = int;
};

// bf16 and fp8 are only moved, never computed with: their kernels store zeros.
template <>
struct Element<Dtype::bf16> {
  using type = unsigned short;
};
template <>
struct Element<Dtype::fp16> {
  using type = unsigned short;
};
template <>
struct Element<Dtype::fp8> {
  using type = unsigned char;
};

template <Dtype In, Dtype Out, Layout L, Elementwise E, int NumD, Order OrderD>
struct Naive {
  static constexpr bool a_row = L == Layout::rcr || L == Layout::rrr;
  static constexpr bool b_row = L == Layout::rrr || L == Layout::crr;
  static constexpr bool integer = In == Dtype::int8;
  static constexpr GemmKey make_key() {
    GemmKey key{};
    key.family = E == Elementwise::passthrough ? Family::gemm_standard : Family::gemm_multi_d;
    key.arch = Arch::NAIVE_ARCH;
    key.dtype_a = key.dtype_b = In;
    key.dtype_c = key.dtype_d = Out;
    key.dtype_acc = integer ? Dtype::int32 : Dtype::fp32;
    key.layout = L;
    key.elementwise = E;
    key.num_d = NumD;
    key.layout_d = OrderD;
    for (int i = 0; i < 3; ++i) key.tile[i] = key.wave[i] = key.warp[i] = 1;
    key.pipeline = Pipeline::packed;
    key.pad_m = key.pad_n = key.pad_k = true;
    key.num_wave_groups = key.block_per_cu = 1;
    return key;
  }
  static constexpr GemmKey key = make_key();

  static bool supports(const void* data, Refusal* refusal) {
    const auto& p = *static_cast<const GemmProblemData*>(data);
    if (p.k_batch == 1) return true;
    return refuse(refusal, Reason::split_k, "cannot split K into %d parts", p.k_batch);
  }
  static double cost(const void*, const Launch*) { return 1; }
  static std::uint64_t workspace(const void*, const Launch*) { return 0; }

  static bool run(const void* data, const void* arguments, void*, const Launch* launch, Refusal*) {
    const auto& p = *static_cast<const GemmProblemData*>(data);
    const auto& args = *static_cast<const GemmArgs*>(arguments);
    last_problem = p;
    last_args = args;
    last_launch = *launch;
    using A = typename Element<In>::type;
    using C = typename Element<Out>::type;
    const A* a = static_cast<const A*>(args.a);
    const A* b = static_cast<const A*>(args.b);
    C* c = static_cast<C*>(args.c);
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < p.k; ++l) {
          sum += static_cast<double>(a[a_row ? i * p.lda + l : l * p.lda + i]) *
                 b[b_row ? l * p.ldb + j : j * p.ldb + l];
        }
        sum *= args.scale;
        for (int n = 0; n < NumD; ++n) {
          const C* d = static_cast<const C*>(args.d[n]);
          sum += d[OrderD == Order::r ? i * p.ldd[n] + j : j * p.ldd[n] + i];
        }
        if (E == Elementwise::clamp) {
          if (sum < args.clamp_min) sum = args.clamp_min;
          if (sum > args.clamp_max) sum = args.clamp_max;
        }
        c[i * p.ldc + j] = In == Dtype::fp32 || integer ? static_cast<C>(sum) : C{};
      }
    }
    return true;
  }
};

constexpr int kCapacity = 64;
char names[kCapacity][96];
ckdisp_kernel kernels[kCapacity];
const ckdisp_kernel* pointers[kCapacity];
ckdisp_library library;

template <Dtype In, Dtype Out, Layout L, Elementwise E, int NumD, Order OrderD>
void add() {
  using K = Naive<In, Out, L, E, NumD, OrderD>;
  const auto i = library.kernel_count++;
  const auto name = [](auto value) {
    return EnumNames<decltype(value)>::values[static_cast<std::size_t>(value)];
  };
  std::snprintf(names[i], sizeof names[i], "naive_%s_%s_%s_%s_d%d%s", name(In), name(Out), name(L),
                name(E), NumD, NumD > 0 ? name(OrderD) : "");
  kernels[i] = {
      sizeof(ckdisp_kernel), Op::gemm,    names[i], name(Arch::NAIVE_ARCH), "cpu", &K::key,
      sizeof(GemmKey),       K::supports, K::cost,  K::workspace,           K::run};
  pointers[i] = &kernels[i];
}

template <Dtype In, Dtype Out, Layout L>
void add_plain() {
  add<In, Out, L, Elementwise::passthrough, 0, Order::r>();
}

template <Order OrderD>
void add_fused() {
  constexpr auto f = Dtype::fp32;
  add<f, f, Layout::rrr, Elementwise::add, 1, OrderD>();
  add<f, f, Layout::rrr, Elementwise::multi_d_add, 2, OrderD>();
  add<f, f, Layout::rrr, Elementwise::clamp, 1, OrderD>();
}

void fill() {
  add_plain<Dtype::fp32, Dtype::fp32, Layout::rcr>();
  add_plain<Dtype::fp32, Dtype::fp32, Layout::rrr>();
  add_plain<Dtype::fp32, Dtype::fp32, Layout::crr>();
  add_plain<Dtype::fp32, Dtype::fp32, Layout::ccr>();
  add_plain<Dtype::int8, Dtype::int32, Layout::rrr>();
  add_plain<Dtype::int8, Dtype::int32, Layout::rcr>();
  add_plain<Dtype::bf16, Dtype::bf16, Layout::rrr>();
  add_plain<Dtype::fp8, Dtype::fp16, Layout::rrr>();
  add<Dtype::fp32, Dtype::fp32, Layout::rrr, Elementwise::clamp, 0, Order::r>();
  add_fused<Order::r>();
  add<Dtype::fp32, Dtype::fp32, Layout::rrr, Elementwise::add, 1, Order::c>();
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const ckdisp_library* ckdisp_kernel_library() {
  if (library.magic == 0) {
    fill();
    library.magic = NAIVE_MAGIC;
    library.abi_version = NAIVE_ABI;
    library.size = sizeof library;
    library.schema_hash = NAIVE_SCHEMA;
    library.kernels = pointers;
    library.name = "naive";
    library.build_info = "{\"made\": \"by hand\"}";
  }
  return &library;
}

// What the last call got: data of A, B, C, D0, then lda, ldb, ldc, ldd0 and the launch.
__attribute__((visibility("default"))) void naive_last_call(std::int64_t* out) {
  const auto address = [](const void* p) { return reinterpret_cast<std::intptr_t>(p); };
  const std::int64_t values[] = {address(last_args.a),    address(last_args.b),
                                 address(last_args.c),    address(last_args.d[0]),
                                 last_problem.lda,        last_problem.ldb,
                                 last_problem.ldc,        last_problem.ldd[0],
                                 last_launch.num_threads, static_cast<int>(last_problem.layout),
                                 last_launch.device,      address(last_launch.stream)};
  std::memcpy(out, values, sizeof values);
}

}  // extern "C"
