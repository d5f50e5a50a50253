"""Calls on tensors of GPUs, on pretended devices. What HIP shows is remembered by a process, so
each case runs in its own."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import gpu_arrays
import numpy as np
import pytest
from click.testing import CliRunner
from gpu_arrays import Array, CudaArray
from naive_kernels import compile_fake_cuda, compile_fake_hip, compile_library, last_call

import ckdisp
from ckdisp.cli.app import app

pytestmark = pytest.mark.xdist_group("gpu")

RRR = "naive_fp32_fp32_rrr_passthrough_d0"


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path, Path]:
    """A library for gfx942, the same for the CPU, a HIP runtime and a CUDA driver."""
    folder = tmp_path_factory.mktemp("gpu")
    return (
        compile_library(folder / "gfx942", "libgpu.so", "-DNAIVE_ARCH=gfx942"),
        compile_library(folder / "cpu"),
        compile_fake_hip(folder),
        compile_fake_cuda(folder),
    )


Case = Callable[[Path, Path], None]


@pytest.fixture
def run(
    parts: tuple[Path, Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Runs a case in a process that sees the given devices."""

    def run(case: Case, devices: str = "gfx942:sramecc+:xnack-,gfx942", **env: str) -> None:
        gpu, cpu, hip, cuda = parts
        for name, value in {
            "CKDISP_HIP_RUNTIME": str(hip),
            "CKDISP_CUDA_DRIVER": str(cuda),
            "FAKE_HIP_DEVICES": devices,
            **env,
        }.items():
            monkeypatch.setenv(name, value)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            pool.submit(gpu_arrays.call, __file__, case.__name__, gpu, cpu).result()

    return run


def matrix(rows: int, columns: int) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(rows * 100 + columns).integers(-3, 4, (rows, columns))
    return values.astype(np.float32)


def dispatcher(library: Path) -> ckdisp.Dispatcher:
    return ckdisp.Dispatcher(ckdisp.Registry.load(library))


def arrays_in_the_same_kind_out(gpu: Path, cpu: Path) -> None:
    gpu_arrays.install("some_framework")
    disp = dispatcher(gpu)
    a, b = matrix(3, 5), matrix(4, 5).T
    first, second = Array(a, 1), Array(b, 1)
    c = disp.gemm(first, second)
    assert type(c) is Array and c.index == 1
    np.testing.assert_array_equal(c.array, a @ b)
    call = last_call(gpu)
    assert (call.a, call.b, call.c) == (a.ctypes.data, b.ctypes.data, c.array.ctypes.data)
    assert (call.device, call.stream) == (1, 0)
    assert first.streams == second.streams == [0]  # ready for the default stream
    out = Array(np.zeros((3, 4), np.float32), 1)
    assert disp.gemm(first, second, out=out, stream=0x70) is out
    np.testing.assert_array_equal(out.array, a @ b)
    assert last_call(gpu).stream == 0x70
    assert first.streams == [0, 0x70] and out.streams == [0x70]


def test_arrays_in_the_same_kind_out(run: Callable[..., None]) -> None:
    run(arrays_in_the_same_kind_out)


def the_current_stream_of_pytorch(gpu: Path, cpu: Path) -> None:
    gpu_arrays.install_torch(0x40)
    a, b = Array(matrix(3, 5), 1), Array(matrix(5, 4), 1)
    np.testing.assert_array_equal(dispatcher(gpu).gemm(a, b).array, a.array @ b.array)
    assert last_call(gpu).stream == 0x41 and a.streams == [0x41]

    class Stream:
        cuda_stream = 0x99

    dispatcher(gpu).gemm(a, b, stream=Stream())
    assert last_call(gpu).stream == 0x99 and a.streams == [0x41, 0x99]


def test_the_current_stream_of_pytorch(run: Callable[..., None]) -> None:
    run(the_current_stream_of_pytorch)


def the_c_exchange_interface(gpu: Path, cpu: Path) -> None:
    gpu_arrays.install("some_framework")
    gpu_arrays.offer_exchange(0x50)
    a, b = Array(matrix(3, 5), 1), Array(matrix(5, 4), 1)
    c = dispatcher(gpu).gemm(a, b)
    np.testing.assert_array_equal(c.array, a.array @ b.array)
    assert (last_call(gpu).device, last_call(gpu).stream, c.index) == (1, 0x51, 1)
    assert not a.streams  # nothing to wait for on the framework's own stream
    dispatcher(gpu).gemm(a, b, stream=0x70)
    assert last_call(gpu).stream == 0x70 and a.streams == [0x70]


