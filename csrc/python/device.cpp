#include <ckdisp/device.hpp>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"

namespace ckdisp::python {

void bind_device(nb::module_& module) {
  nb::class_<Device>(module, "Device", "A GPU that HIP or CUDA shows to this process.")
      .def_ro("index", &Device::index, "That of its runtime.")
      .def_prop_ro(
          "kind", [](const Device& d) { return d.kind == DeviceKind::hip ? "hip" : "cuda"; },
          "Whose runtime shows it: 'hip' or 'cuda'.")
      .def_ro("number", &Device::number, "What calls take: the index, plus 128 for CUDA.")
      .def_ro("name", &Device::name)
      .def_ro("arch", &Device::arch, "Such as 'gfx942' or 'sm_90a'.")
      .def_ro("target", &Device::target, "The arch with its features: 'gfx942:sramecc+:xnack-'.")
      .def_ro("compute_units", &Device::compute_units)
      .def_ro("wave_size", &Device::wave_size)
      .def_ro("memory_bytes", &Device::memory_bytes)
      .def("__index__", [](const Device& d) { return d.number; })
      .def("__str__",
           [](const Device& d) {
             return (d.kind == DeviceKind::hip ? "hip:" : "cuda:") + std::to_string(d.index);
           })
      .def("__repr__", [](const Device& d) {
        return "<" + device_text(d.number) + ": " + d.name + ", " + d.target + ">";
      });
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  module.def("devices", &devices, unlocked);
  module.def("device", &device, nb::arg("number"), unlocked);
  module.def("why_no_devices", &why_no_devices, unlocked);
  module.def("free_device_workspaces", &free_device_workspaces, unlocked);
}

}  // namespace ckdisp::python
