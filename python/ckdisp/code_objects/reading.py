"""Reading binary data whose every length may be wrong."""

from __future__ import annotations

import struct

from ..codegen.errors import LibraryError


class InspectError(LibraryError):
    """A file that cannot be inspected: no AMD code in it, truncated, damaged."""


class Data:
    """Bytes with a name for messages. Reading past the end is an :class:`InspectError`."""

    def __init__(self, view: memoryview, name: str) -> None:
        self.view = view
        self.name = name

    def __len__(self) -> int:
        return len(self.view)

    def part(self, offset: int, size: int, what: str) -> memoryview:
        """``size`` bytes from ``offset``."""
        if offset < 0 or size < 0 or offset + size > len(self.view):
            raise InspectError(
                f"{self.name}: truncated or damaged: {what} should lie at bytes {offset} to "
                f"{offset + size}, and there are {len(self.view)}; build it again"
            )
        return self.view[offset : offset + size]

    def slice(self, offset: int, size: int, what: str, name: str = "") -> Data:
        return Data(self.part(offset, size, what), name or self.name)

    def unpack(self, layout: str, offset: int, what: str) -> tuple[int, ...]:
        """Little-endian integers in the ``struct`` notation ``layout``."""
        layout = "<" + layout
        return struct.unpack(layout, self.part(offset, struct.calcsize(layout), what))

    def starts(self, magic: bytes, offset: int = 0) -> bool:
        return self.view[offset : offset + len(magic)] == magic

    def text(self, offset: int, what: str) -> str:
        """The zero-terminated text at ``offset``."""
        self.part(offset, 1, what)
        # Names of templates are long; no sane one is longer than this.
        chunk = bytes(self.view[offset : offset + (1 << 16)])
        end = chunk.find(b"\0")
        if end < 0:
            raise InspectError(f"{self.name}: damaged: {what} has no end; build it again")
        return chunk[:end].decode("utf-8", "replace")
