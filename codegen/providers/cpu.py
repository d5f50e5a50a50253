"""The CPU provider: C++20 units for any C++ compiler."""

from __future__ import annotations

from .base import Provider

CPU = Provider(
    name="cpu",
    kernels={"gemm": ("providers/cpu/gemm.hpp", "CKDISP_CPU_GEMM_KERNEL")},
    suffix=".cpp",
    compilers=("c++", "g++", "clang++"),
    compile_flags=(
        "-std=c++20",
        "-O3",
        "-fPIC",
        "-fvisibility=hidden",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-fno-exceptions",  # nothing throws, and unwinding would add weak symbols
        "-ffp-contract=fast",  # multiply and add in one instruction: GCC's -std=c++20 says no
    ),
    optional_flags=("-fopenmp",),
    link_flags=(),
    job_memory_mb=512,
)
