"""Reads the kernels of a file with AMD code."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from . import disassembly, msgpack, names
from .containers import CodeObject, code_objects
from .occupancy import occupancy
from .reading import Data, InspectError
from .report import KernelReport

_NT_AMDGPU_METADATA = 32
_TRIPLE = "amdgcn-amd-amdhsa--"


def inspect(path: str | os.PathLike[str], *, disassemble: bool = True) -> list[KernelReport]:
    """Every kernel in a library, object, archive, bundle or code object, in the order found.

    ``disassemble=False`` leaves the counts of instructions out, which need ``llvm-objdump``.
    :class:`InspectError` if the file has no code for AMD GPUs or cannot be read.
    """
    data = Data(content(Path(path)), os.fspath(path))
    reports: list[KernelReport] = []
    for code in code_objects(data):
        reports += _kernels(code, os.fspath(path), disassemble)
    return reports


def content(path: Path) -> memoryview:
    """The bytes of a file, without reading more of it than is looked at."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # opening a pipe waits for its writer
            raise InspectError(f"cannot read {path}: not a regular file")
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise InspectError(f"cannot read {path}: {error.strerror or error}") from error


def _kernels(code: CodeObject, file: str, disassemble: bool) -> Iterator[KernelReport]:
    metadata = _metadata(code)
    arch = _text(metadata, "amdhsa.target", code.data).removeprefix(_TRIPLE)
    kernels = metadata.get("amdhsa.kernels", [])
    if not isinstance(kernels, list) or not all(isinstance(k, dict) for k in kernels):
        raise InspectError(f"{code.data.name}: damaged metadata: no list of kernels")
    symbols = {s.name: s for s in code.elf.symbols() if s.is_function and s.is_defined}
    listed = [_text(kernel, ".name", code.data) for kernel in kernels]
    functions = {n: (symbols[n].value, symbols[n].size) for n in listed if n in symbols}
    counts, unknown = disassembly.count(code.data, functions) if disassemble else ({}, "not asked")
    for name, kernel in zip(listed, kernels, strict=True):
        if not names.is_helper(name):
            size = symbols[name].size if name in symbols else 0
            yield _report(kernel, name, arch, size, counts.get(name), unknown, code, file)


def _metadata(code: CodeObject) -> Mapping[str, Any]:
    for owner, kind, content in code.elf.notes():
        if owner == "AMDGPU" and kind == _NT_AMDGPU_METADATA:
            metadata = msgpack.unpack(content)
            if isinstance(metadata, dict):
                return metadata
            raise InspectError(f"{code.data.name}: damaged metadata; build it again")
    raise InspectError(
        f"{code.data.name}: a code object without metadata of kernels. Only code object version 3 "
        "and later has it: compile with a newer compiler"
    )


def _report(
    kernel: Mapping[str, Any],
    symbol: str,
    arch: str,
    code_bytes: int,
    instructions: disassembly.Instructions | None,
    unknown: str,
    code: CodeObject,
    file: str,
) -> KernelReport:
    def number(field: str, default: int = 0) -> int:
        value = kernel.get(field, default)
        if not isinstance(value, int) or value < 0:
            raise InspectError(f"{code.data.name}: damaged metadata: {field} is {value!r}")
        return int(value)

    ours = names.variant(symbol)
    figures = {
        "vgpr": number(".vgpr_count"),
        "agpr": number(".agpr_count"),
        "sgpr": number(".sgpr_count"),
        "lds_bytes": number(".group_segment_fixed_size"),
        "block_size": number(".max_flat_workgroup_size"),
        "wave_size": number(".wavefront_size", 64),
    }
    fits = occupancy(
        arch.partition(":")[0],
        wgp_mode=bool(kernel.get(".workgroup_processor_mode", False)),
        **figures,
    )
    if not unknown and instructions is None:
        unknown = "the code object has no function of that name"
    return KernelReport(
        name=ours.key if ours else names.short(symbol),
        symbol=symbol,
        arch=arch,
        file=file,
        where=code.where,
        kernel=ours.key if ours else None,
        hot_loop=ours.hot_loop if ours else None,
        tail=ours.tail if ours else None,
        memory=ours.memory if ours else None,
        scratch_bytes=number(".private_segment_fixed_size"),
        dynamic_stack=bool(kernel.get(".uses_dynamic_stack", False)),
        vgpr_spills=number(".vgpr_spill_count"),
        sgpr_spills=number(".sgpr_spill_count"),
        argument_bytes=number(".kernarg_segment_size"),
        code_bytes=code_bytes,
        waves_per_simd=fits.waves_per_simd if fits else None,
        blocks_per_cu=fits.blocks if fits else None,
        limited_by=fits.limited_by if fits else None,
        instructions=instructions.count if instructions else None,
        matrix=dict(instructions.matrix) if instructions else None,
        unknown=unknown or None,
        **figures,
    )


def _text(values: Mapping[str, Any], field: str, data: Data) -> str:
    value = values.get(field)
    if not isinstance(value, str):
        raise InspectError(f"{data.name}: damaged metadata: {field} is {value!r}")
    return value
