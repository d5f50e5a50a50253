"""Run functions of test modules on an AMD GPU: an emulated one, or a real one.

A process has one HIP runtime, so the part of a test that uses the device is a function of the test
module that runs in a process of its own::

    def products(rows: int) -> float:              # in the other process
        kernels = ckdisp.KernelSet.sweep("gemm.standard", "gfx942", where={...})
        dispatcher = ckdisp.Dispatcher(kernels.build())
        a, b = ..., ...
        c = dispatcher.gemm(gpu(a), gpu(b))        # from gpu_memory import gpu
        np.testing.assert_allclose(c.numpy(), a @ b)
        return 3.5                                 # what can be pickled comes back

    @pytest.mark.xdist_group("gpu_values")         # a group compiles its kernels once
    def test_products(on_gpu: OnGpu) -> None:
        assert on_gpu.run(products, 5, arch="gfx942") == 3.5

What the function raises, and how its process ended, is the failure of the test; its output is part
of the message. Put many cases into one function: a process takes a second to start. Kernels are
built into the cache that all tests share (``CKDISP_TEST_CACHE`` names one that outlives the run).

The emulated device is that of ``make amd-emulator``. With ``CKDISP_TEST_GPU=found``, as in
``make test-gpu``, functions run on the machine's own GPU if it has one, and those for other archs
are skipped. Tests that use the fixture have the mark ``gpu``.
"""

from __future__ import annotations

import atexit
import functools
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import amd
import pytest

ROOT = Path(__file__).resolve().parent.parent
EMULATOR = ROOT / "tools" / "amd_emulator"
# Lines of output that are shown of a process that failed.
_TAIL = 80


def emulator_prefix() -> Path:
    """Where ``make amd-emulator`` installed to, or a skipped test."""
    prefix = Path(os.environ.get("CKDISP_AMD_EMULATOR") or ROOT / ".amd-emulator")
    if not (prefix / "lib" / "libamdhip64.so.7").exists():
        amd.missing(f"there is no emulated AMD GPU at {prefix}; `make amd-emulator` installs one")
    _renew(prefix)
    return prefix


@functools.cache
def _renew(prefix: Path) -> None:
    """The library of the sources at hand; nothing happens when it is the installed one."""
    root = amd.toolchain().root
    command = [sys.executable, str(EMULATOR / "install.py"), str(prefix), "--rocm", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@functools.cache
def emulated(prefix: Path) -> Mapping[str, str]:
    """The environment of a process with the emulated device, but for its arch."""
    common = {
        "AMDEMU_WHEEL": str(prefix / "tables"),
        "AMDEMU_CACHE": str(prefix / "cache"),
        "EMUHIP_PYTHON": sys.executable,
        "EMUHIP_WORKER": str(EMULATOR / "hip" / "worker.py"),
    }
    return {
        **common,
        "CKDISP_HIP_RUNTIME": str(prefix / "lib" / "libamdhip64.so.7"),
        "EMUHIP_SERVER": _start_server(common),
        "EMUHIP_STICKY": "0",  # a kernel that failed does not make later calls fail
        "EMUHIP_CUS": "16",
    }


def _start_server(environment: Mapping[str, str]) -> str:
    """The socket of a process that has the emulator ready; it ends with this one."""
    folder = tempfile.TemporaryDirectory(prefix="ckdisp-emu")
    socket = f"{folder.name}/socket"
    log = Path(folder.name, "log")
    command = [sys.executable, environment["EMUHIP_WORKER"], "--server", socket]
    with log.open("w") as output:
        server = subprocess.Popen(command, env={**os.environ, **environment}, stderr=output)

    def end() -> None:
        server.terminate()
        server.wait()
        folder.cleanup()

    atexit.register(end)
    while not os.path.exists(socket):
        assert server.poll() is None, f"the emulator does not start:\n{log.read_text()}"
        time.sleep(0.02)
    return socket


@functools.cache
def real_devices() -> list[str]:
    """Archs of the AMD GPUs of this machine, of which there may be none."""
    script = "import ckdisp; print(*[d.arch for d in ckdisp.devices()])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [word for word in done.stdout.split() if word.startswith("gfx")]


@dataclass(frozen=True)
class OnGpu:
    """Runs functions on devices; ``cache`` is the folder of compiled kernels."""

    cache: Path

    def environment(self, arch: str) -> dict[str, str]:
        """Variables of a process that sees a device of ``arch`` ("gfx942,gfx1201": two)."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("EMUHIP_")}
        root = {"ROCM_PATH": str(amd.toolchain().root), "CKDISP_CACHE_DIR": str(self.cache)}
        found = real_devices() if os.environ.get("CKDISP_TEST_GPU") == "found" else []
        if found:
            if found[: arch.count(",") + 1] != arch.split(","):
                pytest.skip(f"the GPUs here are {', '.join(found)}; the test is for {arch}")
            return {**clean, **root}
        clean.pop("HIP_VISIBLE_DEVICES", None)
        return {**clean, **root, **emulated(emulator_prefix()), "EMUHIP_ARCH": arch}

    def run(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        arch: str = "gfx942",
        timeout: float = 1200,
        **environment: str,
    ) -> Any:
        """What ``function(*arguments)`` returns in a process that has a device of ``arch``."""
        __tracebackhide__ = True
        with tempfile.TemporaryDirectory(prefix="ckdisp-gpu") as folder:
            call, answer = Path(folder, "call"), Path(folder, "answer")
            file = sys.modules[function.__module__].__file__
            call.write_bytes(pickle.dumps((file, function.__name__, arguments)))
            command = [sys.executable, __file__, str(call), str(answer)]
            variables = {**self.environment(arch), **environment}
            try:
                done = subprocess.run(
                    command,
                    env=variables,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    timeout=timeout,
                    check=False,
                )
            except subprocess.TimeoutExpired as late:
                output = (late.stdout or b"").decode(errors="replace")
                pytest.fail(f"{function.__name__} took over {timeout} s on {arch}:\n{output}")
            if done.returncode == 0:
                return pickle.loads(answer.read_bytes())
            how = f"exit status {done.returncode}"
            if done.returncode < 0:
                how = f"signal {-done.returncode}"
            output = "\n".join(done.stdout.splitlines()[-_TAIL:])
            pytest.fail(f"{function.__name__} on {arch} ended with {how}:\n{output}")


def _main(call: str, answer: str) -> None:
    """In the other process: call the function that ``call`` names, write what it returns."""
    import faulthandler

    from gpu_arrays import load_module

    faulthandler.enable()
    file, name, arguments = pickle.loads(Path(call).read_bytes())
    result = getattr(load_module(file), name)(*arguments)
    Path(answer).write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    _main(*sys.argv[1:])
