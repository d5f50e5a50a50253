"""Device code of CK's own attention instances, from its generator, and how ours compares."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import amd
from ck_reference import differences
from ck_tile_lab import DEVICE_PASS, HOST_PASS, compile_hip, write_headers, write_units

from ckdisp.code_objects import KernelReport
from ckdisp.codegen.key import KernelKey
from ckdisp.codegen.providers.ck_tile import branch_of

# What CK calls a family in file names, the API that has it, and the place of its filter in that.
_FAMILIES = {
    "fmha.fwd": ("fmha_fwd", "fwd", "{}"),
    "fmha.splitkv": ("fmha_fwd_splitkv", "fwd_splitkv", "@{}"),
    "fmha.splitkv_combine": ("fmha_fwd_splitkv_combine", "fwd_splitkv", "{}@none"),
    "fmha.pagedkv": ("fmha_fwd_pagedkv", "pagedkv_prefill", "{}"),
    "fmha.appendkv": ("fmha_fwd_appendkv", "fwd_appendkv", "{}"),
    "fmha.batch_prefill": ("fmha_batch_prefill", "batch_prefill", "{}"),
    "fmha.bwd_dot_do_o": ("fmha_bwd_dot_do_o", "bwd", "{}@*@*"),
    "fmha.bwd_convert_dq": ("fmha_bwd_convert_dq", "bwd", "*@{}@*"),
    "fmha.bwd_dq_dk_dv": ("fmha_bwd", "bwd", "*@*@{}"),
}
# Receipts of the generator that have what 0 leaves out: fp32, and what only aiter asks for.
_RECEIPTS = (0, 800, 200, 100)
_ROPES = {"none": "", "interleaved": "_inter", "half_rotated": "_half"}


def _written(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Without the zeros at the end, which stand for numbers that a family lacks."""
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers


def _join(numbers: tuple[int, ...]) -> str:
    return "x".join(map(str, _written(numbers)))


def _stages(letter: str, numbers: tuple[int, ...]) -> str:
    used = _written(numbers)
    return "".join(f"_{letter}{_join(used[i : i + 3])}" for i in range(0, len(used), 3))


def _pads(key: KernelKey, names: tuple[str, ...], none: str = "_npad") -> str:
    found = zip(names, key.padding, strict=True)
    backward = key.family == "fmha.bwd_dq_dk_dv"
    text = "".join(f"{name}{pad if backward else ''}" for name, pad in found if name and pad)
    return f"_p{text}" if text else none


def _has(flag: bool, name: str) -> str:
    return f"_{name}" if flag else f"_n{name}"


def _bias_mask(key: KernelKey) -> tuple[str, str]:
    return _has(key.bias != "no", key.bias if key.bias != "no" else "bias"), _has(
        key.mask != "no", "mask"
    )


