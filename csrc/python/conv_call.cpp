#include "conv_call.hpp"

#include <nanobind/stl/string.h>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>
#include <ckdisp/problem.hpp>

#include <optional>
#include <string>
#include <utility>

#include "cached.hpp"
#include "copies.hpp"
#include "integers.hpp"
#include "output.hpp"
#include "place.hpp"

namespace ckdisp::python {
namespace {

using Sizes = std::vector<std::int64_t>;

std::string text_of(const Sizes& sizes) { return shape_text(sizes.data(), sizes.size()); }

// Whether it is one number, of Python or of NumPy.
bool is_number(nb::handle value) {
  return PyLong_Check(value.ptr()) ||
         (PyIndex_Check(value.ptr()) != 0 && PySequence_Check(value.ptr()) == 0);
}

// Texts are sequences to Python too, those of bytes even of integers.
bool is_sequence(nb::handle value) {
  PyObject* const object = value.ptr();
  if (PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object)) return false;
  if (PySequence_Check(object) == 0) return false;
  if (PySequence_Size(object) >= 0) return true;
  PyErr_Clear();  // of an array without dimensions
  return false;
}

// One number for each dimension, out of one for all or a sequence.
Sizes each_dimension(nb::handle value, std::size_t rank, const char* name) {
  if (is_number(value)) return Sizes(rank, integer_from(value, name));
  Sizes out = sizes_from(value, name, "an integer, or one for each spatial dimension");
  if (out.size() == 1) out.resize(rank, out.front());
  if (out.size() == rank) return out;
  throw InvalidArgument(std::string(name) + " is " + text_of(out) + ", which holds " +
                        std::to_string(out.size()) + " numbers for " + std::to_string(rank) +
                        " spatial dimensions; pass one number, or one for each");
}

// Left and right pads: a number, one for each dimension, or a pair for each.
std::pair<Sizes, Sizes> pads(nb::handle padding, std::size_t rank) {
  bool pairs = false;
  if (!is_number(padding) && is_sequence(padding)) {
    for (std::size_t i = 0; i < nb::len(padding); ++i) pairs = pairs || is_sequence(padding[i]);
  }
  if (!pairs) {
    const Sizes both = each_dimension(padding, rank, "padding");
    return {both, both};
  }
  if (nb::len(padding) != rank) {
    throw InvalidArgument("padding holds " + std::to_string(nb::len(padding)) + " pairs for " +
                          std::to_string(rank) + " spatial dimensions; pass one for each");
  }
  std::pair<Sizes, Sizes> out;
  for (std::size_t i = 0; i < rank; ++i) {
    const nb::object item = padding[i];
    if (!is_sequence(item) || nb::len(item) != 2) {
      throw InvalidArgument("padding holds " + shown(item) +
                            ", which is no pair; pass (left, right) for each dimension");
    }
    const Sizes pair = sizes_from(item, "padding");
    out.first.push_back(pair[0]);
    out.second.push_back(pair[1]);
  }
  return out;
}

Sizes shape_of(const Tensor& tensor) { return {tensor.shape, tensor.shape + tensor.ndim}; }

// What to pass instead of a tensor that lies in another order. PyTorch's memory formats are for
// four and five dimensions.
std::string channels_last_remedy(const Tensor& tensor) {
  const std::string name = tensor.name;
  if (tensor.ndim == 3) return name + ".transpose(1, 2).contiguous().transpose(1, 2)";
  return name + ".to(memory_format=torch.channels_last" + (tensor.ndim == 5 ? "_3d)" : ")");
}

// A shape as it lies in channels-last memory.
nb::tuple memory_shape(const Sizes& shape) {
  nb::list out;
  out.append(shape[0]);
  for (std::size_t i = 2; i < shape.size(); ++i) out.append(shape[i]);
  out.append(shape[1]);
  return nb::tuple(out);
}

class Resolver {
 public:
  explicit Resolver(const ConvRequest& request) : request_(request) {}

  ConvCall call() {
    import_tensors();
    describe();
    point();
    return std::move(call_);
  }

 private:
  bool is_forward() const { return request_.family == Family::conv_fwd; }
  bool is_data() const { return request_.family == Family::conv_bwd_data; }

  void import_tensors() {
    const char* first = is_data() ? "dy" : "x";
    const char* second = request_.family == Family::conv_bwd_weight ? "dy" : "w";
    call_.first = import_tensor(request_.first, first, request_.stream, kImage);
    second_ = import_tensor(request_.second, second, request_.stream, kImage);
    if (second_.ndim != call_.first.ndim) {
      throw InvalidArgument(std::string(first) + " has shape " + shape_text(call_.first) + " and " +
                            second + " " + shape_text(second_) +
                            ": both must have the same number of dimensions");
    }
    if (!request_.out.is_none()) {
      out_ = import_tensor(request_.out, "out", request_.stream, kImage);
      check_writable(*out_);
    }
    result_type_ = output_type(request_.out_dtype, out_, call_.first.dtype);
    std::vector<const Tensor*> tensors{&call_.first, &second_};
    if (out_) tensors.push_back(&*out_);
    place_ = place_of(tensors, request_.stream, result_type_);
    call_.launch = place_.launch;
  }

