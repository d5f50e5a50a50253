"""Compressed bundles, as ``--offload-compress`` makes them."""

from __future__ import annotations

import ctypes
import importlib
import zlib
from typing import Any

from .reading import Data, InspectError

MAGIC = b"CCOB"
_ZLIB, _ZSTD = 0, 1
_HEADER_1 = 20
# Larger than any bundle, and small enough to hold: a damaged size must not take all memory.
_MAX_BYTES = 1 << 31


def decompress(data: Data) -> tuple[Data, int]:
    """The bundle that ``data`` begins with, and the bytes that it takes there.

    Version 1 does not say how long it is: the compressed stream tells.
    """
    method, header, total, plain = _header(data)
    packed = data.view[:total]
    if method == _ZLIB:
        content, used = _inflate(packed[header:], plain, data.name)
    elif method == _ZSTD:
        content, used = _unzstd(packed[header:], plain, data.name)
    else:
        raise InspectError(f"{data.name}: a bundle compressed by unknown method {method}")
    if len(content) != plain:
        raise InspectError(
            f"{data.name}: damaged: a compressed bundle of {len(content)} and not {plain} bytes"
        )
    return Data(memoryview(content), data.name), header + used if header == _HEADER_1 else total


def length(data: Data) -> int:
    """How long the bundle is that ``data`` begins with; 0 if only its content tells."""
    _, header, total, _ = _header(data)
    return 0 if header == _HEADER_1 else total


def _header(data: Data) -> tuple[int, int, int, int]:
    """Method, length of the header, length of all, and that of the plain bundle."""
    version, method = data.unpack("HH", 4, "a compressed bundle")
    if version == 1:
        (plain,) = data.unpack("I", 8, "a compressed bundle")
        header, total = _HEADER_1, len(data)
    elif version in (2, 3):
        width = "I" if version == 2 else "Q"
        total, plain = data.unpack(width * 2, 8, "a compressed bundle")
        header = 24 if version == 2 else 32
    else:
        raise InspectError(
            f"{data.name}: a compressed bundle of version {version}; versions 1 to 3 are known. "
            "Compile without --offload-compress, or use a newer ckdisp"
        )
    if total < header or plain > _MAX_BYTES:
        raise InspectError(f"{data.name}: damaged sizes of a compressed bundle; build it again")
    data.part(0, total, "a compressed bundle")
    return method, header, total, plain


def _inflate(stream: memoryview, plain: int, name: str) -> tuple[bytes, int]:
    worker = zlib.decompressobj()
    try:
        content = worker.decompress(stream, plain + 1)
    except zlib.error as error:
        raise InspectError(f"{name}: a damaged compressed bundle: {error}") from None
    return content, len(stream) - len(worker.unused_data)


def _unzstd(stream: memoryview, plain: int, name: str) -> tuple[bytes, int]:
    for module in ("compression.zstd", "zstandard"):
        try:
            zstd = importlib.import_module(module)
        except ImportError:
            continue
        try:
            if module == "zstandard":
                return _in_steps(zstd.ZstdDecompressor().decompressobj(), stream, plain)
            worker = zstd.ZstdDecompressor()
            content = worker.decompress(stream, plain + 1)
        except (zstd.ZstdError, EOFError) as error:
            raise InspectError(f"{name}: a damaged compressed bundle: {error}") from None
        return content, len(stream) - len(worker.unused_data)
    return _with_library(bytes(stream), plain, name)


def _in_steps(worker: Any, stream: memoryview, plain: int) -> tuple[bytes, int]:
    """Small steps for a worker without a limit, so that a false stream cannot grow without end."""
    parts: list[bytes] = []
    size = used = 0
    while used < len(stream) and size <= plain and not worker.eof:
        chunk = stream[used : used + (1 << 12)]
        parts.append(worker.decompress(chunk))
        size += len(parts[-1])
        used += len(chunk) - len(worker.unused_data)
    return b"".join(parts), used


def _with_library(stream: bytes, plain: int, name: str) -> tuple[bytes, int]:
    """The zstd library of the system, for a Python that has none."""
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        raise InspectError(
            f"{name}: its code objects are compressed with zstd, and nothing here decompresses "
            "that. Run `pip install zstandard`, install libzstd, or use Python 3.14"
        ) from None
    size_of, used_by = library.ZSTD_getFrameContentSize, library.ZSTD_findFrameCompressedSize
    unpack = library.ZSTD_decompress
    size_of.restype = ctypes.c_ulonglong
    used_by.restype = unpack.restype = ctypes.c_size_t
    size_of.argtypes = used_by.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    unpack.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *size_of.argtypes)
    used = int(used_by(stream, len(stream)))
    # Compared before the memory is taken. Errors are sizes that no stream has.
    if size_of(stream, len(stream)) == plain and used <= len(stream):
        content = ctypes.create_string_buffer(max(1, plain))
        if unpack(content, plain, stream, used) == plain:
            return content.raw[:plain], used
    raise InspectError(f"{name}: a damaged compressed bundle; build it again")