def ck_name(key: KernelKey) -> str:
    """The name that CK's generator gives to the kernel of ``key``."""
    family = key.family.removeprefix("fmha.")
    start = f"{_FAMILIES[key.family][0]}_d{key.hdim_q}_{key.dtype}"
    blocks = f"_o{key.block_per_cu}" if key.block_per_cu else ""
    tile = f"_b{_join(key.tile)}"
    bias, mask = _bias_mask(key)
    if family == "appendkv":
        pads = _pads(key, ("s", "sk", "d", "dv"), none="")
        paged = "_pagedkv" if key.paged_kv else ""
        return f"{start}{tile}{blocks}_v{key.vlayout}{pads}{_ROPES[key.rope]}{paged}"
    if family == "bwd_dot_do_o":
        return f"{start}{tile}_{key.mode}{blocks}{_pads(key, ('s', '', '', 'dv'))}"
    if family == "bwd_convert_dq":
        tile = f"_b{key.tile[0]}x{key.tile[1]}"
        fixed = _has(key.deterministic, "deterministic")
        return f"{start}{tile}_{key.mode}{blocks}{_pads(key, ('s', '', 'd', ''))}{fixed}"
    start += f"_{key.mode}{tile}"
    if family == "bwd_dq_dk_dv":
        drop = "_ndropout"
        if key.dropout:
            stored = "_storerandval" if key.store_randval else ""
            drop = f"_dropout_wg{key.dropout_warp}{stored}"
        return (
            f"{start}{_stages('r', key.wave)}{_stages('w', key.warp[:6])}_o{key.block_per_cu or -1}"
            f"_maxq{key.max_seq_len_q}{_pads(key, ('', '', 'd', 'dv'))}{bias}"
            f"{_has(key.dbias, 'dbias')}{mask}{drop}"
            f"{_has(key.deterministic, 'deterministic')}{_has(key.use_trload, 'trload')}"
        )
    lse, quant = _has(key.lse, "lse"), _has(key.qscale == "pertensor", "squant")
    if family == "splitkv_combine":
        return f"{start}{blocks}_*{_pads(key, ('s', '', '', 'dv'))}{lse}{quant}"
    start += f"{_stages('r', key.wave)}{_stages('w', key.warp)}{blocks}_{key.pipeline}"
    start += f"_v{key.vlayout}{_pads(key, ('s', 'sk', 'd', 'dv'))}"
    start += f"{_has(key.logits, 'logits')}{bias}{mask}{lse}"
    skip = _has(key.skip_min_seqlen_q, "skip")
    if family == "splitkv":
        return f"{start}{quant}{_has(key.paged_kv, 'pagedkv')}"
    if family == "pagedkv":
        return f"{start}{skip}{quant}{_has(key.paged_kv, 'pagedkv')}"
    start += _has(key.dropout, "dropout")
    if family == "batch_prefill":
        return f"{start}{quant}"
    return f"{start}{skip}{quant}{_has(key.use_trload, 'trload')}"


def examples() -> Path:
    """The folder of CK's attention example, which only source distributions have."""
    headers = Path(amd.toolchain().ck_include, "ck_tile").resolve()
    folder = headers.parent.parent / "example" / "ck_tile" / "01_fmha"
    if not folder.exists():
        amd.missing(f"the CK headers come without CK's examples: no {folder}")
    return folder


def generate(key: KernelKey, folder: Path) -> Path:
    """CK's instance of ``key``, written by its generator into ``folder``."""
    prefix, api, place = _FAMILIES[key.family]
    name = ck_name(key)
    for receipt in _RECEIPTS:
        command = [sys.executable, str(examples() / "generate.py"), "--targets", key.arch]
        command += ["--api", api, "--receipt", str(receipt), "--output_dir", str(folder)]
        subprocess.run([*command, "--filter", place.format(name)], check=True, cwd=folder)
        found = [
            path
            for pattern in (f"{name}.cpp", f"{name}_gfx*.cpp")
            for path in folder.glob(pattern)
            if path.name.startswith(prefix)
        ]
        if found:
            (instance,) = found
            return instance
    raise AssertionError(f"CK's generator has no {name} for {key.arch}")


def _types(key: KernelKey, number: int) -> list[str]:
    """The types of CK's kernels in instance ``number``, by variant."""
    if key.pipeline == "v3":
        flags = [str(flag).lower() for flag in (key.mode == "group", key.mask != "no")]
        dtype = f"ck_tile::fmha_fwd_v3_args::data_type_enum::{key.dtype}"
        traits = ", ".join((dtype, *flags))
        return [f"ck_tile::fmha_fwd_v3_kernel_traits<{traits}>::kernel"]
    if key.family == "fmha.splitkv_combine":
        return [f"instance_{number}<{splits}>::fmha_kernel" for splits in range(3, 8)]
    if key.family == "fmha.splitkv":
        uneven = ("true",) if key.mode == "group" else ("true", "false")
        merges = key.hdim_q == 128 and key.bias == "no" and key.mask == "no"
        return [
            f"instance_{number}<{is_uneven}, {merged}>::fmha_kernel"
            for merged in (("false", "true") if merges else ("false",))
            for is_uneven in uneven
        ]
    stem = {
        "fmha.bwd_dot_do_o": "fmha_bwd_dot_do_o_kernel",
        "fmha.bwd_convert_dq": "fmha_bwd_convert_dq_kernel",
        "fmha.bwd_dq_dk_dv": "fmha_bwd_dq_dk_dv_kernel",
    }.get(key.family, "fmha_kernel")
    return [f"{stem}_{number}"]


