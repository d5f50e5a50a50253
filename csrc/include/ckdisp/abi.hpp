// The binary interface between a kernel library and the runtime: plain structs and C functions, so
// that a library built by one compiler loads into a runtime built by another.
//
// A kernel library exports one function, ckdisp_kernel_library(), that returns a table. Nothing
// runs when the library is loaded. C++17.
#pragma once

#include <cstdint>
#include <cstdio>
#include <limits>

#include <ckdisp/device_kind.hpp>
#include <ckdisp/fmha_abi.hpp>
#include <ckdisp/generated/enums.hpp>
#include <ckdisp/generated/keys.hpp>

namespace ckdisp {

inline constexpr std::uint32_t kAbiMagic = 0x434b4430u;  // "CKD0"
inline constexpr std::uint32_t kAbiVersion = 5;

enum class Op : std::uint32_t { gemm = 0, conv = 1, fmha = 2 };

inline constexpr int kMaxD = 4;

// What one GEMM call computes: C = elementwise(scale * A x B, D...). No pointers. Leading
// dimensions are in elements: the distance between two rows of a row-major matrix, or two columns
// of a column-major one. A D with leading dimension 0 is one row (order r) or one column (order c)
// used for all of C.
struct GemmProblemData {
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc;
  std::int64_t ldd[kMaxD];
  std::int32_t k_batch;  // parts into which K is split; 1 is no split, 0 the kernel's choice
  Dtype dtype_a, dtype_b, dtype_c, dtype_acc, dtype_d;
  Layout layout;
  Order layout_d;
  Elementwise elementwise;
  std::uint8_t num_d;
  std::uint8_t shuffled_b;   // 1: B is in the order that a preshuffle kernel reads, not in `layout`
  std::uint8_t reserved[2];  // zero: problems are hashed and compared bytewise
};

// The data of one call.
struct GemmArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* d[kMaxD] = {};
  float scale = 1;  // multiplies the accumulator before the element-wise operation
  float clamp_min = -std::numeric_limits<float>::infinity();  // bounds of Elementwise::clamp
  float clamp_max = std::numeric_limits<float>::infinity();
};

inline constexpr int kMaxSpatial = 3;

// What one grouped convolution computes, of the direction that `family` names. No pointers. Spatial
// sizes are in the order depth, height, width; a layout of fewer dimensions has the last ones, and
// the others are 1 (pads: 0). Tensors are dense: the input n, [d, [h,]] w, g, c; the weights
// g, k, [z, [y,]] x, c; the output n, [d, [h,]] w, g, k.
//
//   out[i] = (in[i] + left_pad[i] + right_pad[i] - reach) / stride[i] + 1
//
// where the reach of the filter is dilation[i] * (filter[i] - 1) + 1.
struct ConvProblemData {
  std::int64_t n;     // images
  std::int64_t g;     // groups
  std::int64_t c, k;  // channels of one group: of the input, of the output
  std::int64_t in[kMaxSpatial], filter[kMaxSpatial], out[kMaxSpatial];
  std::int64_t stride[kMaxSpatial], dilation[kMaxSpatial];
  std::int64_t left_pad[kMaxSpatial], right_pad[kMaxSpatial];
  // Parts into which the sum of an element is split; 1 is no split, 0 the kernel's choice.
  std::int32_t k_batch;
  Family family;  // conv_fwd, conv_bwd_data or conv_bwd_weight
  ConvLayout layout;
  Dtype dtype_in, dtype_wei, dtype_out, dtype_acc;
  std::uint8_t reserved[6];  // zero: problems are hashed and compared bytewise
};

// The data of one call. Of `in`, `wei` and `out` the two that the direction reads; `result` is the
// third: the output of conv_fwd, the gradient of the input of conv_bwd_data, that of the weights of
// conv_bwd_weight.
struct ConvArgs {
  const void* in = nullptr;
  const void* wei = nullptr;
  const void* out = nullptr;
  void* result = nullptr;
};

