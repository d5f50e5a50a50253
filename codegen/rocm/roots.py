"""Where ROCm may be, in the order of preference, and whether a compiler is there."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import BuildError
from ..probing import run_compiler
from ..toolchain import signature, which

SETTINGS = ("CKDISP_ROCM_PATH", "ROCM_PATH", "HIP_PATH")
DEFAULT_ROOT = "/opt/rocm"
_LLVM_FOLDERS = ("lib/llvm/bin", "llvm/bin")
_CLANGS = ("amdclang++", "clang++")
_HIP_HEADER = "include/hip/hip_runtime.h"


@dataclass(frozen=True)
class Rocm:
    """One place where ROCm was looked for; usable if ``problem`` is empty.

    ``setting`` says that a person named the place, so that it must be right. ``origin`` is how it
    was found, e.g. ``ROCM_PATH=/opt/rocm``.
    """

    origin: str
    setting: bool
    folder: str = ""
    compiler: str = ""
    flags: tuple[str, ...] = ()
    llvm_bin: str = ""
    version: str = ""
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.origin} ({self.problem})" if self.problem else self.origin


def candidates(rocm: str | None, env: Mapping[str, str]) -> Iterator[Rocm]:
    """Every place, best first; each is looked at when it is asked for."""
    if rocm:
        yield _inspect(rocm, f"the ROCm setting {rocm}", True, env)
    for name in SETTINGS:
        value = env.get(name, "").strip()
        if value:
            yield _inspect(value, f"{name}={value}", True, env)
    yield from _packages(env)
    hipcc = which("hipcc", env)
    if hipcc is None:
        yield Rocm("hipcc on PATH", False, problem="not found")
    else:
        yield _inspect(hipcc, f"{hipcc} on PATH", False, env)
    yield _inspect(DEFAULT_ROOT, DEFAULT_ROOT, False, env)


def package_folder(name: str) -> Path | None:
    """The folder of an installed Python package, which is not imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    locations = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(locations))) if locations else None


def _packages(env: Mapping[str, str]) -> Iterator[Rocm]:
    """The ROCm SDK of pip: ``rocm`` installs ``rocm_sdk`` and folders of files beside it.

    The folders may carry a suffix. ``rocm-sdk init`` unpacks the one for development.
    """
    what = "the ROCm SDK of pip"
    meta = package_folder("rocm_sdk") or package_folder("_rocm_sdk_core")
    if meta is None:
        yield Rocm(what, False, problem="not installed")
        return
    folders = [
        folder
        for pattern in ("_rocm_sdk_devel*", "_rocm_sdk_core*")
        for folder in sorted(meta.parent.glob(pattern))
        if (folder / "bin").is_dir()
    ]
    if any((meta.parent / "rocm_sdk_devel").glob("_devel.tar*")):
        yield Rocm(what, False, problem="its development files are packed; run `rocm-sdk init`")
    elif not folders:
        problem = 'holds no compiler; pip install "rocm[devel]" and run `rocm-sdk init`'
        yield Rocm(what, False, str(meta.parent), problem=problem)
    for folder in folders:
        yield _inspect(str(folder), f"{what}: {folder}", False, env)


