"""Building kernel sets at run time, in a content-addressed cache.

:meth:`ckdisp.KernelSet.build` builds; :mod:`ckdisp.jit.cache` looks after what was built.
"""

from __future__ import annotations

from . import cache

__all__ = ["cache"]
