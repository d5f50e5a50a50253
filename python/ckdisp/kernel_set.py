"""Kernel sets that can be built and loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from .codegen.kernel_set import KernelSet as _KernelSet

if TYPE_CHECKING:
    from .codegen.cuda import CudaToolchain
    from .codegen.rocm import HipToolchain
    from .codegen.toolchain import Toolchain
    from .registry import Registry


class KernelSet(_KernelSet):
    __doc__ = _KernelSet.__doc__

    def build(
        self,
        jobs: int | None = None,
        progress: bool | Callable[[int, int, str], None] | None = True,
        executor: Executor | None = None,
        *,
        group: str | None = None,
        archs: Sequence[str] = (),
        toolchain: Toolchain | None = None,
        hip: HipToolchain | None = None,
        cuda: CudaToolchain | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
    ) -> Registry:
        """Compile the kernels, or take them from the cache, and load them.

        A set built before compiles nothing; a set that shares kernels with an earlier one
        compiles only the others. ``jobs`` is the number of compilers at once, by default as many
        as processors and memory allow. ``progress`` is ``True`` (a bar on a terminal, a few lines
        elsewhere, on stderr), ``False``, or a function ``(done, total, what)``. ``executor`` runs
        the compilers in place of ninja. ``group="tile"`` compiles GPU kernels that share a tile
        together: less work in all, more for one kernel. ``archs`` may name target features, such
        as ``gfx942:xnack-``, for the kernels of an arch. ``toolchain`` is by default
        :meth:`Toolchain.find`, ``hip``, for AMD GPUs, :meth:`HipToolchain.find`, ``cuda``, for
        NVIDIA GPUs, :meth:`CudaToolchain.find`, ``cache_dir``
        ``$CKDISP_CACHE_DIR`` or the user's cache folder. ``timeout`` in seconds is for the whole
        build, or for each compiler on an ``executor``.

        Raises :class:`InvalidKey` for a key that breaks a rule and :class:`BuildError` if there is
        no compiler, if one fails (with kernel, first error line and command), or if the cache
        cannot be used.
        """
        from .jit.build import Options, build_and_load
        from .registry import Registry

        options = Options(
            jobs=jobs,
            progress=progress,
            executor=executor,
            toolchain=toolchain,
            hip=hip,
            cuda=cuda,
            cache_dir=cache_dir,
            timeout=timeout,
            group=group,
            archs=archs,
        )
        return build_and_load(self, options, Registry.load)
