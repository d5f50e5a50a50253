// Integers of Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include <ckdisp/errors.hpp>

namespace ckdisp::python {

namespace nb = nanobind;

// Throws InvalidArgument with the name of the argument for what is no integer or does not fit.
inline std::int64_t integer_from(nb::handle value, const char* name) {
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    throw InvalidArgument(std::string(name) + " must be an integer, not " +
                          nb::cast<std::string>(nb::repr(value)));
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) {
    throw InvalidArgument(std::string(name) + "=" + nb::cast<std::string>(nb::str(value)) +
                          " does not fit a 64-bit index; split the problem");
  }
  return number;
}

}  // namespace ckdisp::python
