"""The order in which ``gemm.preshuffle`` kernels read B: see ``<ckdisp/shuffle_b.hpp>``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .codegen.arch import arch
from .codegen.errors import InvalidArgument

if TYPE_CHECKING:
    from .codegen.key import KernelKey


def shuffle_b(b: Any, key: KernelKey) -> Any:
    """``b``, an array of K rows and N columns, as the kernel of ``key`` reads it.

    The result has the shape of ``b`` and is stored column by column, as the kernel's layout says;
    its elements are in the kernel's order, and no other kernel can read them. Takes NumPy arrays,
    tensors of PyTorch, and other arrays that have the methods of either.
    """
    fields: Any = key
    if fields.family != "gemm.preshuffle":
        raise InvalidArgument(f"{key.name} reads B as it is; only gemm.preshuffle shuffles it")
    if not hasattr(b, "ndim") or not hasattr(b, "reshape"):
        raise InvalidArgument(
            f"B is a {type(b).__name__}, which cannot be reordered; pass a NumPy array or a tensor "
            "of PyTorch"
        )
    if b.ndim != 2:
        raise InvalidArgument(f"B has {b.ndim} dimensions, a matrix of K rows and N columns has 2")
    k, n = b.shape
    (_, tile_n, tile_k), (_, waves, _), (_, warp_n, warp_k) = fields.tile, fields.wave, fields.warp
    for name, size, tile in (("K", k, tile_k), ("N", n, tile_n)):
        if size % tile != 0:
            raise InvalidArgument(
                f"{name} is {size}, and {key.name} reads whole tiles of {tile} of the shuffled B; "
                "append zeros to B"
            )
    repeats = tile_n // (waves * warp_n)
    facts = arch(fields.arch)
    groups, outer, neighbours = 1, 1, False
    if facts.wave_size == 64:
        groups, neighbours = 64 // warp_n, warp_n == 16 and repeats % 2 == 0
    elif facts.family != "rdna3":
        groups, outer = 2, warp_k // 16
    inner = warp_k // (groups * outer)
    columns = (waves, warp_n, repeats) if neighbours else (repeats, waves, warp_n)
    repeat, wave, lane = (3, 1, 2) if neighbours else (1, 2, 3)
    whole = b.T.reshape(n // tile_n, *columns, k // warp_k, outer, groups, inner)
    order = (0, repeat, wave, 4, 6, lane, 5, 7)
    # In PyTorch transpose() swaps two dimensions.
    moved = whole.permute(order) if hasattr(whole, "permute") else whole.transpose(order)
    return moved.reshape(n, k).T
