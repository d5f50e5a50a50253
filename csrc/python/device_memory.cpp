// Memory, streams and events of devices, and tensors in that memory for other frameworks. Addresses
// and handles of streams are integers; ckdisp.device_array and ckdisp.streams make objects of them.
#include <ckdisp/device.hpp>
#include <ckdisp/errors.hpp>

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "import.hpp"

namespace ckdisp::python {
namespace {

using Address = std::uintptr_t;

void* pointer(Address address) { return reinterpret_cast<void*>(address); }
Address address_of(const void* pointer) { return reinterpret_cast<Address>(pointer); }

// Frees without the interpreter lock: freeing waits for work that uses the memory.
class Memory {
 public:
  Memory(std::size_t bytes, int device) : memory_(bytes, device) {}
  ~Memory() {
    const nb::gil_scoped_release unlocked;
    const DeviceMemory freed(std::move(memory_));
  }
  Address address() const { return address_of(memory_.data()); }

 private:
  DeviceMemory memory_;
};

// Host memory that is read or written must outlive the call, so the stream is waited for.
void copy_and_wait(Address to, Address from, std::size_t bytes, Copy kind, Address stream,
                   int device) {
  copy_async(pointer(to), pointer(from), bytes, kind, pointer(stream), device);
  synchronize_stream(pointer(stream), device);
}

using Sizes = std::vector<std::int64_t>;
using ElementType = std::pair<int, int>;  // DLPack's code, and bits
// Address, shape, strides in elements, element type, device type and index.
using View = std::tuple<Address, Sizes, Sizes, ElementType, std::pair<int, int>>;

nb::object export_view(nb::handle owner, Address address, const Sizes& shape, const Sizes& strides,
                       ElementType type, std::pair<int, int> device, nb::handle max_version) {
  const std::vector<std::size_t> sizes(shape.begin(), shape.end());
  const nb::dlpack::dtype dtype{static_cast<std::uint8_t>(type.first),
                                static_cast<std::uint8_t>(type.second), 1};
  const nb::ndarray<nb::array_api> view(pointer(address), sizes.size(), sizes.data(), owner,
                                        strides.data(), dtype, device.first, device.second);
  return nb::cast(view).attr("__dlpack__")(nb::arg("max_version") = max_version);
}

View import_view(nb::handle capsule) {
  bool writable = true;
  const dlpack::Tensor* view = tensor_in(capsule, &writable);
  if (view == nullptr) {
    throw InvalidArgument(
        "the tensor is exported in a DLPack version that ckdisp cannot read; pass a NumPy array");
  }
  Sizes shape(view->shape, view->shape + view->ndim), strides(shape.size());
  std::int64_t dense = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = view->strides != nullptr ? view->strides[i] : dense;
    dense *= shape[i];
  }
  return {address_of(view->data) + view->byte_offset,
          std::move(shape),
          std::move(strides),
          {view->dtype.code, view->dtype.bits * view->dtype.lanes},
          {view->device.type, view->device.id}};
}

}  // namespace

void bind_device_memory(nb::module_& module) {
  const nb::call_guard<nb::gil_scoped_release> unlocked;
  nb::class_<Memory>(module, "Memory", "Memory of one device, freed with the object.")
      .def(nb::init<std::size_t, int>(), nb::arg("bytes"), nb::arg("device"), unlocked)
      .def_prop_ro("address", &Memory::address, "0 where there are no bytes.");
  nb::class_<Event>(module, "Event", "A point in a stream's work, with its time.")
      .def(nb::init<int>(), nb::arg("device"), unlocked)
      .def(
          "record", [](const Event& e, Address stream) { e.record(pointer(stream)); },
          nb::arg("stream"), unlocked)
      .def("synchronize", &Event::synchronize, unlocked)
      .def("done", &Event::done, unlocked)
      .def_static("milliseconds", &Event::milliseconds, nb::arg("start"), nb::arg("stop"),
                  unlocked);
  nb::class_<Stream>(module, "Stream", "A queue of work on one device.")
      .def(nb::init<int>(), nb::arg("device"), unlocked)
      .def_prop_ro("handle", [](const Stream& s) { return address_of(s.handle()); })
      .def("wait", &Stream::wait, nb::arg("event"), "Later work comes after the event.", unlocked);
  module.def(
      "copy_in",
      [](Address to, Address from, std::size_t bytes, Address stream, int device) {
        copy_and_wait(to, from, bytes, Copy::host_to_device, stream, device);
      },
      nb::arg("to"), nb::arg("host"), nb::arg("bytes"), nb::arg("stream"), nb::arg("device"),
      unlocked);
  module.def(
      "copy_out",
      [](Address to, Address from, std::size_t bytes, Address stream, int device) {
        copy_and_wait(to, from, bytes, Copy::device_to_host, stream, device);
      },
      nb::arg("host"), nb::arg("source"), nb::arg("bytes"), nb::arg("stream"), nb::arg("device"),
      unlocked);
  module.def(
      "copy_within",
      [](Address to, Address from, std::size_t bytes, Address stream, int device) {
        copy_async(pointer(to), pointer(from), bytes, Copy::device_to_device, pointer(stream),
                   device);
      },
      nb::arg("to"), nb::arg("source"), nb::arg("bytes"), nb::arg("stream"), nb::arg("device"),
      "Puts the copy on the stream.", unlocked);
  module.def(
      "fill_zero",
      [](Address memory, std::size_t bytes, Address stream, int device) {
        fill_async(pointer(memory), 0, bytes, pointer(stream), device);
      },
      nb::arg("memory"), nb::arg("bytes"), nb::arg("stream"), nb::arg("device"),
      "Puts a memset on the stream.", unlocked);
  module.def("synchronize", &synchronize, nb::arg("device"), unlocked);
  module.def(
      "synchronize_stream",
      [](Address stream, int device) { synchronize_stream(pointer(stream), device); },
      nb::arg("stream"), nb::arg("device"), unlocked);
  module.def(
      "order_streams",
      [](Address earlier, Address later, int device) {
        order_streams(pointer(earlier), pointer(later), device);
      },
      nb::arg("earlier"), nb::arg("later"), nb::arg("device"),
      "Later work of the stream `later` comes after all that `earlier` holds now.", unlocked);
  module.def("export_view", &export_view, nb::arg("owner"), nb::arg("address"), nb::arg("shape"),
             nb::arg("strides"), nb::arg("type"), nb::arg("device"), nb::arg("max_version").none(),
             "A capsule of DLPack that keeps `owner` alive.");
  module.def("import_view", &import_view, nb::arg("capsule"),
             "What a capsule of DLPack says: address, shape, strides in elements, (code, bits), "
             "(device type, index). The memory is valid while the capsule lives.");
}

}  // namespace ckdisp::python
