// Looks at a shared object before the loader maps it: mapping a truncated one can kill the process.
#pragma once

#include <string>

namespace ckdisp {

// Why the file cannot be a shared object for this machine; empty when it can.
std::string elf_fault(const std::string& path);

}  // namespace ckdisp
