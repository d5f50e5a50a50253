"""Picks the right kernel of a registry for a problem, and runs it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from . import _core
from ._core import Candidate, Device, FmhaProblem, GemmProblem, GroupedConvProblem, Kernel, Plan
from .fmha_calls import FmhaCalls
from .registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TensorT = TypeVar("TensorT")

Problem = GemmProblem | GroupedConvProblem | FmhaProblem
Strategy = Literal["heuristic", "first"] | Callable[[Any, list[Kernel]], Iterable[Kernel | str]]
Ints = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[tuple[int, int]]


class Explanation(list[Candidate]):
    """What a dispatcher thinks of every kernel: the supporting ones by rank, then the others.

    Where the problem takes several kernels, those of each stage have ranks of their own. ``str()``
    of it is a table.
    """

    @property
    def chosen(self) -> list[Kernel]:
        """The kernels that a call would take; none where :meth:`Dispatcher.select` raises."""
        return [c.kernel for c in self if c.chosen]

    def __str__(self) -> str:
        rows = [("rank", "kernel", "reason", "why")]
        for c in self:
            why = f"cost {c.cost:.4g}{', chosen' * c.chosen}" if c.supported else c.text
            rank = str(c.rank) if c.supported else "-"
            rows.append((rank, c.kernel.name, "-" if c.supported else c.reason, why))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            f"{a:>{widths[0]}}  {b:<{widths[1]}}  {c:<{widths[2]}}  {d}".rstrip()
            for a, b, c, d in rows
        )


class Dispatcher(FmhaCalls):
    """Chooses among the kernels of a registry. Decisions are remembered until it changes.

    ``strategy`` is ``"heuristic"`` (the cheapest kernel of the best architecture), ``"first"``
    (the first in the registry's order), or a callable that gets the problem and the kernels that
    support it and returns kernels, or their names, best first; it is asked once per problem.
    ``num_threads`` is for CPU kernels; None or 0 takes ``CKDISP_NUM_THREADS``, else
    ``OMP_NUM_THREADS``, else the CPUs of the process. Methods may be called from several threads
    at once, and in a process made by fork() (where HIP does not work if the parent has used it).

    A call on tensors in the CPU's memory takes kernels for the CPU, one on tensors of an AMD GPU
    kernels for its architecture. ``arch``, one or several best first, restricts this; kernels for
    a GPU that is not here (``arch="gfx942"``) can then be selected, explained and planned, though
    not run.
    """

    __slots__ = ("_core", "_gemm", "registry")

    def __init__(
        self,
        registry: Registry,
        strategy: Strategy = "heuristic",
        num_threads: int | None = None,
        arch: str | Sequence[str] | None = None,
    ) -> None:
        self.registry = registry
        arches = [arch] if isinstance(arch, str) else list(arch or ())
        self._core = _core.Dispatcher(registry._core, strategy, num_threads or 0, arches)
        self._gemm = self._core.gemm

    @property
    def num_threads(self) -> int:
        return self._core.num_threads

    @property
    def arches(self) -> list[str]:
        """Architectures whose kernels may be chosen when no device is named, best first."""
        return self._core.arches

    @overload
    def gemm(
        self,
        a: np.ndarray[Any, Any],
        b: Any,
        *,
        d: Any = ...,
        epilogue: str = ...,
        out: Any = ...,
        out_dtype: Any = ...,
        scale: float = ...,
        clamp: tuple[float, float] | None = ...,
        k_batch: int = ...,
        kernel: str | None = ...,
        stream: Any = ...,
    ) -> NDArray[Any]: ...
    @overload
    def gemm(
        self,
        a: TensorT,
        b: Any,
        *,
        d: Any = ...,
        epilogue: str = ...,
        out: Any = ...,
        out_dtype: Any = ...,
        scale: float = ...,
        clamp: tuple[float, float] | None = ...,
        k_batch: int = ...,
        kernel: str | None = ...,
        stream: Any = ...,
    ) -> TensorT: ...
    def gemm(
        self,
        a: Any,
        b: Any,
        *,
        d: Any = (),
        epilogue: str = "passthrough",
        out: Any = None,
        out_dtype: Any = None,
        scale: float = 1.0,
        clamp: tuple[float, float] | None = None,
        k_batch: int = 1,
        kernel: str | None = None,
        stream: Any = None,
    ) -> Any:
        """``epilogue(scale * a @ b, *d)``, as a tensor of the same kind as ``a``.

        ``a`` is (M, K), ``b`` is (K, N); NumPy arrays (bf16 and fp8 through ``ml_dtypes``) or any
        tensors that support DLPack, all in the CPU's memory or all on one AMD GPU. Row-major and
        column-major matrices are read where they are, with any leading dimension; one with other
        strides is copied once (on a GPU: refused). ``d`` is one tensor or up to four, each (M, N),
        (N,), (1, N) or (M, 1), all of one dtype. The result is row-major (M, N), of ``out_dtype``,
        else the dtype of ``out``, else that of ``a`` (int32 for int8, fp16 for fp8 and bf8).

        ``out`` receives the result; it must not share memory with an input. ``clamp`` holds the
        bounds of ``epilogue="clamp"``. ``k_batch`` is the number of parts that K is split
        into, 0 as many as the kernel chooses: more than one where C has 32 bits and too few blocks
        would run.
        ``kernel`` names the kernel to use instead of choosing one; one of ``gemm.preshuffle``
        takes a ``b`` that was reordered for it.

        On a GPU the call returns when the work is on the stream: the current one of the tensors'
        framework, or ``stream``, a ``torch.cuda.Stream`` or the handle of a HIP stream. With
        ``stream``, that one waits for the inputs; whoever uses the result elsewhere waits for it.

        Raises :class:`InvalidArgument`, :class:`InvalidKey` (unknown epilogue or dtype) or
        :class:`DeviceError` (no such device) before anything runs, :class:`KernelNotFound` when
        nothing was built for such a call, :class:`UnsupportedProblem` with every kernel's reason.
        """
        return self._gemm(a, b, d, epilogue, out, out_dtype, scale, clamp, k_batch, kernel, stream)

    def problem(
        self,
        a: Any,
        b: Any,
        *,
        d: Any = (),
        epilogue: str = "passthrough",
        out: Any = None,
        out_dtype: Any = None,
        k_batch: int = 1,
    ) -> GemmProblem:
        """The problem that :meth:`gemm` would solve for these tensors."""
        return _core.gemm_problem(self._core, a, b, d, epilogue, out, out_dtype, k_batch)

    def conv_fwd(
        self,
        x: TensorT,
        w: Any,
        *,
        stride: Ints = 1,
        padding: Padding = 0,
        dilation: Ints = 1,
        groups: int = 1,
        out: Any = None,
        out_dtype: Any = None,
        kernel: str | None = None,
        stream: Any = None,
    ) -> TensorT:
        """The grouped convolution of ``x`` with ``w``, as a tensor of the same kind as ``x``.

        Shapes are PyTorch's: ``x`` is (N, C, *spatial), ``w`` is (K, C / groups, *filter), the
        result (N, K, *out) with ``out = (spatial + left + right - dilation * (filter - 1) - 1) //
        stride + 1``; one to three spatial dimensions. ``stride`` and ``dilation`` are one number or
        one for each dimension, ``padding`` too, or a pair (left, right) for each.

        Tensors whose memory is dense in channels-last order are read where they are: PyTorch's
        ``torch.channels_last``, a NumPy array (N, *spatial, C) seen as (N, C, *spatial). Others
        are copied once (on a GPU: refused). The result lies in that order too, and is of
        ``out_dtype``, else the dtype of ``out``, else that of ``x`` (int32 for int8, fp16 for fp8
        and bf8). ``out``, ``kernel``, ``stream`` and errors are as for :meth:`gemm`.
        """
        return cast(
            TensorT,
            self._core.conv_fwd(
                x, w, stride, padding, dilation, groups, out, out_dtype, kernel, stream
            ),
        )

    def conv_bwd_data(
        self,
        dy: TensorT,
        w: Any,
        *,
        input_shape: Sequence[int],
        stride: Ints = 1,
        padding: Padding = 0,
        dilation: Ints = 1,
        groups: int = 1,
        out: Any = None,
        out_dtype: Any = None,
        kernel: str | None = None,
        stream: Any = None,
    ) -> TensorT:
        """The gradient of the input of :meth:`conv_fwd`, of shape ``input_shape``.

        ``dy`` (N, K, *out) is the gradient of the output; the rest is as for :meth:`conv_fwd`.
        """
        return cast(
            TensorT,
            self._core.conv_bwd_data(
                *(dy, w, input_shape, stride, padding, dilation, groups),
                *(out, out_dtype, 1, kernel, stream),
            ),
        )

    def conv_bwd_weight(
        self,
        x: TensorT,
        dy: Any,
        *,
        weight_shape: Sequence[int],
        stride: Ints = 1,
        padding: Padding = 0,
        dilation: Ints = 1,
        groups: int = 1,
        out: Any = None,
        out_dtype: Any = None,
        k_batch: int = 0,
        kernel: str | None = None,
        stream: Any = None,
    ) -> TensorT:
        """The gradient of the weights of :meth:`conv_fwd`, of shape ``weight_shape``.

        ``dy`` (N, K, *out) is the gradient of the output; ``k_batch`` is the number of parts that
        the sums over all pixels are split into, 0 as many as the kernel chooses: more than one
        where it sums in fp32 and too few blocks would run. The rest is as for :meth:`conv_fwd`.
        """
        return cast(
            TensorT,
            self._core.conv_bwd_weight(
                *(x, dy, weight_shape, stride, padding, dilation, groups),
                *(out, out_dtype, k_batch, kernel, stream),
            ),
        )

    def select(self, problem: Problem, *, device: Device | int | None = None) -> Kernel:
        """The kernel for ``problem`` on ``device``, or the CPU; errors as for :meth:`gemm`."""
        return self._core.select(problem, _index(device))

    def explain(self, problem: Problem, *, device: Device | int | None = None) -> Explanation:
        """Every kernel of the op, with its rank, or the reason why it cannot serve ``problem``."""
        return Explanation(self._core.explain(problem, _index(device)))

    def plan(self, problem: Problem, *, device: Device | int | None = None) -> Plan:
        """The steps that a call would take for ``problem``, and their scratch memory."""
        return self._core.plan(problem, _index(device))

    def __repr__(self) -> str:
        return f"<Dispatcher of {self.registry!r}, {self.num_threads} threads>"


def _index(device: Device | int | None) -> int:
    return -1 if device is None else operator.index(device)


__all__ = ["Dispatcher", "Explanation"]
