"""The toolchain's HIP runtime without a GPU: no device, emulated devices, trace, faults."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import amd
import pytest

pytestmark = pytest.mark.xdist_group("hip_stub")  # the fixtures are made once

# Each test's script runs in a process of its own: the stub must not be in the process of others.
PRELUDE = """
import ctypes, os
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_void_p

hip = ctypes.CDLL(os.environ["CKDISP_HIP_RUNTIME"])
hip.hipGetErrorName.restype = c_char_p
hip.hipGetErrorString.restype = c_char_p

def name(error):
    return hip.hipGetErrorName(error).decode()

def ok(error):
    assert error == 0, name(error)

def image(path):
    return ctypes.create_string_buffer(open(path, "rb").read())

def load(path):
    module = c_void_p()
    return name(hip.hipModuleLoadData(byref(module), image(path))), module

def function(module, wanted):
    found = c_void_p()
    return name(hip.hipModuleGetFunction(byref(found), module, wanted)), found

def launch(found, grid=(1, 1, 1), block=(64, 1, 1), lds=0, stream=None, values=()):
    pointers = (c_void_p * max(1, len(values)))(*(ctypes.addressof(v) for v in values))
    return name(hip.hipModuleLaunchKernel(found, *grid, *block, lds, stream, pointers, None))

