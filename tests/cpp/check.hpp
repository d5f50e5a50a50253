// The few words that the C++ tests need: CHECK, CHECK_THROWS and a list of cases.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)

// The expression throws exactly this type, with a text that holds `part`.
#define CHECK_THROWS(expression, Type, part)                                                      \
  do {                                                                                            \
    std::string seen = "nothing";                                                                 \
    bool right = false;                                                                           \
    try {                                                                                         \
      (void)(expression);                                                                         \
    } catch (const Type& error) {                                                                 \
      seen = error.what();                                                                        \
      right = seen.find(part) != std::string::npos;                                               \
    } catch (const std::exception& error) {                                                       \
      seen = std::string("another exception: ") + error.what();                                   \
    }                                                                                             \
    if (!right) {                                                                                 \
      std::fprintf(stderr, "%s:%d: %s threw %s\n  instead of %s with '%s'\n", __FILE__, __LINE__, \
                   #expression, seen.c_str(), #Type, part);                                       \
      std::exit(1);                                                                               \
    }                                                                                             \
  } while (false)