def test_the_c_exchange_interface(run: Callable[..., None]) -> None:
    run(the_c_exchange_interface)


def refused_before_anything_runs(gpu: Path, cpu: Path) -> None:
    gpu_arrays.install("some_framework")
    disp = dispatcher(gpu)
    host, other = matrix(4, 4), matrix(4, 4)
    a, b = Array(host), Array(other)
    for arguments, options, text in [
        ((a, host), {}, "a is on device 0 and b is in the CPU's memory; move them"),
        ((host, a), {}, "a is in the CPU's memory and b is on device 0"),
        ((a, Array(other, 1)), {}, "a is on device 0 and b is on device 1"),
        ((a, b), {"out": np.zeros((4, 4), np.float32)}, "and out is in the CPU's memory"),
        ((a, b), {"d": host, "epilogue": "add"}, "and d is in the CPU's memory"),
        ((Array(matrix(8, 8)[::2, ::2]), b), {}, r"a has strides \(16, 2\), which no kernel here"),
        ((a, Array(matrix(8, 8)[::2, ::2])), {}, r"pass b\.contiguous\(\)"),
        ((a, b), {"d": Array(matrix(4, 1)), "epilogue": "clamp", "clamp": (0, 1)}, "d has strides"),
        ((a, b), {"out": a}, "C shares memory with A"),
        ((a, b), {"stream": "fast"}, "stream is 'fast'; pass a torch.cuda.Stream"),
        ((a, b), {"stream": -1}, "stream is -1"),
        ((host, other), {"stream": 0}, "in the CPU's memory; leave stream away"),
        ((a, b), {"k_batch": "2"}, "k_batch is '2'; pass the number of parts"),
        ((a, b), {"k_batch": -1}, "k_batch is -1; pass 1 or more"),
    ]:
        with pytest.raises(ckdisp.InvalidArgument, match=text):
            disp.gemm(*arguments, **options)
    with pytest.raises(ckdisp.UnsupportedProblem, match=r"cannot split K into 2 parts"):
        disp.gemm(a, b, k_batch=2)
    with pytest.raises(ckdisp.DeviceError, match="there is no device 7: device 0 is gfx942, dev"):
        disp.gemm(Array(host, 7), Array(other, 7))
    with pytest.raises(ckdisp.DeviceError, match="run on gfx942 devices, and the call is for the"):
        disp.gemm(host, other)
    with pytest.raises(ckdisp.UnsupportedProblem, match="runs on the CPU, and the call is for dev"):
        dispatcher(cpu).gemm(a, b)
    with pytest.raises(ckdisp.UnsupportedProblem, match="runs on the CPU"):
        dispatcher(cpu).gemm(a, b, kernel=RRR)
    assert last_call(gpu).a == last_call(cpu).a == 0  # nothing ran


def test_refused_before_anything_runs(run: Callable[..., None]) -> None:
    run(refused_before_anything_runs)


