"""A reader of MessagePack, as far as the metadata of code objects needs it."""

from __future__ import annotations

import struct
from typing import Any

from .reading import Data, InspectError

_MAX_DEPTH = 32


def unpack(data: Data) -> Any:
    """The first value in ``data``: dict, list, str, bytes, int, float, bool or None."""
    return _Reader(data).value(0)


class _Reader:
    def __init__(self, data: Data) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        taken = bytes(self._data.part(self._at, count, "metadata"))
        self._at += count
        return taken

    def _number(self, layout: str) -> Any:
        (value,) = struct.unpack(">" + layout, self._take(struct.calcsize(layout)))
        return value

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise self._damaged("it is nested too deeply")
        tag = self._number("B")
        if tag < 0x80:
            return tag
        if tag < 0x90:
            return self._map(tag & 0xF, depth)
        if tag < 0xA0:
            return self._list(tag & 0xF, depth)
        if tag < 0xC0:
            return self._text(tag & 0x1F)
        if tag >= 0xE0:
            return tag - 0x100
        if tag in _SIMPLE:
            return _SIMPLE[tag]
        if tag in _NUMBERS:
            return self._number(_NUMBERS[tag])
        if tag in _SIZED:
            kind, layout = _SIZED[tag]
            size = self._number(layout)
            if kind == "map":
                return self._map(size, depth)
            if kind == "list":
                return self._list(size, depth)
            return self._text(size) if kind == "text" else self._take(size)
        raise self._damaged(f"byte {tag:#x} starts no value that metadata has")

    def _text(self, size: int) -> str:
        return self._take(size).decode("utf-8", "replace")

    def _list(self, size: int, depth: int) -> list[Any]:
        # An entry takes a byte or more, so a false size ends where the data does.
        return [self.value(depth + 1) for _ in range(size)]

    def _map(self, size: int, depth: int) -> dict[str, Any]:
        found = {}
        for _ in range(size):
            key = self.value(depth + 1)
            if not isinstance(key, str):
                raise self._damaged("a key is no text")
            found[key] = self.value(depth + 1)
        return found

    def _damaged(self, why: str) -> InspectError:
        return InspectError(f"{self._data.name}: damaged metadata: {why}; build it again")


_SIMPLE = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = dict(zip(range(0xCA, 0xD4), "fdBHIQbhiq", strict=True))
_SIZED = {
    0xC4: ("bytes", "B"),
    0xC5: ("bytes", "H"),
    0xC6: ("bytes", "I"),
    0xD9: ("text", "B"),
    0xDA: ("text", "H"),
    0xDB: ("text", "I"),
    0xDC: ("list", "H"),
    0xDD: ("list", "I"),
    0xDE: ("map", "H"),
    0xDF: ("map", "I"),
}
