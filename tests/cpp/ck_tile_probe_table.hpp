// What tests ask of a kernel of the CK Tile provider beside its entry in the kernel table.
#pragma once

#include <ckdisp/abi.hpp>

// How our check of random problems and CK's agree.
struct Agreement {
  int both;        // took the problem
  int neither;     // took it
  int unnamed;     // we had no reason of our own, and CK refused
  int too_strict;  // we refused for padding or alignment what CK takes
};

struct Probe {
  const ckdisp::ckdisp_kernel* kernel;  // null behind the last one
  int block_size;
  // Numbers of loops up to `most` for which CK picks another hot loop or tail than we do.
  int (*wrong_tails)(int most);
  void (*compare)(unsigned seed, int count, Agreement* result);
};
