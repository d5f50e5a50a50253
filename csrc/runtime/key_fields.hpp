// Key fields as text and JSON.
#pragma once

#include <string>
#include <type_traits>

#include <ckdisp/generated/keys.hpp>
#include <ckdisp/names.hpp>

#include "json.hpp"

namespace ckdisp {

template <class T>
std::string field_text(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return to_name(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_array_v<T> || std::is_same_v<T, WrittenNumbers>) {
    std::string text;
    for (const auto item : value) text += (text.empty() ? "" : "x") + std::to_string(item);
    return text;
  } else {
    return std::to_string(value);
  }
}

template <class T>
std::string field_json(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return json::quote(to_name(value));
  } else if constexpr (std::is_array_v<T> || std::is_same_v<T, WrittenNumbers>) {
    json::List items;
    for (const auto item : value) items.add(std::to_string(item));
    return items.array();
  } else {
    return field_text(value);
  }
}

}  // namespace ckdisp
