"""``Dispatcher.gemm``: tensors in, the same kind out; strides honoured; bad input refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from naive_kernels import LastCall, last_call

import ckdisp

pytestmark = pytest.mark.xdist_group("naive")

RNG = np.random.default_rng(7)


def matrix(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Small integers, so that results are exact."""
    return RNG.integers(-3, 4, shape).astype(dtype)


@pytest.fixture(scope="module")
def disp(naive_library: Path) -> ckdisp.Dispatcher:
    return ckdisp.Dispatcher(ckdisp.Registry.load(naive_library))


@pytest.fixture
def last(naive_library: Path) -> Callable[[], LastCall]:
    return lambda: last_call(naive_library)


@pytest.mark.parametrize("order_a", ["C", "F"])
@pytest.mark.parametrize("order_b", ["C", "F"])
def test_layouts_are_read_in_place(
    disp: ckdisp.Dispatcher, last: Callable[[], LastCall], order_a: Any, order_b: Any
) -> None:
    a, b = np.array(matrix(4, 6), order=order_a), np.array(matrix(6, 5), order=order_b)
    c = disp.gemm(a, b)
    assert type(c) is np.ndarray and c.dtype == np.float32 and c.flags.c_contiguous
    np.testing.assert_array_equal(c, a @ b)
    assert (last().a, last().b, last().c) == (a.ctypes.data, b.ctypes.data, c.ctypes.data)


def test_leading_dimensions_are_read_in_place(
    disp: ckdisp.Dispatcher, last: Callable[[], LastCall]
) -> None:
    big_a, big_b, big_c = matrix(8, 11), matrix(9, 13), np.zeros((7, 17), np.float32)
    a, b, out = big_a[1:5, 2:8], big_b[3:, 4:10].T, big_c[2:6, 5:11]
    assert disp.gemm(a, b, out=out) is out
    np.testing.assert_array_equal(out, a @ b)
    assert (last().lda, last().ldb, last().ldc) == (11, 13, 17)
    assert (last().a, last().b, last().c) == tuple(x.ctypes.data for x in (a, b, out))
    big_c[2:6, 5:11] = 0
    assert not big_c.any()


@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[::2, ::2], np.s_[:, ::-1]])
def test_other_strides_are_copied(
    disp: ckdisp.Dispatcher, last: Callable[[], LastCall], view: Any
) -> None:
    a, b = matrix(8, 6)[view], matrix(8, 6)[view].T
    np.testing.assert_array_equal(disp.gemm(a, b), a @ b)
    assert last().a != a.ctypes.data and last().b != b.ctypes.data


def test_broadcast_and_unaligned_inputs(disp: ckdisp.Dispatcher) -> None:
    a = np.broadcast_to(matrix(6), (4, 6))
    raw = np.zeros(6 * 5 * 4 + 1, np.uint8)
    b = raw[1:].view(np.float32).reshape(6, 5)
    b[:] = matrix(6, 5)
    assert not b.flags.aligned
    np.testing.assert_array_equal(disp.gemm(a, b), a @ np.array(b))


