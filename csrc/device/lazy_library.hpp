// A library of a GPU's runtime, found and loaded when it is first asked for. Nothing links against
// one, so that kernel libraries load on machines without it. C++17.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ckdisp::lazy {

// What was found. `Api` is the table of the library's functions.
template <class Api>
struct State {
  Api api{};
  bool loaded = false;
  char path[512] = "";
  char why[1024] = "";
};

template <class State>
void explain(State& state, const char* format, const char* a, const char* b) {
  const std::size_t used = std::strlen(state.why);
  std::snprintf(state.why + used, sizeof state.why - used, format, a, b);
}

// Sets members of a table to the functions of a library.
struct Resolver {
  void* library;
  const char* missing = nullptr;  // the first function that the library lacks

  template <class Member>
  void operator()(Member& member, const char* symbol) {
    optional(member, symbol);
    if (member == nullptr && missing == nullptr) missing = symbol;
  }
  template <class Member>
  void optional(Member& member, const char* symbol) const {
    void* address = ::dlsym(library, symbol);
    std::memcpy(&member, &address, sizeof address);
  }
};

// Tries one file. A candidate that is simply not there leaves no trace in the explanation unless
// it was `asked` for; one that is there and unusable does. `since` says what has all functions.
template <class Api>
bool try_library(State<Api>& state, const char* name, int mode, bool asked, const char* since) {
  void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | mode);
  if (library == nullptr) {
    const char* error = ::dlerror();
    if (error == nullptr) error = "unknown error";
    const std::size_t length = std::strlen(name);
    const bool absent = std::strncmp(error, name, length) == 0 &&
                        std::strstr(error + length, "No such file") != nullptr;
    if (asked || ((mode & RTLD_NOLOAD) == 0 && !absent)) {
      explain(state, "%s%s; ", error, "");
    }
    return false;
  }
  Resolver resolver{library};
  state.api.resolve(resolver);
  if (resolver.missing != nullptr) {
    explain(state, "%s has no function %s, ", name, resolver.missing);
    explain(state, "which %s have%s; ", since, "");
    return false;  // stays loaded: it may have been in the process before
  }
  std::snprintf(state.path, sizeof state.path, "%s", name);
  return state.loaded = true;
}

// The file that the environment `variable` asks for, if it is set; `what` names such files.
template <class Api>
bool is_asked_for(State<Api>& state, const char* variable, const char* what, const char* since) {
  const char* asked = std::getenv(variable);
  if (asked == nullptr || *asked == '\0') return false;
  explain(state, "%s='%s' is no usable ", variable, asked);
  explain(state, "%s: %s", what, "");
  if (!try_library(state, asked, 0, true, since)) {
    explain(state, "correct or unset the variable%s%s", "", "");
  }
  return true;
}

}  // namespace ckdisp::lazy
