#include "copies.hpp"

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <new>

namespace ckdisp::python {
namespace {

// f() of the integer, 0, that has this many bytes.
template <class F>
void with_integer(int size, const F& f) {
  if (size == 1) {
    f(std::uint8_t{0});
  } else if (size == 2) {
    f(std::uint16_t{0});
  } else {
    f(std::uint32_t{0});
  }
}

// The elements of a copy, where `T` has the size of one.
template <class T>
void copy_elements(const Tensor& from, std::int64_t rows, std::int64_t columns, Order order,
                   std::byte* bytes) {
  const std::int64_t row_stride = from.rows() == 1 ? 0 : from.strides[0];
  const std::int64_t column_stride = from.columns() == 1 ? 0 : from.strides[from.ndim - 1];
  const bool row_major = order == Order::r;
  const std::int64_t lines = row_major ? rows : columns, length = row_major ? columns : rows;
  const std::int64_t line_stride = row_major ? row_stride : column_stride;
  const std::int64_t step = row_major ? column_stride : row_stride;
  const T* source = static_cast<const T*>(from.data);
  T* target = reinterpret_cast<T*>(bytes);
  for (std::int64_t i = 0; i < lines; ++i) {
    for (std::int64_t j = 0; j < length; ++j) *target++ = source[i * line_stride + j * step];
  }
}

// The dimensions from the outermost to the innermost in channels-last memory.
int channels_last_dimension(int position, int ndim) {
  return position == 0 ? 0 : position == ndim - 1 ? 1 : position + 1;
}

std::unique_ptr<std::byte[]> memory_for_copy(const Tensor& tensor, std::int64_t bytes,
                                             const char* remedy) {
  std::unique_ptr<std::byte[]> out(new (std::nothrow) std::byte[static_cast<std::size_t>(bytes)]);
  if (out != nullptr) return out;
  throw DeviceError(std::string(tensor.name) +
                    " must be copied, since its strides are those of "
                    "no layout that kernels read, and there is no memory for the " +
                    std::to_string(bytes) + " bytes; pass " + remedy);
}

// Copies what belongs to one index of every dimension outside of `position`.
template <class T>
T* copy_dimension(const Tensor& from, int position, const T* source, T* target) {
  const int d = channels_last_dimension(position, from.ndim);
  for (std::int64_t i = 0; i < from.shape[d]; ++i, source += from.strides[d]) {
    if (position == from.ndim - 1) {
      *target++ = *source;
    } else {
      target = copy_dimension(from, position + 1, source, target);
    }
  }
  return target;
}

template <class T>
void copy_channels_last(const Tensor& from, std::byte* to) {
  copy_dimension(from, 0, static_cast<const T*>(from.data), reinterpret_cast<T*>(to));
}

}  // namespace

void refuse_device_copy(const Tensor& tensor, const std::string& remedy) {
  const std::string strides = joined(tensor.strides, static_cast<std::size_t>(tensor.ndim));
  throw InvalidArgument(std::string(tensor.name) + " has strides (" + strides +
                        "), which no kernel here reads, and lies on a GPU, where it is not "
                        "copied; pass " +
                        remedy);
}

bool is_channels_last(const Tensor& t) {
  if (!t.regular) return false;
  std::int64_t dense = 1;
  for (int position = t.ndim - 1; position >= 0; --position) {
    const int d = channels_last_dimension(position, t.ndim);
    if (t.shape[d] == 0) return true;
    if (t.shape[d] != 1 && t.strides[d] != dense) return false;
    dense *= t.shape[d];
  }
  return true;
}

std::unique_ptr<std::byte[]> channels_last_copy(const Tensor& tensor) {
  const int size = size_of(tensor.dtype);
  std::int64_t bytes = size;
  for (int i = 0; i < tensor.ndim; ++i) bytes *= tensor.shape[i];
  auto out = memory_for_copy(tensor, bytes, "a tensor in channels-last order");
  with_integer(size, [&](auto zero) { copy_channels_last<decltype(zero)>(tensor, out.get()); });
  return out;
}

std::unique_ptr<std::byte[]> dense_copy(const Tensor& tensor, std::int64_t rows,
                                        std::int64_t columns, Order order) {
  const int size = size_of(tensor.dtype);
  auto out = memory_for_copy(tensor, rows * columns * size, "a row- or column-major matrix");
  with_integer(size, [&](auto zero) {
    copy_elements<decltype(zero)>(tensor, rows, columns, order, out.get());
  });
  return out;
}

}  // namespace ckdisp::python
