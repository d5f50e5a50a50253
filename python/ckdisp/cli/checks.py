"""The checks of ``ckdisp doctor``: one small function for each thing that ckdisp needs."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

from ..codegen.arch import Arch, arch, arches
from ..codegen.build import find_ninja
from ..codegen.compilers import refused_text
from ..codegen.errors import Error
from ..codegen.jobs import cpus, memory_mb
from ..codegen.toolchain import CXX_COMMANDS, Toolchain, which
from ..jit import cache, location
from . import cuda_checks
from .findings import FAIL, OK, WARN, Check
from .output import human_bytes, plural
from .rocm_checks import build_checks, device_checks

REQUIRED = ("numpy", "jinja2", "ninja", "filelock", "platformdirs", "click", "rich")
OPTIONAL = {
    "ml_dtypes": "bf16 and fp8 NumPy arrays",
    "torch": "PyTorch tensors; NumPy arrays work without it",
}


def all_checks() -> Iterator[Check]:
    """Every check, in the order of the report."""
    status = {}
    for find in _CHECKS:
        for check in find():
            status[check.name] = check.status
            yield check
    if status.get("prebuilt") != OK and status["compiler"] != OK:
        yield Check(
            "kernels",
            FAIL,
            "there are no prebuilt kernels, and no compiler to build any",
            "install a C++ compiler, or ckdisp with its prebuilt libraries",
        )


def _python() -> Iterator[Check]:
    version = platform.python_version()
    yield Check("python", OK, f"{platform.python_implementation()} {version}, {sys.executable}")


def _packages() -> Iterator[Check]:
    for name in REQUIRED:
        try:
            importlib.import_module(name)
        except Exception as error:  # a broken package may raise anything
            yield Check(name, FAIL, f"cannot be imported: {error}", f"pip install -U {name}")
        else:
            yield Check(name, OK, _version(name) or "of unknown version")
    for name, purpose in OPTIONAL.items():
        version = _version(name)
        todo = "" if version else f"pip install {name}, for {purpose}"
        yield Check(name, OK if version else WARN, version or "not installed", todo)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> Iterator[Check]:
    memory = memory_mb(available=True) / 1024
    yield Check(
        "machine", OK, f"{platform.machine()}, {cpus()} CPUs usable, {memory:.1f} GiB memory free"
    )


def _cpu() -> Iterator[Check]:
    variable = "CKDISP_CPU_LEVEL"
    try:
        from .. import _core
    except ImportError as error:
        yield Check("extension", FAIL, f"cannot be loaded: {error}", "install ckdisp again")
        return
    yield Check("extension", OK, _core.__file__ or "built in")
    try:
        level = arch(_core.host_arches()[0])
        threads = _core.default_num_threads()
    except Error as error:
        yield Check("cpu level", FAIL, f"{variable}={os.environ.get(variable)!r}", str(error))
        return
    forced = os.environ.get(variable)
    reports = " ".join(level.features) or "no feature that a better level needs"
    why = f"set by {variable}" if forced else f"the CPU reports {reports}{_missing(level)}"
    yield Check("cpu level", OK, f"{level.name}: {why}")
    yield Check("threads", OK, f"{threads} for CPU kernels (CKDISP_NUM_THREADS changes it)")


def _missing(level: Arch) -> str:
    """What the next better level of this kind of CPU needs beyond ``level``."""
    better = [a for a in arches().values() if level.name in a.implies and a.name != level.name]
    if not better or platform.machine().lower() not in ("x86_64", "amd64"):
        return ""
    following = min(better, key=lambda a: len(a.features))
    extra = [f for f in following.features if f not in level.features]
    return f"; {following.name} needs also {' '.join(extra)}"


def _prebuilt() -> Iterator[Check]:
    from .. import Registry

    try:
        kernels = Registry.prebuilt().kernels()
    except Error as error:
        yield Check("prebuilt", WARN, "no prebuilt kernels can be used", str(error))
        return
    by_library: dict[Path, list[str]] = {}
    for kernel in kernels:
        by_library.setdefault(Path(kernel.library.path), []).append(kernel.arch)
    parts = [
        f"{plural(len(archs), 'kernel')} for {' '.join(dict.fromkeys(archs))} in {path}"
        for path, archs in by_library.items()
    ]
    folder = next(iter(by_library)).parent
    others = [p for p in folder.glob("libckdisp_cpu_*") if p not in by_library]
    if others:
        parts.append(f"libraries for {plural(len(others), 'other level')}")
    yield Check("prebuilt", OK, "; ".join(parts))


def _compiler() -> Iterator[Check]:
    tried = ", ".join(CXX_COMMANDS)
    chosen = f"CXX={os.environ['CXX']}" if os.environ.get("CXX") else f"first of {tried} on PATH"
    try:
        toolchain = Toolchain.find()
        command = " ".join(toolchain.command)
        runs = toolchain.accepts("-std=c++20")
    except Error as error:
        yield Check("compiler", WARN, "none; only the prebuilt kernels can be used", str(error))
        return
    if not runs:
        yield Check(
            "compiler",
            WARN,
            f"{command} ({chosen}) cannot build a C++20 library",
            "set CXX to GCC 11, Clang 16 or newer; only prebuilt kernels can be used until then",
        )
        return
    yield Check("compiler", OK, f"{command} ({chosen}), C++20 works")
    if toolchain.accepts("-fopenmp"):
        yield Check("openmp", OK, "-fopenmp works: built kernels use threads")
    else:
        yield Check("openmp", WARN, *refused_text(toolchain, "-fopenmp"))


def _tools() -> Iterator[Check]:
    try:
        yield Check("ninja program", OK, find_ninja())
    except Error as error:
        yield Check("ninja program", FAIL, "not found", str(error))
    cmake = which("cmake")
    todo = "" if cmake else "pip install cmake; only C++ projects that use ckdisp need it"
    yield Check("cmake", OK if cmake else WARN, cmake or "not on PATH", todo)


def _cache() -> Iterator[Check]:
    try:
        folder = location.cache_dir()
        location.check_trust(folder)
    except Error as error:
        yield Check("cache", WARN, "kernels cannot be built on demand", str(error))
        return
    where = f"{folder} ({'CKDISP_CACHE_DIR' if os.environ.get(location.VARIABLE) else 'default'})"
    existing = next((p for p in (folder, *folder.parents) if p.exists()), folder)
    if not os.access(existing, os.W_OK | os.X_OK):
        todo = f"set {location.VARIABLE} to a folder of your own; cached kernels can still be used"
        yield Check("cache", WARN, f"{where} is not writable", todo)
        return
    if not folder.exists():
        yield Check("cache", OK, f"{where}, empty so far")
        return
    size = human_bytes(cache.stats().size)
    yield Check("cache", OK, f"{where}, {size}, writable, owner {_owner(folder)}")


def _owner(folder: Path) -> str:
    try:
        return folder.owner()
    except (KeyError, OSError, NotImplementedError):
        return f"user id {folder.stat().st_uid}"  # a user without a name, as in containers


_CHECKS = (
    *(_python, _machine, _packages, _cpu, _prebuilt, _compiler, _tools, _cache),
    *(build_checks, cuda_checks.build_checks, device_checks),
)
