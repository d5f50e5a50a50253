"""The CPU provider: C++20 units for any C++ compiler."""

from __future__ import annotations

from ..arch import arch
from ..steps import Rule, Step
from .base import Keys, Provider, Recipe, Setup, Unit, cxx_rule

_FLAGS = (
    "-std=c++20",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-exceptions",  # nothing throws, and unwinding would add weak symbols
    "-ffp-contract=fast",  # multiply and add in one instruction: GCC's -std=c++20 says no
)
_OPTIONAL = ("-fopenmp",)
_SOURCE, _OBJECT = "units/%.cpp", "obj/%.o"


def _recipe(keys: Keys, setup: Setup) -> Recipe:
    """One step for each kernel, one rule for each level."""
    rules: dict[str, Rule] = {}
    steps = []
    for name, key in keys:
        rule = rules.get(key.arch)
        if rule is None:
            rule = rules[key.arch] = _rule(key.arch, setup)
        steps.append(Step(name, rule))
    units = (
        Unit(name, key, step.source, step.output)
        for (name, key), step in zip(keys, steps, strict=True)
    )
    return Recipe(tuple(units), tuple(steps))


def _rule(level: str, setup: Setup) -> Rule:
    optional = tuple(filter(setup.cxx_takes, _OPTIONAL))
    flags = (*_FLAGS, *arch(level).compile_flags)
    name = f"cpu_{level}".replace("-", "_")
    return cxx_rule(name, flags, _SOURCE, _OBJECT, setup, optional, CPU.name)


CPU = Provider(
    name="cpu",
    kernels={
        "gemm": ("providers/cpu/gemm.hpp", "CKDISP_CPU_GEMM_KERNEL"),
        "conv": ("providers/cpu/conv.hpp", "CKDISP_CPU_CONV_KERNEL"),
        "fmha": ("providers/cpu/fmha.hpp", "CKDISP_CPU_FMHA_KERNEL"),
    },
    suffix=".cpp",
    template="unit.cpp.j2",
    recipe=_recipe,
    compilers=("c++", "g++", "clang++"),
    job_memory_mb=512,
    optional_flags=_OPTIONAL,
)
