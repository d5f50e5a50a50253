// Tensors of any Python framework, seen as memory.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>

#include <ckdisp/generated/enums.hpp>

namespace ckdisp::python {

namespace nb = nanobind;

enum class Kind {
  numpy,   // numpy.ndarray, ml_dtypes included
  direct,  // a framework with the C exchange interface of DLPack, such as PyTorch
  dlpack,  // anything else with __dlpack__
};

inline constexpr int kMaxRank = 5;

// The ranks that a tensor may have, and what to pass, in words.
struct Ranks {
  int least, most;
  const char* wanted;
};
inline constexpr Ranks kMatrix{1, 2, "a matrix (two dimensions)"};
inline constexpr Ranks kImage{3, kMaxRank, "(N, C, *spatial), three to five dimensions"};

// A view of a tensor; valid while the Python object and `keep` live.
struct Tensor {
  const char* name;  // of the argument, for messages
  nb::handle object;
  Kind kind;
  void* data;
  Dtype dtype;
  bool fnuz;  // fp8 and bf8: the encoding of gfx90a and gfx942, not that of OCP
  int ndim;
  std::int64_t shape[kMaxRank];
  std::int64_t strides[kMaxRank];  // in elements
  bool regular;                    // aligned, and the strides are whole elements
  bool writable;
  bool misaligned;  // as it was given; `data` is then a copy
  int device;       // HIP's index of the GPU that holds the memory; -1 for the CPU
  nb::object keep;

  // Of a matrix, or of a vector that is one row.
  std::int64_t rows() const { return ndim == 2 ? shape[0] : 1; }
  std::int64_t columns() const { return ndim == 2 ? shape[1] : shape[0]; }
};

// The stream that a call names; none to use that which the tensors' framework works on.
using CallStream = std::optional<std::uintptr_t>;

// Throws InvalidArgument for what is no tensor, has a rank outside of `ranks`, or an element type
// that no kernel knows, and DeviceError for a tensor that neither the CPU nor an AMD GPU
// holds. A tensor of a GPU is ready for work on the stream of the call.
Tensor import_tensor(nb::handle object, const char* name, const CallStream& stream = {},
                     const Ranks& ranks = kMatrix);

// The stream on which a call with such tensors runs; of the GPU that holds `tensor`.
void* stream_of(const Tensor& tensor, const CallStream& stream);

// Element type by anything that names one: "fp16", numpy.float16, torch.float16.
Dtype dtype_of(nb::handle object);
// The same for a field that messages name.
Dtype named_dtype(nb::handle object, const char* field);

// How a matrix may be described by an order letter and a leading dimension.
struct Orders {
  bool row = false, column = false;
  std::int64_t ld_row = 0, ld_column = 0;
};
Orders orders_of(const Tensor& tensor);

// Elements of a tensor.
std::int64_t count_of(const std::int64_t* sizes, std::size_t count);
std::int64_t count_of(const Tensor& tensor);

// "3, 4", and "(3, 4)".
std::string joined(const std::int64_t* numbers, std::size_t count);
std::string shape_text(const std::int64_t* sizes, std::size_t count);
std::string shape_text(const Tensor& tensor);

}  // namespace ckdisp::python
