#include "output.hpp"

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>
#include <ckdisp/problem.hpp>

#include <string>

#include "cached.hpp"
#include "import.hpp"

namespace ckdisp::python {

Dtype output_type(nb::handle out_dtype, const std::optional<Tensor>& out, Dtype input) {
  if (!out_dtype.is_none()) return dtype_of(out_dtype);
  return out ? out->dtype : default_output(input);
}

void check_writable(const Tensor& out) {
  if (out.writable) return;
  if (out.misaligned) {
    const std::string size = std::to_string(size_of(out.dtype));
    throw InvalidArgument(std::string(out.name) +
                          " is misaligned: its address and strides must be "
                          "multiples of " +
                          size + " bytes, the size of its elements");
  }
  throw InvalidArgument(std::string(out.name) + " is read-only; pass a writable array");
}

void check_type(const Tensor& out, Dtype wanted) {
  if (out.dtype == wanted) return;
  throw InvalidArgument(std::string("out has type ") + to_name(out.dtype) +
                        " and out_dtype asks for " + to_name(wanted) +
                        "; leave out_dtype away or make them equal");
}

nb::object new_output(const Tensor& like, nb::handle shape, Dtype dtype, bool fnuz,
                      const CallStream& stream, const Ranks& ranks, Tensor* tensor) {
  nb::object output =
      like.kind == Kind::direct || like.device >= 0
          ? cached().framework_empty(like.object, shape, dtype, like.device >= 0, fnuz)
          : cached().numpy_empty(shape, dtype);
  *tensor = import_tensor(output, "out", stream, ranks);
  if (tensor->device != like.device) {
    throw DeviceError(std::string("the framework of ") + like.name + " (" +
                      class_name(like.object) + ") made a result that is not on the device of " +
                      like.name + "; pass out=");
  }
  return output;
}

nb::object finish_output(const Tensor& like, nb::object output) {
  const bool made_by_numpy = like.kind == Kind::dlpack && like.device < 0;
  return made_by_numpy ? cached().convert_like(like.object, output) : output;
}

}  // namespace ckdisp::python
