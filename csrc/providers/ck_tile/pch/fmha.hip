// The precompiled header of an attention unit, for either pass.
#include "providers/ck_tile/fmha.hpp"
