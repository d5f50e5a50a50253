// Integers of Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include <ckdisp/errors.hpp>

namespace ckdisp::python {

namespace nb = nanobind;

inline std::string shown(nb::handle object) {
  return nb::cast<const char*>(nb::steal(PyObject_ASCII(object.ptr())));
}

// Throws InvalidArgument with the name of the argument for what is no integer or does not fit. A
// truth value is an integer to Python, and here a mistake.
inline std::int64_t integer_from(nb::handle value, const char* name) {
  if (PyBool_Check(value.ptr())) {
    throw InvalidArgument(std::string(name) + " is " + shown(value) + "; pass a number");
  }
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    throw InvalidArgument(std::string(name) + " must be an integer, not " + shown(value));
  }
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) {
    throw InvalidArgument(std::string(name) + "=" + nb::cast<std::string>(nb::str(value)) +
                          " does not fit a 64-bit index; split the problem");
  }
  return number;
}

// A small count: `what` says in messages what of.
inline int count_from(nb::handle value, const char* name, const char* what) {
  int count = 0;
  if (!PyBool_Check(value.ptr()) && nb::try_cast(value, count)) return count;
  throw InvalidArgument(std::string(name) + " is " + shown(value) + "; pass the number of " + what);
}

inline int k_batch_from(nb::handle value) {
  return count_from(value, "k_batch", "parts that sums are split into");
}

}  // namespace ckdisp::python
