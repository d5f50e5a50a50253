// Devices and dispatch to them, on the fake HIP runtime that CKDISP_HIP_RUNTIME names. What HIP
// shows is remembered by a process, so each case runs in its own.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "../../csrc/runtime/device_workspace.hpp"
#include "check.hpp"
#include "mock.hpp"

using namespace ckdisp;
using namespace mock;

namespace {

std::string runtime, driver;  // paths of the fakes

void in_process(const char* devices, void (*test)(), const char* cuda_devices = nullptr) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("CKDISP_HIP_RUNTIME", runtime.c_str(), 1);
    ::setenv("CKDISP_CUDA_DRIVER", driver.c_str(), 1);
    if (devices != nullptr) ::setenv("FAKE_HIP_DEVICES", devices, 1);
    if (cuda_devices != nullptr) ::setenv("FAKE_CUDA_DEVICES", cuda_devices, 1);
    test();
    std::fflush(nullptr);
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

template <class Function>
Function fake(const char* name, const std::string& path = runtime) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW);
  CHECK(library != nullptr);
  return reinterpret_cast<Function>(::dlsym(library, name));
}
std::string calls() { return fake<const char* (*)()>("fake_hip_calls")(); }
int blocks() { return fake<int (*)()>("fake_hip_blocks")(); }
std::string cuda_calls() { return fake<const char* (*)()>("fake_cuda_calls", driver)(); }
bool called(const std::string& log, const char* call) { return log.find(call) != log.npos; }

GemmKey on(Arch arch) {
  GemmKey key = default_key();
  key.arch = arch;
  return key;
}

Launch at(int device, void* stream = nullptr) {
  Launch launch{};
  launch.device = device;
  launch.stream = stream;
  return launch;
}

// A kernel for the GPU and one for the CPU; the first slot of behaviours is the GPU's.
Registry both() { return registry({kernel<0>("gpu", on(Arch::gfx942)), kernel<1>("cpu")}); }

void answers_without_a_runtime() {
  ::setenv("CKDISP_HIP_RUNTIME", "/nowhere/libamdhip64.so", 1);
  CHECK(devices().empty());
  CHECK(why_no_devices().find("CKDISP_HIP_RUNTIME='/nowhere/libamdhip64.so'") == 0);
  CHECK_THROWS(device(0), DeviceError, "there is no device 0: CKDISP_HIP_RUNTIME=");
  CHECK_THROWS(DeviceMemory(8), DeviceError, "no device can be used: CKDISP_HIP_RUNTIME=");
  const Dispatcher dispatcher(both());
  CHECK(dispatcher.select(problem()).name() == std::string("cpu"));
  CHECK(dispatcher.explain(problem())[1].text ==
        "runs on gfx942 devices, and there is none here (no HIP runtime)");
  CHECK_THROWS(dispatcher.run(problem(), args(), at(0)), DeviceError, "there is no device 0: ");
}

void survives_broken_runtimes() {
  ::setenv("CKDISP_HIP_RUNTIME", "/proc/self/exe", 1);  // cannot be loaded as a library
  CHECK(why_no_devices().find("is no usable HIP runtime: ") != std::string::npos);
  CHECK_THROWS(synchronize(), DeviceError, "correct or unset the variable");
}

void survives_runtimes_without_functions() {
  ::setenv("CKDISP_HIP_RUNTIME", "libm.so.6", 1);
  CHECK(why_no_devices().find("libm.so.6 has no function hipGetDeviceCount") != std::string::npos);
}

