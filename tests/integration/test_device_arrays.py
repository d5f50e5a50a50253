"""Arrays in device memory, streams and events in Python, on the emulated or a real GPU."""

from __future__ import annotations

import gc
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from on_gpu import OnGpu

import ckdisp

pytestmark = pytest.mark.xdist_group("amd_emulator")


def dispatcher(arch: str = "gfx942") -> ckdisp.Dispatcher:
    where = {"dtype": ["fp16"], "layout": ["rcr"]}
    keys = ckdisp.KernelSet.sweep("gemm.standard", arch, where=where)
    smallest = min(keys, key=lambda key: np.prod(key.tile))
    return ckdisp.Dispatcher(ckdisp.KernelSet([smallest]).build())


def numbers(*shape: int, dtype: Any = np.float16) -> Any:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(dtype)


def arrays() -> None:
    host = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = ckdisp.to_device(host, "hip:0")
    assert (x.shape, x.strides, x.dtype, x.ndim) == (host.shape, host.strides, host.dtype, 3)
    assert (x.size, x.nbytes, len(x), str(x.device)) == (24, 96, 2, "hip:0")
    assert (x.device.kind, x.device.index) == ("hip", 0)
    assert repr(x) == "<DeviceArray (2, 3, 4) of float32 on hip:0>"
    views = [
        lambda a: a,
        lambda a: a.T,
        lambda a: a.transpose(1, 0, 2),
        lambda a: a.transpose((2, 0, 1)),
        lambda a: a.swapaxes(0, 2),
        lambda a: np.moveaxis(a, 0, -1),
        lambda a: a[1],
        lambda a: a[1, 2, 3],
        lambda a: a[:, ::2, 1:3],
        lambda a: a[..., ::-1],
        lambda a: a[::-1, None, -1],
        lambda a: a[0:0],
        lambda a: a.reshape(6, 4),
        lambda a: a.reshape((-1, 2)),
        lambda a: a.view(np.int32),
    ]
    for view in views:
        made, wanted = view(x), view(host)
        assert (made.shape, made.strides) == (wanted.shape, wanted.strides)
        assert_array_equal(made.numpy(), wanted)
        assert_array_equal(made.copy().numpy(), wanted)
        assert not made.size or made.copy().strides == wanted.copy(order="C").strides
    # Writing through views
    for view in views[:11]:
        x.copy_from(host)
        changed = host.copy()
        target = view(changed)
        if not np.ndim(target):
            continue  # a number in NumPy
        values = np.asarray(-1 - np.arange(target.size), np.float32).reshape(target.shape)
        target[...] = values
        view(x).copy_from(values)
        assert_array_equal(x.numpy(), changed)
    x[1, :, 2:] = 7
    changed[1, :, 2:] = 7
    assert_array_equal(x.numpy(), changed)
    x[0] = x[1]
    assert_array_equal(x.numpy()[0], changed[1])
    # The order in memory stays
    for array in (host.T, host.transpose(1, 2, 0), host[:, :2], host[0, ::2]):
        made = ckdisp.to_device(array)
        assert_array_equal(made.numpy(), array)
        assert np.argsort(made.strides).tolist() == np.argsort(array.strides).tolist()
        assert made.nbytes == array.size * 4
    for dtype in (bool, np.int8, np.uint16, np.int64, np.float64, np.complex64):
        array = host.astype(dtype)
        assert_array_equal(ckdisp.to_device(array).numpy(), array)
    assert_array_equal(ckdisp.zeros((3, 5), "int8").numpy(), np.zeros((3, 5)))
    assert ckdisp.empty(5).shape == (5,) and ckdisp.empty((0, 3)).numpy().shape == (0, 3)
    assert ckdisp.to_device([[1.5, 2]]).dtype == np.float64
    assert ckdisp.to_device(x) is x
    assert_array_equal(np.asarray(x), x.numpy())
    assert np.array(x, np.float64).dtype == np.float64


def test_arrays(on_gpu: OnGpu) -> None:
    on_gpu.run(arrays)


def narrow_types() -> None:
    for name in ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        host = np.arange(6).reshape(2, 3).astype(getattr(ml_dtypes, name))
        x = ckdisp.to_device(host)
        assert x.dtype == host.dtype and x.dtype_name == name
        assert_array_equal(x.numpy().astype(float), host.astype(float))
        raw = host.view(f"u{host.itemsize}")
        assert_array_equal(ckdisp.to_device(raw, dtype=name).numpy().view(raw.dtype), raw)
    assert ckdisp.empty(3, "bf16").dtype_name == "bfloat16"
    assert ckdisp.empty(3, "fp8").dtype_name == "float8_e4m3fnuz"  # that of gfx942
    assert ckdisp.empty(3, ml_dtypes.bfloat16).dtype_name == "bfloat16"


def without_ml_dtypes() -> None:
    sys.modules["ml_dtypes"] = None  # type: ignore[assignment]
    raw = np.arange(6, dtype=np.uint16)
    x = ckdisp.to_device(raw, dtype="bf16")
    assert (x.dtype, x.dtype_name) == (np.uint16, "bfloat16")
    assert_array_equal(x.numpy(), raw)
    x.copy_from(raw[::-1])
    assert_array_equal(x.numpy(), raw[::-1])


