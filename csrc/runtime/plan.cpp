// Plans as text and in time.
#include <ckdisp/device.hpp>
#include <ckdisp/dispatcher.hpp>

#include <chrono>
#include <string>

namespace ckdisp {

std::string to_string(const Plan& plan) {
  constexpr const char* kKinds[] = {"prepare ", "kernel  ", "convert "};
  std::string out;
  for (const Stage& stage : plan.stages) {
    out += std::string(kKinds[static_cast<int>(stage.kind)]) + stage.kernel.name();
    if (stage.num_splits > 1) out += ", " + std::to_string(stage.num_splits) + " parts";
    out += "\n";
  }
  return out + "scratch memory " + std::to_string(plan.workspace_bytes) + " bytes";
}

double Dispatcher::time_work(const Launch& launch, const std::function<void()>& work) {
  if (launch.device < 0) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  const Event start(launch.device), stop(launch.device);
  start.record(launch.stream);
  work();
  stop.record(launch.stream);
  stop.synchronize();
  return Event::milliseconds(start, stop) / 1000;
}

}  // namespace ckdisp