def convolutions_on_a_gpu_lie_channels_last(gpu: Path, cpu: Path) -> None:
    gpu_arrays.install("some_framework")
    disp = dispatcher(gpu)
    remedies = {
        1: r"{}\.transpose\(1, 2\)\.contiguous\(\)\.transpose\(1, 2\)$",
        2: r"{}\.to\(memory_format=torch\.channels_last\)",
        3: r"{}\.to\(memory_format=torch\.channels_last_3d\)",
    }
    for rank, remedy in remedies.items():
        x, w, dy = (2, 8, *[5] * rank), (6, 8, *[3] * rank), (2, 6, *[3] * rank)

        def last(shape: tuple[int, ...]) -> Array:
            stored = np.zeros((shape[0], *shape[2:], shape[1]), np.float32)
            return Array(np.moveaxis(stored, -1, 1))

        def second(shape: tuple[int, ...]) -> Array:
            return Array(np.zeros(shape, np.float32))

        calls: list[tuple[str, Callable[..., Any], tuple[int, ...], tuple[int, ...], Any]] = [
            ("x w", disp.conv_fwd, x, w, {"out": last(dy)}),
            ("dy w", disp.conv_bwd_data, dy, w, {"input_shape": x, "out": last(x)}),
            ("x dy", disp.conv_bwd_weight, x, dy, {"weight_shape": w, "out": last(w)}),
        ]
        for names, call, first, other, options in calls:
            one, two = (remedy.format(name) for name in names.split())
            order = r"has strides \(.*\), which no kernel here reads, and lies on a GPU.*"
            with pytest.raises(ckdisp.InvalidArgument, match=order + one):
                call(second(first), last(other), **options)
            with pytest.raises(ckdisp.InvalidArgument, match=order + two):
                call(last(first), second(other), **options)
            wrong = Array(np.ascontiguousarray(options["out"].array))
            with pytest.raises(ckdisp.InvalidArgument, match="order, as results are; pass out"):
                call(last(first), last(other), **options | {"out": wrong})
            with pytest.raises(ckdisp.KernelNotFound):  # the tensors are all right
                call(last(first), last(other), **options)


def test_convolutions_on_a_gpu_lie_channels_last(run: Callable[..., None]) -> None:
    run(convolutions_on_a_gpu_lie_channels_last)


def both_kinds_of_kernels_in_one_registry(gpu: Path, cpu: Path) -> None:
    gpu_arrays.install("some_framework")
    registry = ckdisp.Registry.load(gpu).filter(lambda kernel: "_rrr_" in kernel.name)
    registry.merge(ckdisp.Registry.load(cpu).filter(lambda kernel: "_rcr_" in kernel.name))
    disp = ckdisp.Dispatcher(registry)
    a, b = matrix(3, 5), matrix(5, 4)
    with pytest.raises(ckdisp.DeviceError, match=r"the kernels for gemm .* run on gfx942"):
        disp.gemm(a, b)
    np.testing.assert_array_equal(disp.gemm(a, np.asfortranarray(b)), a @ b)
    np.testing.assert_array_equal(disp.gemm(Array(a), Array(b)).array, a @ b)
    row = disp.problem(Array(a[:, :1]), Array(b[:1, :1]))  # fits every layout
    assert row.to_dict()["layout"] == "rrr"
    problem = disp.problem(a, b)
    (device, _) = ckdisp.devices()
    assert disp.select(problem, device=device).name == RRR
    assert disp.select(problem, device=0).arch == "gfx942"
    assert [s.kind for s in disp.plan(problem, device=1).stages] == ["kernel"]
    best, *others = disp.explain(problem, device=device)
    assert best.supported and best.kernel.name == RRR and not any(c.supported for c in others)


def test_both_kinds_of_kernels_in_one_registry(run: Callable[..., None]) -> None:
    run(both_kinds_of_kernels_in_one_registry)


def fp8_is_that_of_the_device(gpu: Path, cpu: Path) -> None:
    gpu_arrays.install("some_framework")
    fn, fnuz = 10, 11  # codes of float8_e4m3fn and float8_e4m3fnuz in DLPack
    disp = dispatcher(gpu)
    ones = np.ones((4, 4), np.uint8)
    old, new = Array(ones, 0, fnuz), Array(ones, 0, fn)
    assert disp.gemm(old, old).array.dtype == np.float16
    with pytest.raises(ckdisp.InvalidArgument) as caught:
        disp.gemm(old, new)
    assert str(caught.value) == (
        "b holds fp8 in the OCP encoding, and gfx942 computes with the other; convert it to "
        "float8_e4m3fnuz"
    )
    with pytest.raises(ckdisp.InvalidArgument, match=r"the FNUZ encoding, and gfx950 .*fn$"):
        disp.gemm(Array(ones, 1, fnuz), Array(ones, 1, fnuz))
    with pytest.raises(ckdisp.UnsupportedProblem, match="call is for device 1, a gfx950"):
        disp.gemm(Array(ones, 1, fn), Array(ones, 1, fn))


def test_fp8_is_that_of_the_device(run: Callable[..., None]) -> None:
    run(fp8_is_that_of_the_device, devices="gfx942,gfx950")


