#include <ckdisp/dispatcher.hpp>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <ckdisp/errors.hpp>
#include <ckdisp/names.hpp>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "call.hpp"
#include "conv_call.hpp"
#include "fmha_call.hpp"
#include "integers.hpp"
#include "output.hpp"

namespace ckdisp::python {
namespace {

// The characters of a string, as long as it lives; null for what is no string, or no C string.
const char* text_of(nb::handle object) {
  Py_ssize_t size = 0;
  const char* text =
      PyUnicode_Check(object.ptr()) ? PyUnicode_AsUTF8AndSize(object.ptr(), &size) : nullptr;
  if (text != nullptr && std::strlen(text) == static_cast<std::size_t>(size)) return text;
  PyErr_Clear();
  return nullptr;
}

[[noreturn]] void not_kernels(const char* where, nb::handle object) {
  throw InvalidArgument(std::string("the dispatcher's callback returned ") + where + shown(object) +
                        "; return a list of kernels, or of their names, best first");
}

// Asks a Python callable that orders kernels, or their names.
std::vector<Kernel> ask(nb::handle callback, const Registry& registry, const AnyProblem& problem,
                        const std::vector<Kernel>& candidates) {
  const nb::gil_scoped_acquire lock;
  const nb::object answer = std::visit(
      [&](const auto& data) -> nb::object { return callback(data, candidates); }, problem);
  if (nb::isinstance<nb::str>(answer) || !nb::hasattr(answer, "__iter__")) {
    not_kernels("", answer);
  }
  std::vector<Kernel> order;
  for (const nb::handle item : nb::iter(answer)) {
    Kernel kernel = candidates.front();
    if (nb::try_cast(item, kernel)) {
      order.push_back(kernel);
      continue;
    }
    if (!nb::isinstance<nb::str>(item)) not_kernels("a list with ", item);
    const char* name = text_of(item);
    const auto found = name != nullptr ? registry.find(name) : std::nullopt;
    if (!found) {
      throw InvalidArgument("the dispatcher's callback returned the name " + shown(item) +
                            ", which the registry does not hold");
    }
    order.push_back(*found);
  }
  return order;
}

DispatcherOptions options_of(const Registry& registry, nb::handle strategy, int num_threads,
                             std::vector<std::string> arches) {
  DispatcherOptions options;
  options.arches = std::move(arches);
  options.num_threads = num_threads;
  if (PyCallable_Check(strategy.ptr())) {
    options.ordering = [strategy, registry](const auto& problem, const auto& candidates) {
      return ask(strategy, registry, problem, candidates);
    };
  } else {
    constexpr const char* kNames[] = {"heuristic", "first"};
    const auto name = nb::cast<std::string>(nb::str(strategy));
    options.strategy = static_cast<Strategy>(detail::parse_name(name, kNames, 2, "strategy"));
  }
  return options;
}

// Owns its callback where the garbage collector can see it: a callback often refers back to the
// dispatcher, if only through the globals of its module.
struct CollectedDispatcher : Dispatcher {
  CollectedDispatcher(const Registry& registry, nb::object strategy, int num_threads,
                      std::vector<std::string> arches)
      : Dispatcher(registry, options_of(registry, strategy, num_threads, std::move(arches))),
        callback(std::move(strategy)) {}
  nb::object callback;
};

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    Py_VISIT(nb::inst_ptr<CollectedDispatcher>(self)->callback.ptr());
  }
  return 0;
}

int clear(PyObject* self) {
  if (nb::inst_ready(self)) nb::inst_ptr<CollectedDispatcher>(self)->callback.reset();
  return 0;
}

PyType_Slot kSlots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                        {Py_tp_clear, reinterpret_cast<void*>(clear)},
                        {0, nullptr}};

// Null for None.
const char* kernel_name(nb::handle kernel) {
  if (kernel.is_none()) return nullptr;
  if (const char* name = text_of(kernel)) return name;
  throw InvalidArgument("kernel is " + shown(kernel) +
                        "; pass the name of a kernel, or None to have one chosen");
}

