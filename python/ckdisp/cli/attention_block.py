"""One attention block of a language model: by kernels in three ways, and by NumPy in float64.

X (tokens, dim) is projected to Q, K and V, Q and K are turned by their places, every token attends
to those before it, and the result is projected back:

    Y = attention(rope(X Wq^T), rope(X Wk^T), X Wv^T) Wo^T

Heads of Q share those of K and V. The backward pass is given dY and finds dX and the gradients of
the weights; a rotation's gradient is the rotation back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from .rotary import angles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .. import Dispatcher

    Tensors = dict[str, tuple[NDArray[Any], ...]]

ROPE = "half_rotated"
PAGE = 16
SPLITS = 4
# The steps that every pass has: that of the forward direction, or its gradient.
QKV, TURN, ATTEND, OUT = "qkv_proj", "rope", "attention", "o_proj"
QKV_WEIGHTS, OUT_WEIGHTS = "dW qkv", "dW o"


@dataclass(frozen=True)
class Sizes:
    """Of the model."""

    dim: int = 512
    heads: int = 8
    kv_heads: int = 2
    head_dim: int = 64

    @property
    def qkv(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    def split(self, qkv: NDArray[Any]) -> list[NDArray[Any]]:
        """Q, K and V as views (1, rows, heads, head dimension) of what the projection gives."""
        d, rows = self.head_dim, len(qkv)
        ends = [self.heads * d, (self.heads + self.kv_heads) * d, self.qkv]
        starts = [0, *ends[:2]]
        return [
            qkv[:, a:b].reshape(1, rows, (b - a) // d, d) for a, b in zip(starts, ends, strict=True)
        ]


@dataclass(frozen=True)
class Block:
    """The weights of a block, the tokens that it reads, and the gradient of what it gives."""

    sizes: Sizes
    x: NDArray[Any]
    w_qkv: NDArray[Any]
    w_out: NDArray[Any]
    dy: NDArray[Any]

    @classmethod
    def make(cls, sizes: Sizes, tokens: bytes, dtype: Any) -> Block:
        """Embeddings of bytes and weights, all drawn from one seed."""
        import numpy as np

        rng = np.random.default_rng(11)

        def drawn(rows: int, columns: int, scale: float = 1.0) -> NDArray[Any]:
            numbers = rng.standard_normal((rows, columns), np.float32) * np.float32(scale)
            return numbers.astype(dtype)

        wide = sizes.heads * sizes.head_dim
        embedding = drawn(256, sizes.dim)
        return cls(
            sizes,
            embedding[np.frombuffer(tokens, np.uint8)],
            drawn(sizes.qkv, sizes.dim, 1 / math.sqrt(sizes.dim)),
            drawn(sizes.dim, wide, 1 / math.sqrt(wide)),
            drawn(len(tokens), sizes.dim),
        )

    @property
    def tokens(self) -> int:
        return len(self.x)

    def flops(self, gradients: bool) -> dict[str, float]:
        """Multiplications and additions of the steps of a pass."""
        s = self.sizes
        wide = s.heads * s.head_dim
        pairs = self.tokens * (self.tokens + 1) / 2
        qkv, out = (2.0 * self.tokens * s.dim * n for n in (s.qkv, wide))
        weights = {QKV_WEIGHTS: qkv, OUT_WEIGHTS: out}
        return {
            QKV: qkv,
            TURN: 0.0,
            ATTEND: pairs * wide * (10 if gradients else 4),
            OUT: out,
            **weights,
        }

    def turning(self, rows: int, back: bool = False) -> dict[str, Any]:
        """The keywords of a call that turns rows at up to ``rows`` places."""
        import numpy as np

        by = angles(rows, self.sizes.head_dim)
        cos, sin = (f(by).astype(self.x.dtype) for f in (np.cos, np.sin))
        return {"rope": ROPE, "rotary_cos": cos, "rotary_sin": -sin if back else sin}


@dataclass
class Steps:
    """Runs steps on a dispatcher, and keeps what each took and the kernels that it ran."""

    dispatcher: Dispatcher
    seconds: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def gemm(self, step: str, a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        d = self.dispatcher
        if step not in self.kernels:
            self.kernels[step] = (d.select(d.problem(a, b)).name,)
        result: NDArray[Any] = self._timed(step, partial(d.gemm, a, b))
        return result

    def attend(self, step: str, method: str, *tensors: Any, **options: Any) -> Any:
        d = self.dispatcher
        options["layout"] = "bshd"
        if step not in self.kernels:
            stages = d.prepare(method, *tensors, **options).plan.stages
            self.kernels[step] = tuple(stage.kernel.name for stage in stages)
        return self._timed(step, partial(getattr(d, method), *tensors, **options))

    def _timed(self, step: str, run: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = run()
        self.seconds[step] = self.seconds.get(step, 0.0) + time.perf_counter() - start
        return result


def forward(block: Block, steps: Steps) -> tuple[Tensors, Any]:
    """All tokens at once; also what the backward pass needs of it."""
    import numpy as np

    qkv = steps.gemm(QKV, block.x, block.w_qkv.T)
    q, k, v = block.sizes.split(qkv)
    keys, values = np.empty_like(k), np.empty_like(v)
    q = steps.attend(
        *(TURN, "fmha_appendkv", keys, values, k, v),
        q=q,
        seqlens_k=np.zeros(1, np.int32),
        mask="top_left",
        **block.turning(block.tokens),
    )
    o, lse = steps.attend(ATTEND, "fmha_fwd", q, keys, values, mask="top_left", return_lse=True)
    y = steps.gemm(OUT, o.reshape(block.tokens, -1), block.w_out.T)
    return {QKV: (qkv,), TURN: (q, keys), ATTEND: (o,), OUT: (y,)}, (q, keys, values, o, lse)


def decode(block: Block, method: str, options: Mapping[str, Any], steps: Steps) -> Tensors:
    """One token after the other; keys and values go to pages that lie in no order."""
    import numpy as np

    s, tokens = block.sizes, block.tokens
    count = -(-tokens // PAGE)
    table = np.random.default_rng(12).permutation(count).astype(np.int32)[None]
    keys, values = np.zeros((2, count, PAGE, s.kv_heads, s.head_dim), block.x.dtype)
    turning = block.turning(count * PAGE)
    rows: dict[str, list[NDArray[Any]]] = {QKV: [], TURN: [], ATTEND: [], OUT: []}
    for token in range(tokens):
        before, now = (np.array([n], np.int32) for n in (token, token + 1))
        qkv = steps.gemm(QKV, block.x[token : token + 1], block.w_qkv.T)
        q, k, v = s.split(qkv)
        q = steps.attend(
            *(TURN, "fmha_appendkv", keys, values, k, v),
            q=q,
            seqlens_k=before,
            page_table=table,
            **turning,
        )
        o = steps.attend(
            ATTEND, method, q, keys, values, page_table=table, seqlens_k=now, **options
        )
        y = steps.gemm(OUT, o.reshape(1, -1), block.w_out.T)
        for name, row in ((QKV, qkv), (TURN, q[0]), (ATTEND, o[0]), (OUT, y)):
            rows[name].append(row)
    whole = {name: np.concatenate(parts) for name, parts in rows.items()}
    kept = keys[table[0]].reshape(1, -1, s.kv_heads, s.head_dim)[:, :tokens]
    heads = {TURN: (whole[TURN][None], kept), ATTEND: (whole[ATTEND][None],)}
    return {QKV: (whole[QKV],), **heads, OUT: (whole[OUT],)}


def backward(block: Block, kept: Any, steps: Steps) -> Tensors:
    """The gradients, from what the forward pass kept: Q, K, V, the result, and the LSE."""
    import numpy as np

    q, keys, values, o, lse = kept
    tokens, dy = block.tokens, block.dy
    do = steps.gemm(OUT, dy, block.w_out)
    dw_out = steps.gemm(OUT_WEIGHTS, dy.T, o.reshape(tokens, -1))
    dq, dk, dv = steps.attend(
        ATTEND, "fmha_bwd", do.reshape(o.shape), q, keys, values, o, lse, mask="top_left"
    )
    turned_k, copied_v = np.empty_like(dk), np.empty_like(dv)
    turned_q = steps.attend(
        *(TURN, "fmha_appendkv", turned_k, copied_v, dk, dv),
        q=dq,
        seqlens_k=np.zeros(1, np.int32),
        mask="top_left",
        **block.turning(tokens, back=True),
    )
    parts = (turned_q, turned_k, copied_v)
    dqkv = np.concatenate([part.reshape(tokens, -1) for part in parts], 1)
    dx = steps.gemm(QKV, dqkv, block.w_qkv)
    dw_qkv = steps.gemm(QKV_WEIGHTS, dqkv.T, block.x)
    return {
        OUT: (do,),
        OUT_WEIGHTS: (dw_out,),
        ATTEND: (dq, dk, dv),
        TURN: (dqkv,),
        QKV: (dx,),
        QKV_WEIGHTS: (dw_qkv,),
    }


def expected(block: Block) -> tuple[Tensors, Tensors]:
    """The results of the steps of the forward and of the backward pass."""
    import numpy as np

    from .. import reference

    x, w_qkv, w_out, dy = (
        np.asarray(a, np.float64) for a in (block.x, block.w_qkv, block.w_out, block.dy)
    )
    tokens = block.tokens
    by = angles(tokens, block.sizes.head_dim)

    def turned(rows: NDArray[Any], sign: int = 1) -> NDArray[Any]:
        cos, sin = np.cos(by), sign * np.sin(by)
        return reference.apply_rope(rows.swapaxes(1, 2), cos, sin, rope=ROPE).swapaxes(1, 2)

    qkv = x @ w_qkv.T
    q, k, v = block.sizes.split(qkv)
    q, k = turned(q), turned(k)
    how: dict[str, Any] = {"mask": "top_left", "layout": "bshd"}
    o = reference.attention_fwd(q, k, v, **how)
    attended = o.reshape(tokens, -1)
    do = dy @ w_out
    gradients = reference.attention_bwd(do.reshape(o.shape), q, k, v, **how)
    dq, dk, dv = gradients
    parts = (turned(dq, -1), turned(dk, -1), dv)
    dqkv = np.concatenate([part.reshape(tokens, -1) for part in parts], 1)
    return (
        {QKV: (qkv,), TURN: (q, k), ATTEND: (o,), OUT: (attended @ w_out.T,)},
        {
            OUT: (do,),
            OUT_WEIGHTS: (dy.T @ attended,),
            ATTEND: gradients,
            TURN: (dqkv,),
            QKV: (dqkv @ w_qkv,),
            QKV_WEIGHTS: (dqkv.T @ x,),
        },
    )