VALUES = [c_void_p(0x1122334455667788), c_void_p(2), c_int(3), ctypes.c_short(4)]
"""


def run(script: str, **environment: object) -> list[str]:
    texts = {name: str(value) for name, value in environment.items()}
    return amd.run_with_stub(PRELUDE + textwrap.dedent(script), **texts).split()


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("code")
    amd.compile_kernels(folder / "elf", "gfx942", flags=("--no-gpu-bundle-output",))
    amd.compile_kernels(folder / "bundle", "gfx942", "gfx1100")
    amd.compile_kernels(folder / "small", "gfx942", "gfx1100", flags=("--offload-compress",))
    assert (folder / "small").read_bytes()[:4] == b"CCOB"
    return folder


def test_no_device_by_default() -> None:
    script = """
    count, memory = c_int(7), c_void_p()
    print(name(hip.hipGetDeviceCount(byref(count))), count.value)
    for status in (hip.hipMalloc(byref(memory), 4), hip.hipSetDevice(0), hip.hipDeviceSynchronize(),
                   hip.hipGraphDestroy(None), hip.hipModuleLoadData(byref(memory), image(KERNEL))):
        print(name(status))
    print(name(hip.hipGetLastError()), name(hip.hipGetLastError()))
    """.replace("KERNEL", repr(str(Path(__file__))))
    none = "hipErrorNoDevice"
    expected = [none, "0", *[none] * 6, "hipSuccess"]
    assert run(script, CKDISP_STUB_DEVICES="") == expected


def test_properties_of_emulated_devices() -> None:
    script = """
    class Properties(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char * 256), ("rest", ctypes.c_char * 4000)]
    count = c_int()
    ok(hip.hipGetDeviceCount(byref(count)))
    for device in range(count.value):
        ok(hip.hipSetDevice(device))
        now, wave, units, major = c_int(), c_int(), c_int(), c_int()
        ok(hip.hipGetDevice(byref(now)))
        for attribute, value in ((87, wave), (63, units), (23, major)):
            ok(hip.hipDeviceGetAttribute(byref(value), attribute, device))
        properties = Properties()
        ok(hip.hipGetDevicePropertiesR0600(byref(properties), device))
        target = b"gfx942:sramecc+:xnack-\\0" if device == 0 else b"gfx1201\\0"
        assert target in bytes(properties)
        print(now.value, wave.value, units.value, major.value)
    print(name(hip.hipSetDevice(count.value)), name(hip.hipSetDevice(-1)))
    """
    invalid = "hipErrorInvalidDevice"
    expected = ["0", "64", "304", "9", "1", "32", "32", "12", invalid, invalid]
    assert run(script, CKDISP_STUB_DEVICES="gfx942:sramecc+:xnack-,gfx1201") == expected


def test_memory_is_host_memory_with_bounds(tmp_path: Path) -> None:
    script = """
    memory = c_void_p()
    ok(hip.hipMalloc(byref(memory), c_size_t(64)))
    source = ctypes.create_string_buffer(b"x" * 64, 64)
    ok(hip.hipMemcpy(memory, source, c_size_t(64), 1))
    ok(hip.hipMemset2DAsync(memory, c_size_t(16), 0x61, c_size_t(4), c_size_t(4), None))
    print(ctypes.string_at(memory, 20).decode())
    print(name(hip.hipMemcpy(memory, source, c_size_t(65), 1)))
    print(name(hip.hipMemsetAsync(c_void_p(memory.value + 1), 0, c_size_t(64), None)))
    print(name(hip.hipMemset(source, 0, c_size_t(64))))
    print(name(hip.hipMalloc(byref(c_void_p()), c_size_t(1 << 60))))
    kind = (c_int * 12)()
    ok(hip.hipPointerGetAttributes(kind, c_void_p(memory.value + 5)))
    print(kind[0], kind[1])
    ok(hip.hipPointerGetAttributes(kind, source))
    print(kind[0])
    ok(hip.hipFree(memory))
    print(name(hip.hipFree(memory)), name(hip.hipFree(None)))
    """
    trace = tmp_path / "trace"
    bad = "hipErrorInvalidValue"
    output = run(script, CKDISP_STUB_DEVICES="gfx942", CKDISP_STUB_TRACE=trace)
    assert output == [
        *("aaaaxxxxxxxxxxxxaaaa", bad, bad, "hipSuccess", "hipErrorOutOfMemory"),
        *("2", "0", "0", bad, "hipSuccess"),
    ]
    shapes = [(e["value"], e["pitch"], e["width"], e["height"]) for e in amd.read_trace(trace)]
    assert shapes == [(0x61, 16, 4, 4), (0, 64, 64, 1)]


def test_streams_and_events_are_checked() -> None:
    script = """
    stream, start, stop, untimed = c_void_p(), c_void_p(), c_void_p(), c_void_p()
    ok(hip.hipStreamCreateWithFlags(byref(stream), 1))
    for event, flags in ((start, 0), (stop, 0), (untimed, 2)):
        ok(hip.hipEventCreateWithFlags(byref(event), flags))
    elapsed = c_float(-1)
    print(name(hip.hipEventElapsedTime(byref(elapsed), start, stop)))
    for event in (start, stop, untimed):
        ok(hip.hipEventRecord(event, stream))
    ok(hip.hipStreamWaitEvent(None, stop, 0))
    ok(hip.hipEventElapsedTime(byref(elapsed), start, stop))
    print(elapsed.value >= 0)
    print(name(hip.hipEventElapsedTime(byref(elapsed), start, untimed)))
    ok(hip.hipStreamDestroy(stream))
    print(name(hip.hipStreamSynchronize(stream)), name(hip.hipStreamDestroy(stream)))
    ok(hip.hipEventDestroy(start))
    print(name(hip.hipEventRecord(start, None)), name(hip.hipEventQuery(c_void_p(5))))
    """
    bad = "hipErrorInvalidHandle"
    assert run(script, CKDISP_STUB_DEVICES="gfx942") == [bad, "True", bad, *[bad] * 4]


@pytest.mark.parametrize("form", ["elf", "bundle", "small"])
def test_launches_are_recorded(code: Path, tmp_path: Path, form: str) -> None:
    script = """
    status, module = load(PATH)
    assert status == "hipSuccess", status
    print(function(module, b"absent")[0])
    status, found = function(module, b"multiply")
    assert status == "hipSuccess", status
    stream = c_void_p()
    ok(hip.hipStreamCreateWithFlags(byref(stream), 0))
    print(launch(found, (5, 2, 1), (256, 1, 1), 1024, stream, VALUES))
    print(launch(found, block=(257, 1, 1), values=VALUES))
    print(launch(found, grid=(0, 1, 1), values=VALUES))
    print(launch(found, lds=65537, values=VALUES))
    print(launch(found, stream=c_void_p(99), values=VALUES))
    ok(hip.hipModuleUnload(module))
    print(launch(found, values=VALUES))
    """
    trace = tmp_path / "trace"
    text = script.replace("PATH", repr(str(code / form)))
    output = run(text, CKDISP_STUB_DEVICES="gfx942", CKDISP_STUB_TRACE=trace)
    shape, handle = "hipErrorInvalidConfiguration", "hipErrorInvalidHandle"
    assert output == [
        *("hipErrorNotFound", "hipSuccess", shape, shape, shape, handle, handle),
    ]
    loaded, launched = amd.read_trace(trace)
    assert (loaded["module"], loaded["error"]) == ("gfx942", 0)
    assert (launched["function"], launched["device"]) == ("multiply", 0)
    assert (launched["grid"], launched["block"]) == ([5, 2, 1], [256, 1, 1])
    assert launched["lds"] == 1024 and launched["stream"] != "0x0"
    # The arguments lie at the offsets that the compiler gave them.
    assert launched["args"] == "8877665544332211" + "02" + "00" * 7 + "03000000" + "0400"


def test_arguments_in_a_buffer(code: Path, tmp_path: Path) -> None:
    script = """
    status, module = load(PATH)
    status, found = function(module, b"copy")
    for size in (16, 24, 8):
        buffer = ctypes.create_string_buffer(bytes(range(24)), 24)
        length = c_size_t(size)
        extra = (c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(length), 3)
        print(name(hip.hipModuleLaunchKernel(found, *(1,) * 6, 0, None, None, extra)))
    """
    trace = tmp_path / "trace"
    text = script.replace("PATH", repr(str(code / "elf")))
    output = run(text, CKDISP_STUB_DEVICES="gfx942", CKDISP_STUB_TRACE=trace)
    assert output == ["hipSuccess", "hipSuccess", "hipErrorInvalidValue"]
    launches = [entry["args"] for entry in amd.read_trace(trace) if "args" in entry]
    assert launches == [bytes(range(16)).hex(), bytes(range(24)).hex()]


@pytest.mark.parametrize("form", ["elf", "bundle", "small"])
def test_code_of_another_arch_is_refused(code: Path, form: str) -> None:
    text = f"print(load({str(code / form)!r})[0])"
    assert run(text, CKDISP_STUB_DEVICES="gfx90a") == ["hipErrorNoBinaryForGpu"]


def test_code_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no code object at all, but long enough to be read")
    text = f"print(load({str(tmp_path / 'text')!r})[0])"
    assert run(text, CKDISP_STUB_DEVICES="gfx942") == ["hipErrorInvalidImage"]


def test_each_device_has_its_entry_of_a_bundle(code: Path) -> None:
    script = """
    for device in (0, 1):
        ok(hip.hipSetDevice(device))
        status, module = load(PATH)
        print(status, function(module, b"multiply")[0])
    """
    text = script.replace("PATH", repr(str(code / "bundle")))
    assert run(text, CKDISP_STUB_DEVICES="gfx1100,gfx942") == ["hipSuccess"] * 4


def test_faults_are_injected() -> None:
    script = """
    def fails():
        memory = c_void_p()
        return name(hip.hipMalloc(byref(memory), c_size_t(4)))
    print(fails(), fails(), fails())
    print(name(hip.hipDeviceSynchronize()), name(hip.hipGraphDestroy(None)))
    print(name(hip.hipDeviceReset()))
    """
    faults = "hipMalloc:2@2,hipDeviceSynchronize:719,hipGraphDestroy:1"
    output = run(script, CKDISP_STUB_DEVICES="gfx942", CKDISP_STUB_FAIL=faults)
    assert output == [
        *("hipSuccess", "hipErrorOutOfMemory", "hipSuccess"),
        *("hipErrorLaunchFailure", "hipErrorInvalidValue", "hipErrorNotSupported"),
    ]


def test_kernels_registered_by_the_compiler(tmp_path: Path) -> None:
    """A library made by plain hipcc with <<<>>>, as CK's own examples are."""
    source = tmp_path / "library.hip"
    source.write_text(
        "#include <hip/hip_runtime.h>\n"
        "__global__ void copy(int* to, int* from) { *to = *from; }\n"
        'extern "C" int launch(int blocks) { copy<<<blocks, 64>>>(nullptr, nullptr); '
        "return hipGetLastError(); }\n"
    )
    library = tmp_path / "library.so"
    command = [*amd.toolchain().command, "--offload-arch=gfx942", "-O1", "-shared", "-fPIC"]
    subprocess.run([*command, source, "-o", library], check=True)
    script = f"print(name(ctypes.CDLL({str(library)!r}).launch(3)))"
    trace = tmp_path / "trace"
    assert run(script, CKDISP_STUB_DEVICES="gfx942", CKDISP_STUB_TRACE=trace) == ["hipSuccess"]
    (launched,) = amd.read_trace(trace)
    assert launched["function"].startswith("_Z4copy") and launched["grid"] == [3, 1, 1]
