// Lists the kernels of the linked library, asks which of them would run a problem on each of their
// GPUs, and tries to run it on the first device.
#include <cstdio>

#include <ckdisp/ckdisp.hpp>

#include "amd_kernels.hpp"

int main() {
  ckdisp::Registry registry;
  registry.add(ckdisp::Library::linked(ckdisp_library_amd_kernels()));
  std::printf("%zu kernels\n", registry.size());

  const auto problem =
      ckdisp::GemmProblem(256, 256, 256).dtype(ckdisp::Dtype::fp16).layout(ckdisp::Layout::rcr);
  for (const char* arch : {"gfx942", "gfx1201"}) {
    ckdisp::DispatcherOptions options;
    options.arches = {arch};
    const ckdisp::Dispatcher dispatcher(registry, options);
    for (const auto& candidate : dispatcher.explain(problem)) {
      std::printf("%s: %s %s%s\n", arch, candidate.kernel.name(),
                  candidate.supported ? "supported" : "refused: ", candidate.text.c_str());
    }
  }
  try {
    ckdisp::Launch launch{};
    launch.device = 0;
    ckdisp::Dispatcher(registry).run(problem, ckdisp::GemmArgs{}, launch);
    std::puts("ran");
  } catch (const ckdisp::DeviceError& error) {
    std::printf("DeviceError: %s\n", error.what());
  }
  return 0;
}