def devices(gpu: Path, cpu: Path) -> None:
    first, second = ckdisp.devices()
    assert (first.index, first.arch, first.target) == (0, "gfx942", "gfx942:sramecc+:xnack-")
    assert (first.name, first.wave_size, first.compute_units) == ("Fake GPU 0", 64, 38)
    assert first.memory_bytes == 1 << 30
    assert repr(second) == "<device 1: Fake GPU 1, gfx942>"
    assert ckdisp.why_no_devices() == ""
    ckdisp.free_device_workspaces()


def test_devices(run: Callable[..., None]) -> None:
    run(devices)


def a_machine_without_a_gpu(gpu: Path, cpu: Path) -> None:
    gpu_arrays.install("some_framework")
    assert ckdisp.devices() == []
    why = ckdisp.why_no_devices()
    assert why.startswith(os.environ["WHY"])
    why, cuda, _ = why.partition("; the CUDA driver (")
    assert cuda  # what kernels for AMD GPUs lack does not speak of it
    registry = ckdisp.Registry.load(gpu)
    assert {kernel.arch for kernel in registry} == {"gfx942"}
    disp = ckdisp.Dispatcher(registry)
    a, b = matrix(3, 5), matrix(5, 4)
    problem = disp.problem(a, b)
    reasons = {c.kernel.name: (c.reason, c.text) for c in disp.explain(problem)}
    reason, text = reasons[RRR]
    assert reason == "device"
    assert text == f"runs on gfx942 devices, and there is none here ({os.environ['SHORT']})"
    assert reasons[RRR.replace("rrr", "ccr")][0] == "layout"
    split = ckdisp.GemmProblem(3, 4, 5, layout="rrr", k_batch=2)
    assert {c.reason for c in disp.explain(split)} >= {"split_k"}
    for call in (
        lambda: disp.gemm(a, b),
        lambda: disp.gemm(a, b, kernel=RRR),
        lambda: disp.gemm(Array(a), Array(b)),
        lambda: disp.select(problem),
        lambda: disp.select(problem, device=0),
    ):
        with pytest.raises(ckdisp.DeviceError) as caught:
            call()
        assert why in str(caught.value)
    offline = ckdisp.Dispatcher(registry, arch="gfx942")
    assert offline.arches == ["gfx942"] and offline.select(problem).name == RRR
    assert offline.explain(problem)[0].supported
    assert len(offline.plan(problem).stages) == 1
    with pytest.raises(ckdisp.DeviceError, match="arguments are in the CPU's memory; there is no"):
        offline.gemm(a, b)
    elsewhere = ckdisp.Dispatcher(registry, arch=["gfx1100", "gfx90a"])
    with pytest.raises(ckdisp.UnsupportedProblem, match="plans for gfx1100 and gfx90a"):
        elsewhere.select(problem)
    with pytest.raises(ckdisp.InvalidKey, match="unknown arch 'gfx9'"):
        ckdisp.Dispatcher(registry, arch="gfx9")
    assert last_call(gpu).a == 0


@pytest.mark.parametrize(
    ("runtime", "why", "short"),
    [
        ("", "the HIP runtime (", "no device"),
        ("/nowhere/libamdhip64.so", "CKDISP_HIP_RUNTIME='/nowhere/lib", "no HIP runtime"),
        ("libm.so.6", "CKDISP_HIP_RUNTIME='libm.so.6' is no usable HIP", "no HIP runtime"),
        (__file__, f"CKDISP_HIP_RUNTIME='{__file__}' is no usable", "no HIP runtime"),
    ],
    ids=["no device", "no runtime", "no functions", "no library"],
)
def test_a_machine_without_a_gpu(
    run: Callable[..., None], runtime: str, why: str, short: str
) -> None:
    env = {"CKDISP_HIP_RUNTIME": runtime} if runtime else {}
    run(a_machine_without_a_gpu, devices="", WHY=why, SHORT=short, **env)