void answers_without_devices() {
  CHECK(devices().empty());
  CHECK(why_no_devices().find("hipErrorNoDevice (100): no ROCm-capable device") !=
        std::string::npos);
  CHECK(why_no_devices().find("rocminfo") != std::string::npos);
  CHECK_THROWS(Stream(), DeviceError, "there is no device 0: the HIP runtime (");
  const Dispatcher gpu(registry({kernel<0>("gpu", on(Arch::gfx942))}));
  CHECK_THROWS(gpu.run(problem(), args()), DeviceError,
               "run on gfx942 devices, and the call is for the CPU; there is no device here");
  CHECK_THROWS(gpu.run("gpu", problem(), args()), DeviceError, "there is no device here");
  CHECK_THROWS(gpu.select(problem()), DeviceError, "there is no device here");
  const std::vector<Candidate> all = gpu.explain(problem());
  CHECK(all[0].reason == Reason::device && !all[0].supported);
  CHECK(all[0].text == "runs on gfx942 devices, and there is none here (no device)");
  behaviours[0].supported = false;  // what a kernel cannot do weighs more than where it runs
  CHECK(gpu.explain(problem())[0].reason == Reason::pad);
  CHECK_THROWS(gpu.run(problem(), args()), UnsupportedProblem, "[pad] mock 0 refuses");
  CHECK(behaviours[0].runs == 0);
}

void plans_for_absent_devices() {
  DispatcherOptions options;
  options.arches = {"gfx942"};
  behaviours[0].workspace = 100;
  behaviours[0].prepares = true;
  const Dispatcher dispatcher(both(), options);
  CHECK(dispatcher.arches() == std::vector<Arch>{Arch::gfx942});
  CHECK(dispatcher.select(problem()).name() == std::string("gpu"));
  const Plan plan = dispatcher.plan(problem());
  CHECK(plan.stages.size() == 2 && plan.workspace_bytes == 100);
  const std::vector<Candidate> all = dispatcher.explain(problem());
  CHECK(all[0].supported && all[0].rank == 0);
  CHECK(all[1].reason == Reason::arch);
  CHECK(all[1].text == "was built for generic, and the dispatcher plans for gfx942");
  CHECK_THROWS(
      dispatcher.run(problem(), args()), DeviceError,
      "gpu runs on gfx942 devices, and the arguments are in the CPU's memory; there is no");
  CHECK_THROWS(dispatcher.run("gpu", problem(), args()), DeviceError, "there is no device here");
  CHECK(behaviours[0].runs == 0 && calls().find("hipMalloc") == std::string::npos);
  options.arches = {"gfx1100", "generic"};
  CHECK(Dispatcher(both(), options).select(problem()).name() == std::string("cpu"));
  options.arches = {"gfx943"};
  CHECK_THROWS(Dispatcher(both(), options), InvalidKey, "did you mean 'gfx942'?");
  for (const char* features : {":", ":xnack", ":junk+", ":xnack+:"}) {
    options.arches = {std::string("gfx942") + features};
    CHECK_THROWS(Dispatcher(both(), options), InvalidKey, "cannot read the target feature");
  }
  options.arches = {"gfx942:sramecc+:xnack-"};
  CHECK(Dispatcher(both(), options).select(problem()).name() == std::string("gpu"));
  ::setenv("CKDISP_CPU_LEVEL", "generic", 1);
  options.arches = {"x86-64-v4"};
  CHECK_THROWS(Dispatcher(both(), options), InvalidArgument, "cannot plan for x86-64-v4");
}

void lists_devices() {
  const std::vector<Device> all = devices();
  CHECK(all.size() == 3 && why_no_devices().empty());
  CHECK(all[0].name == "Fake GPU 0" && all[0].arch == "gfx942" && all[0].index == 0);
  CHECK(all[0].target == "gfx942:sramecc+:xnack-" && all[0].wave_size == 64);
  CHECK(all[1].arch == "gfx1100" && all[1].target == "gfx1100" && all[1].wave_size == 32);
  CHECK(all[0].compute_units == 38 && all[0].memory_bytes == std::uint64_t{1} << 30);
  CHECK(device(2).arch == "gfx1030");  // one that the arch table lacks
  CHECK_THROWS(device(3), DeviceError, "no device 3: device 0 is gfx942, device 1 is gfx1100");
  CHECK_THROWS(device(-1), DeviceError, "there is no device -1");
}

