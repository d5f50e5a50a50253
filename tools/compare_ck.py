"""Compare the device code of kernels with that of CK's own examples at the same parameters.

Takes kernel names, or compiles a few kernels of each arch. The exit status is 1 if a kernel has
other registers, LDS or matrix instructions than CK's, or more than 1 % other instructions.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import amd_fmha  # noqa: E402
import fmha_reference  # noqa: E402
from ck_reference import compare  # noqa: E402

from ckdisp.code_objects import KernelReport, inspect  # noqa: E402
from ckdisp.codegen.key import KernelKey  # noqa: E402
from ckdisp.codegen.make import make_key, parse_name  # noqa: E402

_CDNA = {"tile": (64, 64, 64), "wave": (2, 2, 1), "warp": (16, 16, 32)}
_RDNA = {"tile": (64, 64, 64), "wave": (4, 2, 1), "warp": (16, 16, 16)}

_MEM = {"pipeline": "mem", "scheduler": "interwave"}


def samples() -> Iterator[KernelKey]:
    """A few kernels of each arch, with what makes a difference."""
    standard, preshuffle = "gemm.standard", "gemm.preshuffle"
    for name in ("gfx90a", "gfx942", "gfx950"):
        yield make_key(standard, arch=name, **_CDNA, pipeline="compv3", split_k=True)
        yield make_key(standard, arch=name, **_CDNA, pipeline="compv4", layout="rrr")
        yield make_key(standard, arch=name, **_CDNA, pipeline="compv6", layout="ccr")
        mem = {"tile": (128, 32, 64), "wave": (4, 1, 1), "warp": (32, 32, 8)}
        yield make_key(standard, arch=name, **mem, dtype="bf16", **_MEM)
        yield make_key(
            standard, arch=name, **_CDNA, pipeline="compv3", persistent=True, layout="crr"
        )
        yield make_key(preshuffle, arch=name, pad_m=False, pad_n=False, pad_k=False)
    fp8 = {"tile": (64, 64, 128), "wave": (2, 2, 1), "dtype": "fp8"}
    yield make_key(standard, arch="gfx942", **fp8, warp=(16, 16, 32), pipeline="compv3")
    yield make_key(standard, arch="gfx950", **fp8, warp=(16, 16, 128), pipeline="compv3")
    yield make_key(standard, arch="gfx942", **_CDNA, pipeline="compv3", dtype="int8")
    for name in ("gfx1100", "gfx1201"):
        yield make_key(standard, arch=name, **_RDNA, pipeline="compv3")
        yield make_key(standard, arch=name, **_RDNA, pipeline="mem", layout="ccr", dtype="bf16")
    yield make_key(preshuffle, arch="gfx1201")
    yield make_key(standard, arch="gfx1201", **_RDNA, pipeline="compv4", dtype="fp8")


def convolutions() -> Iterator[KernelKey]:
    """A kernel of each direction and arch."""
    for name in ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"):
        tile = _RDNA if name.startswith("gfx1") else _CDNA
        for direction in ("fwd", "bwd_data", "bwd_weight"):
            yield make_key(
                f"conv.{direction}",
                arch=name,
                **tile,
                pipeline="compv3",
                vector=(8, 8, 8),
                split_k=direction == "bwd_weight",
            )


def _compare_attention(keys: Sequence[KernelKey], folder: Path) -> int:
    """Compile the kernels of one arch and branch together, and say where they differ."""
    ours = inspect(fmha_reference.compile_ours(keys, folder))
    theirs = inspect(fmha_reference.compile_theirs(keys, folder))
    different = 0
    for twin in fmha_reference.compare(keys, ours, theirs):
        print(twin.ours.kernel)
        _show(f"variant {twin.ours.tail}", twin.ours, twin.theirs, twin.differences)
        different += bool(twin.differences)
    return different


def _compare(key: KernelKey, folder: Path) -> int:
    """The same for one kernel of another op."""
    print(key.name, flush=True)
    different = 0
    for each in compare(key, folder):
        hot, tail, atomic = each.variant
        label = f"hot loop {hot:d} tail {tail:2} atomic {atomic:d}"
        _show(label, each.ours, each.reference, each.differences)
        different += bool(each.differences)
    return different


def _show(label: str, ours: KernelReport, ck: KernelReport, differences: Sequence[str]) -> None:
    print(
        f"  {label}: {ours.vgpr} VGPR ({ours.agpr} AGPR), {ours.sgpr} SGPR, {ours.lds_bytes} LDS, "
        f"{ours.vgpr_spills} spilled, {ours.matrix_instructions} matrix, "
        f"{ours.instructions} instructions (CK {ck.instructions})",
        *(f"    {line}" for line in differences),
        sep="\n",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="*", help="names of kernels")
    parser.add_argument("--archs", help="of the kernels of each arch only these, by commas")
    parser.add_argument("--op", choices=("gemm", "conv", "fmha"), help="kernels of this one")
    options = parser.parse_args()
    keys = [parse_name(name) for name in options.kernels]
    if not keys:
        # CK's example always has the kernels of split-K too, and what else is in a code object has
        # a small influence on the compiler.
        split = [(key, replace(key, split_k=True)) for key in samples()]
        keys = [key if other.check() else other for key, other in split]
        keys += [*convolutions(), *amd_fmha.twins(), *amd_fmha.large_twins()]
    if options.archs:
        keys = [key for key in keys if key.arch in options.archs.split(",")]
    if options.op:
        keys = [key for key in keys if key.op == options.op]
    if not keys:
        parser.error("none of the kernels is of that arch and op; give --archs gfx942, for example")
    different = 0
    for part in amd_fmha.parts(key for key in keys if key.op == "fmha").values():
        with tempfile.TemporaryDirectory(prefix="ckdisp-compare-") as folder:
            different += _compare_attention(part, Path(folder))
    for key in keys:
        if key.op != "fmha":
            with tempfile.TemporaryDirectory(prefix="ckdisp-compare-") as folder:
                different += _compare(key, Path(folder))
    print(f"{len(keys)} kernels, {different} variants that differ from CK's")
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main())
