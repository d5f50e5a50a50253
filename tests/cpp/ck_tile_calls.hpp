// What the programs that call CK Tile kernels as the runtime would have in common: they take
// commands from standard input and answer each with one line.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <ckdisp/abi.hpp>

// The probe of the kernel called `name`, in tables that end with one of no kernel.
template <class Probe, std::size_t size>
const Probe* find_probe(const Probe* const (&tables)[size], const char* name) {
  for (const Probe* table : tables) {
    for (const Probe* probe = table; probe->kernel != nullptr; ++probe) {
      if (std::strcmp(probe->kernel->name, name) == 0) return probe;
    }
  }
  return nullptr;
}

inline std::string describe(bool ok, const ckdisp::Refusal& refusal) {
  if (ok) return "ok";
  return std::string(ckdisp::EnumNames<ckdisp::Reason>::values[static_cast<int>(refusal.reason)]) +
         ": " + refusal.text;
}

inline std::string supports(const ckdisp::ckdisp_kernel& kernel, const void* problem) {
  ckdisp::Refusal refusal{};
  return describe(kernel.supports(problem, &refusal), refusal);
}

// What a plan does for one call.
inline std::string run_stages(const ckdisp::ckdisp_kernel& kernel, const void* problem,
                              const void* args, void* workspace, const ckdisp::Launch& launch) {
  ckdisp::Refusal refusal{};
  if (kernel.needs_prepare != nullptr && kernel.needs_prepare(problem) &&
      !kernel.prepare(problem, args, workspace, &launch, &refusal)) {
    return "prepare: " + describe(false, refusal);
  }
  const bool ran = kernel.run(problem, args, workspace, &launch, &refusal);
  if (ran && kernel.needs_convert != nullptr && kernel.needs_convert(problem) &&
      !kernel.convert(problem, args, workspace, &launch, &refusal)) {
    return "convert: " + describe(false, refusal);
  }
  return describe(ran, refusal);
}

// The same call from eight threads at once; their answers.
template <class Call>
std::string from_threads(const Call& call) {
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (std::string& text : texts) threads.emplace_back([&] { text = call(); });
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& text : texts) all += text + " ";
  return all;
}
