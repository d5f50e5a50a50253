// The tables of a library that the loader trusts, looked at before it does.
#pragma once

#include <cstddef>
#include <string>

namespace ckdisp {

// What is wrong with the segments and dynamic tables of the 64-bit ELF file at `data`; empty if
// nothing is. The header was checked before, and PT_LOAD segments lie inside the file.
std::string table_fault_of(const unsigned char* data, std::size_t size);

}  // namespace ckdisp
