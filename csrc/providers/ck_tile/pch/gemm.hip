// The precompiled header of a GEMM unit, for either pass.
#include "providers/ck_tile/gemm.hpp"
