"""Whether the compiled code of a key is what it should be. An exit status of 0 is no proof: some
combinations compile to nothing, or to code that never multiplies matrices."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..codegen.key import KernelKey
from .elf import MAGIC, Elf
from .inspect import content, inspect
from .names import STAGES
from .reading import Data
from .report import KernelReport

# Tails of each pipeline, without and with its hot loop. Those of `mem` depend on the tile: each
# tail of the one kind has one of the other.
_TAILS = {
    "compv3": {(False, "odd"), (False, "even"), (True, "full")},
    "compv4": {(False, "one"), (False, "two"), (True, "two"), (True, "three")},
    "compasync": {(False, "one"), (False, "two"), (True, "two"), (True, "three")},
    "compv5": {(True, "empty")},
    "compv6": {(False, "odd"), (False, "even"), (True, "odd"), (True, "even")},
    "preshufflev2": {(True, "odd"), (True, "even")},
}
# What ends the sizes in the names of matrix instructions: v_mfma_f32_32x32x8f16,
# v_wmma_i32_16x16x16_iu8, v_mfma_f32_4x4x4_16b_f16 with its 16 blocks.
_SIZES = r"(\d|_\d+b)_?"
# Then come the types of the operands.
_OPERANDS = {
    "fp32": r"f32",
    "fp16": r"f16",
    "bf16": r"bf16(_1k)?",
    "int8": r"iu?8",
}
_EIGHT_BITS = ("fp8", "bf8")
# Families that multiply no matrices.
_NO_MATRICES = (
    "fmha.splitkv_combine",
    "fmha.appendkv",
    "fmha.bwd_dot_do_o",
    "fmha.bwd_convert_dq",
)
# Archs without instructions for these, where CK multiplies them as fp32.
_WIDENED = ("gfx90a",)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. ``kind`` is missing, arch, matrix, scratch, spill, registration or
    unknown."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


def check_object(
    path: str | os.PathLike[str], key: KernelKey, reports: Sequence[KernelReport] | None = None
) -> list[Problem]:
    """What is wrong with the code of ``key`` in an object, library or code object.

    ``reports`` is what :func:`inspect` said of the file, if it was asked before. A kernel that
    uses scratch memory or spills vector registers works, only slower: these are problems of kinds
    of their own. :class:`InspectError` if the file cannot be read at all.
    """
    of_key = [r for r in (inspect(path) if reports is None else reports) if r.kernel == key.name]
    return [
        *_missing(of_key, key),
        *(problem for report in of_key for problem in _figures(report, key)),
        *_registration(path),
    ]


def variant_text(report: KernelReport) -> str:
    """``loop+full``, ``odd atomic``: which kernel of its key it is."""
    if report.kernel is None:
        return "-"
    if report.memory in STAGES:
        return report.memory
    if report.hot_loop is None:
        return f"variant {report.tail}"
    loop = "loop+" if report.hot_loop else ""
    return f"{loop}{report.tail}{' atomic' if report.memory == 'atomic_add' else ''}"


def _missing(reports: Sequence[KernelReport], key: KernelKey) -> Iterator[Problem]:
    if not reports:
        yield Problem("missing", f"there is no kernel of {key.name}")
    elif key.op == "fmha":
        yield from _missing_numbers({str(r.tail) for r in reports if r.memory not in STAGES}, key)
        if key.family == "fmha.batch_prefill" and all(r.memory != "pages" for r in reports):
            yield Problem("missing", "no kernel that copies the list of pages")
    else:
        yield from _missing_tails(reports, key)


def _attention_variants(key: KernelKey) -> int:
    """Kernels of an attention key: see csrc/providers/ck_tile/fmha/splitkv.hpp."""
    if key.family == "fmha.splitkv_combine":
        return 5
    if key.family != "fmha.splitkv":
        return 1
    merges = key.hdim_q == 128 and key.bias == "no" and key.mask == "no"
    return (1 if key.mode == "group" else 2) * (2 if merges else 1)


def _missing_numbers(found: set[str], key: KernelKey) -> Iterator[Problem]:
    wanted = {str(i) for i in range(_attention_variants(key))}
    for number in sorted(wanted - found):
        yield Problem("missing", f"no kernel of variant {number}")
    for number in sorted(found - wanted):
        yield Problem("missing", f"unexpected: variant {number}")


def _missing_tails(reports: Sequence[KernelReport], key: KernelKey) -> Iterator[Problem]:
    found: dict[str, set[tuple[bool, str]]] = {"set": set(), "atomic_add": set()}
    stages = 1
    for report in reports:
        if report.memory == "convert":
            stages = 2
        else:
            found[str(report.memory)].add((bool(report.hot_loop), str(report.tail)))
    if stages != (2 if getattr(key, "two_stage", False) else 1):
        what = "unexpected: a kernel" if stages == 2 else "no kernel"
        yield Problem("missing", f"{what} that converts sums")
    expected = _TAILS.get(key.pipeline)
    if expected is None:
        tails = {tail for _, tail in found["set"]}
        expected = {(loop, tail) for tail in (*tails, "full") for loop in (False, True)}
    for memory, variants in found.items():
        wanted = expected if memory == "set" or key.split_k else set()
        for loop, tail in sorted(wanted - variants):
            with_loop = "with" if loop else "without"
            yield Problem("missing", f"no kernel {with_loop} hot loop, tail {tail}, {memory}")
        for loop, tail in sorted(variants - wanted):
            with_loop = "with" if loop else "without"
            yield Problem("missing", f"unexpected: {with_loop} hot loop, tail {tail}, {memory}")


def _figures(report: KernelReport, key: KernelKey) -> Iterator[Problem]:
    which = variant_text(report)
    if report.arch.partition(":")[0] != key.arch:
        yield Problem("arch", f"{which}: compiled for {report.arch}, not {key.arch}")
    if report.memory in STAGES or key.family in _NO_MATRICES:
        pass
    elif report.matrix is None:
        yield Problem("unknown", f"{which}: instructions are not known: {report.unknown}")
    elif not report.matrix:
        yield Problem("matrix", f"{which}: no matrix instruction")
    else:
        wrong = sorted(op for op in report.matrix if not _multiplies(op, key))
        if wrong:
            yield Problem(
                "matrix",
                f"{which}: {', '.join(wrong)} for {' x '.join(_operands(key))}",
            )
    if report.scratch_bytes:
        yield Problem("scratch", f"{which}: {report.scratch_bytes} bytes of scratch memory")
    if report.vgpr_spills:  # scalars go to lanes of vector registers, at next to no cost
        yield Problem("spill", f"{which}: {report.vgpr_spills} VGPRs spilled")


def _operands(key: KernelKey) -> tuple[str, str]:
    """The types that a kernel multiplies."""
    if key.op != "fmha":
        multiplied: tuple[str, str] = key.multiplied
        return multiplied
    one = "fp8" if key.dtype.startswith("fp8") else key.dtype
    return one, one


def _multiplies(opcode: str, key: KernelKey) -> bool:
    """Whether a matrix instruction takes operands of the key's types."""
    a, b = _operands(key)
    if a in _EIGHT_BITS and b in _EIGHT_BITS and key.arch in _WIDENED:
        operands = rf"{_SIZES}{_OPERANDS['fp32']}"
    elif a in _EIGHT_BITS and b in _EIGHT_BITS:
        # Which of the two comes first depends on how C is stored.
        operands = rf"_(f8f6f4|{a}_{b}|{b}_{a})"
    elif a == b and a in _OPERANDS:
        operands = rf"{_SIZES}{_OPERANDS[a]}"
    else:
        return False
    return re.search(rf"{operands}$", opcode.removesuffix("_e64")) is not None


def _registration(path: str | os.PathLike[str]) -> Iterator[Problem]:
    """Kernels are in the table of their library, and not registered by constructors."""
    data = Data(content(Path(path)), os.fspath(path))
    if not data.starts(MAGIC):
        return
    names = {symbol.name for symbol in Elf(data).symbols()}
    for name in sorted(n for n in names if n.startswith("__hipRegister")):
        yield Problem("registration", f"it refers to {name}")
