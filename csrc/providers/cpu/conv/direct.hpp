// Pipeline `direct`: vectors over the channels of many groups.
#pragma once

#include "core.hpp"

namespace ckdisp::cpu {
namespace {

template <class Kernel>
struct ConvDirect;

}  // namespace
}  // namespace ckdisp::cpu
