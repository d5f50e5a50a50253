"""Tensors that are no plain memory: each call says what they are and what to pass."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ckdisp
from ckdisp.codegen.errors import Error, InvalidArgument

X = torch.arange(64, dtype=torch.float32).reshape(8, 8) / 64
Q = torch.rand(1, 2, 8, 16)
IMAGE = torch.rand(1, 4, 8, 8)
FILTERS = torch.rand(4, 4, 3, 3)

Change = Callable[[torch.Tensor], Any]


def fake(t: torch.Tensor) -> Any:
    with FakeTensorMode() as mode:
        return mode.from_tensor(t)


def misaligned(t: torch.Tensor) -> Any:
    memory = np.zeros(t.numel() * 4 + 1, np.uint8)[1:]
    memory[:] = t.numpy().reshape(-1).view(np.uint8)
    return memory.view(np.float32).reshape(t.shape)


def nested(t: torch.Tensor) -> Any:
    return torch.nested.nested_tensor([t[0], t[0]])


def jagged(t: torch.Tensor) -> Any:
    rows = t.reshape(-1, t.shape[-1])
    return torch.nested.nested_tensor([rows, rows[:2]], layout=torch.jagged)


def negated(t: torch.Tensor) -> Any:
    return torch.complex(t, t).conj().imag


REFUSED: dict[str, tuple[Change, str]] = {
    "quantised": (lambda t: torch.quantize_per_tensor(t, 0.1, 0, torch.qint8), "is quantised"),
    "nested": (nested, "is a nested tensor; pass its parts"),
    "jagged": (jagged, "is a nested tensor; pass its parts"),
    "sparse": (lambda t: t.to_sparse(), r"is no dense tensor \(torch.sparse_coo\).*to_dense"),
    "csr": (lambda t: t.reshape(-1, t.shape[-1]).to_sparse_csr(), "is no dense tensor"),
    "mkldnn": (lambda t: t.to_mkldnn(), "is no dense tensor"),
    "meta": (lambda t: t.to("meta"), "on the device meta, without memory"),
    "fake": (fake, "has no memory"),
    "zeros": (lambda t: torch._efficientzerotensor(t.shape), "has no memory"),
    "negated": (negated, "view that negates its memory.*resolve_neg"),
    "complex": (lambda t: torch.complex(t, t), "element type torch.complex64"),
    "conjugated": (lambda t: torch.complex(t, t).conj(), "element type torch.complex64"),
    "int64": (lambda t: t.long(), "element type torch.int64"),
    "no dimension": (lambda t: torch.tensor(1.0), r"dimensions|has shape"),
    "gradient": (lambda t: t.clone().requires_grad_(), "requires a gradient.*detach"),
    "none": (lambda t: None, "is a NoneType, not a tensor"),
    "list": (lambda t: t.tolist(), "is a list, not a tensor"),
}


@pytest.fixture(scope="module")
def disp() -> ckdisp.Dispatcher:
    return ckdisp.Dispatcher(ckdisp.Registry.prebuilt())


@pytest.mark.filterwarnings("ignore")  # PyTorch warns of what is a prototype
@pytest.mark.parametrize("kind", list(REFUSED))
def test_calls_of_a_dispatcher(kind: str, disp: ckdisp.Dispatcher) -> None:
    change, text = REFUSED[kind]
    for call in (
        lambda: disp.gemm(change(X), X),
        lambda: disp.gemm(X, change(X)),
        lambda: disp.fmha_fwd(change(Q), Q, Q),
        lambda: disp.fmha_fwd(Q, change(Q), Q),
        lambda: disp.conv_fwd(change(IMAGE), FILTERS),
        lambda: disp.conv_bwd_data(
            torch.rand(1, 4, 6, 6), change(FILTERS), input_shape=IMAGE.shape
        ),
    ):
        with pytest.raises(InvalidArgument, match=text):
            call()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["quantised", "nested", "jagged", "sparse", "csr", "mkldnn"])
def test_functions_of_pytorch(kind: str) -> None:
    change, text = REFUSED[kind]
    for call in (
        lambda: ckdisp.torch.linear(change(X), X),
        lambda: ckdisp.torch.linear(X, change(X)),
        lambda: ckdisp.torch.scaled_dot_product_attention(change(Q), Q, Q),
        lambda: ckdisp.torch.scaled_dot_product_attention(Q, Q, Q, attn_mask=change(X)),
        lambda: ckdisp.torch.attention(Q, Q, change(Q)),
        lambda: ckdisp.torch.conv(change(IMAGE), FILTERS),
        lambda: ckdisp.torch.conv(IMAGE, change(FILTERS)),
    ):
        with pytest.raises(InvalidArgument, match=text):
            call()
    with pytest.raises(Error, match=text):
        ckdisp.torch.linear(X, X, change(X[0]) if kind not in ("nested", "jagged") else change(X))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: torch.nn.Parameter(t, requires_grad=False),
        lambda t: t.as_subclass(Sub),
        misaligned,
    ],
    ids=["parameter", "subclass", "misaligned"],
)
def test_what_is_memory_is_computed(change: Change, disp: ckdisp.Dispatcher) -> None:
    def number(value: Any) -> Any:
        return np.asarray(torch.as_tensor(value).detach())

    np.testing.assert_allclose(number(disp.gemm(change(X), change(X))), X @ X, rtol=1e-5)
    q = change(Q)
    wanted = ckdisp.reference.attention_fwd(Q.numpy(), Q.numpy(), Q.numpy())
    np.testing.assert_allclose(number(disp.fmha_fwd(q, change(Q), change(Q))), wanted, rtol=1e-4)
    wanted = torch.nn.functional.conv2d(IMAGE, FILTERS)
    found = number(disp.conv_fwd(change(IMAGE), change(FILTERS)))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


class Sub(torch.Tensor):
    pass


def test_a_misaligned_result_is_called_so(disp: ckdisp.Dispatcher) -> None:
    text = r"out is misaligned: its address and strides must be multiples of 4 bytes"
    with pytest.raises(InvalidArgument, match=text):
        disp.gemm(X.numpy(), X.numpy(), out=misaligned(X))
    with pytest.raises(InvalidArgument, match=text):
        disp.fmha_fwd(Q.numpy(), Q.numpy(), Q.numpy(), out=misaligned(Q))


def test_a_misaligned_tensor_of_pytorch(disp: ckdisp.Dispatcher) -> None:
    t = torch.from_numpy(misaligned(Q))
    with pytest.raises(InvalidArgument, match=r"q is misaligned.* no multiple of 4 bytes.*clone"):
        disp.fmha_fwd(t, Q, Q)
    np.testing.assert_allclose(disp.fmha_fwd(t.clone(), Q, Q), disp.fmha_fwd(Q, Q, Q), rtol=1e-5)


def test_pytorch_is_not_needed() -> None:
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "import ckdisp\n"
        "from ckdisp.tensors import why_unreadable\n"
        "assert why_unreadable(object(), 'a') == ''\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("family", ["gemm.standard", "conv.fwd", "fmha.fwd"])
def test_known_fields_are_named_once(family: str) -> None:
    for call in (
        lambda: ckdisp.make_key(family, arch="gfx942", nonsense=1),
        lambda: ckdisp.KernelSet.sweep(family, "gfx942", where={"nonsense": 1}),
        lambda: ckdisp.KernelSet.sweep(family, "gfx942").filter("nonsense == 1"),
    ):
        with pytest.raises(ckdisp.InvalidKey, match="unknown field") as caught:
            call()
        known = str(caught.value).partition("; known: ")[2].split(", ")
        assert len(known) > 5 and len(known) == len(set(known))
