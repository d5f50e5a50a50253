#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <ckdisp/names.hpp>
#include <ckdisp/registry.hpp>

#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"

namespace ckdisp::python {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kPriorities[] = {"low", "normal", "high"};

Priority priority_of(const std::string& name) {
  return static_cast<Priority>(
      static_cast<int>(detail::parse_name(name, kPriorities, 3, "priority")) - 1);
}

const char* op_name(Kernel kernel) {
  switch (kernel.op()) {
    case Op::gemm:
      return "gemm";
    case Op::conv:
      return "conv";
    case Op::fmha:
      return "fmha";
  }
  return "?";
}

Filter filter_of(const Fields& fields) {
  Filter filter;
  for (const auto& [field, value] : fields) filter.where(field, value);
  return filter;
}

// The Python key object, made by the class that owns the fields.
nb::object key_of(Kernel kernel) {
  const nb::object values = nb::module_::import_("json").attr("loads")(kernel.key_json());
  const nb::module_ ops = nb::module_::import_("ckdisp.codegen.ops");
  return ops.attr("key_class")(op_name(kernel)).attr("from_dict")(values);
}

}  // namespace

void bind_registry(nb::module_& module) {
  nb::class_<Library>(module, "Library", "A loaded kernel library.")
      .def_static("load", &Library::load, nb::arg("path"))
      .def_prop_ro("name", &Library::name)
      .def_prop_ro("path", &Library::path)
      .def_prop_ro("build_info", &Library::build_info, "JSON text.")
      .def("kernels", &Library::kernels);

  nb::class_<Kernel>(module, "Kernel", "One kernel of a loaded library.")
      .def_prop_ro("name", &Kernel::name)
      .def_prop_ro("op", &op_name)
      .def_prop_ro(
          "family",
          [](Kernel k) { return k.visit_key([](const auto& key) { return to_name(key.family); }); })
      .def_prop_ro("arch", [](Kernel k) { return to_name(k.arch()); })
      .def_prop_ro("provider",
                   [](Kernel k) {
                     return k.visit_key([](const auto& key) { return to_name(key.provider); });
                   })
      .def_prop_ro("library", &Kernel::library)
      .def_prop_ro("key", &key_of, nb::sig("def key(self) -> ckdisp.codegen.key.KernelKey"),
                   "The kernel key.")
      .def("field", &Kernel::field, nb::arg("name"),
           "A key field as text, or None when the key has no such field.")
      .def("__repr__", [](Kernel k) { return "<Kernel " + std::string(k.name()) + ">"; })
      .def("__hash__", [](Kernel k) { return reinterpret_cast<std::size_t>(k.table()); })
      .def(
          "__eq__",
          [](Kernel a, nb::handle b) {
            Kernel other = a;
            return nb::try_cast<Kernel>(b, other) && a == other;
          },
          nb::sig("def __eq__(self, other: object, /) -> bool"));

  nb::class_<Registry>(module, "Registry", "The kernels a program knows.")
      .def(nb::init<std::string>(), nb::arg("name") = "kernels")
      .def(
          "add_library",
          [](Registry& self, const Library& library, const std::string& priority) {
            self.add(library, priority_of(priority));
          },
          nb::arg("library"), nb::arg("priority") = "normal")
      .def(
          "add",
          [](Registry& self, Kernel kernel, const std::string& priority) {
            self.add(kernel, priority_of(priority));
          },
          nb::arg("kernel"), nb::arg("priority") = "normal")
      .def("merge", &Registry::merge, nb::arg("other"))
      .def(
          "remove", [](Registry& self, const std::string& name) { return self.remove(name); },
          nb::arg("name"))
      .def("clear", &Registry::clear)
      .def_prop_ro("name", &Registry::name)
      .def_prop_ro("generation", &Registry::generation)
      .def("__len__", &Registry::size)
      .def(
          "find", [](const Registry& self, const std::string& name) { return self.find(name); },
          nb::arg("name"))
      .def(
          "priority",
          [](const Registry& self, const std::string& name) -> std::optional<std::string> {
            const auto found = self.priority(name);
            if (!found) return std::nullopt;
            return kPriorities[static_cast<int>(*found) + 1];
          },
          nb::arg("name"))
      .def(
          "kernels",
          [](const Registry& self, const Fields& fields) {
            return self.kernels(filter_of(fields));
          },
          nb::arg("fields") = Fields())
      .def(
          "filter",
          [](const Registry& self, const std::function<bool(Kernel)>& accept) {
            return self.filter(Filter().accept(accept));
          },
          nb::arg("accept"))
      .def("to_json", &Registry::to_json);
}

}  // namespace ckdisp::python