const char* epilogue_name(nb::handle epilogue) {
  if (const char* name = text_of(epilogue)) return name;
  throw InvalidArgument("epilogue is " + shown(epilogue) +
                        "; pass the name of one, such as 'passthrough' or 'add'");
}

double scale_value(nb::handle scale) {
  double value = 0;
  if (nb::try_cast(scale, value)) return value;
  throw InvalidArgument("scale is " + shown(scale) + "; pass a finite number");
}

// A stream by its handle, or an object that has one: PyTorch's, or ckdisp's.
CallStream stream_value(nb::handle stream) {
  if (stream.is_none()) return {};
  nb::object handle = nb::borrow(stream);
  for (const char* attribute : {"cuda_stream", "handle"}) {
    if (nb::hasattr(stream, attribute)) handle = nb::getattr(stream, attribute);
  }
  std::uintptr_t value = 0;
  if (nb::try_cast(handle, value)) return value;
  throw InvalidArgument(
      "stream is " + shown(stream) +
      "; pass a torch.cuda.Stream, a ckdisp.Stream, the handle of a HIP stream (0 is "
      "the default stream), or None for the current one");
}

// Without Python's lock; `kernel` is null to have one chosen.
template <class Call>
void run(const CollectedDispatcher& self, const char* kernel, const Call& call) {
  const nb::gil_scoped_release unlock;
  if (kernel == nullptr) {
    self.run(call.problem, call.args, call.launch);
  } else {
    self.run(kernel, call.problem, call.args, call.launch);
  }
}

nb::object gemm(const CollectedDispatcher& self, nb::handle a, nb::handle b, nb::handle d,
                nb::handle epilogue, nb::handle out, nb::handle out_dtype, nb::handle scale,
                nb::handle clamp, nb::handle k_batch, nb::handle kernel, nb::handle stream) {
  const char* name = kernel_name(kernel);
  const GemmRequest request{a,
                            b,
                            d,
                            out,
                            out_dtype,
                            clamp,
                            epilogue_name(epilogue),
                            scale_value(scale),
                            k_batch_from(k_batch),
                            name,
                            stream_value(stream)};
  GemmCall call = resolve(self, request);
  run(self, name, call);
  if (!out.is_none()) return std::move(call.output);
  return finish_output(call.a, std::move(call.output));
}

// The keywords that the three directions share.
struct ConvOptions {
  ConvMotion motion;
  nb::handle out, out_dtype, k_batch, kernel, stream;
};

nb::object convolve(const CollectedDispatcher& self, Family family, nb::handle first,
                    nb::handle second, nb::handle shape, const ConvOptions& options) {
  const char* name = kernel_name(options.kernel);
  const ConvRequest request{family,
                            first,
                            second,
                            shape,
                            options.motion,
                            options.out,
                            options.out_dtype,
                            k_batch_from(options.k_batch),
                            stream_value(options.stream)};
  const ConvCall call = resolve(request);
  run(self, name, call);
  return finish_output(call);
}

nb::object conv_fwd(const CollectedDispatcher& self, nb::handle x, nb::handle w, nb::handle stride,
                    nb::handle padding, nb::handle dilation, nb::handle groups, nb::handle out,
                    nb::handle out_dtype, nb::handle kernel, nb::handle stream) {
  const nb::int_ one(1);
  const ConvOptions options{
      {stride, padding, dilation, groups}, out, out_dtype, one, kernel, stream};
  return convolve(self, Family::conv_fwd, x, w, nb::none(), options);
}

template <Family family>
nb::object conv_gradient(const CollectedDispatcher& self, nb::handle first, nb::handle second,
                         nb::handle shape, nb::handle stride, nb::handle padding,
                         nb::handle dilation, nb::handle groups, nb::handle out,
                         nb::handle out_dtype, nb::handle k_batch, nb::handle kernel,
                         nb::handle stream) {
  const ConvOptions options{
      {stride, padding, dilation, groups}, out, out_dtype, k_batch, kernel, stream};
  return convolve(self, family, first, second, shape, options);
}

nb::object fmha(const CollectedDispatcher& self, const char* family, const nb::dict& given) {
  const FmhaOptions options(given);
  const char* name = kernel_name(options["kernel"]);
  FmhaCall call = resolve_fmha(fmha_family_from(family), options, stream_value(options["stream"]));
  call.point_scales();
  run(self, name, call);
  return finish_results(call);
}

