#include <ckdisp/conv_problem.hpp>

#include <nanobind/stl/string.h>

#include <ckdisp/names.hpp>

#include <new>
#include <string>
#include <string_view>

#include "bindings.hpp"
#include "conv_call.hpp"
#include "integers.hpp"

namespace ckdisp::python {
namespace {

using Problem = ConvProblemData;

Family direction_from(const std::string& name) {
  constexpr const char* kNames[] = {"fwd", "bwd_data", "bwd_weight"};
  const std::string_view prefix = "conv.";
  const std::string_view given = name;
  const auto short_name =
      given.substr(0, prefix.size()) == prefix ? given.substr(prefix.size()) : given;
  constexpr int first = static_cast<int>(Family::conv_fwd);
  return static_cast<Family>(
      first + static_cast<int>(detail::parse_name(short_name, kNames, 3, "direction")));
}

void make_problem(Problem* self, const std::string& direction, nb::handle input_shape,
                  nb::handle weight_shape, nb::handle dtype, nb::handle dtype_in,
                  nb::handle dtype_wei, nb::handle dtype_out, nb::handle dtype_acc,
                  nb::handle stride, nb::handle padding, nb::handle dilation, nb::handle groups,
                  nb::handle k_batch) {
  const ConvShapes shapes{sizes_from(input_shape, "input_shape"),
                          sizes_from(weight_shape, "weight_shape"), "input_shape", "weight_shape"};
  GroupedConvProblem builder =
      conv_problem(direction_from(direction), shapes, {stride, padding, dilation, groups});
  const Dtype in = named_dtype(dtype_in.is_none() ? dtype : dtype_in, "dtype_in");
  builder.dtype(in, dtype_wei.is_none() ? in : named_dtype(dtype_wei, "dtype_wei"));
  if (!dtype_out.is_none()) builder.output(named_dtype(dtype_out, "dtype_out"));
  if (!dtype_acc.is_none()) builder.accumulator(named_dtype(dtype_acc, "dtype_acc"));
  const Problem data = builder.k_batch(k_batch_from(k_batch)).data();
  validate(data);
  new (self) Problem(data);
}

void append_each(nb::list& out, const Problem& p, const std::int64_t (&values)[kMaxSpatial]) {
  for (int i = kMaxSpatial - rank(p); i < kMaxSpatial; ++i) out.append(values[i]);
}

nb::tuple shape(const Problem& p, std::int64_t first, std::int64_t second,
                const std::int64_t (&sizes)[kMaxSpatial]) {
  nb::list out;
  out.append(first);
  out.append(second);
  append_each(out, p, sizes);
  return nb::tuple(out);
}

nb::tuple each(const Problem& p, const std::int64_t (&values)[kMaxSpatial]) {
  nb::list out;
  append_each(out, p, values);
  return nb::tuple(out);
}

nb::tuple pads(const Problem& p) {
  nb::list out;
  for (int i = kMaxSpatial - rank(p); i < kMaxSpatial; ++i) {
    out.append(nb::make_tuple(p.left_pad[i], p.right_pad[i]));
  }
  return nb::tuple(out);
}

nb::tuple input_shape(const Problem& p) { return shape(p, p.n, p.g * p.c, p.in); }
nb::tuple weight_shape(const Problem& p) { return shape(p, p.g * p.k, p.c, p.filter); }
nb::tuple output_shape(const Problem& p) { return shape(p, p.n, p.g * p.k, p.out); }

nb::dict to_dict(const Problem& p) {
  nb::dict out;
  out["family"] = to_name(p.family);
  out["input_shape"] = input_shape(p);
  out["weight_shape"] = weight_shape(p);
  out["output_shape"] = output_shape(p);
  out["stride"] = each(p, p.stride);
  out["padding"] = pads(p);
  out["dilation"] = each(p, p.dilation);
  out["groups"] = p.g;
  out["dtype_in"] = to_name(p.dtype_in);
  out["dtype_wei"] = to_name(p.dtype_wei);
  out["dtype_out"] = to_name(p.dtype_out);
  out["dtype_acc"] = to_name(p.dtype_acc);
  out["layout"] = to_name(p.layout);
  out["k_batch"] = p.k_batch;
  return out;
}

}  // namespace

void bind_conv_problem(nb::module_& module) {
  const auto none = nb::none();
  nb::class_<Problem> type(module, "GroupedConvProblem",
                           "What one grouped convolution computes, without data.");
  type.def("__init__", &make_problem, nb::arg("direction"), nb::arg("input_shape").none(),
           nb::arg("weight_shape").none(), nb::kw_only(), nb::arg("dtype").none() = "fp32",
           nb::arg("dtype_in") = none, nb::arg("dtype_wei") = none, nb::arg("dtype_out") = none,
           nb::arg("dtype_acc") = none, nb::arg("stride").none() = 1, nb::arg("padding").none() = 0,
           nb::arg("dilation").none() = 1, nb::arg("groups").none() = 1,
           nb::arg("k_batch").none() = 0,
           nb::sig("def __init__(self, direction: str, input_shape: Sequence[int], "
                   "weight_shape: Sequence[int], *, dtype: object = 'fp32', "
                   "dtype_in: object = None, dtype_wei: object = None, "
                   "dtype_out: object = None, dtype_acc: object = None, "
                   "stride: int | Sequence[int] = 1, "
                   "padding: int | Sequence[int] | Sequence[tuple[int, int]] = 0, "
                   "dilation: int | Sequence[int] = 1, groups: int = 1, "
                   "k_batch: int = 0) -> None"),
           "direction is 'fwd', 'bwd_data' or 'bwd_weight'; shapes are those of PyTorch.")
      .def_prop_ro("family", [](const Problem& p) { return to_name(p.family); })
      .def_prop_ro("input_shape", &input_shape, nb::sig("def input_shape(self) -> tuple[int, ...]"))
      .def_prop_ro("weight_shape", &weight_shape,
                   nb::sig("def weight_shape(self) -> tuple[int, ...]"))
      .def_prop_ro("output_shape", &output_shape,
                   nb::sig("def output_shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "flops", [](const Problem& p) { return flops(p); },
          "2 N K (C / groups) times the output pixels and the taps, those in the padding too.")
      .def_prop_ro(
          "bytes", [](const Problem& p) { return bytes(p); }, "Of input, weights and output.")
      .def("to_dict", &to_dict, nb::sig("def to_dict(self) -> dict[str, object]"))
      .def("__repr__",
           [](const Problem& p) { return "<GroupedConvProblem " + to_string(p) + ">"; });
  bind_bytewise(type);
}

}  // namespace ckdisp::python
