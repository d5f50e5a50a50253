// The keyword arguments of an attention call, as Python passed them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include "integers.hpp"

namespace ckdisp::python {

class FmhaOptions {
 public:
  explicit FmhaOptions(nb::dict given) : given_(std::move(given)) {}

  // None for what was not given.
  nb::handle operator[](const char* name) const {
    PyObject* found = PyDict_GetItemString(given_.ptr(), name);
    return found != nullptr ? nb::handle(found) : nb::handle(Py_None);
  }
  bool has(const char* name) const { return !(*this)[name].is_none(); }

  std::int64_t integer(const char* name, std::int64_t otherwise) const {
    const nb::handle value = (*this)[name];
    if (value.is_none()) return otherwise;
    if (PyBool_Check(value.ptr())) refuse(name, "a number");
    return integer_from(value, name);
  }

  std::uint64_t word(const char* name) const {
    const nb::handle value = (*this)[name];
    if (value.is_none()) return 0;
    std::uint64_t out = 0;
    if (PyBool_Check(value.ptr()) || !nb::try_cast(value, out)) {
      refuse(name, "an integer of 0 to 2**64 - 1");
    }
    return out;
  }

  double real(const char* name, double otherwise) const {
    const nb::handle value = (*this)[name];
    if (value.is_none()) return otherwise;
    double out = 0;
    if (PyBool_Check(value.ptr()) || !nb::try_cast(value, out)) refuse(name, "a number");
    return out;
  }

  bool flag(const char* name) const {
    const nb::handle value = (*this)[name];
    if (value.is_none()) return false;
    if (!PyBool_Check(value.ptr())) refuse(name, "True or False");
    return value.ptr() == Py_True;
  }

  template <class E>
  E choice(const char* name, E otherwise) const {
    const nb::handle value = (*this)[name];
    if (value.is_none()) return otherwise;
    return from_name<E>(text(name), name);
  }

  std::string text(const char* name) const {
    const nb::handle value = (*this)[name];
    if (!nb::isinstance<nb::str>(value)) refuse(name, "a name");
    return nb::cast<std::string>(value);
  }

  // Two integers.
  std::optional<std::pair<std::int64_t, std::int64_t>> pair(const char* name) const {
    const nb::handle value = (*this)[name];
    if (value.is_none()) return std::nullopt;
    if (PySequence_Check(value.ptr()) == 0 || PySequence_Size(value.ptr()) != 2) {
      PyErr_Clear();
      refuse(name, "two integers");
    }
    return std::pair(integer_from(nb::object(value[0]), name),
                     integer_from(nb::object(value[1]), name));
  }

  [[noreturn]] void refuse(const char* name, const char* wanted) const {
    throw InvalidArgument(std::string(name) + " is " +
                          nb::cast<std::string>(nb::repr((*this)[name])) + "; pass " + wanted);
  }

 private:
  nb::dict given_;
};

}  // namespace ckdisp::python
