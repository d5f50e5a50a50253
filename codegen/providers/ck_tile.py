"""The CK Tile provider: HIP units for AMD GPUs.

The device code of a kernel is compiled alone, and its bytes are put into an object by the
assembler. What runs on the host, CK's own check of arguments above all, is compiled for many
kernels at once. Both passes start from a precompiled header.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..arch import arch
from ..check import check_features
from ..enums import token
from ..key import KernelKey
from ..rocm import HipToolchain
from ..steps import Command, Rule, Step
from .base import Keys, Provider, Recipe, Setup, Unit, chunks, include_flags, own_file, short_digest

# What tells the compiler apart from the one that made a precompiled header.
COMPILER_FILE = "toolchain.txt"

_FLAGS = (
    "-std=c++20",
    "-O3",
    "-DNDEBUG",
    # CK's headers do both on purpose.
    "-Wno-undefined-func-template",
    "-Wno-deprecated-attributes",
)
_HOST_FLAGS = ("-fPIC", "-fvisibility=hidden")
# What CK's own build passes if the compiler takes it. Without function calls the main loop stays in
# its kernel even where two kernels of a unit share it. Never -amdgpu-early-inline-all beside that,
# as CK does: upstream's compilers then inline without end.
_OPTIONAL = (
    ("-fno-offload-uniform-block",),
    ("-mllvm", "--lsr-drop-solution=1"),
    ("-mllvm", "-enable-post-misched=0"),
    ("-mllvm", "-amdgpu-function-calls=false"),
    ("-mllvm", "-amdgpu-coerce-illegal-types=1"),
)
_COMPRESS = ("--offload-compress",)
# What CK's build defines, by the family of the arch. Host and device must agree, and each side
# would guess differently.
_MFMA, _WMMA = "-DCK_TILE_USE_WMMA=0", "-DCK_TILE_USE_WMMA=1"
_OCP_FP8 = ("-DCK_USE_OCP_FP8", "-DCK_TILE_USE_OCP_FP8=1")
_CDNA = ("-DCK_USE_FNUZ_FP8", _MFMA)
_DEFINES = {
    "cdna1": _CDNA,
    "cdna2": _CDNA,
    "cdna3": _CDNA,
    "cdna4": (*_OCP_FP8, "-DCK_GFX950_SUPPORT", "-DCK_USE_NATIVE_MX_SUPPORT", _MFMA),
    "rdna3": (_WMMA,),
    "rdna4": (*_OCP_FP8, _WMMA),
}

# What CK's own build defines, by the branch of a key.
_BRANCHES: dict[str, tuple[str, ...]] = {
    "gemm": (),
    "conv": (),
    "fmha_fwd": ("-DCK_TILE_FMHA_FWD_FAST_EXP2=1",),
    "fmha_v3": ("-DCK_TILE_FMHA_FWD_FAST_EXP2=1",),
    # 3 rounds to bf16 by an assembler sequence, as flash-attention does.
    "fmha_bwd": ("-DCK_TILE_FLOAT_TO_BFLOAT16_DEFAULT=3",),
}
# For its powers of 2 in attention; in device code alone, which is what it is about.
_FLUSH = "-fgpu-flush-denormals-to-zero"
# Its definition goes with the flag.
_SCALAR_FP32 = ("-mllvm", "--amdgpu-disable-packed-fp32=1")

# Kernels that agree in these share most of what the compiler instantiates.
_LOOP_FIELDS = ("tile", "wave", "warp", "pipeline", "scheduler")
TILE_FIELDS = {
    "gemm": (
        *("op", "arch", "dtype_a", "dtype_b", "dtype_c", "dtype_acc", "layout"),
        *_LOOP_FIELDS,
    ),
    "conv": (
        *("family", "arch", "dtype_in", "dtype_wei", "dtype_out", "dtype_acc", "layout"),
        *_LOOP_FIELDS,
        "vector",
    ),
    # With the mask: kernels of top_left and bottom_right are of one type of CK, and of functions
    # that two kernels of a unit share the compiler does not see where addresses are uniform.
    "fmha": (
        *("family", "arch", "dtype", "hdim_q", "hdim_v", "mode", "vlayout", "mask"),
        *("tile", "wave", "warp", "pipeline", "use_trload"),
    ),
}
_GROUP_SIZE = 16  # memory of one compile job grows with it
_HOST_SIZE = 32


@dataclass(frozen=True)
class _Variant:
    """The rules of one arch and branch: they share flags and precompiled headers."""

    unit: Rule
    group: Rule
    host: Rule
    headers: tuple[Rule, ...]


def _recipe(keys: Keys, setup: Setup) -> Recipe:
    assert setup.hip is not None, "the generator finds a HIP compiler before it comes here"
    check_features(keys, setup.hip.features())
    variants: dict[tuple[str, str], list[tuple[str, KernelKey]]] = {}
    for name, key in keys:
        variants.setdefault((key.arch, branch_of(key)), []).append((name, key))
    units: dict[str, Unit] = {}
    steps: list[Step] = []
    bundles: dict[str, tuple[str, ...]] = {}
    for (level, branch), members in variants.items():
        rules = _variant(level, branch, setup)
        steps += [Step(rule.name, rule) for rule in rules.headers]
        for step, group in _device_steps(members, rules, setup.group):
            steps.append(step)
            for name, key in group:
                units[name] = Unit(name, key, f"units/{name}.hip", step.output)
            if step.rule is rules.group:
                bundles[step.source] = tuple(f"units/{name}.hip" for name, _ in group)
        for chunk in chunks(sorted(name for name, _ in members), _HOST_SIZE):
            step = Step(f"{branch}_{level}_{short_digest(chunk[0])}", rules.host)
            steps.append(step)
            bundles[step.source] = tuple(f"units/{name}.hip" for name in chunk)
    return Recipe(tuple(units[name] for name, _ in keys), tuple(steps), bundles)


def _device_steps(
    members: Keys, rules: _Variant, group: str | None
) -> Iterator[tuple[Step, list[tuple[str, KernelKey]]]]:
    """The steps that make objects with device code, each with its kernels."""
    if group is None:
        for name, key in members:
            yield Step(name, rules.unit, {"kernels": name}), [(name, key)]
        return
    shared: dict[str, list[tuple[str, KernelKey]]] = {}
    for name, key in sorted(members):
        shared.setdefault(_tile_name(key), []).append((name, key))
    for tile, found in shared.items():
        for i in range(0, len(found), _GROUP_SIZE):
            some = found[i : i + _GROUP_SIZE]
            suffix = f"_{i // _GROUP_SIZE}" if len(found) > _GROUP_SIZE else ""
            kernels = ",".join(name for name, _ in some)
            yield Step(f"{tile}{suffix}", rules.group, {"kernels": kernels}), some


def _tile_name(key: KernelKey) -> str:
    texts = (_text(getattr(key, field)) for field in TILE_FIELDS[key.op])
    return "_".join(text for text in texts if text)


def _text(value: object) -> str:
    """A value in the name of a file; numbers that a family lacks are zeros at the end."""
    if not isinstance(value, tuple):
        return token(str(value))
    return re.sub("(x0)+$", "", "x".join(map(str, value)))


def branch_of(key: KernelKey) -> str:
    """Which kernels share flags: those of an op, of attention those of a direction."""
    if key.op != "fmha":
        return key.op
    if key.family.startswith("fmha.bwd"):
        return "fmha_bwd"
    return "fmha_v3" if key.pipeline == "v3" else "fmha_fwd"


def _variant(level: str, branch: str, setup: Setup) -> _Variant:
    hip = setup.hip
    assert hip is not None
    name = f"ck_tile_{level}_{branch}"
    op = branch.partition("_")[0]
    flags = compile_flags(level, setup.targets.get(level, level), setup.hip_takes, branch)
    device = (*flags, *device_flags(branch))
    host = (*flags, *_HOST_FLAGS, "--offload-host-only")
    device_header = _header(f"{name}_device", op, device, setup, hip)
    host_header = _header(f"{name}_host", op, host, setup, hip)
    return _Variant(
        _device(name, "units/%.hip", device, device_header.output, setup, hip),
        _device(f"{name}_group", "groups/%.hip", device, device_header.output, setup, hip),
        _host(f"{name}_table", host, host_header.output, setup, hip),
        (device_header, host_header),
    )


def compile_flags(
    level: str, target: str, takes: Callable[[tuple[str, ...]], bool], branch: str
) -> tuple[str, ...]:
    """What both passes of a unit for ``level`` need; ``takes`` tells which flags there are."""
    scalar = branch == "fmha_v3" and takes(_SCALAR_FP32)
    return (
        *_FLAGS,
        f"--offload-arch={target}",
        *_DEFINES[arch(level).family],
        *_BRANCHES[branch],
        *((*_SCALAR_FP32, "-DCK_TILE_DISABLE_PACKED_FP32=1") if scalar else ()),
        *(word for words in _OPTIONAL if takes(words) for word in words),
    )


def device_flags(branch: str) -> tuple[str, ...]:
    """What the device pass of a unit needs beside them."""
    return ("--offload-device-only", *((_FLUSH,) if branch.startswith("fmha") else ()))


def _includes(setup: Setup, hip: HipToolchain) -> tuple[str, ...]:
    return (*include_flags(setup), f"-I{hip.ck_include}")


# Clang writes no dependency file for device code when it is asked by -MD.
_DEPENDENCIES = ("-Xclang", "-sys-header-deps", "-Xclang", "-MP")
_DEPENDENCY_FILE = "-Xclang -dependency-file -Xclang $out.d -Xclang -MT -Xclang $out"


def _header(name: str, op: str, flags: tuple[str, ...], setup: Setup, hip: HipToolchain) -> Rule:
    """The precompiled header of one pass; no launcher could cache it."""
    words = (
        *(hip.compiler, *hip.flags, *flags, *_includes(setup, hip)),
        *("-fsyntax-only", "-fpch-instantiate-templates"),
        # Its content decides whether it fits, be the headers newer or the tree a copy.
        *("-Xclang", "-fno-pch-timestamp"),
        *(*_DEPENDENCIES, "-Xclang", "-emit-pch"),
    )
    files = f"{_DEPENDENCY_FILE} -Xclang -o -Xclang $out $in"
    return Rule(
        name=name,
        compiler="hip",
        source=own_file(f"ck_tile/pch/{op}.hip", setup),
        output=f"pch/{name}.pch",
        # It holds the places of the headers, and fits those alone.
        flags=(*flags, *_includes(setup, hip)),
        commands=(Command(words, files),),
        pool=CK_TILE.name,
        description="precompile headers into $out",
        needs=(COMPILER_FILE,),
    )


def _device(
    name: str, source: str, flags: tuple[str, ...], header: str, setup: Setup, hip: HipToolchain
) -> Rule:
    """Device code, compiled into a bundle, which becomes an object moved into place whole."""
    compress = _COMPRESS if setup.hip_takes(_COMPRESS) else ()
    embed = own_file("embed.S", setup)
    words = (
        *(*hip.command, *flags, *_includes(setup, hip), "--gpu-bundle-output", *compress),
        *("-Xclang", "-include-pch", "-Xclang", header, *_DEPENDENCIES),
    )
    assembler = (hip.tool("clang"), "-c", "-x", "assembler-with-cpp", embed)
    symbols = "-DCKDISP_CODE_FILE=$out.co -DCKDISP_CODE_KERNELS=$kernels"
    return Rule(
        name=name,
        compiler="hip",
        source=source,
        output="obj/%.o",
        flags=(*flags, *compress),
        commands=(
            Command(words, f"{_DEPENDENCY_FILE} -c $in -o $out.co", len(hip.command)),
            Command(assembler, f"{symbols} -o $out.new"),
            Command(("mv", "-f"), "$out.new $out"),
        ),
        pool=CK_TILE.name,
        needs=(header, embed),
    )


def _host(name: str, flags: tuple[str, ...], header: str, setup: Setup, hip: HipToolchain) -> Rule:
    """The tables of many kernels, with the code that CK runs on the host."""
    words = (
        *(*hip.command, *flags, *_includes(setup, hip)),
        *("-Xclang", "-include-pch", "-Xclang", header, *_DEPENDENCIES),
    )
    return Rule(
        name=name,
        compiler="hip",
        source="host/%.hip",
        output="obj/host_%.o",
        flags=flags,
        commands=(Command(words, f"{_DEPENDENCY_FILE} -c $in -o $out", len(hip.command)),),
        pool=CK_TILE.name,
        description="compile tables $in",
        needs=(header,),
    )


CK_TILE = Provider(
    name="ck_tile",
    kernels={
        "gemm": ("providers/ck_tile/gemm.hpp", "CKDISP_CK_TILE_GEMM_KERNEL"),
        "conv": ("providers/ck_tile/conv.hpp", "CKDISP_CK_TILE_CONV_KERNEL"),
        "fmha": ("providers/ck_tile/fmha.hpp", "CKDISP_CK_TILE_FMHA_KERNEL"),
    },
    suffix=".hip",
    template="unit.hip.j2",
    recipe=_recipe,
    compilers=("c++", "g++", "clang++"),
    job_memory_mb=1100,
    needs="hip",
)
