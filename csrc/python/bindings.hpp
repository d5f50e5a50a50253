// The parts of the module ckdisp._core.
#pragma once

#include <nanobind/nanobind.h>

namespace ckdisp::python {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_schema(nb::module_& module);
void bind_registry(nb::module_& module);
void bind_problem(nb::module_& module);
void bind_device(nb::module_& module);
void bind_dispatcher(nb::module_& module);

}  // namespace ckdisp::python