@pytest.mark.parametrize(
    "shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0), (1, 1, 1), (1, 7, 3)]
)
def test_empty_and_single(disp: ckdisp.Dispatcher, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = matrix(m, k), matrix(k, n)
    np.testing.assert_array_equal(disp.gemm(a, b), a @ b)


def test_a_matrix_that_fits_two_layouts_takes_the_one_with_a_kernel(
    disp: ckdisp.Dispatcher,
) -> None:
    """A row is column-major too; for ``add`` only layout rrr was built."""
    a, b = matrix(1, 6), matrix(6, 1)
    assert disp.problem(a, b, d=matrix(1, 1), epilogue="add").to_dict()["layout"] == "rrr"
    column = np.asfortranarray(matrix(6, 1))
    np.testing.assert_array_equal(
        disp.gemm(a, column, d=a[:, :1], epilogue="add"), a @ column + a[:, :1]
    )


def test_integers(disp: ckdisp.Dispatcher) -> None:
    a, b = matrix(3, 4, dtype=np.int8), matrix(4, 5, dtype=np.int8)
    c = disp.gemm(a, b)
    assert c.dtype == np.int32
    np.testing.assert_array_equal(c, a.astype(int) @ b.astype(int))


@pytest.mark.parametrize(
    ("given", "out"),
    [(ml_dtypes.bfloat16, ml_dtypes.bfloat16), (ml_dtypes.float8_e4m3fn, np.float16)],
)
def test_types_of_ml_dtypes(disp: ckdisp.Dispatcher, given: Any, out: Any) -> None:
    c = disp.gemm(matrix(3, 4, dtype=given), matrix(4, 5, dtype=given))
    assert c.dtype == out and c.shape == (3, 5)


@pytest.mark.parametrize(
    "d", [(5, 4), (4,), (1, 4), (5, 1)], ids=["full", "vector", "row", "column"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_d_shapes(
    disp: ckdisp.Dispatcher, last: Callable[[], LastCall], d: tuple[int, ...], order: Any
) -> None:
    a, b, extra = matrix(5, 6), matrix(6, 4), np.array(matrix(*d), order=order)
    np.testing.assert_array_equal(disp.gemm(a, b, d=extra, epilogue="add"), a @ b + extra)
    assert last().d == extra.ctypes.data  # kernels of both orders of D exist
    assert last().ldd == {(5, 4): 4 if order == "C" else 5}.get(d, 0)


def test_d_of_different_shapes(disp: ckdisp.Dispatcher) -> None:
    """A row fits order r, a column only order c: one of them is copied."""
    a, b, row, column = matrix(5, 6), matrix(6, 4), matrix(4), matrix(5, 1)
    c = disp.gemm(a, b, d=(row, column), epilogue="multi_d_add")
    np.testing.assert_array_equal(c, a @ b + row + column)


def test_d_without_a_kernel_of_its_order_is_copied(disp: ckdisp.Dispatcher) -> None:
    a, b, column = matrix(5, 6), matrix(6, 4), matrix(5, 1)
    c = disp.gemm(a, b, d=column, epilogue="clamp", clamp=(-5, 5))
    np.testing.assert_array_equal(c, np.clip(a @ b + column, -5, 5))


def test_scale_and_clamp(disp: ckdisp.Dispatcher) -> None:
    a, b = matrix(5, 6), matrix(6, 4)
    np.testing.assert_array_equal(disp.gemm(a, b, scale=0.5), a @ b * 0.5)
    c = disp.gemm(a, b, epilogue="clamp", clamp=(0, float("inf")), scale=2)
    np.testing.assert_array_equal(c, np.maximum(2 * (a @ b), 0))


def test_named_kernel(disp: ckdisp.Dispatcher) -> None:
    a, b = matrix(5, 6), matrix(6, 4)
    np.testing.assert_array_equal(
        disp.gemm(a, b, kernel="naive_fp32_fp32_rrr_passthrough_d0"), a @ b
    )
    with pytest.raises(ckdisp.UnsupportedProblem, match=r"\[layout\] reads layout ccr, not rrr"):
        disp.gemm(a, b, kernel="naive_fp32_fp32_ccr_passthrough_d0")
    with pytest.raises(
        ckdisp.KernelNotFound, match="did you mean 'naive_fp32_fp32_rrr_passthrough"
    ):
        disp.gemm(a, b, kernel="naive_fp32_fp32_rrr_passthrough")


def refused(disp: ckdisp.Dispatcher, last: Callable[[], LastCall], **changes: Any) -> str:
    """The text of the InvalidArgument that ``gemm`` raises, having run nothing."""
    marker = matrix(1, 1)
    disp.gemm(marker, marker)
    before = last()
    arguments: dict[str, Any] = {"a": matrix(4, 6), "b": matrix(6, 5), **changes}
    with pytest.raises(ckdisp.InvalidArgument) as caught:
        disp.gemm(arguments.pop("a"), arguments.pop("b"), **arguments)
    assert last() == before
    return str(caught.value)


def test_bad_tensors(disp: ckdisp.Dispatcher, last: Callable[[], LastCall]) -> None:
    f32 = np.float32
    for changes, text in [
        ({"a": [[1.0]]}, "a is a list, not a tensor"),
        ({"b": None}, "b is a NoneType"),
        ({"a": matrix(6)}, "a has shape (6,); pass a matrix"),
        ({"a": matrix(1, 4, 6)}, "a has 3 dimensions"),
        ({"b": np.float32(1) * np.ones((), f32)}, "b is a float32, not a tensor"),
        ({"b": matrix(7, 5)}, "a has shape (4, 6) and b (7, 5): the columns of a"),
        ({"a": matrix(4, 6, dtype=np.float64)}, "a has element type float64, which no kernel"),
        ({"a": matrix(4, 6, dtype=">f4")}, "a has element type >f4"),
        ({"a": np.ma.masked_array(matrix(4, 6), mask=True)}, "a is a masked array"),
        ({"a": matrix(4, 6, dtype=np.int8)}, "integers multiply only integers"),
        ({"a": matrix(4, 6, dtype=np.int32), "b": matrix(6, 5, dtype=np.int32)}, "use int8"),
    ]:
        assert text in refused(disp, last, **changes)


def test_bad_outputs(disp: ckdisp.Dispatcher, last: Callable[[], LastCall]) -> None:
    frozen = np.zeros((4, 5), np.float32)
    frozen.flags.writeable = False
    for out, text in [
        (frozen, "out is read-only"),
        (np.zeros((5, 4), np.float32), "out has shape (5, 4), the result has (4, 5)"),
        (np.zeros(20, np.float32), "out has shape (20,)"),
        (np.zeros((4, 5), np.float32, order="F"), "results are row-major"),
        (np.zeros((4, 10), np.float32)[:, ::2], "results are row-major"),
        (np.zeros((4, 5)), "out has element type float64"),
    ]:
        assert text in refused(disp, last, out=out)
    text = refused(disp, last, out=np.zeros((4, 5), np.float32), out_dtype="bf16")
    assert "out has type fp32 and out_dtype asks for bf16" in text


def test_overlap(disp: ckdisp.Dispatcher, last: Callable[[], LastCall]) -> None:
    square = matrix(4, 4)
    assert "C shares memory with A" in refused(disp, last, a=square, b=matrix(4, 4), out=square)
    assert "C shares memory with B" in refused(disp, last, a=matrix(4, 4), b=square, out=square)
    assert "C shares memory with D0" in refused(
        disp, last, a=matrix(4, 4), b=matrix(4, 4), d=square, epilogue="add", out=square
    )
    wide = matrix(4, 12)  # column blocks of one array do not overlap
    a, b, out = wide[:, :4], matrix(4, 4), wide[:, 4:8]
    np.testing.assert_array_equal(disp.gemm(a, b, out=out), a @ b)


def test_bad_scalars_and_d(disp: ckdisp.Dispatcher, last: Callable[[], LastCall]) -> None:
    d = matrix(4, 5)
    for changes, text in [
        ({"scale": float("nan")}, "scale is nan"),
        ({"scale": float("inf")}, "scale is inf"),
        ({"scale": 1e300}, "scale is inf"),
        ({"epilogue": "clamp"}, "needs its bounds"),
        ({"clamp": (0, 1)}, "the epilogue is not 'clamp'"),
        ({"epilogue": "clamp", "clamp": 3}, "clamp is 3; pass two numbers"),
        ({"epilogue": "clamp", "clamp": (1, 0)}, "reversed"),
        ({"epilogue": "clamp", "clamp": (float("nan"), 0)}, "NaN"),
        ({"kernel": 3}, "kernel is 3; pass the name"),
        ({"d": d}, "'passthrough' takes 0 D tensors, not 1"),
        ({"epilogue": "add"}, "'add' takes 1 D tensors, not 0"),
        ({"d": (d,) * 5, "epilogue": "multi_d_add"}, "d holds 5 tensors; at most 4"),
        ({"d": matrix(5, 4), "epilogue": "add"}, "d has shape (5, 4), which does not broadcast"),
        ({"d": [d, matrix(2)], "epilogue": "multi_d_add"}, "d[1] has shape (2,)"),
        ({"d": [d, d.astype(np.float16)], "epilogue": "multi_d_add"}, "types fp32 and fp16"),
    ]:
        assert text in refused(disp, last, **changes)


def test_huge_problems_are_refused_before_memory_is_taken(
    disp: ckdisp.Dispatcher, last: Callable[[], LastCall]
) -> None:
    one = matrix(1, 1)
    a, b = np.broadcast_to(one, (1 << 40, 1)), np.broadcast_to(one, (1, 1 << 40))
    assert "too large" in refused(disp, last, a=a, b=b)


def test_unknown_names(disp: ckdisp.Dispatcher) -> None:
    a, b = matrix(4, 6), matrix(6, 5)
    with pytest.raises(ckdisp.InvalidKey, match=r"unknown epilogue 'ad' \(did you mean 'add'"):
        disp.gemm(a, b, epilogue="ad")
    with pytest.raises(ckdisp.InvalidKey, match=r"unknown dtype 'fp31'.*fp32"):
        disp.gemm(a, b, out_dtype="fp31")


@pytest.mark.parametrize("out_dtype", ["fp16", np.float16, np.dtype(np.float16), "float16"])
def test_types_without_a_kernel(disp: ckdisp.Dispatcher, out_dtype: Any) -> None:
    with pytest.raises(ckdisp.KernelNotFound, match=r"fp32 x fp32 -> fp16.*ckdisp generate gemm"):
        disp.gemm(matrix(4, 6), matrix(6, 5), out_dtype=out_dtype)


def test_threads_share_a_dispatcher(disp: ckdisp.Dispatcher) -> None:
    wrong = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(50):
            a = rng.integers(-3, 4, (4, 5)).astype(np.float32)
            b = rng.integers(-3, 4, (5, 1 + seed % 5)).astype(np.float32)
            if not np.array_equal(disp.gemm(a, b), a @ b):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_thread_count_reaches_the_kernel(naive_library: Path, last: Callable[[], LastCall]) -> None:
    dispatcher = ckdisp.Dispatcher(ckdisp.Registry.load(naive_library), num_threads=3)
    dispatcher.gemm(matrix(2, 2), matrix(2, 2))
    assert dispatcher.num_threads == last().num_threads == 3
    with pytest.raises(ckdisp.InvalidArgument, match="threads is -1"):
        ckdisp.Dispatcher(dispatcher.registry, num_threads=-1)


@pytest.mark.parametrize("epilogue", [None, 5, "passthrough\0", "\ud800", b"add"])
def test_epilogues_that_are_no_names(disp: ckdisp.Dispatcher, epilogue: Any) -> None:
    with pytest.raises(ckdisp.InvalidArgument, match=r"epilogue is .*; pass the name of one"):
        disp.gemm(matrix(2, 3), matrix(3, 4), epilogue=epilogue)


@pytest.mark.parametrize("scale", [None, "2", 1j])
def test_scales_that_are_no_numbers(disp: ckdisp.Dispatcher, scale: Any) -> None:
    with pytest.raises(ckdisp.InvalidArgument, match=r"scale is .*; pass a finite number"):
        disp.gemm(matrix(2, 3), matrix(3, 4), scale=scale)


def test_kernel_names_are_taken_whole(disp: ckdisp.Dispatcher) -> None:
    name = disp.select(disp.problem(matrix(2, 3), matrix(3, 4))).name
    with pytest.raises(ckdisp.InvalidArgument, match=r"kernel is .*\\x00x'; pass the name"):
        disp.gemm(matrix(2, 3), matrix(3, 4), kernel=f"{name}\0x")


@pytest.mark.parametrize("k", [1 << 60, 1 << 61])
@pytest.mark.parametrize("out", [None, np.zeros((1, 1), np.int32)])
def test_copies_that_memory_cannot_hold(disp: ckdisp.Dispatcher, k: int, out: Any) -> None:
    a = np.broadcast_to(np.int8(1), (1, k))
    with pytest.raises(ckdisp.DeviceError, match=f"a must be copied.*no memory for the {k} bytes"):
        disp.gemm(a, a.T, out=out)


def test_sizes_that_overflow_make_no_copy(disp: ckdisp.Dispatcher) -> None:
    a = np.broadcast_to(np.float32(1), (1, 1 << 60))
    with pytest.raises(ckdisp.InvalidArgument, match="too large to index"):
        disp.gemm(a, a.T, out=np.zeros((1, 1), np.float32))
