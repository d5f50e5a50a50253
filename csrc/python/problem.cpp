#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>
#include <ckdisp/problem.hpp>

#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "call.hpp"
#include "integers.hpp"
#include "tensor.hpp"

namespace ckdisp::python {
namespace {

using OptionalInt = std::optional<nb::object>;
using Text = std::optional<std::string>;

Dtype dtype_from(const std::string& name, const char* what) { return from_name<Dtype>(name, what); }

void make_problem(GemmProblemData* self, nb::handle m, nb::handle n, nb::handle k,
                  const std::string& dtype, const Text& dtype_a, const Text& dtype_b,
                  const Text& dtype_c, const Text& dtype_acc, const std::string& layout,
                  nb::handle lda, nb::handle ldb, nb::handle ldc, const std::string& elementwise,
                  int num_d, const Text& dtype_d, const std::string& layout_d,
                  const std::optional<std::vector<nb::object>>& ldd, int k_batch, bool shuffled_b) {
  GemmProblem builder(integer_from(m, "m"), integer_from(n, "n"), integer_from(k, "k"));
  builder.dtype(dtype_from(dtype_a.value_or(dtype), "dtype_a"),
                dtype_from(dtype_b.value_or(dtype_a.value_or(dtype)), "dtype_b"));
  if (dtype_c) builder.output(dtype_from(*dtype_c, "dtype_c"));
  if (dtype_acc) builder.accumulator(dtype_from(*dtype_acc, "dtype_acc"));
  builder.layout(from_name<Layout>(layout, "layout"));
  builder.elementwise(from_name<Elementwise>(elementwise, "elementwise"));
  const Order order = from_name<Order>(layout_d, "layout_d");
  if (dtype_d) {
    builder.d(num_d, order, dtype_from(*dtype_d, "dtype_d"));
  } else {
    builder.d(num_d, order);
  }
  builder.k_batch(k_batch).shuffled_b(shuffled_b);
  GemmProblemData data = builder.data();
  if (!lda.is_none()) data.lda = integer_from(lda, "lda");
  if (!ldb.is_none()) data.ldb = integer_from(ldb, "ldb");
  if (!ldc.is_none()) data.ldc = integer_from(ldc, "ldc");
  if (ldd) {
    if (ldd->size() != data.num_d) {
      throw InvalidArgument("ldd holds " + std::to_string(ldd->size()) + " numbers for " +
                            std::to_string(num_d) + " D tensors");
    }
    for (std::size_t i = 0; i < ldd->size(); ++i) data.ldd[i] = integer_from((*ldd)[i], "ldd");
  }
  validate(data);
  new (self) GemmProblemData(data);
}

nb::dict to_dict(const GemmProblemData& p) {
  nb::dict out;
  out["m"] = p.m;
  out["n"] = p.n;
  out["k"] = p.k;
  out["dtype_a"] = to_name(p.dtype_a);
  out["dtype_b"] = to_name(p.dtype_b);
  out["dtype_c"] = to_name(p.dtype_c);
  out["dtype_acc"] = to_name(p.dtype_acc);
  out["layout"] = to_name(p.layout);
  out["lda"] = p.lda;
  out["ldb"] = p.ldb;
  out["ldc"] = p.ldc;
  out["elementwise"] = to_name(p.elementwise);
  out["num_d"] = static_cast<int>(p.num_d);
  out["dtype_d"] = to_name(p.dtype_d);
  out["layout_d"] = to_name(p.layout_d);
  nb::list ldd;
  for (int i = 0; i < p.num_d; ++i) ldd.append(p.ldd[i]);
  out["ldd"] = ldd;
  out["k_batch"] = p.k_batch;
  out["shuffled_b"] = p.shuffled_b != 0;
  return out;
}

GemmProblemData from_tensors(nb::handle a, nb::handle b, nb::handle d, const char* epilogue,
                             nb::handle out, nb::handle out_dtype, int k_batch) {
  const GemmRequest request{a, b, d, out, out_dtype, nb::none(), epilogue, 1.0, k_batch};
  return resolve_problem(nullptr, request);
}

}  // namespace

void bind_problem(nb::module_& module) {
  using P = GemmProblemData;
  const auto none = nb::none();
  nb::class_<P> type(module, "GemmProblem", "What one GEMM call computes, without data.");
  type.def("__init__", &make_problem, nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::kw_only(),
           nb::arg("dtype") = "fp32", nb::arg("dtype_a") = none, nb::arg("dtype_b") = none,
           nb::arg("dtype_c") = none, nb::arg("dtype_acc") = none, nb::arg("layout") = "rcr",
           nb::arg("lda") = none, nb::arg("ldb") = none, nb::arg("ldc") = none,
           nb::arg("elementwise") = "passthrough", nb::arg("num_d") = 0, nb::arg("dtype_d") = none,
           nb::arg("layout_d") = "r", nb::arg("ldd") = none, nb::arg("k_batch") = 1,
           nb::arg("shuffled_b") = false,
           nb::sig("def __init__(self, m: int, n: int, k: int, *, dtype: str = 'fp32', "
                   "dtype_a: str | None = None, dtype_b: str | None = None, "
                   "dtype_c: str | None = None, dtype_acc: str | None = None, "
                   "layout: str = 'rcr', lda: int | None = None, ldb: int | None = None, "
                   "ldc: int | None = None, elementwise: str = 'passthrough', num_d: int = 0, "
                   "dtype_d: str | None = None, layout_d: str = 'r', "
                   "ldd: Sequence[int] | None = None, k_batch: int = 1, "
                   "shuffled_b: bool = False) -> None"))
      .def_static("from_tensors", &from_tensors, nb::arg("a").none(), nb::arg("b").none(),
                  nb::kw_only(), nb::arg("d").none() = nb::tuple(),
                  nb::arg("epilogue") = "passthrough", nb::arg("out") = none,
                  nb::arg("out_dtype") = none, nb::arg("k_batch") = 1,
                  nb::sig("def from_tensors(a: object, b: object, *, d: object = (), "
                          "epilogue: str = 'passthrough', out: object = None, "
                          "out_dtype: object = None, k_batch: int = 1) -> GemmProblem"),
                  "The problem that gemm() solves for these tensors, whatever kernels exist.")
      .def_ro("m", &P::m)
      .def_ro("n", &P::n)
      .def_ro("k", &P::k)
      .def_prop_ro(
          "flops", [](const P& p) { return flops(p); }, "2 m n k.")
      .def_prop_ro(
          "bytes", [](const P& p) { return bytes(p); }, "Of A, B, C and every D.")
      .def("to_dict", &to_dict, nb::sig("def to_dict(self) -> dict[str, object]"))
      .def("__repr__", [](const P& p) { return "<GemmProblem " + to_string(p) + ">"; });
  bind_bytewise(type);
}

}  // namespace ckdisp::python
