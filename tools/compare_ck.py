"""Compare the device code of kernels with that of CK's own examples at the same parameters.

Takes kernel names, or compiles a few kernels of each arch. The exit status is 1 if a kernel has
other registers, LDS or matrix instructions than CK's, or more than 1 % other instructions.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import fmha_reference  # noqa: E402
from ck_reference import compare  # noqa: E402
from fmha_keys import fmha_key  # noqa: E402

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


def attention() -> Iterator[KernelKey]:
    """Kernels of each family."""
    pads = (1, 1, 1, 1)
    wide = {"hdim": 128, "tile": (128, 128, 32, 128, 32, 128)}
    for name in ("gfx90a", "gfx942", "gfx950"):
        yield fmha_key("fwd", name, bias="bias")
        yield fmha_key("fwd", name, **wide, pipeline="qr_async", padding=pads, mask="generic")
        yield fmha_key("splitkv", name, padding=(1, 1, 0, 0))
        yield fmha_key("splitkv_combine", name)
        yield fmha_key("pagedkv", name, **wide, mode="group")
        yield fmha_key("appendkv", name, padding=(0, 1, 0, 0))
        yield fmha_key("batch_prefill", name, **wide)
        yield fmha_key("bwd_dot_do_o", name)
        yield fmha_key("bwd_dq_dk_dv", name)
        yield fmha_key("bwd_convert_dq", name)
    wmma = {"tile": (64, 64, 32, 64, 32, 64), "warp": (16,) * 6}
    yield fmha_key("fwd", "gfx1201", **wmma, padding=pads)
    yield fmha_key("splitkv", "gfx1201", **wmma, padding=(1, 1, 0, 0))


def _differences_of_attention(key: KernelKey, folder: Path) -> int:
    different = 0
    for report, differences in fmha_reference.compare(key, folder):
        print(
            f"  variant {report.tail}: {report.vgpr} VGPR ({report.agpr} AGPR), "
            f"{report.sgpr} SGPR, {report.lds_bytes} LDS, {report.vgpr_spills} spilled, "
            f"{report.matrix_instructions} matrix, {report.instructions} instructions",
            *(f"    {line}" for line in differences),
            sep="\n",
            flush=True,
        )
        different += bool(differences)
    return different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="*", help="names of kernels")
    parser.add_argument("--archs", help="of the kernels of each arch only these, by commas")
    options = parser.parse_args()
    # CK's example always has the kernels of split-K too, and what else is in a code object has a
    # small influence on the compiler.
    split = [(key, replace(key, split_k=True)) for key in samples()]
    keys = [parse_name(name) for name in options.kernels]
    keys = keys or [
        *(key if other.check() else other for key, other in split),
        *convolutions(),
        *attention(),
    ]
    if options.archs:
        keys = [key for key in keys if key.arch in options.archs.split(",")]
    different = 0
    for key in keys:
        print(key.name, flush=True)
        with tempfile.TemporaryDirectory(prefix="ckdisp-compare-") as folder:
            if key.op == "fmha":
                different += _differences_of_attention(key, Path(folder))
                continue
            found = compare(key, Path(folder))
        for each in found:
            hot, tail, atomic = each.variant
            report = each.ours
            print(
                f"  hot loop {hot:d} tail {tail:2} atomic {atomic:d}: "
                f"{report.vgpr} VGPR ({report.agpr} AGPR), {report.sgpr} SGPR, "
                f"{report.lds_bytes} LDS, {report.matrix_instructions} matrix, "
                f"{report.instructions} instructions (CK {each.reference.instructions})",
                *(f"    {line}" for line in each.differences),
                sep="\n",
                flush=True,
            )
            different += bool(each.differences)
    print(f"{len(keys)} kernels, {different} variants that differ from CK's")
    return min(different, 1)


if __name__ == "__main__":
    sys.exit(main())
