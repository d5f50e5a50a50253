"""Makes files with AMD code objects from nothing, for tests without a compiler."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

KERNEL = {
    ".name": "copy",
    ".symbol": "copy.kd",
    ".vgpr_count": 40,
    ".agpr_count": 8,
    ".sgpr_count": 22,
    ".vgpr_spill_count": 3,
    ".sgpr_spill_count": 1,
    ".group_segment_fixed_size": 4096,
    ".private_segment_fixed_size": 16,
    ".kernarg_segment_size": 24,
    ".max_flat_workgroup_size": 256,
    ".wavefront_size": 64,
    ".uses_dynamic_stack": False,
    ".args": [{".offset": 0, ".size": 8, ".value_kind": "global_buffer"}],
}


def kernel(**changes: object) -> dict[str, Any]:
    """Metadata of a kernel; ``vgpr_count=8`` changes one of its figures."""
    return {**KERNEL, **{f".{name}": value for name, value in changes.items()}}


def pack(value: Any) -> bytes:
    """``value`` as MessagePack."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if 0 <= value < 128:
            return bytes([value])
        return struct.pack(">BQ", 0xCF, value) if value > 0 else struct.pack(">Bq", 0xD3, value)
    if isinstance(value, str):
        text = value.encode()
        return _head(len(text), 0xA0, 32, ">BI", 0xDB) + text
    if isinstance(value, Mapping):
        entries = b"".join(pack(k) + pack(v) for k, v in value.items())
        return _head(len(value), 0x80, 16, ">BH", 0xDE) + entries
    return _head(len(value), 0x90, 16, ">BH", 0xDC) + b"".join(map(pack, value))


def _head(size: int, short: int, limit: int, layout: str, tag: int) -> bytes:
    return bytes([short | size]) if size < limit else struct.pack(layout, tag, size)


def elf(machine: int, sections: Sequence[tuple[str, int, bytes]]) -> bytes:
    """A 64-bit ELF of ``(name, type, content)`` sections; a symbol table links to `.strtab`."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _, _ in sections) + b".shstrtab\0"
    every = [*sections, (".shstrtab", 3, names)]
    titles = [name for name, _, _ in every]
    body, headers = b"", struct.pack("<IIQQQQIIQQ", *(0,) * 10)
    for name, kind, content in every:
        body += b"\0" * (-len(body) % 16)
        link = titles.index(".strtab") + 1 if kind in (2, 11) else 0
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers += struct.pack(
            "<IIQQQQIIQQ", at, kind, 0, 0, 64 + len(body), len(content), link, 0, 1, 0
        )
        body += content
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        *(b"\x7fELF\2\1\1\x40\4", 3, machine, 1, 0, 0, 64 + len(body), 0x54C),
        *(64, 0, 0, 64, len(every) + 1, len(every)),
    )
    return head + body + headers


def symbols(**sizes: int) -> tuple[bytes, bytes]:
    """A symbol table of functions, and the texts of their names."""
    texts, table = b"\0", b"\0" * 24
    for i, (name, size) in enumerate(sizes.items()):
        table += struct.pack("<IBBHQQ", len(texts), 2, 0, 1, 0x1000 * (i + 1), size)
        texts += name.encode() + b"\0"
    return table, texts


def code_object(
    *kernels: Mapping[str, Any], target: str = "gfx942", metadata: object = None
) -> bytes:
    """An AMD code object with metadata of ``kernels``, 64 bytes of code each, and no code."""
    if metadata is None:
        metadata = {
            "amdhsa.version": [1, 2],
            "amdhsa.target": f"amdgcn-amd-amdhsa--{target}",
            "amdhsa.kernels": list(kernels),
        }
    content = pack(metadata)
    note = struct.pack("<III", 7, len(content), 32) + b"AMDGPU\0\0" + content
    table, texts = symbols(**{str(k[".name"]): 64 for k in kernels})
    return elf(224, [(".note", 7, note), (".symtab", 2, table), (".strtab", 3, texts)])


def bundle(**entries: bytes) -> bytes:
    """A bundle of an empty host entry and ``gfx942=...`` entries."""
    targets = ["host-x86_64-unknown-linux-gnu-"]
    targets += [f"hipv4-amdgcn-amd-amdhsa--{name}" for name in entries]
    head = 32 + sum(24 + len(target) for target in targets)
    table, body = b"", b""
    for target, content in zip(targets, (b"", *entries.values()), strict=True):
        body += b"\0" * (-(head + len(body)) % 64)
        table += struct.pack("<QQQ", head + len(body), len(content), len(target)) + target.encode()
        body += content
    return b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(targets)) + table + body


def compress(plain: bytes, version: int, method: int = 0, packed: bytes | None = None) -> bytes:
    """A compressed bundle; by zlib unless another method and its stream are given."""
    stream = zlib.compress(plain) if packed is None else packed
    head = b"CCOB" + struct.pack("<HH", version, method)
    if version == 1:
        sizes = struct.pack("<I", len(plain))
    else:
        layout, header = ("<II", 24) if version == 2 else ("<QQ", 32)
        sizes = struct.pack(layout, header + len(stream), len(plain))
    return head + sizes + b"\0" * 8 + stream


def host_object(*fatbins: bytes, **functions: int) -> bytes:
    """A host ELF whose `.hip_fatbin` holds the given bundles, at pages of their own."""
    content = b"".join(fatbin + b"\0" * (-len(fatbin) % 4096) for fatbin in fatbins)
    table, texts = symbols(**functions)
    sections = [(".symtab", 2, table), (".strtab", 3, texts)]
    return elf(62, [*sections, (".hip_fatbin", 1, content)] if fatbins else sections)


def archive(**members: bytes) -> bytes:
    """A static library, with the table of long names that `ar` writes."""
    names = b"".join(f"{name}/\n".encode() for name in members)

    def member(title: str, content: bytes) -> bytes:
        head = f"{title:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
        return head + content + b"\n" * (len(content) % 2)

    out = b"!<arch>\n" + member("//", names)
    for name, content in members.items():
        out += member(f"/{names.index(name.encode())}", content)
    return out