void moves_data() {
  int numbers[4] = {1, 2, 3, 4}, back[4] = {};
  const Stream stream(1);
  CHECK(stream.device() == 1 && stream.handle() != nullptr);
  {
    DeviceMemory memory(sizeof numbers, 1), other(0, 1);
    CHECK(memory.bytes() == sizeof numbers && memory.device() == 1 && other.data() == nullptr);
    copy(memory.data(), numbers, sizeof numbers, Copy::host_to_device, 1);
    other = std::move(memory);
    CHECK(blocks() == 1 && memory.data() == nullptr);
    fill_async(other.data(), 0, sizeof(int), stream.handle(), 1);
    copy_async(back, other.data(), sizeof back, Copy::device_to_host, stream.handle(), 1);
    stream.synchronize();
  }
  CHECK(blocks() == 0 && back[0] == 0 && back[3] == 4);
  const Event start(1), stop(1);
  start.record(stream.handle());
  stop.record(stream.handle());
  stream.wait(start);
  stop.synchronize();
  CHECK(stop.done() && Event::milliseconds(start, stop) == 1.5);
  synchronize(1);
  const std::string log = calls();
  CHECK(called(log, "hipMalloc 16 @1") && called(log, "hipMemcpyAsync 16 @1"));
  (void)devices();
  CHECK(calls().empty());  // they are known
}

void says_which_call_failed() {
  DeviceMemory memory(64);
  const auto fail = [](const char* call) { ::setenv("FAKE_HIP_FAIL", call, 1); };
  fail("hipMalloc:2");
  CHECK_THROWS(DeviceMemory(4096), DeviceError,
               "hipMalloc of 4096 bytes on device 0 failed with hipErrorFake (2): made up for a "
               "test; free memory");
  fail("hipSetDevice:101");
  CHECK_THROWS(DeviceMemory(4096, 1), DeviceError, "hipSetDevice to device 1 failed");
  char bytes[64] = {};
  fail("hipMemcpy:1");
  CHECK_THROWS(copy(memory.data(), bytes, 64, Copy::host_to_device), DeviceError,
               "hipMemcpy of 64 bytes to the device on device 0 failed");
  fail("hipMemcpyAsync:1");
  CHECK_THROWS(copy_async(bytes, memory.data(), 64, Copy::device_to_host, nullptr), DeviceError,
               "hipMemcpyAsync of 64 bytes to the host");
  fail("hipMemsetAsync:1");
  CHECK_THROWS(fill_async(memory.data(), 1, 64, nullptr), DeviceError, "hipMemsetAsync of 64");
  fail("hipDeviceSynchronize:719");
  CHECK_THROWS(synchronize(), DeviceError, "a kernel that ran before may have failed");
  fail("hipStreamCreateWithFlags:2");
  CHECK_THROWS(Stream(), DeviceError, "hipStreamCreateWithFlags on device 0");
  fail("hipEventCreateWithFlags:2");
  CHECK_THROWS(Event(), DeviceError, "hipEventCreateWithFlags on device 0");
  fail("");
  const Stream stream;
  const Event event;
  fail("hipStreamSynchronize:719");
  CHECK_THROWS(stream.synchronize(), DeviceError, "hipStreamSynchronize on device 0 failed");
  fail("hipStreamWaitEvent:1");
  CHECK_THROWS(stream.wait(event), DeviceError, "hipStreamWaitEvent");
  fail("hipEventRecord:1");
  CHECK_THROWS(event.record(), DeviceError, "hipEventRecord");
  fail("hipEventSynchronize:1");
  CHECK_THROWS(event.synchronize(), DeviceError, "hipEventSynchronize");
  fail("hipEventQuery:600");
  CHECK(!event.done());
  fail("hipEventQuery:1");
  CHECK_THROWS(event.done(), DeviceError, "hipEventQuery");
  fail("hipEventElapsedTime:600");
  CHECK_THROWS(Event::milliseconds(event, event), DeviceError, "recorded and done");
}

