// hip_emu.cpp -- a HIP runtime library whose device is the emulator (amdemu) in a worker process.
//
// Host side: HIP API, device memory (one sparse memfd at a fixed address, shared with the worker),
// fat binaries, code object loading, kernel arguments, launches.  The worker (worker.py) executes
// the code objects. Environment variables and limits: README.md.
#include <hip/hip_runtime_api.h>
#if __has_include(<hip/hip_deprecated.h>)
#include <hip/hip_deprecated.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>

#define EXPORT extern "C" __attribute__((visibility("default")))
using std::string;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

// One translation unit in parts: each part uses what the parts before it define.
// clang-format off
#include "base.inc.hpp"
#include "memory.inc.hpp"
#include "codeobj.inc.hpp"
#include "bundles.inc.hpp"
#include "worker.inc.hpp"
#include "launch.inc.hpp"
#include "registration.inc.hpp"
#include "modules.inc.hpp"
#include "memory_api.inc.hpp"
#include "stream_api.inc.hpp"
#include "device_api.inc.hpp"
// clang-format on