def test_narrow_types(on_gpu: OnGpu) -> None:
    on_gpu.run(narrow_types)
    on_gpu.run(without_ml_dtypes)


def refused() -> None:
    x = ckdisp.zeros((4, 6))
    device = type(x.device)
    assert isinstance(ckdisp.devices()[0], device)
    for call, text in [
        (lambda: ckdisp.empty((2, -1)), r"shape is \(2, -1\); sizes are 0 or more"),
        (lambda: ckdisp.empty(2, object), "cannot hold"),
        (lambda: ckdisp.empty(2, "fp17"), "cannot hold 'fp17'"),
        (lambda: ckdisp.empty(2, ">f4"), "this machine's byte order"),
        (lambda: ckdisp.empty(2, device="rocm:0"), "a device is 'hip:N' or 'cuda:N'"),
        (lambda: ckdisp.empty(2, device="cpu"), "arrays in the CPU's memory are NumPy's"),
        (lambda: ckdisp.empty(2, device="hip:one"), "behind the colon"),
        (lambda: ckdisp.empty(2, device=1.5), "device is 1.5"),
        (lambda: x.T.reshape(24), r"not contiguous; call \.copy\(\)"),
        (lambda: x.reshape(5, 5), r"24 elements cannot have the shape \(5, 5\)"),
        (lambda: x.view("float16"), "a view keeps the size"),
        (lambda: x[[0, 1]], "not indexed by list"),
        (lambda: x[np.array([True] * 4)], "not indexed by ndarray"),
        (lambda: x[True], "not indexed by bool"),
        (lambda: x.copy_from(np.zeros((6, 4), np.float32)), r"has shape \(6, 4\), the array"),
        (lambda: x.copy_from(np.zeros((4, 6))), "holds float64 and the array float32"),
        (lambda: ckdisp.to_device(np.zeros(3), dtype="bf16"), "of another size"),
        (lambda: ckdisp.from_dlpack(np.zeros(3)), r"use to_device\(\)"),
        (lambda: ckdisp.from_dlpack([1]), "does not support DLPack"),
        (lambda: ckdisp.Event().elapsed_time(ckdisp.Event()), r"call record\(\) on both"),
        (lambda: x.__dlpack__(dl_device=(2, 0)), "the array is on hip:0"),
        (lambda: x.__array__(copy=False), "without a copy"),
        (lambda: x[4], "out of bounds"),
    ]:
        kinds = (ckdisp.InvalidArgument, BufferError, ValueError, IndexError)
        with pytest.raises(kinds, match=text):
            pytest.fail(f"{text!r} was expected, and this came: {call()}")
    with pytest.raises(ckdisp.DeviceError, match="there is no device 3: device 0 is gfx942"):
        ckdisp.empty(2, device="hip:3")
    with pytest.raises(ckdisp.DeviceError, match="there is no CUDA device 0"):
        ckdisp.empty(2, device="cuda:0")
    with pytest.raises(ckdisp.DeviceError, match="hipMalloc of 8796093022208 bytes"):
        ckdisp.empty(1 << 41)


def test_refused(on_gpu: OnGpu) -> None:
    on_gpu.run(refused)


def no_device() -> str:
    with pytest.raises(ckdisp.DeviceError, match="there is no device 0") as caught:
        ckdisp.to_device(np.zeros(3))
    return str(caught.value)


def test_without_a_device(on_gpu: OnGpu) -> None:
    assert "shows no device" in on_gpu.run(no_device, HIP_VISIBLE_DEVICES="-1")
    assert "is no usable HIP runtime" in on_gpu.run(no_device, CKDISP_HIP_RUNTIME="/nowhere.so")


def products() -> None:
    disp = dispatcher()
    a, b = numbers(72, 40), numbers(104, 40)
    wanted = a.astype(float) @ b.astype(float).T
    x, y = ckdisp.to_device(a), ckdisp.to_device(b).T
    c = disp.gemm(x, y)
    assert type(c) is ckdisp.DeviceArray and c.shape == wanted.shape
    assert_array_equal(c.numpy(), wanted)
    assert_array_equal(disp.gemm(x, ckdisp.to_device(b.T)).numpy(), wanted)
    out = ckdisp.empty((72, 104), "fp16")
    assert disp.gemm(x, y, out=out) is out
    assert_array_equal(out.numpy(), wanted)
    rows = ckdisp.to_device(np.concatenate([a, a], axis=1))[8:40, :40]  # with gaps between rows
    assert_array_equal(disp.gemm(rows, y).numpy(), wanted[8:40])
    with pytest.raises(ckdisp.InvalidArgument, match="a is on device 0 and b is in the CPU's"):
        disp.gemm(x, b.T)


def test_products(on_gpu: OnGpu) -> None:
    on_gpu.run(products)


