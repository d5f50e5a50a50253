// Enumerators by name and names by enumerator. C++17.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <ckdisp/generated/enums.hpp>

namespace ckdisp {

namespace detail {
// The code of `text` among `names`; InvalidKey with the nearest and all known names otherwise.
std::size_t parse_name(std::string_view text, const char* const* names, std::size_t count,
                       const char* what);
}  // namespace detail

// The name of an enumerator; "?" for a value outside of the enumeration.
template <class E>
constexpr const char* to_name(E value) {
  const auto code = static_cast<std::size_t>(value);
  return code < EnumNames<E>::size ? EnumNames<E>::values[code] : "?";
}

template <class E>
constexpr bool is_valid(E value) {
  return static_cast<std::size_t>(value) < EnumNames<E>::size;
}

// The enumerator called `text`; throws InvalidKey that lists the known names.
template <class E>
E from_name(std::string_view text, const char* what = EnumNames<E>::type) {
  return static_cast<E>(detail::parse_name(text, EnumNames<E>::values, EnumNames<E>::size, what));
}

// " (did you mean 'x'?)" for the nearest of `names`, or an empty string.
std::string suggest(std::string_view text, const char* const* names, std::size_t count);

// Bytes of one element.
constexpr int size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32:
    case Dtype::int32:
      return 4;
    case Dtype::fp16:
    case Dtype::bf16:
      return 2;
    case Dtype::fp8:
    case Dtype::bf8:
    case Dtype::int8:
      return 1;
  }
  return 0;
}

}  // namespace ckdisp
