"""Loads kernel libraries to see whether they can be loaded; run as a program, for one may crash.

``load_check.py LIBRARY...`` prints a line of JSON for each: its path, why it cannot be used (empty
if it can), and the names of its kernels. Only the standard library is needed.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys

_MAGIC = 0x434B4430  # ckdisp::kAbiMagic


class _Kernel(ctypes.Structure):
    """How ``ckdisp::ckdisp_kernel`` begins."""

    _fields_ = (("size", ctypes.c_uint32), ("op", ctypes.c_uint32), ("name", ctypes.c_char_p))


class _Library(ctypes.Structure):
    """How ``ckdisp::ckdisp_library`` begins, whatever its version."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("magic", "abi_version", "size", "kernel_count")),
        ("schema_hash", ctypes.c_uint64),
        ("kernels", ctypes.POINTER(ctypes.POINTER(_Kernel))),
    )


def names(path: str) -> list[str]:
    """The kernels of the library at ``path``; :class:`OSError` if it cannot be loaded."""
    library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    try:
        function = library.ckdisp_kernel_library
    except AttributeError:
        raise OSError("it has no table of kernels") from None
    function.restype = ctypes.POINTER(_Library)
    table = function()
    if not table or table.contents.magic != _MAGIC:
        raise OSError("it has no table of kernels")
    kernels = table.contents.kernels
    return [kernels[i].contents.name.decode() for i in range(table.contents.kernel_count)]


def main() -> None:
    for path in sys.argv[1:]:
        try:
            fault, found = "", names(path)
        except OSError as error:
            fault, found = str(error), []
        print(json.dumps([path, fault, found]), flush=True)


if __name__ == "__main__":
    main()