void devices_that_do_not_answer() {
  ::setenv("FAKE_HIP_FAIL", "hipGetDevicePropertiesR0600:1", 1);
  CHECK(devices().empty());
  CHECK(why_no_devices().find("hipGetDeviceProperties of device 0 failed") == 0);
  ::unsetenv("FAKE_HIP_FAIL");
  CHECK(devices().size() == 1);  // asked again
}

void each_device_gets_its_kernels() {
  const Registry kernels = registry({kernel<0>("mi300", on(Arch::gfx942)),
                                     kernel<1>("mi300_xnack", on(Arch::gfx942), ":xnack+"),
                                     kernel<2>("navi", on(Arch::gfx1100)), kernel<3>("cpu")});
  behaviours[1].cost = 0.5;  // the cheapest, if only it ran here
  const Dispatcher dispatcher(kernels);
  const auto name = [&](int device) {
    return std::string(dispatcher.select(problem(), at(device)).name());
  };
  CHECK(name(-1) == "cpu" && name(0) == "mi300" && name(1) == "navi");
  CHECK(name(-1) == "cpu" && name(0) == "mi300" && name(1) == "navi");  // as remembered
  CHECK_THROWS(dispatcher.select(problem(), at(2)), UnsupportedProblem,
               "navi: [device] runs on gfx1100, and the call is for device 2, a gfx1030");
  CHECK_THROWS(dispatcher.select(problem(), at(3)), DeviceError, "there is no device 3");
  CHECK_THROWS(dispatcher.explain(problem(), at(3)), DeviceError, "there is no device 3");
  CHECK(dispatcher.has_signature(problem(), at(1)) && !dispatcher.has_signature(problem(), at(2)));
  const std::vector<Candidate> all = dispatcher.explain(problem(), at(0));
  CHECK(all[0].kernel.name() == std::string("mi300") && all[0].rank == 0);
  CHECK(all[1].kernel.name() == std::string("cpu") &&
        all[1].text == "runs on the CPU, and the call is for device 0, a gfx942:sramecc+:xnack-");
  CHECK(all[2].reason == Reason::device &&
        all[2].text.find("runs on gfx942:xnack+, and the call") == 0);
  const Dispatcher none(registry({kernel<0>("gpu", on(Arch::gfx942))}));
  CHECK_THROWS(none.run(problem(), args()), DeviceError, "move the data to a device (device 0 is");
  CHECK(none.explain(problem())[0].text ==
        "runs on gfx942 devices, and the call is for the CPU; device 0 is one");
}

void runs_on_the_stream_of_the_call() {
  const Dispatcher dispatcher(both());
  const Stream stream(1);
  dispatcher.run(problem(), args(), at(1, stream.handle()));
  CHECK(behaviours[0].runs == 1 && behaviours[1].runs == 0);
  CHECK(behaviours[0].last_launch.device == 1);
  CHECK(behaviours[0].last_launch.stream == stream.handle());
  CHECK(behaviours[0].last_workspace == nullptr);
  (void)calls();
  dispatcher.run("gpu", problem(), args(), at(1, stream.handle()));
  const std::string log = calls();
  CHECK(called(log, "hipSetDevice 1 @0") && called(log, "hipSetDevice 0 @1"));
  CHECK(!called(log, "Synchronize"));
  behaviours[0].succeeds = false;
  CHECK_THROWS(dispatcher.run(problem(), args(), at(1)), DeviceError, "gpu failed: mock 0 fell");
  CHECK_THROWS(dispatcher.run("cpu", problem(), args(), at(1)), UnsupportedProblem,
               "[device] runs on the CPU");
  DispatcherOptions other;
  other.arches = {"gfx1100"};
  CHECK_THROWS(Dispatcher(both(), other).run(problem(), args(), at(1)), DeviceError,
               "plans for gfx1100, and device 1 is a gfx942");
  other.arches = {"gfx942:xnack-"};
  behaviours[0].succeeds = true;
  Dispatcher(both(), other).run(problem(), args(), at(1));
  CHECK_THROWS(Dispatcher(both(), other).run(problem(), args()), DeviceError,
               "move them to a device: device 0 is gfx942, device 1 is gfx942");
}

