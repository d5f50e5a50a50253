// The schema as the compiled runtime sees it, for parity with the Python one, and the host.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ckdisp/cpu.hpp>
#include <ckdisp/generated/arches.hpp>
#include <ckdisp/generated/keys.hpp>
#include <ckdisp/names.hpp>

#include <ckdisp/abi.hpp>

#include <cstdio>
#include <string>
#include <vector>

#include "bindings.hpp"

namespace ckdisp::python {
namespace {

nb::dict enums() {
  nb::dict all;
  visit_enums([&](auto names) {
    nb::list values;
    for (const char* value : names.values) values.append(value);
    all[names.type] = nb::tuple(values);
  });
  return all;
}

nb::list arches() {
  nb::list all;
  for (std::size_t i = 0; i < kArchCount; ++i) {
    const ArchFacts& facts = kArches[i];
    nb::list features, implies;
    for (const char* const* feature = facts.features; *feature != nullptr; ++feature) {
      features.append(*feature);
    }
    for (std::size_t j = 0; j < kArchCount; ++j) {
      if (j != i && ((facts.implies >> j) & 1u)) implies.append(kArches[j].name);
    }
    nb::dict item;
    item["name"] = facts.name;
    item["gpu"] = facts.gpu;
    item["device_kind"] = !facts.gpu ? "" : facts.device == DeviceKind::hip ? "hip" : "cuda";
    item["family"] = facts.family;
    item["wave_size"] = facts.wave_size;
    item["lds_bytes"] = facts.lds_bytes;
    item["vector_bytes"] = facts.vector_bytes;
    item["vector_registers"] = facts.vector_registers;
    item["features"] = nb::tuple(features);
    item["implies"] = nb::tuple(implies);
    all.append(item);
  }
  return all;
}

nb::dict key_fields() {
  nb::dict all;
  visit_keys([&](const char* op, const auto& key) {
    nb::list names;
    visit_fields(key, [&](const char* name, const auto&) { names.append(name); });
    all[op] = names;
  });
  return all;
}

std::vector<std::string> host_arch_names() {
  std::vector<std::string> names;
  for (const Arch arch : host_arches()) names.emplace_back(to_name(arch));
  return names;
}

std::string schema_hash() {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(kSchemaHash));
  return text;
}

}  // namespace

void bind_schema(nb::module_& module) {
  module.attr("abi_version") = kAbiVersion;
  module.attr("max_d") = kMaxD;
  module.def("schema_hash", &schema_hash, "16 hex digits over every enumeration and key field.");
  module.def("enums", &enums, nb::sig("def enums() -> dict[str, tuple[str, ...]]"),
             "Name of every C++ enumeration -> its values by code.");
  module.def("arches", &arches, nb::sig("def arches() -> list[dict[str, object]]"),
             "The arch table as compiled in.");
  module.def("key_fields", &key_fields, nb::sig("def key_fields() -> dict[str, list[str]]"),
             "Op -> the fields of its key, in order.");
  module.def("host_arches", &host_arch_names,
             "Architectures that run here, best first; CKDISP_CPU_LEVEL lowers the first.");
  module.def("default_num_threads", &default_num_threads,
             "Threads of CPU kernels unless told: CKDISP_NUM_THREADS, OMP_NUM_THREADS, CPUs.");
}

}  // namespace ckdisp::python