def streams() -> None:
    disp = dispatcher()
    a, b = numbers(64, 64), numbers(64, 64)
    product = a.astype(float) @ b.astype(float).T
    one, two = ckdisp.Stream(), ckdisp.Stream("hip:0")
    assert ckdisp.current_stream().handle == 0 and one.handle != two.handle
    with one:
        assert ckdisp.current_stream() is one
        x = ckdisp.to_device(a)
        y = ckdisp.to_device(b).T
        with two:
            assert ckdisp.current_stream() is two
            c = disp.gemm(x, y)  # waits for `one`
        assert ckdisp.current_stream() is one
        x.copy_from(-a)  # waits for `two`, which reads x
        d = disp.gemm(x, y)
    # No stream is waited for by hand
    assert_array_equal(d.numpy(), -product)
    assert_array_equal(c.numpy(), product)
    e = disp.gemm(x, y, stream=one)
    f = disp.gemm(ckdisp.to_device(e.numpy() * 0 + 1), y, stream=two.handle)
    assert_array_equal(e.numpy(), -product)
    assert_array_equal(f.numpy(), np.ones((64, 64)) @ b.astype(float).T)
    start, stop = one.record(), ckdisp.Event()
    disp.gemm(x, y, stream=one, out=c)
    stop.record(one)
    two.wait(stop)
    two.wait(one)
    assert start.elapsed_time(stop) >= 0 and stop.done
    two.synchronize()
    ckdisp.synchronize()
    # Memory goes while work is pending, and the stream before the array
    for _ in range(3):
        with ckdisp.Stream() as gone:
            c = disp.gemm(x, y)
            c = disp.gemm(c, y)
        del gone
        gc.collect()
    assert c.numpy().shape == (64, 64)


@pytest.mark.parametrize("asynchronous", ["0", "1"])
def test_streams(on_gpu: OnGpu, asynchronous: str) -> None:
    on_gpu.run(streams, EMUHIP_ASYNC=asynchronous)


def exchange() -> None:
    class Other:
        """Another framework's tensor."""

        def __init__(self, array: Any) -> None:
            self.array, self.streams = array, []

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()  # type: ignore[no-any-return]

        def __dlpack__(self, **options: Any) -> Any:
            self.streams.append(options.get("stream"))
            return self.array.__dlpack__(**options)

    host = numbers(6, 8).T
    x = ckdisp.to_device(host)
    assert x.__dlpack_device__() == (10, 0)
    other = Other(x)
    stream = ckdisp.Stream()
    with stream:
        y = ckdisp.from_dlpack(other)
    assert other.streams == [stream.handle] and y.address == x.address
    assert_array_equal(y.numpy(), host)
    assert y.strides == x.strides
    del x, other
    gc.collect()
    assert_array_equal(y.numpy(), host)  # the view keeps the memory
    assert_array_equal(np.from_dlpack(y, device="cpu"), host)
    for version in (None, (1, 0)):
        capsule = y.__dlpack__(max_version=version)
        name = "dltensor" if version is None else "dltensor_versioned"
        assert f'"{name}"' in repr(capsule)
    z = ckdisp.from_dlpack(Other(y.copy()))
    z.copy_from(host + 1)
    assert_array_equal(y.numpy(), host)  # a copy of its own
    bf16 = ckdisp.to_device(np.ones(3, ml_dtypes.bfloat16))
    assert ckdisp.from_dlpack(Other(bf16)).dtype_name == "bfloat16"

    import torch

    t = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T
    assert_array_equal(ckdisp.to_device(t).numpy().astype(float), t.float().numpy())


def test_exchange(on_gpu: OnGpu) -> None:
    on_gpu.run(exchange)


def two_devices() -> None:
    first, _ = ckdisp.devices()
    x = ckdisp.to_device(np.arange(5), first)
    y = ckdisp.to_device(x, "hip:1")
    assert y.device.index == 1 and y.device.arch == "gfx1201"
    assert_array_equal(y.numpy(), np.arange(5))
    y.copy_from(x[::-1])
    assert_array_equal(y.numpy(), np.arange(5)[::-1])
    assert ckdisp.empty(3, "fp8", 1).dtype_name == "float8_e4m3fn"  # that of gfx1201
    with ckdisp.Stream(1) as stream:
        assert ckdisp.current_stream(0).handle == 0 and ckdisp.current_stream(1) is stream
        y.copy_from(y.copy())
    with pytest.raises(ckdisp.InvalidArgument, match="make the event for the stream's device"):
        ckdisp.Event(0).record(stream)


def test_two_devices(on_gpu: OnGpu) -> None:
    on_gpu.run(two_devices, arch="gfx942,gfx1201")


kept: list[Any] = []


def memory_comes_back() -> None:
    arrays = [ckdisp.empty(200 << 20, "int8") for _ in range(4)]
    view = arrays[0][5:]
    for _ in range(8):  # the device has 2 GiB
        arrays = [ckdisp.empty(200 << 20, "int8") for _ in range(4)]
    assert view.nbytes == (200 << 20) - 5
    assert len(arrays) == 4
    kept.append(ckdisp.to_device(np.arange(3)))  # lives when the process ends


def test_memory_comes_back(on_gpu: OnGpu) -> None:
    on_gpu.run(memory_comes_back, EMUHIP_LEAKS="1")
