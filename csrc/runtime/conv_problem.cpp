#include <ckdisp/conv_problem.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>
#include <ckdisp/problem.hpp>

#include <cstring>
#include <string>

#include "conv_sizes.hpp"

namespace ckdisp {
namespace {

std::string sizes_text(const std::int64_t* sizes, int rank) {
  std::string text;
  for (int i = kMaxSpatial - rank; i < kMaxSpatial; ++i) {
    text += (text.empty() ? "" : "x") + std::to_string(sizes[i]);
  }
  return text;
}

// The sizes of a problem from those that a builder was given: one for each dimension, or none for
// `otherwise` in all.
void place(const char* name, const std::vector<std::int64_t>& given, int rank,
           std::int64_t otherwise, std::int64_t (&out)[kMaxSpatial]) {
  if (!given.empty() && given.size() != static_cast<std::size_t>(rank)) {
    throw InvalidArgument(std::string(name) + " has " + std::to_string(given.size()) +
                          " sizes and the input has " + std::to_string(rank) +
                          " spatial dimensions; pass one for each");
  }
  const int first = kMaxSpatial - rank;
  for (int i = 0; i < rank; ++i) {
    out[first + i] = given.empty() ? otherwise : given[static_cast<std::size_t>(i)];
  }
}

std::int64_t per_group(const char* name, std::int64_t channels, std::int64_t groups) {
  if (groups < 1) {
    throw InvalidArgument("there are " + std::to_string(groups) + " groups; pass 1 or more");
  }
  if (channels % groups != 0) {
    throw InvalidArgument("the " + std::to_string(channels) + " channels of the " + name +
                          " do not divide into " + std::to_string(groups) +
                          " groups; pass a number of groups that divides them");
  }
  return channels / groups;
}

double product(const std::int64_t (&sizes)[kMaxSpatial]) {
  double total = 1;
  for (const std::int64_t size : sizes) total *= static_cast<double>(size);
  return total;
}

}  // namespace

GroupedConvProblem::GroupedConvProblem(Family direction) : family_(direction) {}

GroupedConvProblem& GroupedConvProblem::direction(Family family) {
  family_ = family;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::input(std::int64_t images, std::int64_t channels,
                                              const Sizes& spatial) {
  images_ = images;
  channels_ = channels;
  spatial_ = spatial;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::weights(std::int64_t channels_out, const Sizes& filter) {
  channels_out_ = channels_out;
  filter_ = filter;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::groups(std::int64_t count) {
  groups_ = count;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::stride(const Sizes& stride) {
  stride_ = stride;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::dilation(const Sizes& dilation) {
  dilation_ = dilation;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::padding(const Sizes& both_sides) {
  return padding(both_sides, both_sides);
}

GroupedConvProblem& GroupedConvProblem::padding(const Sizes& left, const Sizes& right) {
  left_ = left;
  right_ = right;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::dtype(Dtype input_and_weights) {
  return dtype(input_and_weights, input_and_weights);
}

GroupedConvProblem& GroupedConvProblem::dtype(Dtype input, Dtype weights) {
  in_ = input;
  wei_ = weights;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::output(Dtype output) {
  out_ = output;
  out_set_ = true;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::accumulator(Dtype acc) {
  acc_ = acc;
  acc_set_ = true;
  return *this;
}

GroupedConvProblem& GroupedConvProblem::k_batch(int parts) {
  k_batch_ = parts;
  return *this;
}

ConvProblemData GroupedConvProblem::data() const {
  const auto rank = static_cast<int>(spatial_.size());
  if (rank < 1 || rank > kMaxSpatial) {
    throw InvalidArgument("the input has " + std::to_string(rank) +
                          " spatial dimensions; pass 1 to " + std::to_string(kMaxSpatial));
  }
  if (filter_.size() != spatial_.size()) {
    throw InvalidArgument("the filter has " + std::to_string(filter_.size()) +
                          " sizes and the input has " + std::to_string(rank) +
                          " spatial dimensions; pass one for each");
  }
  ConvProblemData p;
  std::memset(&p, 0, sizeof p);  // compared bytewise
  p.n = images_;
  p.g = groups_;
  p.c = per_group("input", channels_, groups_);
  p.k = per_group("output", channels_out_, groups_);
  for (int i = 0; i < kMaxSpatial; ++i) {
    p.in[i] = p.filter[i] = p.out[i] = p.stride[i] = p.dilation[i] = 1;
  }
  place("the input", spatial_, rank, 1, p.in);
  place("the filter", filter_, rank, 1, p.filter);
  place("stride", stride_, rank, 1, p.stride);
  place("dilation", dilation_, rank, 1, p.dilation);
  place("padding", left_, rank, 0, p.left_pad);
  place("padding", right_, rank, 0, p.right_pad);
  const bool is_open = k_batch_ == 0 && family_ == Family::conv_bwd_weight;
  p.k_batch = k_batch_ == 0 && !is_open ? 1 : k_batch_;
  p.family = family_;
  p.layout = static_cast<ConvLayout>(rank - 1);
  p.dtype_in = in_;
  p.dtype_wei = wei_;
  p.dtype_out = out_set_ ? out_ : default_output(in_);
  p.dtype_acc = acc_set_ ? acc_ : default_accumulator(in_);
  detail::complete_output(p);
  return p;
}

int rank(const ConvProblemData& problem) { return static_cast<int>(problem.layout) + 1; }

double flops(const ConvProblemData& p) {
  return 2.0 * static_cast<double>(p.n) * static_cast<double>(p.g) * static_cast<double>(p.k) *
         static_cast<double>(p.c) * product(p.out) * product(p.filter);
}

double bytes(const ConvProblemData& p) {
  const auto n = static_cast<double>(p.n), g = static_cast<double>(p.g),
             c = static_cast<double>(p.c), k = static_cast<double>(p.k);
  return n * g * c * product(p.in) * size_of(p.dtype_in) +
         g * k * c * product(p.filter) * size_of(p.dtype_wei) +
         n * g * k * product(p.out) * size_of(p.dtype_out);
}

std::string to_string(const ConvProblemData& p) {
  const int r = rank(p);
  const auto text = [&](const std::int64_t* sizes) { return sizes_text(sizes, r); };
  std::string out = std::string(to_name(p.family)) + " n=" + std::to_string(p.n) +
                    " g=" + std::to_string(p.g) + " c=" + std::to_string(p.c) +
                    " k=" + std::to_string(p.k) + " " + text(p.in) + " filter " + text(p.filter) +
                    " stride " + text(p.stride) + " dilation " + text(p.dilation) + " pad " +
                    text(p.left_pad);
  if (text(p.right_pad) != text(p.left_pad)) out += ":" + text(p.right_pad);
  out += " -> " + text(p.out) + " " + to_name(p.dtype_in) + " x " + to_name(p.dtype_wei) + " -> " +
         to_name(p.dtype_out) + " " + to_name(p.layout);
  if (p.k_batch != (p.family == Family::conv_bwd_weight ? 0 : 1))
    out += " k_batch=" + std::to_string(p.k_batch);
  return out;
}

}  // namespace ckdisp