void keeps_scratch_memory_by_stream() {
  const Dispatcher dispatcher(registry({kernel<0>("gpu", on(Arch::gfx942))}));
  behaviours[0].workspace = 256;
  behaviours[0].prepares = true;
  const Stream one(0), two(0);
  dispatcher.run(problem(), args(), at(0, one.handle()));
  CHECK(behaviours[0].prepared == 1);
  void* first = behaviours[0].last_workspace;
  dispatcher.run(problem(), args(), at(0, two.handle()));
  CHECK(behaviours[0].last_workspace != first && blocks() == 2);
  dispatcher.run(problem(), args(), at(0, one.handle()));
  CHECK(behaviours[0].last_workspace == first && blocks() == 2);
  (void)calls();
  behaviours[0].workspace = 1 << 20;
  dispatcher.run(problem(8, 8, 8), args(), at(0, one.handle()));
  const std::string log = calls();
  const std::size_t waited = log.find("hipStreamSynchronize"), freed = log.find("hipFree"),
                    made = log.find("hipMalloc 1048576 @0");
  CHECK(waited < freed && freed < made && made != log.npos && blocks() == 2);
  ::setenv("FAKE_HIP_FAIL", "hipMalloc:2", 1);
  behaviours[0].workspace = 1 << 22;
  CHECK_THROWS(dispatcher.run(problem(9, 9, 9), args(), at(0, one.handle())), DeviceError,
               "hipMalloc of 4194304 bytes");
  ::unsetenv("FAKE_HIP_FAIL");
  const int runs = behaviours[0].runs;
  dispatcher.run(problem(9, 9, 9), args(), at(0, one.handle()));
  CHECK(behaviours[0].runs == runs + 1 && blocks() == 2);
  free_device_workspaces();
  CHECK(blocks() == 0 && called(calls(), "hipDeviceSynchronize"));
  dispatcher.run(problem(), args(), at(0, one.handle()));
  CHECK(blocks() == 1);
}