def _inspect(place: str, origin: str, setting: bool, env: Mapping[str, str]) -> Rocm:
    """What is at ``place``, a folder that holds ROCm or a compiler inside one."""
    place = os.path.abspath(os.path.expanduser(place))
    if os.path.isfile(place):
        compiler, root = place, _root_of(place)
    else:
        compiler, root = os.path.join(place, "bin", "hipcc"), place
    if not os.path.isdir(root):
        return Rocm(origin, setting, root, problem="there is no such folder")
    llvm = _llvm_bin(root, compiler, env)
    if which(compiler) is None:
        compiler = next((p for c in _CLANGS if llvm and (p := which(os.path.join(llvm, c)))), "")
    if not compiler:
        problem = (
            f"holds neither bin/hipcc nor {' nor '.join(f'{f}/clang++' for f in _LLVM_FOLDERS)}"
        )
        return Rocm(origin, setting, root, problem=problem)
    if not os.path.isfile(os.path.join(root, _HIP_HEADER)):
        problem = f"has no HIP headers: {os.path.join(root, _HIP_HEADER)} is missing"
        return Rocm(origin, setting, root, compiler, problem=problem)
    if not llvm:
        problem = f"the clang behind {compiler} was not found; set HIP_CLANG_PATH to its folder"
        return Rocm(origin, setting, root, compiler, problem=problem)
    try:
        clang = clang_version(compiler, signature(os.path.realpath(compiler)))
    except BuildError as error:
        return Rocm(origin, setting, root, compiler, problem=str(error))
    flags = ["-x", "hip"] if os.path.basename(compiler) != "hipcc" else []
    if root != "/usr":  # there a distribution's compiler knows its parts; elsewhere ROCM_PATH may
        # name another ROCm, HIP_PATH another HIP, and /usr/include an older one.
        flags += [f"--rocm-path={root}", f"--hip-path={root}"]
        flags += ["-isystem", os.path.join(root, "include")] if flags[0] == "-x" else []
    version = f"HIP {hip_version(root)}, {clang}"
    return Rocm(origin, setting, root, compiler, tuple(flags), llvm, version)


def _root_of(compiler: str) -> str:
    """The ROCm that a compiler belongs to: the folder above with HIP's headers, else hipconfig's.

    A ``hipcc`` of a virtual environment or of a distribution may only start the real one.
    """
    real = Path(os.path.realpath(compiler))
    for folder in real.parents[1:4]:
        if (folder / _HIP_HEADER).is_file():
            return str(folder)
    hipconfig = os.path.join(os.path.dirname(compiler), "hipconfig")
    answer = _ask(hipconfig, "--rocmpath")
    return answer if os.path.isdir(answer) else str(real.parents[1])


def _llvm_bin(root: str, compiler: str, env: Mapping[str, str]) -> str:
    """The folder of the clang that ``compiler`` runs, and of the LLVM tools."""
    folders = [env.get("HIP_CLANG_PATH", "")]
    if os.path.basename(compiler) in _CLANGS:
        folders.append(os.path.dirname(os.path.realpath(compiler)))
    folders += [os.path.join(root, folder) for folder in _LLVM_FOLDERS]
    for folder in folders:
        if os.path.isabs(folder) and any(which(os.path.join(folder, c)) for c in _CLANGS):
            return folder
    answer = _ask(os.path.join(os.path.dirname(compiler), "hipconfig"), "--hipclangpath")
    return answer if which(os.path.join(answer, "clang++")) else ""


def _ask(hipconfig: str, question: str) -> str:
    if which(hipconfig) is None:
        return ""
    try:
        return run_compiler([hipconfig, question]).stdout.strip()
    except BuildError:
        return ""


@functools.cache
def clang_version(compiler: str, _signature: tuple[int, ...]) -> str:
    """``clang 22.1.8`` or ``AMD clang 20.0.0``; :class:`BuildError` if it does not run."""
    result = run_compiler([compiler, "--version"], setting="CKDISP_ROCM_PATH")
    found = re.search(r"^(.*?)clang version (\S+)", result.stdout, re.M)
    if result.returncode != 0 or found is None:
        said = (result.stderr or result.stdout).strip().splitlines() or ["it printed nothing"]
        raise BuildError(f"{compiler} --version does not answer as a clang: {said[0]}")
    vendor = "AMD " if "AMD" in found[1] else ""
    return f"{vendor}clang {found[2]}"


def hip_version(root: str) -> str:
    """``7.1.0``, of the headers below ``root``."""
    try:
        path = Path(root, "include/hip/hip_version.h")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "of unknown version"
    parts = [
        re.search(rf"#define\s+HIP_VERSION_{part}\s+(\d+)", text)
        for part in ("MAJOR", "MINOR", "PATCH")
    ]
    return ".".join(p[1] for p in parts if p is not None) or "of unknown version"
