// Grouped convolutions: what one call computes, without pointers. C++17.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ckdisp/abi.hpp>

namespace ckdisp {

// Builds a ConvProblemData step by step:
//
//   GroupedConvProblem(Family::conv_fwd)
//       .input(8, 64, {56, 56})   // images, channels of all groups, spatial sizes
//       .weights(128, {3, 3})     // output channels of all groups, filter
//       .groups(1).stride({2, 2}).padding({1, 1}).dtype(Dtype::bf16)
//
// Spatial sizes are in the order depth, height, width; their number, 1 to 3, is the rank. What is
// not set: stride and dilation 1, no padding, one group, fp32; the output follows the type of the
// input, the accumulator both.
class GroupedConvProblem {
 public:
  using Sizes = std::vector<std::int64_t>;

  explicit GroupedConvProblem(Family direction = Family::conv_fwd);

  GroupedConvProblem& direction(Family family);
  GroupedConvProblem& input(std::int64_t images, std::int64_t channels, const Sizes& spatial);
  GroupedConvProblem& weights(std::int64_t channels_out, const Sizes& filter);
  GroupedConvProblem& groups(std::int64_t count);
  GroupedConvProblem& stride(const Sizes& stride);
  GroupedConvProblem& dilation(const Sizes& dilation);
  GroupedConvProblem& padding(const Sizes& both_sides);
  GroupedConvProblem& padding(const Sizes& left, const Sizes& right);
  GroupedConvProblem& dtype(Dtype input_and_weights);
  GroupedConvProblem& dtype(Dtype input, Dtype weights);
  GroupedConvProblem& output(Dtype output);
  GroupedConvProblem& accumulator(Dtype acc);
  GroupedConvProblem& k_batch(int parts);

  // The problem with every default filled in and the size of the output computed. Throws
  // InvalidArgument for what no convolution can be: ranks that differ, channels that the groups do
  // not divide, negative sizes or pads, strides or dilations below 1, a filter that is larger than
  // the padded input, sizes that overflow.
  ConvProblemData data() const;

 private:
  Family family_;
  std::int64_t images_ = 0, channels_ = 0, channels_out_ = 0, groups_ = 1;
  Sizes spatial_, filter_, stride_, dilation_, left_, right_;
  Dtype in_ = Dtype::fp32, wei_ = Dtype::fp32, out_ = Dtype::fp32, acc_ = Dtype::fp32;
  bool out_set_ = false, acc_set_ = false;
  int k_batch_ = 0;
};

// Throws InvalidArgument when no kernel could ever compute the problem, as data() above does, or
// when sizes contradict each other.
void validate(const ConvProblemData& problem);

// Throws InvalidArgument for arguments that must not run: null or overlapping memory. `problem`
// must be valid.
void validate(const ConvProblemData& problem, const ConvArgs& args);

// Spatial dimensions: 1 to 3.
int rank(const ConvProblemData& problem);
// Multiplications and additions of all taps, those in the padding included, as PyTorch and MIOpen
// count: 2 n g k c out-pixels taps.
double flops(const ConvProblemData& problem);
// Bytes of the input, the weights and the output.
double bytes(const ConvProblemData& problem);

// "conv.fwd n=8 g=1 c=64 k=128 56x56 filter 3x3 stride 2x2 dilation 1x1 pad 1x1 -> 28x28 bf16 x
// bf16 -> bf16 nhwgc".
std::string to_string(const ConvProblemData& problem);

}  // namespace ckdisp