void survives_threads() {
  behaviours[0].workspace = 64;
  const Dispatcher dispatcher(both());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      // Of its own: mock kernels share what they note, and are asked here without running.
      for (int i = 0; i < 100; ++i) {
        CHECK(dispatcher.select(problem(i, t, 4), at(t % 2)).name() == std::string("gpu"));
        CHECK(device(t % 2).arch == "gfx942");
        DeviceMemory memory(64, t % 2);
        CHECK(memory.data() != nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(blocks() == 0);
}

void says_that_forks_have_no_device() {
  const Dispatcher dispatcher(both());
  DeviceMemory memory(8);
  dispatcher.run(problem(), args(), at(0));
  const pid_t child = ::fork();
  if (child == 0) {
    (void)calls();
    CHECK(devices().empty() && why_no_devices().find("made by fork()") != std::string::npos);
    CHECK_THROWS(device(0), DeviceError, "made by fork()");
    CHECK_THROWS(DeviceMemory(8), DeviceError, "made by fork()");
    CHECK_THROWS(dispatcher.run(problem(), args(), at(0)), DeviceError, "'spawn'");
    dispatcher.run(problem(), args());
    CHECK(behaviours[1].runs == 1);
    memory = DeviceMemory(std::move(memory));  // goes without a call to HIP
    {
      const DeviceMemory gone = std::move(memory);
    }
    CHECK(calls().empty());
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
  CHECK(devices().size() == 1);
}

constexpr int kFirstCuda = device_number(DeviceKind::cuda, 0);

void shows_devices_of_both_kinds() {
  const std::vector<Device> all = devices();
  CHECK(all.size() == 3 && why_no_devices().empty());
  CHECK(all[0].kind == DeviceKind::hip && all[0].number == 0 && all[0].index == 0);
  CHECK(all[1].kind == DeviceKind::cuda && all[1].number == kFirstCuda && all[1].index == 0);
  CHECK(all[1].name == "Fake NVIDIA 0" && all[1].arch == "sm_90a" && all[1].target == "sm_90a");
  CHECK(all[1].compute_units == 132 && all[1].wave_size == 32);
  CHECK(all[1].memory_bytes == std::uint64_t{1} << 31);
  CHECK(all[2].arch == "sm_80" && device(kFirstCuda + 1).index == 1);
  CHECK(device_text(0) == "device 0" && device_text(kFirstCuda + 1) == "CUDA device 1");
  CHECK_THROWS(device(kFirstCuda + 2), DeviceError,
               "there is no CUDA device 2: CUDA device 0 is sm_90a, CUDA device 1 is sm_80");
  CHECK_THROWS(device(1), DeviceError, "there is no device 1: device 0 is gfx942; pass");
  const Dispatcher dispatcher(both());
  CHECK(dispatcher.select(problem(), at(0)).name() == std::string("gpu"));
  CHECK_THROWS(dispatcher.select(problem(), at(kFirstCuda)), UnsupportedProblem,
               "gpu: [device] runs on gfx942, and the call is for CUDA device 0, a sm_90a");
  CHECK_THROWS(dispatcher.select(problem(), at(1000)), InvalidArgument, "the device is 1000");
}

void has_cuda_alone() {
  ::setenv("CKDISP_HIP_RUNTIME", "/nowhere/libamdhip64.so", 1);
  CHECK(devices().size() == 1 && devices()[0].arch == "sm_90a" && why_no_devices().empty());
  CHECK_THROWS(device(0), DeviceError, "there is no device 0: CKDISP_HIP_RUNTIME=");
  const Dispatcher gpu(registry({kernel<0>("gpu", on(Arch::gfx942))}));
  CHECK_THROWS(gpu.run(problem(), args()), DeviceError, "there is no device here: CKDISP_HIP");
}

void has_no_cuda() {
  ::setenv("CKDISP_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  CHECK(devices().size() == 1);
  CHECK_THROWS(device(kFirstCuda), DeviceError, "there is no CUDA device 0: CKDISP_CUDA_DRIVER='");
  CHECK_THROWS(DeviceMemory(8, kFirstCuda), DeviceError, "no device can be used: CKDISP_CUDA");
}

void has_a_driver_without_devices() {
  CHECK(devices().empty());
  CHECK(why_no_devices().find("shows no device: cuInit returned CUDA_ERROR_NO_DEVICE (100)") !=
        std::string::npos);
  CHECK(why_no_devices().find("nvidia-smi") != std::string::npos);
}

void moves_data_of_cuda() {
  constexpr int device = kFirstCuda + 1;
  int numbers[4] = {1, 2, 3, 4}, back[4] = {};
  const Stream stream(device);
  {
    const DeviceMemory memory(sizeof numbers, device);
    copy(memory.data(), numbers, sizeof numbers, Copy::host_to_device, device);
    fill_async(memory.data(), 0, sizeof(int), stream.handle(), device);
    copy_async(back, memory.data(), sizeof back, Copy::device_to_host, stream.handle(), device);
    stream.synchronize();
  }
  CHECK(back[0] == 0 && back[3] == 4);
  const Event start(device), stop(device);
  start.record(stream.handle());
  stop.record(stream.handle());
  stream.wait(start);
  stop.synchronize();
  CHECK(stop.done() && Event::milliseconds(start, stop) == 2.5);
  synchronize(device);
  const std::string log = cuda_calls();
  CHECK(called(log, "cuMemAlloc_v2 16 @1") && called(log, "cuMemcpyDtoHAsync_v2 16 @1"));
  CHECK(log.find("cuDevicePrimaryCtxRetain") == log.rfind("cuDevicePrimaryCtxRetain"));
  CHECK(!called(calls(), "hipMalloc"));
  ::setenv("FAKE_CUDA_FAIL", "cuMemAlloc_v2:2", 1);
  CHECK_THROWS(DeviceMemory(4096, device), DeviceError,
               "cuMemAlloc of 4096 bytes on CUDA device 1 failed with CUDA_ERROR_FAKE (2): made up "
               "for a test; free memory");
  ::setenv("FAKE_CUDA_FAIL", "cuEventQuery:600", 1);
  CHECK(!stop.done());
  ::setenv("FAKE_CUDA_FAIL", "cuStreamSynchronize:719", 1);
  CHECK_THROWS(stream.synchronize(), DeviceError, "compute-sanitizer");
}

void takes_no_memory_in_a_capture() {
  {
    const detail::DeviceWorkspace before(kFirstCuda, nullptr, 64);
  }
  ::setenv("FAKE_CUDA_CAPTURING", "1", 1);
  {
    const detail::DeviceWorkspace enough(kFirstCuda, nullptr, 64);
  }
  (void)cuda_calls();
  CHECK_THROWS(detail::DeviceWorkspace(kFirstCuda, nullptr, 65), DeviceError,
               "needs 65 bytes of scratch memory on CUDA device 0, and none can be taken while");
  CHECK(!called(cuda_calls(), "cuMemAlloc"));
}

void keeps_the_kinds_apart_in_forks() {
  CHECK(devices().size() == 2);
  const pid_t child = ::fork();
  if (child == 0) {
    CHECK(devices().empty());
    CHECK_THROWS(device(kFirstCuda), DeviceError, "CUDA does not work in such a process");
    CHECK_THROWS(DeviceMemory(8), DeviceError, "HIP does not work in such a process");
    ::_exit(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && status == 0);
}

}  // namespace

int main() {
  const char *given = std::getenv("CKDISP_HIP_RUNTIME"), *cuda = std::getenv("CKDISP_CUDA_DRIVER");
  CHECK(given != nullptr && cuda != nullptr);
  runtime = given;
  driver = cuda;
  in_process(nullptr, answers_without_a_runtime);
  in_process(nullptr, survives_broken_runtimes);
  in_process(nullptr, survives_runtimes_without_functions);
  in_process(nullptr, answers_without_devices);
  in_process(nullptr, plans_for_absent_devices);
  in_process("gfx942:sramecc+:xnack-,gfx1100,gfx1030", lists_devices);
  in_process("gfx942,gfx942", moves_data);
  in_process("gfx942,gfx942", says_which_call_failed);
  in_process("gfx942", devices_that_do_not_answer);
  in_process("gfx942:sramecc+:xnack-,gfx1100,gfx1030", each_device_gets_its_kernels);
  in_process("gfx942,gfx942", runs_on_the_stream_of_the_call);
  in_process("gfx942", keeps_scratch_memory_by_stream);
  in_process("gfx942,gfx942", survives_threads);
  in_process("gfx942", says_that_forks_have_no_device);
  in_process("gfx942", shows_devices_of_both_kinds, "90,80");
  in_process(nullptr, has_cuda_alone, "90");
  in_process("gfx942", has_no_cuda);
  in_process(nullptr, has_a_driver_without_devices);
  in_process(nullptr, moves_data_of_cuda, "90,80");
  in_process(nullptr, takes_no_memory_in_a_capture, "90");
  in_process("gfx942", keeps_the_kinds_apart_in_forks, "90");
  std::puts("ok");
}
