// The little JSON writing that the runtime needs.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace ckdisp::json {

inline std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char ch : text) {
    if (ch == '"' || ch == '\\') {
      out += '\\';
      out += ch;
    } else if (static_cast<unsigned char>(ch) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(ch));
      out += code;
    } else {
      out += ch;
    }
  }
  return out + '"';
}

// Comma-separated members of an object or items of an array.
class List {
 public:
  void add(std::string_view text) {
    if (!body_.empty()) body_ += ", ";
    body_ += text;
  }
  void add(std::string_view name, std::string_view text) {
    add(quote(name) + ": " + std::string(text));
  }
  std::string object() const { return "{" + body_ + "}"; }
  std::string array() const { return "[" + body_ + "]"; }

 private:
  std::string body_;
};

}  // namespace ckdisp::json