  void describe() {
    ConvShapes shapes{{}, {}, "x", "w"};
    if (is_forward()) {
      shapes.input = shape_of(call_.first);
      shapes.weights = shape_of(second_);
    } else if (is_data()) {
      shapes.input = sizes_from(request_.shape, "input_shape");
      shapes.weights = shape_of(second_);
      shapes.input_name = "input_shape";
    } else {
      shapes.input = shape_of(call_.first);
      shapes.weights = sizes_from(request_.shape, "weight_shape");
      shapes.weights_name = "weight_shape";
    }
    GroupedConvProblem builder = conv_problem(request_.family, shapes, request_.motion);
    const Dtype in = is_data() ? result_type_ : call_.first.dtype;
    const Dtype wei = request_.family == Family::conv_bwd_weight ? result_type_ : second_.dtype;
    const Dtype out = is_forward() ? result_type_ : is_data() ? call_.first.dtype : second_.dtype;
    builder.dtype(in, wei).output(out).k_batch(request_.k_batch);
    call_.problem = builder.data();
    validate(call_.problem);  // before memory is taken for sizes that cannot be
    Sizes output = shapes.input;
    output[1] = shapes.weights[0];
    const int rank = static_cast<int>(output.size()) - 2;
    for (int i = 0; i < rank; ++i) {
      output[static_cast<std::size_t>(i + 2)] = call_.problem.out[kMaxSpatial - rank + i];
    }
    if (!is_forward()) check_gradient(is_data() ? call_.first : second_, output);
    result_shape_ = is_forward() ? output : is_data() ? shapes.input : shapes.weights;
  }

  static void check_gradient(const Tensor& dy, const Sizes& wanted) {
    if (shape_of(dy) == wanted) return;
    throw InvalidArgument("dy has shape " + shape_text(dy) +
                          ", and the output of this convolution has " + text_of(wanted));
  }

  const void* input(const Tensor& tensor) {
    if (is_channels_last(tensor)) return tensor.data;
    if (tensor.device >= 0) refuse_device_copy(tensor, channels_last_remedy(tensor));
    call_.copies.push_back(channels_last_copy(tensor));
    return call_.copies.back().get();
  }

  void use_output() {
    if (shape_of(*out_) != result_shape_) {
      throw InvalidArgument("out has shape " + shape_text(*out_) + ", the result has " +
                            text_of(result_shape_));
    }
    check_type(*out_, result_type_);
    if (!is_channels_last(*out_)) {
      throw InvalidArgument("out is not dense in channels-last order, as results are; pass " +
                            channels_last_remedy(*out_) +
                            ", or a NumPy array (N, *spatial, C) transposed to (N, C, *spatial)");
    }
    call_.args.result = out_->data;
    call_.output = nb::borrow(request_.out);
    call_.keep.push_back(std::move(*out_));
  }

  void make_output() {
    Tensor dense;
    const nb::tuple shape = memory_shape(result_shape_);
    call_.output =
        new_output(call_.first, shape, result_type_, place_.fnuz, request_.stream, kImage, &dense);
    call_.args.result = dense.data;
    call_.is_made = true;
    call_.keep.push_back(std::move(dense));
  }

  void point() {
    if (out_) {
      use_output();
    } else {
      make_output();
    }
    ConvArgs& args = call_.args;
    const void* first = input(call_.first);
    const void* second = input(second_);
    (is_data() ? args.out : args.in) = first;
    (request_.family == Family::conv_bwd_weight ? args.out : args.wei) = second;
    call_.keep.push_back(std::move(second_));
  }

  const ConvRequest& request_;
  ConvCall call_{};
  Tensor second_{};
  std::optional<Tensor> out_;
  Dtype result_type_{};
  Place place_;
  Sizes result_shape_;
};

}  // namespace

std::vector<std::int64_t> sizes_from(nb::handle sequence, const char* name, const char* wanted) {
  if (!is_sequence(sequence)) {
    throw InvalidArgument(std::string(name) + " is " + shown(sequence) + "; pass " + wanted);
  }
  Sizes out;
  const std::size_t count = nb::len(sequence);
  for (std::size_t i = 0; i < count; ++i) {
    const nb::object item = sequence[i];
    out.push_back(integer_from(item, name));
  }
  return out;
}

GroupedConvProblem conv_problem(Family family, const ConvShapes& shapes, const ConvMotion& motion) {
  const Sizes &x = shapes.input, &w = shapes.weights;
  const auto both = [&] {
    return std::string(shapes.input_name) + " is " + text_of(x) + " and " + shapes.weights_name +
           " " + text_of(w);
  };
  if (x.size() < 3 || x.size() > kMaxRank || w.size() != x.size()) {
    throw InvalidArgument(both() +
                          "; pass (N, C, *spatial) and (K, C / groups, *filter) with one to three "
                          "spatial dimensions, the same number in both");
  }
  const std::size_t rank = x.size() - 2;
  const std::int64_t groups = integer_from(motion.groups, "groups");
  if (groups >= 1 && (x[1] % groups != 0 || x[1] / groups != w[1])) {
    throw InvalidArgument(both() + ": with " + std::to_string(groups) + " groups the " +
                          std::to_string(x[1]) + " channels of the input are not " +
                          std::to_string(w[1]) +
                          " in each; the second size of the weights is C / groups");
  }
  const auto [left, right] = pads(motion.padding, rank);
  GroupedConvProblem builder(family);
  builder.input(x[0], x[1], Sizes(x.begin() + 2, x.end()))
      .weights(w[0], Sizes(w.begin() + 2, w.end()))
      .groups(groups)
      .stride(each_dimension(motion.stride, rank, "stride"))
      .dilation(each_dimension(motion.dilation, rank, "dilation"))
      .padding(left, right);
  return builder;
}

ConvCall resolve(const ConvRequest& request) { return Resolver(request).call(); }

nb::object finish_output(const ConvCall& call) {
  if (!call.is_made) return call.output;
  return finish_output(call.first, cached().channels_second(call.output));
}

}  // namespace ckdisp::python
