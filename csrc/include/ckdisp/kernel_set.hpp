// Kernel sets declared in C++, for projects that keep the declaration next to the code that uses
// the kernels. The generator compiles the file and runs the block, so constants, #if and comments
// mean what they mean in C++. C++17, needs nothing but the standard library.
//
//   #include <ckdisp/kernel_set.hpp>
//
//   CKDISP_KERNEL_SET(set) {
//     set.sweep("gemm.standard").arch("gfx942").where("dtype", {"fp16", "bf16"});
//     set.preset("gemm.fp16_rcr_essential").arch({"gfx942", "gfx950"});
//     set.model().arch("gfx942").field("heads", 32).field("kv_heads", 8).field("head_dim", 128);
//     set.key("gemm.standard").arch("native").field("dtype", "fp32").field("layout", "rrr");
//   }
//
// A file holds one block. Names and values are those of the JSON specs; they are checked when the
// generator reads the set.
#pragma once

#include <cstddef>
#include <deque>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ckdisp {

// A value of a field: a name, a number, a flag, or numbers such as a tile.
class KernelSetValue {
 public:
  KernelSetValue(const char* text) : json_(quote(text)) {}         // NOLINT: values are literals
  KernelSetValue(const std::string& text) : json_(quote(text)) {}  // NOLINT
  template <class T, class = std::enable_if_t<std::is_integral_v<T>>>
  KernelSetValue(T number) {  // NOLINT
    if constexpr (std::is_same_v<T, bool>) {
      json_ = number ? "true" : "false";
    } else {
      json_ = std::to_string(number);
    }
  }
  KernelSetValue(std::initializer_list<int> numbers) {  // NOLINT
    std::vector<std::string> texts;
    for (const int number : numbers) texts.push_back(std::to_string(number));
    json_ = list(texts);
  }

  const std::string& json() const { return json_; }

  static std::string quote(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        constexpr char kHex[] = "0123456789abcdef";
        out += "\\u00";
        out += kHex[(c >> 4) & 15];
        out += kHex[c & 15];
      } else {
        out += c;
      }
    }
    return out + "\"";
  }

  static std::string list(const std::vector<std::string>& texts) {
    std::string out = "[";
    for (std::size_t i = 0; i < texts.size(); ++i) out += (i == 0 ? "" : ", ") + texts[i];
    return out + "]";
  }

 private:
  std::string json_;
};

// One declaration of a set. Every setter returns the declaration, so calls can be chained.
class KernelSetEntry {
 public:
  KernelSetEntry(std::string kind, const std::string& name) : kind_(std::move(kind)) {
    if (kind_ == "model") return;
    put(kind_ == "key" ? fields_ : members_, kind_ == "key" ? "family" : kind_,
        KernelSetValue::quote(name));
  }

  KernelSetEntry& arch(const std::string& name) {
    return put(kind_ == "key" ? fields_ : members_, "arch", KernelSetValue::quote(name));
  }
  KernelSetEntry& arch(std::initializer_list<const char*> names) {
    std::vector<std::string> texts;
    for (const char* name : names) texts.push_back(KernelSetValue::quote(name));
    return put(kind_ == "key" ? fields_ : members_, "arch", KernelSetValue::list(texts));
  }
  KernelSetEntry& provider(const std::string& name) { return text("provider", name); }
  KernelSetEntry& receipt(const std::string& name) { return text("receipt", name); }
  // "curated", what a deployment builds, or "all", every legal key.
  KernelSetEntry& tiles(const std::string& which) { return text("tiles", which); }

  // Whether the kernels of other stages come along that these need; by default they do.
  KernelSetEntry& companions(bool wanted) {
    return put(members_, "companions", KernelSetValue(wanted).json());
  }

  // Sweeps: keep the keys whose field has this value, or one of these.
  KernelSetEntry& where(const std::string& field, const KernelSetValue& value) {
    return put(fields_, field, value.json());
  }
  KernelSetEntry& where(const std::string& field, std::initializer_list<KernelSetValue> values) {
    std::vector<std::string> texts;
    for (const KernelSetValue& value : values) texts.push_back(value.json());
    return put(fields_, field, KernelSetValue::list(texts));
  }
  // Single keys and models: set a field; fields that are not set take their default.
  KernelSetEntry& field(const std::string& name, const KernelSetValue& value) {
    return put(fields_, name, value.json());
  }

  std::string to_json() const {
    std::vector<std::pair<std::string, std::string>> members = members_;
    const bool has_fields = kind_ == "key" || kind_ == "model";
    if (has_fields) members.emplace_back(kind_, object(fields_));
    if (!has_fields && !fields_.empty()) members.emplace_back("where", object(fields_));
    return object(members);
  }

 private:
  using Members = std::vector<std::pair<std::string, std::string>>;

  KernelSetEntry& text(const std::string& name, const std::string& value) {
    return put(members_, name, KernelSetValue::quote(value));
  }

  KernelSetEntry& put(Members& members, const std::string& name, std::string json) {
    members.emplace_back(name, std::move(json));
    return *this;
  }

  static std::string object(const Members& members) {
    std::string out = "{";
    for (std::size_t i = 0; i < members.size(); ++i) {
      out += (i == 0 ? "" : ", ") + KernelSetValue::quote(members[i].first) + ": ";
      out += members[i].second;
    }
    return out + "}";
  }

  std::string kind_;
  Members members_;
  Members fields_;
};

// What a file declares.
class KernelSet {
 public:
  // The valid kernels of a family, such as "gemm.standard"; narrow them with where(). "fmha.bwd"
  // is all stages of the backward pass.
  KernelSetEntry& sweep(const std::string& family) { return add("family", family); }
  // A named set, such as "gemm.fp16_rcr_essential".
  KernelSetEntry& preset(const std::string& name) { return add("preset", name); }
  // What the layers of a transformer need: set its heads, head_dim and so on with field().
  KernelSetEntry& model() { return add("model", ""); }
  // One kernel of a family.
  KernelSetEntry& key(const std::string& family) { return add("key", family); }

  // The declarations as a spec document.
  std::string to_json() const {
    std::string out = "{\"ckdisp\": 1, \"sets\": [";
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      out += (i == 0 ? "\n  " : ",\n  ") + entries_[i].to_json();
    }
    return out + "\n]}\n";
  }

 private:
  KernelSetEntry& add(const char* kind, const std::string& name) {
    return entries_.emplace_back(kind, name);
  }

  std::deque<KernelSetEntry> entries_;  // a deque: references to entries stay valid
};

}  // namespace ckdisp

// Declares the kernels of this file: the block fills the ckdisp::KernelSet called `set_variable`.
#define CKDISP_KERNEL_SET(set_variable) \
  inline void ckdisp_kernel_set(::ckdisp::KernelSet& set_variable)
