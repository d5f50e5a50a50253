#include <ckdisp/cpu.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/generated/arches.hpp>
#include <ckdisp/names.hpp>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ckdisp {
namespace {

#if defined(__x86_64__) || defined(__i386__)

enum Register { eax, ebx, ecx, edx };

// A feature is one bit of one cpuid register, and state that the operating system must save.
struct Feature {
  const char* name;
  unsigned leaf, subleaf;
  Register where;
  int bit;
  unsigned saved;  // bits of XCR0
};

constexpr unsigned kNone = 0, kYmm = 0x6, kZmm = 0xe6, kTile = 0x60000;
constexpr Feature kFeatures[] = {
    {"avx", 1, 0, ecx, 28, kYmm},        {"avx2", 7, 0, ebx, 5, kYmm},
    {"fma", 1, 0, ecx, 12, kYmm},        {"f16c", 1, 0, ecx, 29, kYmm},
    {"movbe", 1, 0, ecx, 22, kNone},     {"bmi1", 7, 0, ebx, 3, kNone},
    {"bmi2", 7, 0, ebx, 8, kNone},       {"avx512f", 7, 0, ebx, 16, kZmm},
    {"avx512bw", 7, 0, ebx, 30, kZmm},   {"avx512cd", 7, 0, ebx, 28, kZmm},
    {"avx512dq", 7, 0, ebx, 17, kZmm},   {"avx512vl", 7, 0, ebx, 31, kZmm},
    {"avx512vnni", 7, 0, ecx, 11, kZmm}, {"avx512bf16", 7, 1, eax, 5, kZmm},
    {"avx512fp16", 7, 0, edx, 23, kZmm}, {"avxvnni", 7, 1, eax, 4, kYmm},
    {"amx-tile", 7, 0, edx, 24, kTile},  {"amx-int8", 7, 0, edx, 25, kTile},
    {"amx-bf16", 7, 0, edx, 22, kTile},
};

// Linux saves tiles only for a process that has asked for it.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool saved_by_os(unsigned mask) {
  unsigned regs[4];
  if (mask == kNone) return true;
  constexpr unsigned kOsxsave = 1u << 27;
  if (__get_cpuid(1, &regs[eax], &regs[ebx], &regs[ecx], &regs[edx]) == 0) return false;
  if ((regs[ecx] & kOsxsave) == 0) return false;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & mask) != mask) return false;
  return mask != kTile || may_use_tiles();
}

bool detect(const Feature& feature) {
  unsigned regs[4] = {};
  if (__get_cpuid_count(feature.leaf, feature.subleaf, &regs[eax], &regs[ebx], &regs[ecx],
                        &regs[edx]) == 0) {
    return false;
  }
  return ((regs[feature.where] >> feature.bit) & 1u) != 0 && saved_by_os(feature.saved);
}

constexpr const char* kMachine = "x86_64";

#else

struct Feature {
  const char* name;
};
constexpr Feature kFeatures[] = {{""}};
bool detect(const Feature&) { return false; }
constexpr const char* kMachine = "";

#endif

bool runs_here(const ArchFacts& facts) {
  if (facts.gpu) return false;
  if (std::strcmp(facts.family, "any") != 0 && std::strcmp(facts.family, kMachine) != 0) {
    return false;
  }
  for (const char* const* feature = facts.features; *feature != nullptr; ++feature) {
    if (!cpu_has(*feature)) return false;
  }
  return true;
}

std::vector<Arch> detected_levels() {
  std::vector<Arch> levels;
  for (std::size_t i = 0; i < kArchCount; ++i) {
    if (runs_here(kArches[i])) levels.push_back(static_cast<Arch>(i));
  }
  // The level that implies most comes first.
  std::stable_sort(levels.begin(), levels.end(), [](Arch a, Arch b) {
    return std::popcount(kArches[static_cast<int>(a)].implies) >
           std::popcount(kArches[static_cast<int>(b)].implies);
  });
  return levels;
}

std::string names(const std::vector<Arch>& levels) {
  std::string text;
  for (const Arch level : levels) text += (text.empty() ? "" : ", ") + std::string(to_name(level));
  return text;
}

// The leading count of an environment variable ("4" or OpenMP's "4,2"); 0 when it is not set.
int count_from_env(const char* variable, bool strict) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return 0;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  const bool whole = *end == '\0' || (!strict && *end == ',');
  if (end != text && whole && value >= 1 && value <= 4096) return static_cast<int>(value);
  if (!strict) return 0;
  throw InvalidArgument(std::string(variable) + "='" + text +
                        "' is not a number of threads; set it to 1 .. 4096 or unset it");
}

}  // namespace

bool cpu_has(const char* feature) {
  const auto* found =
      std::find_if(std::begin(kFeatures), std::end(kFeatures),
                   [&](const Feature& f) { return std::strcmp(f.name, feature) == 0; });
  return found != std::end(kFeatures) && detect(*found);
}

std::vector<Arch> host_arches() {
  static const std::vector<Arch> detected = detected_levels();
  const char* wanted = std::getenv("CKDISP_CPU_LEVEL");
  if (wanted == nullptr || *wanted == '\0') return detected;
  const auto chosen = std::find_if(detected.begin(), detected.end(), [&](Arch level) {
    return std::strcmp(to_name(level), wanted) == 0;
  });
  if (chosen == detected.end()) {
    throw InvalidArgument(std::string("CKDISP_CPU_LEVEL='") + wanted +
                          "' is not a level of this CPU; set it to one of " + names(detected) +
                          ", or unset it to use the best");
  }
  const std::uint32_t implied = kArches[static_cast<int>(*chosen)].implies;
  std::vector<Arch> allowed;
  for (const Arch level : detected) {
    if ((implied >> static_cast<int>(level)) & 1u) allowed.push_back(level);
  }
  return allowed;
}

int default_num_threads() {
  if (const int count = count_from_env("CKDISP_NUM_THREADS", true); count > 0) return count;
  if (const int count = count_from_env("OMP_NUM_THREADS", false); count > 0) return count;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace ckdisp
