// The exceptions of the runtime. Python raises the same names. C++17.
#pragma once

#include <stdexcept>

namespace ckdisp {

// Base of every error that ckdisp throws on purpose. what() says what, why and what to do next.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A field name or value that no kernel key has.
class InvalidKey : public Error {
 public:
  using Error::Error;
};

// An argument of a call that can never work: size, stride, overlap, value.
class InvalidArgument : public Error {
 public:
  using Error::Error;
};

// A valid problem that no kernel of the registry supports; the text lists the reasons.
class UnsupportedProblem : public Error {
 public:
  using Error::Error;
};

// No kernel has the asked name or signature; the text says what to build.
class KernelNotFound : public Error {
 public:
  using Error::Error;
};

// A kernel library cannot be used: unreadable, truncated, another ABI, another machine.
class LibraryError : public Error {
 public:
  using Error::Error;
};

// A device is missing, or running a kernel on it failed.
class DeviceError : public Error {
 public:
  using Error::Error;
};

}  // namespace ckdisp
