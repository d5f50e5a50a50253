// The parts of the module ckdisp._core.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string_view>

namespace ckdisp::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_schema(nb::module_& module);
void bind_registry(nb::module_& module);
void bind_problem(nb::module_& module);
void bind_conv_problem(nb::module_& module);
void bind_fmha_problem(nb::module_& module);
void bind_device(nb::module_& module);
void bind_device_memory(nb::module_& module);
void bind_dispatcher(nb::module_& module);

// Hash and equality of problems, which are compared bytewise.
template <class Problem>
void bind_bytewise(nb::class_<Problem>& type) {
  constexpr auto bytes_of = [](const Problem& p) {
    return std::string_view(reinterpret_cast<const char*>(&p), sizeof p);
  };
  type.def("__hash__", [=](const Problem& p) { return std::hash<std::string_view>()(bytes_of(p)); })
      .def(
          "__eq__",
          [=](const Problem& a, nb::handle b) {
            const Problem* other = nullptr;
            return nb::try_cast<const Problem*>(b, other) && bytes_of(a) == bytes_of(*other);
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"));
}

}  // namespace ckdisp::python
