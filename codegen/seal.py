"""Sums over a linked kernel library, written into it: ``seal.py LIBRARY``.

The loader compares them before it maps the library (``csrc/runtime/seal.cpp`` computes the same),
so that a damaged file is an error and no crash. Tools may still change what they have a right to:

* ``strip`` drops what no segment holds, and ``cmake --install`` rewrites the run path. ``content``
  leaves out the headers, the table of dynamic entries but for those that are addresses and sizes,
  and the strings, so both keep it.
* ``patchelf`` and ``auditwheel`` move tables to new segments. Then ``shape`` differs, and only
  ``code`` has to be what it was.

Sums guard against accidents, not against people. This file runs on its own, with NumPy alone, and
never fails a build: a library without sums loads.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

MAGIC = b"CKDISP\x01SEAL\xa7\x3c\xe1\x98\x5d"
_PT_LOAD, _PT_DYNAMIC, _EXECUTABLE = 1, 2, 1
_DT_NULL, _DT_STRTAB, _DT_STRSZ = 0, 5, 10
# NULL, NEEDED, SONAME, RPATH, STRSZ, DEBUG, RUNPATH: what tools that set paths touch.
_REWRITTEN = (0, 1, 14, 15, 10, 21, 29)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FOLD = 0xC2B2AE3D27D4EB4F
_MASK = (1 << 64) - 1
_PART = 1 << 20


@dataclass(frozen=True)
class _Segment:
    kind: int
    flags: int
    offset: int
    address: int
    size: int


class NotSealable(ValueError):
    """The file is no 64-bit ELF library with room for sums."""


def seal(path: str | os.PathLike[str]) -> None:
    """Write the sums of the library at ``path`` into it; :class:`NotSealable` if it has no room."""
    with open(path, "r+b") as stream:
        data = bytearray(stream.read())
        try:
            place = _place(data)
            sums = _sums(memoryview(data), place)
        except (struct.error, IndexError) as error:
            raise NotSealable(f"a damaged ELF file ({error})") from None
        stream.seek(place + len(MAGIC))
        stream.write(struct.pack("<3Q", *sums))


def is_sealed(path: str | os.PathLike[str]) -> bool:
    """Whether the library holds sums, and they are those of its content."""
    with open(path, "rb") as stream:
        data = bytearray(stream.read())
    try:
        place = _place(data)
        found = struct.unpack_from("<3Q", data, place + len(MAGIC))
        return any(found) and found == _sums(memoryview(data), place)
    except (NotSealable, struct.error, IndexError):
        return False


def _place(data: bytearray) -> int:
    if data[:6] != b"\x7fELF\x02\x01":
        raise NotSealable("no 64-bit little-endian ELF file")
    place = data.find(MAGIC)
    if place < 0 or data.find(MAGIC, place + 1) >= 0 or place + 40 > len(data):
        raise NotSealable("no room for sums")
    return place


def _sums(data: memoryview, place: int) -> tuple[int, int, int]:
    table, entry, count = _table(data)
    segments = [_segment(data, table + i * entry) for i in range(count)]
    loads = [s for s in segments if s.kind == _PT_LOAD]
    dynamic = next((s for s in segments if s.kind == _PT_DYNAMIC), None)
    if dynamic is None:
        raise NotSealable("not linked dynamically")
    entries = struct.unpack_from(f"<{dynamic.size // 16 * 2}Q", data, dynamic.offset)
    pairs = list(zip(entries[::2], entries[1::2], strict=True))
    end = next((i for i, (tag, _) in enumerate(pairs) if tag == _DT_NULL), len(pairs))
    values = dict(pairs[:end])
    strings = _offset(loads, values.get(_DT_STRTAB, 0))
    left_out = sorted(
        [
            (0, 64),
            (table, table + entry * count),
            (dynamic.offset, dynamic.offset + dynamic.size),
            (strings, strings + values.get(_DT_STRSZ, 0)),
            (place + len(MAGIC), place + len(MAGIC) + 24),
        ]
    )
    content = 0
    for load in loads:
        for begin, finish in _pieces(load.offset, load.offset + load.size, left_out):
            content = (content * _FOLD + _sum(data[begin:finish])) & _MASK
    kept = [number for tag, v in pairs[:end] if tag not in _REWRITTEN for number in (tag, v)]
    content = (content * _FOLD + _sum(struct.pack(f"<{len(kept)}Q", *kept))) & _MASK
    code = 0
    for load in loads:
        if load.flags & _EXECUTABLE and load.offset:
            code = (code * _FOLD + _sum(data[load.offset : load.offset + load.size])) & _MASK
    return _sum(data[table : table + entry * count]), content, code


def _table(data: memoryview) -> tuple[int, int, int]:
    """Offset, entry size and length of the table of segments."""
    (table,) = struct.unpack_from("<Q", data, 32)
    entry, count = struct.unpack_from("<2H", data, 54)
    if entry != 56 or table + entry * count > len(data):
        raise NotSealable("no table of segments")
    return table, entry, count


def _segment(data: memoryview, at: int) -> _Segment:
    kind, flags, offset, address, _, size = struct.unpack_from("<2I4Q", data, at)
    if kind in (_PT_LOAD, _PT_DYNAMIC) and offset + size > len(data):
        raise NotSealable("a segment ends behind the file")
    return _Segment(kind, flags, offset, address, size)


def _offset(loads: list[_Segment], address: int) -> int:
    for load in loads:
        if load.address <= address < load.address + load.size:
            return address - load.address + load.offset
    raise NotSealable("the strings lie in no segment")


def _pieces(begin: int, end: int, left_out: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What is left of ``begin`` to ``end`` without the ranges of ``left_out``, which ascend."""
    for start, stop in left_out:
        if start >= end or stop <= begin:
            continue
        if start > begin:
            yield begin, start
        begin = max(begin, stop)
    if begin < end:
        yield begin, end


def _sum(data: bytes | memoryview) -> int:
    """A sum of 64-bit words, each times an odd number of its own: one that changes is seen."""
    size = len(data)
    padded = size // 8 * 8
    total = np.uint64(size)
    with np.errstate(over="ignore"):
        words = np.frombuffer(data, "<u8", padded // 8)
        for start in range(0, len(words), _PART):
            part = words[start : start + _PART]
            total += (part * _factors(start, len(part))).sum(dtype=np.uint64)
        if size > padded:
            last = int.from_bytes(bytes(data[padded:]), "little")
            total += (np.array([last], np.uint64) * _factors(padded // 8, 1))[0]
    return int(total)


def _factors(start: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    numbers = np.arange(start + 1, start + 1 + count, dtype=np.uint64) * _GOLDEN
    return (numbers ^ (numbers >> np.uint64(32))) | np.uint64(1)


def main(arguments: list[str]) -> int:
    for path in arguments:
        try:
            seal(path)
        except (OSError, ValueError) as error:
            print(f"ckdisp: {path} has no sums to be checked by: {error}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
