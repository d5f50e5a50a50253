// What runs on this machine. C++17.
#pragma once

#include <cstdint>
#include <vector>

#include <ckdisp/generated/enums.hpp>

namespace ckdisp {

// Whether CPU and operating system support a feature by the name that the arch table uses, such
// as "avx2"; false for names it does not know. To ask for one of AMX's asks Linux to let this
// process use tiles.
bool cpu_has(const char* feature);

// The architectures whose kernels run here, best first. The environment variable CKDISP_CPU_LEVEL
// names the best CPU level to use; a level this CPU lacks or an unknown one throws InvalidArgument.
std::vector<Arch> host_arches();

// Threads that CPU kernels use unless told: CKDISP_NUM_THREADS, else OMP_NUM_THREADS, else the
// CPUs this process may run on. Throws InvalidArgument when CKDISP_NUM_THREADS is no count.
int default_num_threads();

}  // namespace ckdisp
