// What the host side of each op consists of.
#pragma once

#include <cstdint>

#include "../run.hpp"

namespace ckdisp::tile {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

// supports(problem, refusal): which problems a kernel takes.
template <class Key>
struct Support;

// seconds(problem): the estimated time.
template <class Key>
struct Cost;

// The types Problem and Args and the Op of the table, and its functions that touch a device.
template <class Key>
struct Launcher;

}  // namespace ckdisp::tile
