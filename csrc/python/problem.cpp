#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>
#include <ckdisp/problem.hpp>

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

void make_problem(GemmProblemData* self, nb::handle m, nb::handle n, nb::handle k, nb::handle dtype,
                  nb::handle dtype_a, nb::handle dtype_b, nb::handle dtype_c, nb::handle dtype_acc,
                  const std::string& layout, nb::handle lda, nb::handle ldb, nb::handle ldc,
                  const std::string& elementwise, nb::handle d_count, nb::handle dtype_d,
                  const std::string& layout_d, const std::optional<std::vector<nb::object>>& ldd,
                  nb::handle k_batch, bool shuffled_b) {
  GemmProblem builder(integer_from(m, "m"), integer_from(n, "n"), integer_from(k, "k"));
  const Dtype a = named_dtype(dtype_a.is_none() ? dtype : dtype_a, "dtype_a");
  builder.dtype(a, dtype_b.is_none() ? a : named_dtype(dtype_b, "dtype_b"));
  if (!dtype_c.is_none()) builder.output(named_dtype(dtype_c, "dtype_c"));
  if (!dtype_acc.is_none()) builder.accumulator(named_dtype(dtype_acc, "dtype_acc"));
  builder.layout(from_name<Layout>(layout, "layout"));
  builder.elementwise(from_name<Elementwise>(elementwise, "elementwise"));
  const Order order = from_name<Order>(layout_d, "layout_d");
  const int num_d = count_from(d_count, "num_d", "D tensors");
  if (dtype_d.is_none()) {
    builder.d(num_d, order);
  } else {
    builder.d(num_d, order, named_dtype(dtype_d, "dtype_d"));
  }
  builder.k_batch(k_batch_from(k_batch)).shuffled_b(shuffled_b);
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
                             nb::handle out, nb::handle out_dtype, nb::handle k_batch) {
  const GemmRequest request{
      a, b, d, out, out_dtype, nb::none(), epilogue, 1.0, k_batch_from(k_batch)};
  return resolve_problem(nullptr, request);
}

}  // namespace

void bind_problem(nb::module_& module) {
  using P = GemmProblemData;
  const auto none = nb::none();
  nb::class_<P> type(module, "GemmProblem", "What one GEMM call computes, without data.");
  type.def("__init__", &make_problem, nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::kw_only(),
           nb::arg("dtype").none() = "fp32", nb::arg("dtype_a") = none, nb::arg("dtype_b") = none,
           nb::arg("dtype_c") = none, nb::arg("dtype_acc") = none, nb::arg("layout") = "rcr",
           nb::arg("lda") = none, nb::arg("ldb") = none, nb::arg("ldc") = none,
           nb::arg("elementwise") = "passthrough", nb::arg("num_d").none() = 0,
           nb::arg("dtype_d") = none, nb::arg("layout_d") = "r", nb::arg("ldd") = none,
           nb::arg("k_batch").none() = 1, nb::arg("shuffled_b") = false,
           nb::sig("def __init__(self, m: int, n: int, k: int, *, dtype: object = 'fp32', "
                   "dtype_a: object = None, dtype_b: object = None, "
                   "dtype_c: object = None, dtype_acc: object = None, "
                   "layout: str = 'rcr', lda: int | None = None, ldb: int | None = None, "
                   "ldc: int | None = None, elementwise: str = 'passthrough', num_d: int = 0, "
                   "dtype_d: object = None, layout_d: str = 'r', "
                   "ldd: Sequence[int] | None = None, k_batch: int = 1, "
                   "shuffled_b: bool = False) -> None"))
      .def_static("from_tensors", &from_tensors, nb::arg("a").none(), nb::arg("b").none(),
                  nb::kw_only(), nb::arg("d").none() = nb::tuple(),
                  nb::arg("epilogue") = "passthrough", nb::arg("out") = none,
                  nb::arg("out_dtype") = none, nb::arg("k_batch").none() = 1,
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
