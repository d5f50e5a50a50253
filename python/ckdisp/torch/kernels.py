"""Which dispatcher the operators take."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

import torch

from ..codegen.errors import InvalidArgument, LibraryError
from ..dispatcher import Dispatcher
from ..kernel_set import KernelSet
from ..registry import Registry
from ..tensors import dtype_name

_FAMILIES = {
    "gemm": "gemm.standard",
    "conv_fwd": "conv.fwd",
    "conv_bwd_data": "conv.bwd_data",
    "conv_bwd_weight": "conv.bwd_weight",
    "fmha_fwd": "fmha.fwd",
    "fmha_bwd": "fmha.bwd",
}


class _Default:
    """Prebuilt kernels, and those that the JIT compiles for what these lack."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._dispatcher: Dispatcher | None = None
        self._ready: set[tuple[str, torch.dtype, str | None]] = set()

    def get(self, call: str, dtype: torch.dtype, layout: str | None) -> Dispatcher:
        wanted = (call, dtype, layout)
        if wanted in self._ready and self._dispatcher is not None:
            return self._dispatcher
        with self._lock:
            dispatcher = self._dispatcher or _prebuilt()
            where = {"dtype": dtype_name(dtype)}
            if layout is not None:
                where["layout"] = layout
            _complete(dispatcher.registry, _FAMILIES[call], where)
            self._dispatcher = dispatcher
            self._ready.add(wanted)
            return dispatcher


def _prebuilt() -> Dispatcher:
    registry = Registry("torch")
    with suppress(LibraryError):  # a package without prebuilt kernels
        registry.merge(Registry.prebuilt())
    threads = None if "CKDISP_NUM_THREADS" in os.environ else torch.get_num_threads()
    return Dispatcher(registry, num_threads=threads)


def _complete(registry: Registry, family: str, where: dict[str, str]) -> None:
    if not registry.kernels(family=family, **where):
        missing = KernelSet.sweep(family, arch="native", where=where)
        registry.merge(missing.build(progress=False))


_default = _Default()
_set: Dispatcher | None = None
_used: ContextVar[Dispatcher | None] = ContextVar("ckdisp_torch_dispatcher", default=None)


def get_dispatcher() -> Dispatcher | None:
    """The dispatcher that was set, for this context or for the process; None by default."""
    return _used.get() or _set


def set_dispatcher(dispatcher: Dispatcher | None) -> None:
    """Take ``dispatcher`` for every operator of the process; None for the default one."""
    global _set
    _set = _checked(dispatcher)


@contextmanager
def use_dispatcher(dispatcher: Dispatcher) -> Iterator[Dispatcher]:
    """Take ``dispatcher`` for the operators of this thread, or asyncio task, within the block.

    A backward pass takes the one that is in use when it runs.
    """
    token = _used.set(_checked(dispatcher))
    try:
        yield dispatcher
    finally:
        _used.reset(token)


def _checked(dispatcher: Dispatcher | None) -> Dispatcher | None:
    if dispatcher is None or isinstance(dispatcher, Dispatcher):
        return dispatcher
    raise InvalidArgument(
        f"the dispatcher is {dispatcher!r}; pass a ckdisp.Dispatcher, such as "
        "ckdisp.Dispatcher(registry)"
    )


def dispatcher_for(call: str, dtype: torch.dtype, layout: str | None = None) -> Dispatcher:
    """The dispatcher for the method ``call`` on tensors of ``dtype`` and ``layout``."""
    return get_dispatcher() or _default.get(call, dtype, layout)


__all__ = ["dispatcher_for", "get_dispatcher", "set_dispatcher", "use_dispatcher"]
