"""Random data of an attention, and who can compute it: ckdisp, PyTorch, the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..codegen.ops.fmha.families import GRADIENT
from .arrays import element_type, require_memory
from .operands import TORCH_TYPES, to_torch
from .rotary import angles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .. import Dispatcher
    from .fmha_options import FmhaOptions

_METHODS = {GRADIENT: "fmha_bwd"}


class FmhaOperands:
    """The tensors of a problem: as (batch, heads, rows, size), and as its call takes them."""

    def __init__(self, problem: FmhaOptions) -> None:
        batch, heads, rows, keys, d, dv = problem.shape
        cells = batch * heads * rows * keys if problem.bias == "bias" else 0
        require_memory(int(4 * problem.make().bytes) + 8 * cells, f"an attention of {problem}")
        self.problem = problem
        self.appends = problem.family == "fmha.appendkv"
        self.is_backward = problem.family == GRADIENT
        kept = (batch, problem.nhead_k, rows if self.appends else keys)
        self.q = _normal(1, problem.dtype, batch, heads, rows, d)
        self.k = _normal(2, problem.dtype, *kept, d)
        self.v = _normal(3, problem.dtype, *kept, dv)
        self.do = _normal(4, problem.dtype, batch, heads, rows, dv)
        self.how = _features(problem)
        self.given, self.options = self._append() if self.appends else self._attend()

    def run(self, dispatcher: Dispatcher) -> Any:
        family = self.problem.family
        method = getattr(dispatcher, _METHODS.get(family, family.replace(".", "_")))
        result = method(*self.given, **self.options)
        if self.appends:  # it writes into caches, and returns Q where that is turned
            return (*self.given[:2], *(() if result is None else (result,)))
        return result

    def reference(self) -> Any:
        from .. import reference

        if self.appends:
            return self._appended()
        inputs, dbias = (self.q, self.k, self.v), self.problem.dbias
        if self.is_backward:
            found = reference.attention_bwd(self.do, *inputs, return_dbias=dbias, **self.how)
            return (*map(self._laid, found[:3]), *found[3:])
        o, lse = reference.attention_fwd(*inputs, return_lse=True, **self.how)
        if not self.problem.lse:
            return self._joined(o)
        prefill = self.problem.family == "fmha.batch_prefill"
        lse = lse.swapaxes(0, 1).reshape(lse.shape[1], -1) if prefill else lse
        return self._joined(o), lse

    def numpy(self) -> None:
        return None

    def torch(self) -> Callable[[], object] | None:
        """Its attention to dense tensors; None for types and features that it lacks."""
        options = self.problem
        lacks = options.dropout or options.logits_soft_cap or options.bias == "alibi"
        if options.dtype not in TORCH_TYPES or lacks or self.appends:
            return None
        import torch

        tensors = [to_torch(x, options.dtype) for x in (self.q, self.k, self.v)]
        more: dict[str, Any] = {"enable_gqa": options.nhead_k != options.shape[1]}
        plain = options.bias == "no" and options.window is None and not options.sink
        square = options.shape[2] == options.shape[3]
        if plain and (options.mask != "bottom_right" or square):
            more["is_causal"] = options.mask != "no"
        else:
            more["attn_mask"] = self._added(torch)
        attend = torch.nn.functional.scaled_dot_product_attention
        if not self.is_backward:
            return lambda: attend(*tensors, **more)
        leaves = [x.requires_grad_() for x in tensors]
        o, do = attend(*leaves, **more), to_torch(self.do, options.dtype)
        return lambda: torch.autograd.grad(o, leaves, do, retain_graph=True)

    def _added(self, torch: Any) -> Any:
        """What PyTorch adds to the scores, -inf where the mask hides a key."""
        from ..reference.attention_mask import Mask

        options = self.problem
        mask = Mask.make(options.mask, options.window, options.sink)
        seen = torch.from_numpy(mask.seen(*options.shape[2:4]))
        if "bias" not in self.how:
            return seen
        return to_torch(self.how["bias"], options.dtype).masked_fill(~seen, -torch.inf)

    def _laid(self, x: NDArray[Any]) -> NDArray[Any]:
        """(batch, heads, rows, size) in the order of the problem's layout."""
        import numpy as np

        swaps = self.problem.layout == "bshd"
        return np.ascontiguousarray(x.swapaxes(1, 2)) if swaps else x

    def _joined(self, x: NDArray[Any]) -> NDArray[Any]:
        """The same for rows of Q; a batch prefill has those of all sequences in one."""
        if self.problem.family != "fmha.batch_prefill":
            return self._laid(x)
        batch, heads, rows, size = x.shape
        joined: NDArray[Any] = self._laid(x.swapaxes(0, 1).reshape(1, heads, batch * rows, size))[0]
        return joined

    def _attend(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the call of all families but the appending one takes."""
        import numpy as np

        from .. import reference

        problem, keys = self.problem, self.problem.shape[3]
        options = {"layout": problem.layout, **self.how}
        q, k, v = self._joined(self.q), self._laid(self.k), self._laid(self.v)
        if self.is_backward:
            o, lse = reference.attention_fwd(
                *(self.q, self.k, self.v), return_lse=True, dtype=np.float32, **self.how
            )
            options |= {"deterministic": problem.deterministic, "return_dbias": problem.dbias}
            o = self._laid(o.astype(self.q.dtype))
            return (self._laid(self.do), q, k, v, o, lse), options
        options["return_lse"] = problem.lse
        options["out_dtype"] = problem.out_dtype
        if problem.family == "fmha.splitkv":
            options["num_splits"] = problem.num_splits
        if problem.page_size:
            k, v = self._paged(self.k), self._paged(self.v)
            lengths = np.full(problem.shape[0], keys, np.int32)
            options |= {"page_table": self._table(), "seqlens_k": lengths, "max_seqlen_k": keys}
        if problem.family == "fmha.batch_prefill":
            batch, heads, rows = problem.shape[:3]
            options["cu_seqlens_q"] = np.arange(batch + 1, dtype=np.int32) * rows
            if "bias" in options:
                bias = options["bias"].swapaxes(0, 1)
                options["bias"] = np.ascontiguousarray(bias).reshape(heads, batch * rows, keys)
        return (q, k, v), options

    def _table(self) -> NDArray[Any]:
        """The pages of each sequence, in no order."""
        import numpy as np

        each, every = self.problem.pages
        order = np.random.default_rng(6).permutation(every).astype(np.int32)
        return order.reshape(self.problem.shape[0], each)

    def _paged(self, x: NDArray[Any]) -> NDArray[Any]:
        """Keys or values in pages."""
        import numpy as np

        batch, heads, rows, size = x.shape
        (each, every), page = self.problem.pages, self.problem.page_size
        whole = np.zeros((batch, heads, each * page, size), x.dtype)
        whole[:, :, :rows] = x
        pages = np.empty((every, heads, page, size), x.dtype)
        pages[self._table()] = whole.reshape(batch, heads, each, page, size).swapaxes(1, 2)
        return self._laid(pages)

    def _append(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the call that appends the rows of K and V at the end of empty caches takes."""
        import numpy as np

        problem = self.problem
        batch, _, rows, keys, d, dv = problem.shape
        empty = (np.zeros((batch, problem.nhead_k, keys, n), self.k.dtype) for n in (d, dv))
        store = self._paged if problem.page_size else self._laid
        options: dict[str, Any] = {
            "layout": problem.layout,
            "mask": problem.mask,
            "seqlens_k": np.full(batch, keys - rows, np.int32),
        }
        if problem.page_size:
            options["page_table"] = self._table()
        if problem.rope != "none":
            room = problem.pages[0] * problem.page_size if problem.page_size else keys
            turn = angles(room, d)
            options |= {"q": self._laid(self.q), "rope": problem.rope}
            options["rotary_cos"] = np.cos(turn).astype(self.k.dtype)
            options["rotary_sin"] = np.sin(turn).astype(self.k.dtype)
        return (*map(store, empty), self._laid(self.k), self._laid(self.v)), options

    def _appended(self) -> tuple[NDArray[Any], ...]:
        """The caches behind it, and Q where it is turned."""
        import numpy as np

        from .. import reference

        problem = self.problem
        batch, _, rows, keys, d, dv = problem.shape
        empty_k, empty_v = (np.zeros((batch, problem.nhead_k, keys, n)) for n in (d, dv))
        how: dict[str, Any] = {"mask": problem.mask, "seqlens_k": [keys - rows] * batch}
        if problem.rope != "none":
            turn = angles(keys, d)
            how |= {"q": self.q, "rope": problem.rope}
            how |= {"rotary_cos": np.cos(turn), "rotary_sin": np.sin(turn)}
        k, v, *q = reference.attention_appendkv(empty_k, empty_v, self.k, self.v, **how)
        store = self._paged if problem.page_size else self._laid
        return (store(k), store(v), *map(self._laid, q))


def _normal(seed: int, dtype: str, *shape: int) -> NDArray[Any]:
    """Numbers whose scores differ, as those of a model do."""
    import numpy as np

    wide = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return wide.astype(element_type(dtype))


def _features(problem: FmhaOptions) -> dict[str, Any]:
    """The keywords that mean the same to a dispatcher and to the reference."""
    import numpy as np

    batch, heads, rows, keys = problem.shape[:4]
    how: dict[str, Any] = {"mask": problem.mask, "window": problem.window}
    how["sink"] = problem.sink or None
    if problem.bias == "bias":
        kind = "fp32" if problem.dtype in ("fp8", "bf8") else problem.dtype
        how["bias"] = _normal(5, kind, batch, heads, rows, keys)
    elif problem.bias == "alibi":
        how["alibi_slopes"] = np.exp2(np.arange(1, heads + 1) * (-8 / heads)).astype(np.float32)
    if problem.dropout:
        how |= {"dropout_p": problem.dropout, "seed": 1, "offset": 0}
    if problem.logits_soft_cap:
        how["logits_soft_cap"] = problem.logits_soft_cap
    return how
