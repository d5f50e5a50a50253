// The keyword arguments of an attention call, as Python passed them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include "integers.hpp"

namespace ckdisp::python {

// What was given is listed once: a call looks up each name that it may have, mostly in vain.
class FmhaOptions {
 public:
  explicit FmhaOptions(nb::dict given) : owner_(std::move(given)) {
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(owner_.ptr(), &at, &key, &value) != 0;) {
      if (value == Py_None) continue;
      Py_ssize_t size = 0;
      const char* name = PyUnicode_AsUTF8AndSize(key, &size);
      if (name == nullptr) nb::raise_python_error();
      given_.push_back({std::string_view(name, static_cast<std::size_t>(size)), value});
    }
  }

  // None for what was not given.
  nb::handle operator[](std::string_view name) const {
    for (const auto& [known, value] : given_) {
      if (known == name) return value;
    }
    return Py_None;
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
    return has(name) ? from_name<E>(text(name), name) : otherwise;
  }

  std::string_view text(const char* name) const {
    const nb::handle value = (*this)[name];
    Py_ssize_t size = 0;
    const char* data =
        PyUnicode_Check(value.ptr()) ? PyUnicode_AsUTF8AndSize(value.ptr(), &size) : nullptr;
    if (data == nullptr) {
      PyErr_Clear();
      refuse(name, "a name");
    }
    return {data, static_cast<std::size_t>(size)};
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
  nb::dict owner_;
  std::vector<std::pair<std::string_view, nb::handle>> given_;
};

}  // namespace ckdisp::python
