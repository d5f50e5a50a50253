// What tests ask of an attention kernel of the CK Tile provider beside its entry in the kernel
// table.
#pragma once

#include <ckdisp/abi.hpp>

struct Probe {
  const ckdisp::ckdisp_kernel* kernel;  // null behind the last one
  int block_size;
};