// An attention call with its plan, to be run again and again on the same tensors.
struct PreparedFmha {
  nb::object dispatcher;
  FmhaCall call;
  Plan plan;

  PreparedFmha(nb::object owner, const char* family, const nb::dict& given)
      : dispatcher(std::move(owner)) {
    const FmhaOptions options(given);
    const char* name = kernel_name(options["kernel"]);
    call = resolve_fmha(fmha_family_from(family), options, stream_value(options["stream"]));
    call.point_scales();
    plan = name == nullptr ? self().plan(call.problem, call.launch)
                           : self().plan(name, call.problem, call.launch);
  }

  const CollectedDispatcher& self() const { return *nb::inst_ptr<CollectedDispatcher>(dispatcher); }

  nb::object run() const {
    {
      const nb::gil_scoped_release unlock;
      self().run(plan, call.problem, call.args, call.launch);
    }
    return finish_results(call);
  }

  std::vector<double> time() const {
    const nb::gil_scoped_release unlock;
    return self().time(plan, call.problem, call.args, call.launch);
  }
};

GemmProblemData problem_from_tensors(const CollectedDispatcher* dispatcher, nb::handle a,
                                     nb::handle b, nb::handle d, nb::handle epilogue,
                                     nb::handle out, nb::handle out_dtype, nb::handle k_batch) {
  const GemmRequest request{
      a, b, d, out, out_dtype, nb::none(), epilogue_name(epilogue), 1.0, k_batch_from(k_batch)};
  return resolve_problem(dispatcher, request);
}

Launch on_device(int device) {
  Launch launch;
  launch.device = device;
  return launch;
}

std::vector<std::string> arch_names(const CollectedDispatcher& self) {
  std::vector<std::string> names;
  for (const Arch arch : self.arches()) names.emplace_back(to_name(arch));
  return names;
}

// What may be asked about the problems of an op.
template <class Problem>
void bind_questions(nb::class_<CollectedDispatcher>& type) {
  using D = CollectedDispatcher;
  type.def(
          "select",
          [](const D& d, const Problem& p, int device) { return d.select(p, on_device(device)); },
          nb::arg("problem"), nb::arg("device") = -1)
      .def(
          "explain",
          [](const D& d, const Problem& p, int device) { return d.explain(p, on_device(device)); },
          nb::arg("problem"), nb::arg("device") = -1)
      .def(
          "plan",
          [](const D& d, const Problem& p, int device) { return d.plan(p, on_device(device)); },
          nb::arg("problem"), nb::arg("device") = -1);
}

template <Family family>
void bind_gradient(nb::class_<CollectedDispatcher>& type, const char* name) {
  type.def(name, &conv_gradient<family>, nb::arg("first").none(), nb::arg("second").none(),
           nb::arg("shape").none(), nb::arg("stride").none(), nb::arg("padding").none(),
           nb::arg("dilation").none(), nb::arg("groups").none(), nb::arg("out").none(),
           nb::arg("out_dtype").none(), nb::arg("k_batch").none(), nb::arg("kernel").none(),
           nb::arg("stream").none());
}

}  // namespace