def tensors_of_nvidia_gpus(gpu: Path, cpu: Path) -> None:
    gpu_arrays.install("some_framework")
    amd, first, second = ckdisp.devices()
    assert [amd.kind, first.kind, second.kind] == ["hip", "cuda", "cuda"]
    assert (first.index, first.number, second.index, second.number) == (0, 128, 1, 129)
    assert repr(second) == "<CUDA device 1: Fake NVIDIA 1, sm_80>"
    disp = dispatcher(gpu)
    a, b = CudaArray(matrix(3, 5), 1), CudaArray(matrix(5, 4), 1)
    with pytest.raises(ckdisp.UnsupportedProblem, match="the call is for CUDA device 1, a sm_80"):
        disp.gemm(a, b)
    assert a.streams == b.streams == [1]  # DLPack's word for CUDA's default stream
    with pytest.raises(ckdisp.UnsupportedProblem, match="the call is for CUDA device 0, a sm_90a"):
        disp.select(ckdisp.GemmProblem(3, 4, 5, layout="rrr"), device=first)
    with pytest.raises(ckdisp.InvalidArgument, match="a is on CUDA device 1 and b is on device 0"):
        disp.gemm(a, Array(matrix(5, 4)))
    gone = CudaArray(matrix(3, 5), 2)
    with pytest.raises(ckdisp.DeviceError, match="there is no CUDA device 2: CUDA device 0 is"):
        disp.gemm(gone, CudaArray(matrix(5, 4), 2))


def test_tensors_of_nvidia_gpus(run: Callable[..., None]) -> None:
    run(tensors_of_nvidia_gpus, devices="gfx942", FAKE_CUDA_DEVICES="90,80")


def nothing_is_loaded_for_the_cpu(gpu: Path, cpu: Path) -> None:
    disp = dispatcher(cpu)
    registry = ckdisp.Registry.load(gpu)
    registry.merge(disp.registry)
    a, b = matrix(3, 5), matrix(5, 4)
    disp.gemm(a, b)
    disp.explain(disp.problem(a, b))
    assert len(registry) == len(disp.registry)
    assert "fake_hip" not in Path("/proc/self/maps").read_text()
    assert len(ckdisp.devices()) == 2
    assert "fake_hip" in Path("/proc/self/maps").read_text()


def test_nothing_is_loaded_for_the_cpu(run: Callable[..., None]) -> None:
    run(nothing_is_loaded_for_the_cpu)


def a_framework_without_empty(gpu: Path, cpu: Path) -> None:
    module = gpu_arrays.install("some_framework")
    module.empty = lambda shape, dtype: None  # type: ignore[attr-defined]
    a = Array(matrix(4, 4))
    with pytest.raises(ckdisp.InvalidArgument, match="cannot make a result of type Array on its"):
        dispatcher(gpu).gemm(a, Array(matrix(4, 4)))


def test_a_framework_without_empty(run: Callable[..., None]) -> None:
    run(a_framework_without_empty)


def forked(gpu: Path, cpu: Path) -> None:
    assert len(ckdisp.devices()) == 2
    pid = os.fork()
    if pid == 0:
        ok = not ckdisp.devices() and "made by fork()" in ckdisp.why_no_devices()
        try:
            gpu_arrays.install("some_framework")
            dispatcher(gpu).gemm(Array(matrix(2, 2)), Array(matrix(2, 2)))
        except ckdisp.DeviceError as error:
            ok = ok and "'spawn'" in str(error)
        else:
            ok = False
        a = matrix(2, 2)
        ok = ok and bool((dispatcher(cpu).gemm(a, a.copy()) == a @ a).all())
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_forked_process_has_no_gpu(run: Callable[..., None]) -> None:
    run(forked)


def test_the_command_line_answers_for_an_absent_arch(parts: tuple[Path, Path, Path]) -> None:
    problem = ["gemm.standard", "--shape", "3x4x5", "--layout", "rrr", "--library", str(parts[0])]
    result = CliRunner().invoke(app, ["select", *problem, "--arch", "gfx942"])
    assert (result.exit_code, result.stdout) == (0, f"{RRR}\n")
    result = CliRunner().invoke(app, ["explain", *problem, "--arch", "gfx1100", "--json"])
    assert result.exit_code == 1
    texts = {c["kernel"]: c["text"] for c in json.loads(result.stdout)["candidates"]}
    assert texts[RRR] == "was built for gfx942, and the dispatcher plans for gfx1100"
    result = CliRunner().invoke(app, ["select", *problem, "--arch", "gfx943"])
    assert result.exit_code == 2 and "did you mean 'gfx942'?" in result.stderr