// Where and how one call runs.
struct Launch {
  void* stream = nullptr;        // of the device; null is its default stream
  std::int32_t num_threads = 0;  // threads of a CPU kernel; at least 1 when a kernel sees it
  std::int32_t device = -1;      // a device number (device_kind.hpp); -1 is the CPU
};

// Why a call was refused or failed. The text is one sentence with the values at fault.
struct Refusal {
  Reason reason;
  char text[247];
};

// Sets the refusal, if there is one, and returns false. Internal linkage, since units of different
// archs and CPU levels are linked into one program.
template <class... Args>
static inline bool refuse(Refusal* refusal, Reason reason, const char* format, Args... args) {
  if (refusal != nullptr) {
    refusal->reason = reason;
    if constexpr (sizeof...(args) == 0) {
      std::snprintf(refusal->text, sizeof refusal->text, "%s", format);
    } else {
      std::snprintf(refusal->text, sizeof refusal->text, format, args...);
    }
  }
  return false;
}

extern "C" {

// One kernel. `problem` and `args` point to the structs of `op`. Functions do not throw.
//
// Only prepare(), run() and convert() of a device's kernel need the device: they are called with it
// current, and put work on launch->stream without waiting for it. The other functions answer on any
// machine; they are asked with launch->device -1 when the device is not there, and then assume a
// usual one.
struct ckdisp_kernel {
  std::uint32_t size;  // sizeof(ckdisp_kernel) of the library
  Op op;
  const char* name;  // canonical kernel name
  const char* arch;  // of a GPU with the target features that it must have: "gfx942:xnack-"
  const char* provider;
  const void* key;  // GemmKey, ConvKey or FmhaKey, as `op` says
  std::uint32_t key_size;

  // Whether the kernel computes the problem; the refusal (may be null) is set when not.
  bool (*supports)(const void* problem, Refusal* refusal);
  // Estimated cost of a supported problem in arbitrary units; only the order matters.
  double (*cost)(const void* problem, const Launch* launch);
  // Bytes of scratch memory, 64-byte aligned and on the kernel's device, that run() needs.
  std::uint64_t (*workspace_size)(const void* problem, const Launch* launch);
  // Runs the kernel; false with a refusal on failure.
  bool (*run)(const void* problem, const void* args, void* workspace, const Launch* launch,
              Refusal* refusal);
  // Whether prepare() must come before each run(): work that is no part of the kernel's time, such
  // as zeroing C for atomic additions. Both null when the kernel has no such work.
  bool (*needs_prepare)(const void* problem) = nullptr;
  bool (*prepare)(const void* problem, const void* args, void* workspace, const Launch* launch,
                  Refusal* refusal) = nullptr;
  // Whether convert() must come after each run(): a second kernel, which turns what run() left in
  // the workspace into the result. Both null when the kernel has no such work.
  bool (*needs_convert)(const void* problem) = nullptr;
  bool (*convert)(const void* problem, const void* args, void* workspace, const Launch* launch,
                  Refusal* refusal) = nullptr;
  // The parts that a problem with k_batch 0 is to be split into on a device of so many compute
  // units (0: of the usual one); the other functions are then asked with that k_batch. Null when
  // the kernel does not split.
  std::int32_t (*choose_k_batch)(const void* problem, std::int32_t compute_units) = nullptr;
};

struct ckdisp_library {
  std::uint32_t magic;        // kAbiMagic
  std::uint32_t abi_version;  // kAbiVersion
  std::uint32_t size;         // sizeof(ckdisp_library) of the library
  std::uint32_t kernel_count;
  std::uint64_t schema_hash;  // kSchemaHash
  const ckdisp_kernel* const* kernels;
  const char* name;        // name of the library
  const char* build_info;  // JSON: compiler, flags, ckdisp version
};

typedef const ckdisp_library* (*ckdisp_kernel_library_fn)();

}  // extern "C"

inline constexpr const char* kLibrarySymbol = "ckdisp_kernel_library";

}  // namespace ckdisp
