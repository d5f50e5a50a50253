"""Finds the code objects in a file: plain, bundled, compressed, in objects, libraries, archives."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from . import compressed
from .elf import EM_AMDGPU, MAGIC, Elf
from .reading import Data, InspectError

ARCHIVE = b"!<arch>\n"
_THIN_ARCHIVE = b"!<thin>\n"
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_FATBIN = ".hip_fatbin"
# -fgpu-rdc leaves the device side in such sections, as LLVM bitcode.
_UNLINKED = "__CLANG_OFFLOAD_BUNDLE__hip"
_MAX_ENTRIES = 4096


@dataclass(frozen=True)
class CodeObject:
    """An ELF file for an AMD GPU, and where it was found: archive member, bundle entry."""

    elf: Elf
    data: Data
    where: str
    target: str  # as its bundle says; empty for one that is not in a bundle


def code_objects(data: Data) -> Iterator[CodeObject]:
    """Every code object in a file; :class:`InspectError` if there is none."""
    found = False
    for code in _in_file(data, ""):
        found = True
        yield code
    if not found:
        raise InspectError(
            f"{data.name}: there is no code for AMD GPUs in it. Give a library or object that has "
            "kernels for one; `ckdisp list` shows the kernels of every library"
        )


def check_device_code(elf: Elf) -> None:
    """:class:`InspectError` if a bundle of code objects in a file of the host is cut off.

    What is compressed is only measured, and what is of another kind is not looked at.
    """
    for section in elf.sections:
        data, at = section.data, 0
        while section.name == _FATBIN and at < len(data):
            part = Data(data.view[at:], data.name)
            if data.starts(BUNDLE, at):
                at += _drain(_in_bundle(part, ""))
            elif data.starts(compressed.MAGIC, at):
                at += compressed.length(part) or len(data)
            elif data.starts(b"\0", at):
                at = _skip_zeros(data, at)
            else:
                break


def _drain(parts: Generator[CodeObject, None, int]) -> int:
    """The result of a generator."""
    while True:
        try:
            next(parts)
        except StopIteration as end:
            return int(end.value)


def _in_file(data: Data, where: str) -> Iterator[CodeObject]:
    if len(data) == 0:
        raise InspectError(f"{data.name}: the file is empty; build it again")
    if data.starts(MAGIC):
        yield from _in_elf(data, where)
    elif data.starts(ARCHIVE):
        yield from _in_archive(data)
    elif data.starts(BUNDLE) or data.starts(compressed.MAGIC):
        yield from _in_bundles(data, where)
    elif data.starts(_THIN_ARCHIVE):
        raise InspectError(
            f"{data.name}: a thin archive, which only names its objects; give those, or make the "
            "archive without 'T'"
        )
    else:
        raise InspectError(
            f"{data.name}: not an ELF file, an archive or a bundle of code objects; give a library "
            "or object of a build"
        )


def _in_elf(data: Data, where: str) -> Iterator[CodeObject]:
    elf = Elf(data)
    if elf.machine == EM_AMDGPU:
        yield CodeObject(elf, data, where, "")
        return
    for section in elf.sections:
        if section.name == _FATBIN:
            yield from _in_bundles(section.data, where)
        elif section.name.startswith(_UNLINKED) and len(section.data) > 1:
            raise InspectError(
                f"{data.name}: compiled with -fgpu-rdc, so its device code is not linked yet; give "
                "the library that it is linked into"
            )


def _in_bundles(data: Data, where: str) -> Iterator[CodeObject]:
    """The code objects of bundles that lie one after the other, with zeros between them."""
    at = 0
    while at < len(data):
        if data.starts(BUNDLE, at):
            bundle = Data(data.view[at:], data.name)
            size = yield from _in_bundle(bundle, where)
        elif data.starts(compressed.MAGIC, at):
            packed = Data(data.view[at:], data.name)
            plain, size = compressed.decompress(packed)
            yield from _in_bundle(plain, where)
        else:
            at = _skip_zeros(data, at)
            continue
        at += size


def _skip_zeros(data: Data, at: int) -> int:
    """Where the zeros at ``at`` end."""
    step = 1 << 16
    while at < len(data):
        chunk = bytes(data.view[at : at + step])
        rest = chunk.lstrip(b"\0")
        if len(rest) == len(chunk):
            raise InspectError(
                f"{data.name}: damaged: byte {at} of the fat binary starts nothing that is known"
            )
        at += len(chunk) - len(rest)
        if rest:
            break
    return at


def _in_bundle(data: Data, where: str) -> Generator[CodeObject, None, int]:
    """Yields the code objects of a bundle; its size is the result."""
    (count,) = data.unpack("Q", len(BUNDLE), "a bundle")
    if count > _MAX_ENTRIES:
        raise InspectError(f"{data.name}: damaged: a bundle of {count} entries; build it again")
    at = len(BUNDLE) + 8
    end = at
    for _ in range(count):
        offset, size, length = data.unpack("QQQ", at, "a bundle entry")
        target = bytes(data.part(at + 24, length, "the target of a bundle entry"))
        at += 24 + length
        end = max(end, at, offset + size)
        kind, _, triple = target.decode("utf-8", "replace").partition("-")
        if kind not in ("hip", "hipv4") or size == 0:
            continue  # the host's entry is empty
        content = data.slice(offset, size, "a bundle entry")
        _, _, arch = triple.partition("--")
        if not content.starts(MAGIC):
            raise InspectError(
                f"{data.name}: the entry for {arch} of the bundle is no code object; it may have "
                "been compiled with -emit-llvm or -fgpu-rdc"
            )
        elf = Elf(content)
        if elf.machine != EM_AMDGPU:
            raise InspectError(f"{data.name}: the entry for {arch} is not for AMD GPUs")
        yield CodeObject(elf, content, where, arch)
    return end


def _in_archive(data: Data) -> Iterator[CodeObject]:
    names: Data | None = None
    at = len(ARCHIVE)
    while at < len(data):
        header = bytes(data.part(at, 60, "the header of an archive member"))
        if header[58:] != b"`\n" or not header[48:58].strip().isdigit():
            raise InspectError(f"{data.name}: damaged: no archive member at byte {at}")
        size = int(header[48:58])
        title = header[:16].decode("ascii", "replace").rstrip()
        member = data.slice(at + 60, size, f"archive member {title!r}")
        at += 60 + size + size % 2
        if title == "//":
            names = member
        elif title not in ("/", "/SYM64/"):
            name = _member_name(names, title)
            member.name = f"{data.name}({name})"
            if member.starts(MAGIC):
                yield from _in_elf(member, name)


def _member_name(names: Data | None, title: str) -> str:
    """The name of a member; long ones are kept in a member of their own."""
    if not title.startswith("/") or names is None or not title[1:].isdigit():
        return title.removesuffix("/")
    start = int(title[1:])
    names.part(start, 1, "the name of an archive member")
    rest = bytes(names.view[start : start + 4096])
    return rest.partition(b"\n")[0].decode("utf-8", "replace").removesuffix("/")