def _instance(key: KernelKey, number: int, folder: Path) -> str:
    """CK's instance of a key, under names of its own: every instance calls its types by 0."""
    if key.pipeline == "v3":
        # The generator has none; an example states them. In mode group only their types compile.
        (kernel,) = _types(key, number)
        traits = kernel.removesuffix("::kernel").removeprefix("ck_tile::")
        lines = ['#include "fmha_fwd_v3_impl.hpp"', "namespace ck_tile {"]
        lines.append(f"using traits_{number} = {traits};")
        if key.mode == "batch":
            lines.append(f"INST_FMHA_FWD_V3_DISPATCH(traits_{number})")
        return "\n".join((*lines, "}"))
    text = generate(key, folder).read_text()
    text = re.sub(r"\b(fmha_\w+|\w*trait)_0\b", rf"\1_{number}", text)
    return re.sub(r"\b((?:run_)?instance)\b", rf"\1_{number}", text)


def check_types(keys: Sequence[KernelKey], folder: Path) -> None:
    """Assert that the kernels of ``keys``, of one arch and branch, are of CK's own types."""
    write_headers(folder)
    units = write_units(folder, keys)
    lines = ["#define CKDISP_CK_NAMESPACE ck_tile", *(f'#include "{unit}"' for unit in units)]
    for number, key in enumerate(keys):
        lines.append(_instance(key, number, folder))
        lines += [
            "static_assert(std::is_same_v<ckdisp::tile::FmhaKernel<"
            f"ckdisp_key_{key.name}, {variant}>::Ck, {theirs}>);"
            for variant, theirs in enumerate(_types(key, number))
        ]
    _compile(keys, folder, lines, (*HOST_PASS, "-fsyntax-only"), examples())


def compile_ours(keys: Sequence[KernelKey], folder: Path) -> Path:
    """The device code of ``keys``, of one arch and branch, which one compiler makes together."""
    write_headers(folder)
    lines = [f'#include "{unit}"' for unit in write_units(folder, keys)]
    return _compile(keys, folder, lines, DEVICE_PASS)


def compile_theirs(keys: Sequence[KernelKey], folder: Path) -> Path:
    """The device code of CK's own instances of ``keys``.

    It is not compiled with ours: where two kernels are of one type, they share functions, which
    the compiler then treats in another way.
    """
    lines = [_instance(key, number, folder) for number, key in enumerate(keys)]
    return _compile(keys, folder, lines, DEVICE_PASS, examples())


def _compile(
    keys: Sequence[KernelKey],
    folder: Path,
    lines: Sequence[str],
    passes: Sequence[str],
    *includes: Path,
) -> Path:
    (folder / "kernels.hip").write_text("\n".join(lines))
    branch = branch_of(keys[0])
    return compile_hip(folder, "kernels.hip", keys[0].arch, passes, *includes, branch=branch)


@dataclass(frozen=True)
class Twin:
    """One of our kernels, that of CK's which is most like it, and how they differ."""

    ours: KernelReport
    theirs: KernelReport
    differences: list[str]


def compare(
    keys: Sequence[KernelKey], ours: Sequence[KernelReport], theirs: Sequence[KernelReport]
) -> Iterator[Twin]:
    """Every kernel of ``keys`` among ``ours`` with one of ``theirs``, which are as many."""
    names = {key.name for key in keys}
    found = [report for report in ours if report.kernel in names]
    rest = [report for report in theirs if "kentry" in report.symbol]
    assert len(found) == len(rest) >= len(names), (len(found), len(rest), len(names))
    for report in found:
        pairs = [Twin(report, other, differences(report, other)) for other in rest]
        best = min(pairs, key=lambda twin: (len(twin.differences), _distance(twin)))
        rest.remove(best.theirs)
        yield best


def _distance(twin: Twin) -> int:
    return abs((twin.ours.instructions or 0) - (twin.theirs.instructions or 0))
