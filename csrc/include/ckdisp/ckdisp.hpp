// All of the public runtime. C++17.
#pragma once

#include <ckdisp/any_problem.hpp>
#include <ckdisp/conv_problem.hpp>
#include <ckdisp/cpu.hpp>
#include <ckdisp/device.hpp>
#include <ckdisp/dispatcher.hpp>
#include <ckdisp/errors.hpp>
#include <ckdisp/fmha_problem.hpp>
#include <ckdisp/library.hpp>
#include <ckdisp/names.hpp>
#include <ckdisp/problem.hpp>
#include <ckdisp/registry.hpp>
