#include "place.hpp"

#include <ckdisp/device.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/generated/arches.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <iterator>
#include <string>

namespace ckdisp::python {
namespace {

bool is_fp8(Dtype dtype) { return dtype == Dtype::fp8 || dtype == Dtype::bf8; }

void check_same_place(const Tensor& first, const Tensor& other) {
  if (other.device == first.device) return;
  const auto place = [](const Tensor& x) {
    return x.name + (x.device < 0 ? std::string(" is in the CPU's memory")
                                  : " is on " + device_text(x.device));
  };
  throw InvalidArgument(place(first) + " and " + place(other) +
                        "; move them to one place, e.g. with .to()");
}

void check_encoding(const Tensor& t, bool fnuz, const std::string& arch) {
  if (!is_fp8(t.dtype) || t.fnuz == fnuz) return;
  const char* wanted =
      t.dtype == Dtype::fp8 ? (fnuz ? "e4m3fnuz" : "e4m3fn") : (fnuz ? "e5m2fnuz" : "e5m2");
  throw InvalidArgument(std::string(t.name) + " holds " + to_name(t.dtype) +
                        (t.fnuz ? " in the FNUZ" : " in the OCP") + " encoding, and " + arch +
                        " computes with the other; convert it to float8_" + wanted);
}

}  // namespace

Place place_of(const std::vector<const Tensor*>& tensors, const CallStream& stream, Dtype result) {
  const Tensor& first = *tensors.front();
  bool any_fp8 = is_fp8(result);
  for (const Tensor* tensor : tensors) {
    check_same_place(first, *tensor);
    any_fp8 = any_fp8 || is_fp8(tensor->dtype);
  }
  Place place;
  place.launch.device = first.device;
  if (first.device >= 0) {
    place.launch.stream = stream_of(first, stream);
  } else if (stream) {
    throw InvalidArgument(
        "a stream was given, but the tensors are in the CPU's memory; leave stream away");
  }
  if (!any_fp8) return place;
  const std::string arch = first.device < 0 ? "the CPU" : device(first.device).arch;
  place.fnuz = std::any_of(std::begin(kArches), std::end(kArches), [&](const ArchFacts& facts) {
    return arch == facts.name && facts.fp8 == Fp8::fnuz;
  });
  for (const Tensor* tensor : tensors) check_encoding(*tensor, place.fnuz, arch);
  return place;
}

}  // namespace ckdisp::python
