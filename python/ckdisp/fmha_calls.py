"""The calls of a dispatcher that compute attention."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .codegen.errors import InvalidArgument, suggest

if TYPE_CHECKING:
    from ._core import Dispatcher as CoreDispatcher
    from ._core import FmhaCall


F = TypeVar("F", bound=Callable[..., Any])
_MISSING = object()


def _call(declared: F) -> F:
    """The method that ``declared`` describes.

    What a caller leaves away is not passed on, which would take as long as all the rest: the
    extension has the same defaults.
    """
    code, defaults = declared.__code__, declared.__kwdefaults__ or {}
    first, second, third, *others = code.co_varnames[1 : code.co_argcount]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    known = frozenset(keywords)
    needed = known - defaults.keys()
    family = declared.__name__.removeprefix("fmha_")

    # Three parameters of their own are much faster than all in `rest`.
    @functools.wraps(declared)
    def call(
        self: FmhaCalls,
        a: Any = _MISSING,
        b: Any = _MISSING,
        c: Any = _MISSING,
        /,
        *rest: Any,
        **options: Any,
    ) -> Any:
        if (
            c is _MISSING
            or len(rest) != len(others)
            or not known.issuperset(options)
            or (needed and not needed <= options.keys())
        ):
            given = [t for t in (a, b, c) if t is not _MISSING]
            return self._core.fmha(family, _bound(declared, self, *given, *rest, **options))
        options[first] = a
        options[second] = b
        options[third] = c
        if rest:
            options.update(zip(others, rest, strict=True))
        return self._core.fmha(family, options)

    return cast(F, call)


def _bound(declared: Callable[..., Any], *args: Any, **options: Any) -> dict[str, Any]:
    """All arguments by name; the error of Python for those that ``declared`` does not take."""
    try:
        arguments = inspect.signature(declared).bind(*args, **options).arguments
    except TypeError as error:
        raise TypeError(f"{declared.__name__}(): {error}") from None
    return {name: value for name, value in arguments.items() if name != "self"}


class FmhaCalls:
    """Fused multi-head attention: ``softmax(scale * Q K^T + bias) V``, and its gradients.

    Tensors lie as ``layout`` says: ``"bhsd"`` is (batch, heads, rows, head dimension), ``"bshd"``
    (batch, rows, heads, head dimension). With ``cu_seqlens_q``, the batch + 1 first rows of
    sequences that lie one behind the other, the batch is left away: (heads, rows, head dimension)
    or (rows, heads, head dimension). All are NumPy arrays (bf16 and fp8 through ``ml_dtypes``) or
    tensors that support DLPack, in one place. They are read where they are, with any strides whose
    last one is 1; others are refused. The heads of q are a multiple of those of k and v.

    ``scale`` multiplies the scores, ``1 / sqrt(head dimension)`` if None. ``mask`` is ``"no"``, or
    says where the last key that a query sees lies: on the diagonal from the ``"top_left"`` corner,
    or on that to the ``"bottom_right"``. ``window`` (left, right) is how many keys beside that
    diagonal are seen instead, -1 all; without a mask, beside that to the bottom right. The first
    ``sink`` keys are seen in spite of both. A query that sees no key has result 0 and LSE
    -infinity.

    ``bias`` (batch, heads, seqlen_q, seqlen_k), or what broadcasts to it, is added to the scores,
    or ``alibi_slopes`` (heads,) or (batch, heads) times the distance of query and key.
    ``logits_soft_cap`` c replaces scores s by c * tanh(s / c). ``dropout_p`` is the probability
    with which a weight becomes 0, by the random numbers of ``seed`` and ``offset``.

    ``out``, ``kernel`` (the kernel of the main work), ``stream`` and errors are as for
    :meth:`Dispatcher.gemm`.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        _core: CoreDispatcher

    def prepare(self, name: str, *args: Any, **kwargs: Any) -> FmhaCall:
        """The call of the method ``name``, such as ``"fmha_fwd"``, with these arguments.

        It knows its ``problem`` and ``plan`` before it runs; ``run()`` computes the results again
        and again in the same memory, and ``time()`` tells the seconds of each stage.
        """
        from ._core import FmhaCall

        if not name.startswith("fmha_") or not hasattr(FmhaCalls, name):
            names = [n for n in vars(FmhaCalls) if n.startswith("fmha_")]
            raise InvalidArgument(f"cannot prepare {name!r}{suggest(name, names)}")
        options = _bound(getattr(FmhaCalls, name), self, *args, **kwargs)
        return FmhaCall(self._core, name.removeprefix("fmha_"), options)

    @_call
    def fmha_fwd(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        scale: float | None = None,
        mask: str = "no",
        window: tuple[int, int] | None = None,
        bias: Any = None,
        alibi_slopes: Any = None,
        dropout_p: float = 0.0,
        seed: int = 0,
        offset: int = 0,
        return_lse: bool = False,
        return_randval: bool = False,
        logits_soft_cap: float = 0.0,
        sink: int | None = None,
        layout: str = "bhsd",
        vlayout: str = "r",
        cu_seqlens_q: Any = None,
        cu_seqlens_k: Any = None,
        max_seqlen_q: int | None = None,
        max_seqlen_k: int | None = None,
        seqlens_k: Any = None,
        cache_batch_idx: Any = None,
        min_seqlen_q: int = 0,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        qscale: str | None = None,
        out: Any = None,
        out_dtype: Any = None,
        kernel: str | None = None,
        stream: Any = None,
    ) -> Any:
        """The attention of ``q`` to ``k`` and ``v``; (o, lse) with ``return_lse``.

        The LSE is the logarithm of the sum of the exponentials of a query's scores, in fp32:
        (batch, heads, seqlen_q), or (heads, rows) with ``cu_seqlens_q``. ``return_randval`` adds
        the random bytes of dropout, (batch, heads, seqlen_q, seqlen_k). ``seqlens_k`` holds how
        many rows of each sequence of k are in use, and ``cache_batch_idx`` which batch of k and v
        each batch of q attends to. ``max_seqlen_q`` and ``max_seqlen_k`` are needed where
        ``cu_seqlens`` lie on a GPU. With them, sequences of ``min_seqlen_q`` queries or less are
        left out, so that other calls may do them: their rows of ``out`` stay as they are, and
        what is made new has 0 there, and LSE -infinity (on a GPU nothing). ``vlayout="c"`` reads a
        v of (batch, heads, head dimension, rows). fp8 tensors have ``q_scale``, ``k_scale`` and
        ``v_scale``, and a result of bf16 unless ``out_dtype`` says another. Scales are numbers, or
        with ``qscale="blockscale"`` (batch, heads, blocks of 128 rows); with pages and
        ``"kv_blockscale"`` those of k and v are (pages, heads).
        """

    @_call
    def fmha_bwd(
        self,
        do: Any,
        q: Any,
        k: Any,
        v: Any,
        o: Any,
        lse: Any,
        *,
        scale: float | None = None,
        mask: str = "no",
        window: tuple[int, int] | None = None,
        bias: Any = None,
        alibi_slopes: Any = None,
        dropout_p: float = 0.0,
        seed: int = 0,
        offset: int = 0,
        return_dbias: bool = False,
        logits_soft_cap: float = 0.0,
        sink: int | None = None,
        layout: str = "bhsd",
        cu_seqlens_q: Any = None,
        cu_seqlens_k: Any = None,
        max_seqlen_q: int | None = None,
        max_seqlen_k: int | None = None,
        deterministic: bool = False,
        out: Any = None,
        kernel: str | None = None,
        stream: Any = None,
    ) -> Any:
        """The gradients (dq, dk, dv) of :meth:`fmha_fwd`, given that of its result, ``do``.

        ``o`` and ``lse`` are what the forward pass returned for the same arguments. With
        ``return_dbias`` there is a fourth, of ``bias`` before it was broadcast to (batch, heads,
        seqlen_q, seqlen_k). ``deterministic`` sums dq in a fixed order. ``out`` is a tuple of
        three tensors.
        """

    @_call
    def fmha_splitkv(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        num_splits: int = 0,
        scale: float | None = None,
        mask: str = "no",
        window: tuple[int, int] | None = None,
        bias: Any = None,
        alibi_slopes: Any = None,
        return_lse: bool = False,
        logits_soft_cap: float = 0.0,
        sink: int | None = None,
        layout: str = "bhsd",
        vlayout: str = "r",
        cu_seqlens_q: Any = None,
        cu_seqlens_k: Any = None,
        max_seqlen_q: int | None = None,
        max_seqlen_k: int | None = None,
        seqlens_k: Any = None,
        cache_batch_idx: Any = None,
        page_table: Any = None,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        qscale: str | None = None,
        out: Any = None,
        out_dtype: Any = None,
        kernel: str | None = None,
        stream: Any = None,
    ) -> Any:
        """:meth:`fmha_fwd` with the keys in parts, for few queries and many keys.

        ``num_splits`` is the number of parts, 0 as many as keep the processor busy. With a
        ``page_table``, k and v lie in pages as for :meth:`fmha_pagedkv`.
        """

    @_call
    def fmha_pagedkv(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        page_table: Any,
        seqlens_k: Any = None,
        scale: float | None = None,
        mask: str = "no",
        window: tuple[int, int] | None = None,
        bias: Any = None,
        alibi_slopes: Any = None,
        return_lse: bool = False,
        logits_soft_cap: float = 0.0,
        sink: int | None = None,
        layout: str = "bhsd",
        cu_seqlens_q: Any = None,
        cu_seqlens_k: Any = None,
        max_seqlen_q: int | None = None,
        max_seqlen_k: int | None = None,
        min_seqlen_q: int = 0,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        qscale: str | None = None,
        out: Any = None,
        out_dtype: Any = None,
        kernel: str | None = None,
        stream: Any = None,
    ) -> Any:
        """:meth:`fmha_fwd` with k and v in pages, which take the place of the batch.

        k and v are (pages, heads, page size, head dimension) in layout ``"bhsd"``, (pages, page
        size, heads, head dimension) in ``"bshd"``. Row b of ``page_table``, (batch, pages of a
        sequence) of int32, lists the pages of sequence b, of which ``seqlens_k[b]`` keys are in
        use. ``max_seqlen_k`` is the most that any sequence may have, all that the table has room
        for if None.
        """

    @_call
    def fmha_batch_prefill(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        cu_seqlens_q: Any,
        page_table: Any,
        kv_lookup: str = "vllm",
        page_indptr: Any = None,
        last_page_len: Any = None,
        seqlens_k: Any = None,
        scale: float | None = None,
        mask: str = "no",
        window: tuple[int, int] | None = None,
        alibi_slopes: Any = None,
        bias: Any = None,
        dropout_p: float = 0.0,
        seed: int = 0,
        offset: int = 0,
        return_lse: bool = False,
        logits_soft_cap: float = 0.0,
        sink: int | None = None,
        layout: str = "bhsd",
        max_seqlen_q: int | None = None,
        max_seqlen_k: int | None = None,
        q_scale: Any = None,
        k_scale: Any = None,
        v_scale: Any = None,
        qscale: str | None = None,
        out: Any = None,
        out_dtype: Any = None,
        kernel: str | None = None,
        stream: Any = None,
    ) -> Any:
        """:meth:`fmha_fwd` of sequences of many lengths on pages.

        Pages are as for :meth:`fmha_pagedkv`, or of vectors of x numbers: k (pages, heads, head
        dimension / x, page size, x) and v (pages, heads, page size / x, head dimension, x).
        ``kv_lookup`` says how they are found: ``"vllm"`` by rows of ``page_table``, and
        ``"sglang"`` by ranges of one list, those from ``page_indptr[b]`` to ``page_indptr[b + 1]``,
        the last of which holds ``last_page_len[b]`` keys.
        """

    @_call
    def fmha_appendkv(
        self,
        k: Any,
        v: Any,
        k_new: Any,
        v_new: Any,
        *,
        seqlens_k: Any,
        q: Any = None,
        rope: str | None = None,
        rotary_cos: Any = None,
        rotary_sin: Any = None,
        mask: str = "no",
        page_table: Any = None,
        cache_batch_idx: Any = None,
        layout: str = "bhsd",
        vlayout: str = "r",
        kernel: str | None = None,
        stream: Any = None,
    ) -> Any:
        """Writes ``k_new`` and ``v_new`` into the caches ``k`` and ``v``, behind what they hold.

        ``seqlens_k[b]`` rows of sequence b are in use before. With ``rope``, ``"interleaved"`` or
        ``"half_rotated"``, the keys are rotated by ``rotary_cos`` and ``rotary_sin`` (places,
        rotary dimension / 2) first; so is ``q``, at the places of the new keys with a mask, else
        all at the first of them, and its rotated copy is returned. Caches may lie in pages, as for
        :meth:`fmha_pagedkv`; with ``vlayout="c"`` the cache ``v`` is (batch, heads, head dimension,
        rows).
        """


__all__ = ["FmhaCalls"]
