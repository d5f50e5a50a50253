"""The CUTLASS provider: units for NVIDIA GPUs.

nvcc compiles the device code of a kernel alone, into a cubin, whose bytes are put into an object by
the assembler. What runs on the host, CUTLASS's code that makes the parameters of a launch, is
compiled by the C++ compiler for several kernels at once: reading the headers is most of the work.
"""

from __future__ import annotations

from ..cuda import CudaToolchain
from ..enums import token
from ..key import KernelKey
from ..steps import Command, Rule, Step
from .base import Keys, Provider, Recipe, Setup, Unit, chunks, include_flags, own_file, short_digest

_FLAGS = ("-std=c++20", "-DNDEBUG")
# Not -arch=sm_90a, which compiles the code a second time and adds code for later GPUs.
_DEVICE_FLAGS = ("-O3", "--expt-relaxed-constexpr", "-cubin")
# CUTLASS's headers are written for nvcc, which reads some of them less strictly.
_HOST_FLAGS = ("-O2", "-fPIC", "-fvisibility=hidden", "-fpermissive", "-w", "-x", "c++")
_HOST_SIZE = 8  # kernels whose host code is compiled together
_SECTION = "-DCKDISP_CODE_SECTION=.ckdisp_cubin"


def _recipe(keys: Keys, setup: Setup) -> Recipe:
    cuda = setup.cuda
    assert cuda is not None, "the generator finds nvcc before it comes here"
    levels: dict[str, list[tuple[str, KernelKey]]] = {}
    for name, key in keys:
        levels.setdefault(key.arch, []).append((name, key))
    units: dict[str, Unit] = {}
    steps: list[Step] = []
    bundles: dict[str, tuple[str, ...]] = {}
    for level, members in levels.items():
        device, host = _device(level, setup, cuda), _host(level, setup, cuda)
        for name, key in members:
            step = Step(name, device, {"kernels": name})
            steps.append(step)
            units[name] = Unit(name, key, step.source, step.output)
        for chunk in chunks(sorted(name for name, _ in members), _HOST_SIZE):
            step = Step(f"cutlass_{level}_{short_digest(chunk[0])}", host)
            steps.append(step)
            bundles[step.source] = tuple(f"units/{name}.cu" for name in chunk)
    return Recipe(tuple(units[name] for name, _ in keys), tuple(steps), bundles)


def _includes(setup: Setup, cuda: CudaToolchain) -> tuple[str, ...]:
    return (*include_flags(setup), *(f"-I{folder}" for folder in cuda.include_dirs))


def _target(level: str) -> str:
    number = token(level).removeprefix("sm")
    return f"-gencode=arch=compute_{number},code=sm_{number}"


def _cxx(setup: Setup) -> tuple[str, ...]:
    return setup.toolchain.command if setup.toolchain is not None else ("c++",)


def _device(level: str, setup: Setup, cuda: CudaToolchain) -> Rule:
    """Device code, compiled into a cubin, which becomes an object moved into place whole."""
    embed = own_file("embed.S", setup)
    flags = (*_FLAGS, *_DEVICE_FLAGS, _target(level))
    words = (*cuda.command, *flags, *include_flags(setup), f"-I{cuda.cutlass_include}")
    assembler = (*_cxx(setup), "-c", "-x", "assembler-with-cpp", embed, _SECTION)
    symbols = "-DCKDISP_CODE_FILE=$out.co -DCKDISP_CODE_KERNELS=$kernels"
    return Rule(
        name=f"cutlass_{level}",
        compiler="cuda",
        source="units/%.cu",
        output="obj/%.o",
        flags=flags,
        commands=(
            Command(words, "-MD -MF $out.d -MT $out $in -o $out.co", len(cuda.command)),
            Command(assembler, f"{symbols} -o $out.new"),
            Command(("mv", "-f"), "$out.new $out"),
        ),
        pool=CUTLASS.name,
        needs=(embed,),
    )


def _host(level: str, setup: Setup, cuda: CudaToolchain) -> Rule:
    """The tables of several kernels, with the code of CUTLASS that runs on the host."""
    major, minor = cuda.version[:2]
    # Without the version, CUTLASS compiles as if there was no TMA.
    versions = (f"-D__CUDACC_VER_MAJOR__={major}", f"-D__CUDACC_VER_MINOR__={minor}")
    flags = (*_FLAGS, *_HOST_FLAGS, *versions)
    program = _cxx(setup)
    return Rule(
        name=f"cutlass_{level}_table",
        compiler="cuda",
        source="host/%.cpp",
        output="obj/host_%.o",
        flags=flags,
        commands=(
            Command(
                (*program, *flags, *_includes(setup, cuda)),
                "-MD -MF $out.d -c $in -o $out",
                len(program),
            ),
        ),
        pool=CUTLASS.name,
        description="compile tables $in",
    )


CUTLASS = Provider(
    name="cutlass",
    kernels={"gemm": ("providers/cutlass/gemm.hpp", "CKDISP_CUTLASS_GEMM_KERNEL")},
    suffix=".cu",
    template="unit.hip.j2",
    recipe=_recipe,
    compilers=("c++", "g++", "clang++"),
    job_memory_mb=4000,
    needs="cuda",
)
