#include "bindings.hpp"
#include "cached.hpp"

NB_MODULE(_core, module) {
  using namespace ckdisp::python;
  module.doc() = "The C++ runtime of ckdisp. Use the classes of the package, which wrap these.";
  make_cached();
  bind_errors(module);
  bind_schema(module);
  bind_registry(module);
  bind_problem(module);
  bind_conv_problem(module);
  bind_fmha_problem(module);
  bind_device(module);
  bind_device_memory(module);
  bind_dispatcher(module);
  module.def("set_leak_warnings", &nb::set_leak_warnings, nb::arg("on"),
             "Whether objects that live when the process ends are told of on stderr.");
}
