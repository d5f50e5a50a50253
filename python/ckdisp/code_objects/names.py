"""Short names of kernels, and the variants of ours."""

from __future__ import annotations

import re
from dataclasses import dataclass

# ckdisp_run<ckdisp_key_NAME, hot loop, tail, atomic>
_OURS = re.compile(r"_Z10ckdisp_runI\d+ckdisp_key_(\w+?)Lb([01])ELi(\d+)ELb([01])EE")
# Kernels of other stages: ckdisp_convert<ckdisp_key_NAME> makes the result out of sums,
# ckdisp_pages copies a list of pages.
STAGES = ("convert", "pages")
_STAGE = re.compile(rf"_Z\d+ckdisp_({'|'.join(STAGES)})I(\d+)ckdisp_key_(\w+)")
# ckdisp_fmha<ckdisp_key_NAME, variant>
_FMHA = re.compile(r"_Z11ckdisp_fmhaI(\d+)ckdisp_key_(\w+)")
_PREFIX = "ckdisp_key_"
# CK's TailNumber.
_TAILS = (
    *("odd", "even", "one", "two", "three", "four", "five", "six", "seven"),
    *("empty", "full"),
)


@dataclass(frozen=True)
class Variant:
    """Which kernel of a key: its main loop runs or not, how it ends, how it stores C.

    Other stages have no loop, and their memory is one of :data:`STAGES`. Kernels of attention have
    a number as their tail, and their memory is ``set``.
    """

    key: str
    hot_loop: bool | None
    tail: str | None
    memory: str


def variant(symbol: str) -> Variant | None:
    """The key and variant that a mangled name of ours stands for."""
    if match := _STAGE.match(symbol):
        return Variant(match[3][: int(match[2]) - len(_PREFIX)], None, None, match[1])
    if match := _FMHA.match(symbol):
        end = int(match[1]) - len(_PREFIX)
        number = re.match(r"Li(\d+)E", match[2][end:])
        return Variant(match[2][:end], None, number[1] if number else None, "set")
    match = _OURS.match(symbol)
    if match is None:
        return None
    key, hot_loop, tail, atomic = match.groups()
    return Variant(
        key,
        hot_loop == "1",
        _TAILS[int(tail)] if int(tail) < len(_TAILS) else tail,
        "atomic_add" if atomic == "1" else "set",
    )


def is_helper(symbol: str) -> bool:
    """Whether it is the kernel that every translation unit with CK's launch header gets."""
    return re.fullmatch(r"_ZN\d+ck_tile\w*flush_cacheEv", symbol) is not None


def short(symbol: str) -> str:
    """The qualified name in a mangled C++ name, without template arguments and parameters."""
    if not symbol.startswith("_Z"):
        return symbol
    rest = symbol[2:].lstrip("NKL")
    parts = []
    while (digits := re.match(r"L?(\d+)", rest)) is not None:
        size = int(digits[1]) if len(digits[1]) < 6 else 0
        start = digits.end()
        if size == 0 or start + size > len(rest):
            break
        name = rest[start : start + size]
        parts.append("(anonymous namespace)" if name.startswith("_GLOBAL__N") else name)
        rest = rest[start + size :]
    return "::".join(parts) or symbol
