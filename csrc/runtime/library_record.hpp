// What stands behind ckdisp::Library and ckdisp::Kernel.
#pragma once

#include <string>
#include <vector>

#include <ckdisp/library.hpp>

namespace ckdisp::detail {

struct LibraryRecord {
  std::string name;
  std::string path;
  const ckdisp_library* table;
  std::vector<KernelRecord> kernels;
};

}  // namespace ckdisp::detail
