"""``Dispatcher.gemm`` with tensors of PyTorch, and of anything else that speaks DLPack."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from naive_kernels import last_call

import ckdisp

pytestmark = pytest.mark.xdist_group("naive")


@pytest.fixture(scope="module")
def disp(naive_library: Path) -> ckdisp.Dispatcher:
    return ckdisp.Dispatcher(ckdisp.Registry.load(naive_library))


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def test_torch_in_torch_out(disp: ckdisp.Dispatcher, naive_library: Path, torch: Any) -> None:
    a, b = torch.randint(-3, 4, (4, 6)).float(), torch.randint(-3, 4, (5, 6)).float().T
    c = disp.gemm(a, b)
    assert type(c) is torch.Tensor and c.dtype == torch.float32
    assert torch.equal(c, a @ b)
    call = last_call(naive_library)
    assert (call.a, call.b, call.c) == (a.data_ptr(), b.data_ptr(), c.data_ptr())


@pytest.mark.parametrize(
    ("given", "made"),
    [("bfloat16", "bfloat16"), ("int8", "int32"), ("float8_e4m3fn", "float16")],
)
def test_torch_types(disp: ckdisp.Dispatcher, torch: Any, given: str, made: str) -> None:
    a = torch.ones((3, 4)).to(getattr(torch, given))
    b = torch.ones((4, 5)).to(getattr(torch, given))
    assert disp.gemm(a, b).dtype == getattr(torch, made)
    out = torch.empty((3, 5), dtype=getattr(torch, made))
    assert disp.gemm(a, b, out=out) is out


def test_torch_types_without_kernels(disp: ckdisp.Dispatcher, torch: Any) -> None:
    with pytest.raises(ckdisp.InvalidArgument, match=r"a has element type torch\.float64, which"):
        disp.gemm(torch.ones((3, 4), dtype=torch.float64), torch.ones((4, 5)))


def test_torch_strides_and_out_dtype(disp: ckdisp.Dispatcher, torch: Any) -> None:
    a = torch.randint(-3, 4, (8, 12)).float()[::2, ::2]
    b = torch.randint(-3, 4, (6, 5)).float()
    assert torch.equal(disp.gemm(a, b, out_dtype=torch.float32), a @ b)
    assert torch.equal(disp.gemm(a, b, d=b[:1], epilogue="add"), a @ b + b[:1])


def test_kinds_may_be_mixed(disp: ckdisp.Dispatcher, torch: Any) -> None:
    a, b = torch.ones((2, 3)), np.ones((3, 4), np.float32)
    assert type(disp.gemm(a, b)) is torch.Tensor
    out = np.empty((2, 4), np.float32)
    assert disp.gemm(a, b, out=out) is out
    assert (out == 3).all()


def test_gradients_are_not_lost(disp: ckdisp.Dispatcher, torch: Any) -> None:
    a, b = torch.ones((2, 3), requires_grad=True), torch.ones((3, 4))
    with pytest.raises(ckdisp.InvalidArgument, match=r"a requires a gradient.*a\.detach\(\)"):
        disp.gemm(a, b)
    with torch.no_grad():
        assert torch.equal(disp.gemm(a, b), a @ b)
    assert torch.equal(disp.gemm(a.detach(), b), (a @ b).detach())


def test_tensors_without_memory_are_refused(disp: ckdisp.Dispatcher, torch: Any) -> None:
    for a, words in (
        (torch.empty((2, 3), device="meta"), "a is on the device meta, without memory"),
        (torch.ones((2, 3)).to_sparse(), r"a is no dense tensor \(torch.sparse_coo\)"),
    ):
        with pytest.raises(ckdisp.InvalidArgument, match=words):
            disp.gemm(a, torch.ones((3, 4)))


class Foreign:
    """A tensor that has nothing but DLPack, of a framework that has nothing but from_dlpack."""

    def __init__(self, array: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


class Old(Foreign):
    """From before DLPack 1.0: takes no version, does not say what is read-only."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.array.__dlpack__()


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("foreign_framework")
    module.from_dlpack = Foreign  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "foreign_framework", module)
    monkeypatch.setattr(Foreign, "__module__", "foreign_framework")
    monkeypatch.setattr(Old, "__module__", "foreign_framework")


@pytest.mark.parametrize("kind", [Foreign, Old])
def test_dlpack_in_the_same_kind_out(
    disp: ckdisp.Dispatcher, framework: None, kind: type[Foreign]
) -> None:
    a, b = np.full((2, 3), 2, np.float32), np.ones((4, 3), np.float32).T
    c = disp.gemm(kind(a), kind(b))
    assert isinstance(c, Foreign)
    np.testing.assert_array_equal(c.array, a @ b)
    out = kind(np.zeros((2, 4), np.float32))
    assert disp.gemm(kind(a), b, out=out) is out
    np.testing.assert_array_equal(out.array, a @ b)


def test_read_only_dlpack_output(disp: ckdisp.Dispatcher) -> None:
    frozen = np.zeros((2, 4), np.float32)
    frozen.flags.writeable = False
    a, b = np.ones((2, 3), np.float32), np.ones((3, 4), np.float32)
    with pytest.raises(ckdisp.InvalidArgument, match="out is read-only"):
        disp.gemm(a, b, out=Foreign(frozen))


def test_device_of_dlpack(disp: ckdisp.Dispatcher) -> None:
    a = Foreign(np.ones((2, 3), np.float32), device=(14, 1))
    with pytest.raises(ckdisp.DeviceError, match=r"a \(Foreign\) is on device type 14, number 1"):
        disp.gemm(a, np.ones((3, 4), np.float32))


def test_framework_without_from_dlpack(disp: ckdisp.Dispatcher) -> None:
    a = Foreign(np.ones((2, 3), np.float32))
    with pytest.raises(ckdisp.InvalidArgument, match="has no from_dlpack"):
        disp.gemm(a, np.ones((3, 4), np.float32))


def test_views_that_negate_are_refused(disp: ckdisp.Dispatcher, torch: Any) -> None:
    a, b = torch.ones((2, 3), dtype=torch.complex64).conj().imag, torch.ones((3, 4))
    assert a.is_neg()
    for columns in (1, 3):
        with pytest.raises(ckdisp.InvalidArgument, match=r"a is a view that.*a\.resolve_neg\(\)"):
            disp.gemm(a[:, :columns], b[:columns])
    assert torch.equal(disp.gemm(a.resolve_neg(), b), a @ b)


@pytest.mark.parametrize("device", [None, 1, (), (1,), (1, 0, 0), "cpu", (1 << 40, 0)])
def test_devices_that_are_none(disp: ckdisp.Dispatcher, device: Any) -> None:
    b = np.ones((3, 4), np.float32)
    with pytest.raises(ckdisp.InvalidArgument, match=r"a \(Foreign\) says that its device is"):
        disp.gemm(Foreign(np.ones((2, 3), np.float32), device), b)


class Closed(Foreign):
    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("the memory is closed")


def test_the_reason_of_a_tensor_without_memory(disp: ckdisp.Dispatcher) -> None:
    a = np.ones((3, 3), np.float32)
    with pytest.raises(ckdisp.InvalidArgument, match="read as memory: the memory is closed; pass"):
        disp.gemm(Closed(a), a)
