"""The random bytes of dropout, by Philox4x32-10.

Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011, whose
constants and number of rounds these are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[Any]

_LOW = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS = (0x9E3779B9, 0xBB67AE85)
_BYTES = 16


def philox4x32(counter: _Array, key: tuple[int, int]) -> _Array:
    """Four random words of 32 bits for each counter.

    ``counter`` is (..., 4) of words, ``key`` two words; the result is (..., 4) of uint32.
    """
    c = [counter[..., i].astype(np.uint64) & _LOW for i in range(4)]
    low, high = key
    for _ in range(10):
        first, second = c[0] * _MULTIPLIERS[0], c[2] * _MULTIPLIERS[1]
        c = [
            (second >> _WORD) ^ c[1] ^ np.uint64(low),
            second & _LOW,
            (first >> _WORD) ^ c[3] ^ np.uint64(high),
            first & _LOW,
        ]
        low, high = (low + _STEPS[0]) & 0xFFFFFFFF, (high + _STEPS[1]) & 0xFFFFFFFF
    return np.stack(c, axis=-1).astype(np.uint32)


def dropout_bytes(seed: int, offset: int, head: int, rows: int, columns: int) -> _Array:
    """The random bytes (rows, columns) of one head of one sequence; uint8.

    ``head`` counts the heads of all sequences: batch * heads + head. Byte j of row i is byte
    j % 16 of the four words, little-endian, of counter (j / 16, i, head, offset) under the key
    ``seed``; of ``offset`` the low 32 bits count.
    """
    blocks = -(-columns // _BYTES)
    counter = np.zeros((rows, blocks, 4), np.uint64)
    counter[..., 0] = np.arange(blocks)
    counter[..., 1] = np.arange(rows)[:, None]
    counter[..., 2] = head
    counter[..., 3] = offset & 0xFFFFFFFF
    words = philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))
    drawn: _Array = words.astype("<u4").view(np.uint8).reshape(rows, blocks * _BYTES)[:, :columns]
    return drawn
