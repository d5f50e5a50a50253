// Refuses convolutions that can never work, before anything runs.
#include <ckdisp/conv_problem.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>

#include "conv_sizes.hpp"

namespace ckdisp {
namespace {

constexpr const char* kDimensions[kMaxSpatial] = {"depth", "height", "width"};

[[noreturn]] void refuse(const std::string& text) { throw InvalidArgument(text); }

// "stride 0 in height"
std::string in_dimension(const char* name, std::int64_t value, int i) {
  return std::string(name) + " " + std::to_string(value) + " in " + kDimensions[i];
}

void check_count(const char* name, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  refuse("there are " + std::to_string(value) + " " + name + "; pass " + std::to_string(least) +
         " or more");
}

void check_dimension(const ConvProblemData& p, int i) {
  const struct {
    const char* name;
    std::int64_t value, least;
  } rows[] = {{"input size", p.in[i], 1},     {"filter size", p.filter[i], 1},
              {"stride", p.stride[i], 1},     {"dilation", p.dilation[i], 1},
              {"left pad", p.left_pad[i], 0}, {"right pad", p.right_pad[i], 0}};
  for (const auto& row : rows) {
    if (row.value >= row.least) continue;
    refuse(in_dimension(row.name, row.value, i) + "; pass " + std::to_string(row.least) +
           " or more");
  }
}

// Output pixels of one dimension: 1 + floor((padded - span) / stride).
std::int64_t output_size(const ConvProblemData& p, int i) {
  std::int64_t span = 0, padded = 0;
  if (__builtin_mul_overflow(p.dilation[i], p.filter[i] - 1, &span) ||
      __builtin_add_overflow(span, 1, &span) ||
      __builtin_add_overflow(p.in[i], p.left_pad[i], &padded) ||
      __builtin_add_overflow(padded, p.right_pad[i], &padded)) {
    refuse(std::string("the sizes in ") + kDimensions[i] + " overflow 63 bits; pass smaller ones");
  }
  if (span > padded) {
    refuse("the filter spans " + std::to_string(span) + " pixels in " + kDimensions[i] + " (" +
           std::to_string(p.filter[i]) + " with dilation " + std::to_string(p.dilation[i]) +
           "), more than the " + std::to_string(padded) +
           " of the padded input, so that the output would be empty; pad the input or take a "
           "smaller filter");
  }
  return (padded - span) / p.stride[i] + 1;
}

// The product of sizes, which must fit addresses.
std::int64_t product(const ConvProblemData& p, const char* what,
                     std::initializer_list<std::int64_t> factors) {
  std::int64_t total = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(total, factor, &total)) {
      refuse(to_string(p) + " is too large: " + what + " overflow 63 bits; split it");
    }
  }
  return total;
}

void check_sizes(const ConvProblemData& p) {
  ConvProblemData computed = p;
  detail::complete_output(computed);
  const int unused = kMaxSpatial - rank(p);
  for (int i = 0; i < kMaxSpatial; ++i) {
    if (computed.out[i] != p.out[i]) {
      refuse("the output has " + std::to_string(p.out[i]) + " pixels in " + kDimensions[i] +
             ", and the input, filter, stride, dilation and padding make " +
             std::to_string(computed.out[i]));
    }
    const bool is_one = p.in[i] == 1 && p.filter[i] == 1 && p.stride[i] == 1 &&
                        p.dilation[i] == 1 && p.left_pad[i] == 0 && p.right_pad[i] == 0;
    if (i < unused && !is_one) {
      refuse(std::string("layout ") + to_name(p.layout) + " has no " + kDimensions[i] +
             ": its sizes must be 1 and its pads 0");
    }
  }
  product(p, "the bytes of its input",
          {p.n, p.g, p.c, p.in[0], p.in[1], p.in[2], size_of(p.dtype_in)});
  product(p, "the bytes of its weights",
          {p.g, p.k, p.c, p.filter[0], p.filter[1], p.filter[2], size_of(p.dtype_wei)});
  product(p, "the bytes of its output",
          {p.n, p.g, p.k, p.out[0], p.out[1], p.out[2], size_of(p.dtype_out)});
  product(
      p, "its operations",
      {2, p.n, p.g, p.k, p.c, p.out[0], p.out[1], p.out[2], p.filter[0], p.filter[1], p.filter[2]});
}

bool is_direction(Family family) {
  return family == Family::conv_fwd || family == Family::conv_bwd_data ||
         family == Family::conv_bwd_weight;
}

