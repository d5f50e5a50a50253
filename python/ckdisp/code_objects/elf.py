"""64-bit little-endian ELF: sections, notes and symbols."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .reading import Data, InspectError

MAGIC = b"\x7fELF"
EM_AMDGPU = 224

_SHT_SYMTAB, _SHT_NOTE, _SHT_NOBITS, _SHT_DYNSYM = 2, 7, 8, 11
_STT_OBJECT, _STT_FUNC = 1, 2


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    data: Data
    entry_size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    name: str
    value: int
    size: int
    is_function: bool
    is_defined: bool


class Elf:
    """The parts of a file that are needed here; anything out of bounds is an InspectError."""

    def __init__(self, data: Data) -> None:
        self._data = data
        identity = bytes(data.part(0, 16, "the ELF header"))
        if identity[:4] != MAGIC:
            raise InspectError(f"{data.name}: not an ELF file; give a library or object of a build")
        if identity[4] != 2 or identity[5] != 1:
            raise InspectError(f"{data.name}: not a 64-bit little-endian ELF file")
        (self.machine,) = data.unpack("H", 18, "the ELF header")
        (self.flags,) = data.unpack("I", 48, "the ELF header")
        self.sections = list(self._sections())

    def _sections(self) -> Iterator[Section]:
        (table,) = self._data.unpack("Q", 40, "the ELF header")
        size, count, names = self._data.unpack("HHH", 58, "the ELF header")
        if count == 0:
            return
        if size != 64:
            raise InspectError(f"{self._data.name}: damaged: section headers of {size} bytes")
        headers = [
            self._data.unpack("IIQQQQIIQQ", table + i * size, "a section header")
            for i in range(count)
        ]
        if names >= count:
            raise InspectError(f"{self._data.name}: damaged: there is no section {names}")
        texts = self._data.slice(headers[names][4], headers[names][5], "the section names")
        for name, kind, _, _, offset, length, link, _, _, entry in headers:
            empty = kind == _SHT_NOBITS or kind == 0
            title = texts.text(name, "a section name")
            data = self._data.slice(
                0 if empty else offset, 0 if empty else length, f"section {title!r}"
            )
            yield Section(title, kind, data, entry, link)

    def notes(self) -> Iterator[tuple[str, int, Data]]:
        """Owner, type and content of every note."""
        for section in self.sections:
            if section.kind != _SHT_NOTE:
                continue
            at = 0
            while at + 12 <= len(section.data):
                owner, size, kind = section.data.unpack("III", at, "a note")
                name = bytes(section.data.part(at + 12, owner, "a note")).rstrip(b"\0")
                at += 12 + _padded(owner)
                yield name.decode("utf-8", "replace"), kind, section.data.slice(at, size, "a note")
                at += _padded(size)

    def symbols(self) -> Iterator[Symbol]:
        """Every named function or object, from both symbol tables; one may come twice."""
        for section in self.sections:
            if section.kind not in (_SHT_SYMTAB, _SHT_DYNSYM):
                continue
            if section.link >= len(self.sections):
                raise InspectError(
                    f"{self._data.name}: damaged: there is no section {section.link}"
                )
            names = self.sections[section.link].data
            for at in range(0, len(section.data) - 23, 24):
                name, info, _, index, value, size = section.data.unpack("IBBHQQ", at, "a symbol")
                if name != 0 and info & 0xF in (0, _STT_OBJECT, _STT_FUNC):
                    text = names.text(name, "a symbol name")
                    yield Symbol(text, value, size, info & 0xF == _STT_FUNC, index != 0)


def _padded(size: int) -> int:
    return (size + 3) // 4 * 4