void bind_dispatcher(nb::module_& module) {
  nb::class_<Candidate>(module, "Candidate", "What a dispatcher thinks of one kernel.")
      .def_ro("kernel", &Candidate::kernel)
      .def_ro("supported", &Candidate::supported)
      .def_prop_ro(
          "reason", [](const Candidate& c) { return to_name(c.reason); },
          "Name out of the catalogue of reasons; 'none' when supported.")
      .def_ro("text", &Candidate::text, "Why not, in words.")
      .def_ro("cost", &Candidate::cost, "Only the order matters.")
      .def_ro("rank", &Candidate::rank, "Place in the preference, from 0; -1 when not supported.")
      .def_ro("chosen", &Candidate::chosen,
              "Whether select() and plan() take it: none is where they raise.")
      .def_ro("k_batch", &Candidate::k_batch,
              "Parts that the sums of a GEMM or convolution are split into; else 0.");
  nb::class_<Stage>(module, "Stage", "One step of a plan.")
      .def_ro("kernel", &Stage::kernel)
      .def_prop_ro(
          "kind",
          [](const Stage& s) {
            constexpr const char* kKinds[] = {"prepare", "kernel", "convert"};
            return kKinds[static_cast<int>(s.kind)];
          },
          "'prepare' must happen before each run and is no part of the kernel's time; 'convert' is "
          "a "
          "second kernel, which makes the result.")
      .def_ro("workspace_offset", &Stage::workspace_offset)
      .def_ro("workspace_bytes", &Stage::workspace_bytes)
      .def_ro("num_splits", &Stage::num_splits,
              "Parts of the sums that stages of an attention hand on; else the k_batch of the "
              "problem, or the one that was chosen.");
  nb::class_<Plan>(module, "Plan", "The ordered steps that solve a problem.")
      .def_ro("stages", &Plan::stages)
      .def_ro("workspace_bytes", &Plan::workspace_bytes)
      .def("__str__", [](const Plan& p) { return to_string(p); });

  nb::class_<CollectedDispatcher> type(module, "Dispatcher", nb::type_slots(kSlots),
                                       "Picks a kernel for a problem and runs it.");
  type.def(nb::init<const Registry&, nb::object, int, std::vector<std::string>>(),
           nb::arg("registry"), nb::arg("strategy") = "heuristic", nb::arg("num_threads") = 0,
           nb::arg("arches") = std::vector<std::string>())
      .def_prop_ro("num_threads", [](const CollectedDispatcher& d) { return d.num_threads(); })
      .def_prop_ro("arches", &arch_names)
      .def("gemm", &gemm, nb::arg("a").none(), nb::arg("b").none(), nb::arg("d").none(),
           nb::arg("epilogue").none(), nb::arg("out").none(), nb::arg("out_dtype").none(),
           nb::arg("scale").none(), nb::arg("clamp").none(), nb::arg("k_batch").none(),
           nb::arg("kernel").none(), nb::arg("stream").none())
      .def("conv_fwd", &conv_fwd, nb::arg("x").none(), nb::arg("w").none(),
           nb::arg("stride").none(), nb::arg("padding").none(), nb::arg("dilation").none(),
           nb::arg("groups").none(), nb::arg("out").none(), nb::arg("out_dtype").none(),
           nb::arg("kernel").none(), nb::arg("stream").none());
  type.def("fmha", &fmha, nb::arg("family"), nb::arg("options"));
  bind_gradient<Family::conv_bwd_data>(type, "conv_bwd_data");
  bind_gradient<Family::conv_bwd_weight>(type, "conv_bwd_weight");
  bind_questions<GemmProblemData>(type);
  bind_questions<ConvProblemData>(type);
  bind_questions<FmhaProblemData>(type);
  nb::class_<PreparedFmha>(module, "FmhaCall", "An attention call that can be run again.")
      .def(
          "__init__",
          [](PreparedFmha* self, nb::object dispatcher, const char* family, const nb::dict& given) {
            if (!nb::isinstance<CollectedDispatcher>(dispatcher))
              nb::raise_type_error("no dispatcher");
            new (self) PreparedFmha(std::move(dispatcher), family, given);
          },
          nb::arg("dispatcher"), nb::arg("family"), nb::arg("options"))
      .def_prop_ro("problem", [](const PreparedFmha& c) { return c.call.problem; })
      .def_ro("plan", &PreparedFmha::plan)
      .def("run", &PreparedFmha::run, nb::sig("def run(self) -> Any"),
           "Computes the results anew, in the same memory, and returns them.")
      .def("time", &PreparedFmha::time, "Runs it; the seconds that each stage of the plan took.");
  module.def("gemm_problem", &problem_from_tensors, nb::arg("dispatcher").none(),
             nb::arg("a").none(), nb::arg("b").none(), nb::arg("d").none(),
             nb::arg("epilogue").none(), nb::arg("out").none(), nb::arg("out_dtype").none(),
             nb::arg("k_batch").none());
}

}  // namespace ckdisp::python