// What the rule gradient_dtype says of kernels.
void check_gradient(const ConvProblemData& p) {
  if (p.family == Family::conv_fwd) return;
  for (const Dtype dtype : {p.dtype_in, p.dtype_wei, p.dtype_out}) {
    if (dtype == Dtype::fp32 || dtype == Dtype::fp16 || dtype == Dtype::bf16) continue;
    refuse(std::string(to_name(p.family)) + " of " + to_name(p.dtype_in) + " input, " +
           to_name(p.dtype_wei) + " weights and " + to_name(p.dtype_out) +
           " output: gradients are fp32, fp16, bf16; only conv.fwd takes others");
  }
}

void check_types(const ConvProblemData& p) {
  if (!is_direction(p.family)) {
    refuse(std::string("the direction of a convolution is ") + to_name(p.family) +
           "; pass conv.fwd, conv.bwd_data or conv.bwd_weight");
  }
  if (!is_valid(p.layout)) refuse("the layout is outside of the known ones");
  for (const Dtype dtype : {p.dtype_in, p.dtype_wei, p.dtype_out, p.dtype_acc}) {
    if (!is_valid(dtype)) refuse("an element type is outside of the known ones");
  }
  check_gradient(p);
  const bool integer = p.dtype_in == Dtype::int8;
  if (p.dtype_in == Dtype::int32 || p.dtype_wei == Dtype::int32) {
    refuse("int32 is a type of results, not of the input or the weights; use int8");
  }
  if (integer != (p.dtype_wei == Dtype::int8)) {
    refuse(std::string("the input is ") + to_name(p.dtype_in) + " and the weights are " +
           to_name(p.dtype_wei) + ": integers multiply only integers; convert one of them");
  }
  if (p.dtype_acc != (integer ? Dtype::int32 : Dtype::fp32)) {
    refuse(std::string("the accumulator of ") + to_name(p.dtype_in) + " inputs is " +
           (integer ? "int32" : "fp32") + ", not " + to_name(p.dtype_acc));
  }
  if (!integer && (p.dtype_out == Dtype::int8 || p.dtype_out == Dtype::int32)) {
    refuse(std::string("the output cannot be ") + to_name(p.dtype_out) + " when the input is " +
           to_name(p.dtype_in) + "; use a floating-point type");
  }
}

// One dense tensor.
struct Region {
  const char* name;
  const void* data;
  std::int64_t bytes;

  std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(data); }
  std::uintptr_t end() const { return begin() + static_cast<std::uintptr_t>(bytes); }
};

}  // namespace

namespace detail {

void complete_output(ConvProblemData& p) {
  check_count("images", p.n, 0);
  check_count("groups", p.g, 1);
  check_count("input channels in a group", p.c, 1);
  check_count("output channels in a group", p.k, 1);
  for (int i = 0; i < kMaxSpatial; ++i) {
    check_dimension(p, i);
    p.out[i] = output_size(p, i);
  }
}

}  // namespace detail

void validate(const ConvProblemData& p) {
  check_types(p);
  check_sizes(p);
  if (p.k_batch < 0) {
    refuse("k_batch is " + std::to_string(p.k_batch) +
           "; pass 1 or more, or 0 for the kernel's choice");
  }
}

void validate(const ConvProblemData& p, const ConvArgs& args) {
  const auto pixels = [](const std::int64_t (&sizes)[kMaxSpatial]) {
    return sizes[0] * sizes[1] * sizes[2];
  };
  Region in{"the input", args.in, p.n * p.g * p.c * pixels(p.in) * size_of(p.dtype_in)};
  Region wei{"the weights", args.wei, p.g * p.k * p.c * pixels(p.filter) * size_of(p.dtype_wei)};
  Region out{"the output", args.out, p.n * p.g * p.k * pixels(p.out) * size_of(p.dtype_out)};
  Region& result = p.family == Family::conv_fwd        ? out
                   : p.family == Family::conv_bwd_data ? in
                                                       : wei;
  if (result.data != nullptr) {
    refuse(std::string(result.name) + " is given, and it is what " + to_name(p.family) +
           " computes; pass it as the result");
  }
  result.data = args.result;
  for (const Region* region : {&in, &wei, &out}) {
    if (region->bytes == 0) continue;
    if (region->data == nullptr) refuse(std::string(region->name) + " is null but not empty");
    if (region != &result && result.bytes > 0 && region->begin() < result.end() &&
        result.begin() < region->end()) {
      refuse(std::string("the result shares memory with ") + region->name +
             ": it would be read while it is written; pass another output");
    }
  }
}

}  // namespace ckdisp
