"""PyTorch operators on the kernels of a dispatcher, for tensors in the CPU's memory.

:func:`scaled_dot_product_attention`, :func:`linear` and :func:`conv` take the places of functions
in ``torch.nn.functional``; :func:`attention` has what else the kernels of attention compute. They,
and the operators ``torch.ops.ckdisp.*`` below them, have gradients and work under
``torch.compile`` and ``torch.autocast``, attention also under ``torch.vmap``. The kernels are
those of :func:`set_dispatcher` or :func:`use_dispatcher`, else prebuilt ones, else ones that the
JIT compiles at the first call.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    from ..codegen.errors import Error

    raise Error(
        f"ckdisp.torch needs PyTorch, which cannot be imported ({error}); install it with "
        "`pip install 'ckdisp[torch]'`"
    ) from error

from .. import _core
from .conv import conv
from .fmha import attention, scaled_dot_product_attention
from .kernels import get_dispatcher, set_dispatcher, use_dispatcher
from .linear import linear

# PyTorch keeps operators, and what they refer to, until the process ends.
_core.set_leak_warnings(False)

__all__ = [
    "attention",
    "conv",
    "get_dispatcher",
    "linear",
    "scaled_dot_product_attention",
    "set_dispatcher",
    "use_dispatcher",
]
