"""nvcc with all it needs: found once, asked often."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import BuildError
from ..probing import run_compiler
from ..toolchain import find_launcher, signature, which

SETTING, SHARED_SETTINGS = "CKDISP_CUDA_PATH", ("CUDA_HOME", "CUDA_PATH")
CUTLASS_SETTING = "CKDISP_CUTLASS_INCLUDE"
_DEFAULT_ROOT = "/usr/local/cuda"
_OLDEST_CUDA, _OLDEST_CUTLASS = (12, 3), (4, 2)


class NotInstalled(BuildError):
    """No nvcc or no CUTLASS was found. A setting that is wrong raises BuildError."""


@dataclass(frozen=True)
class Place:
    """A folder that may hold what is looked for, and what is wrong with it.

    ``setting`` says that a person named it.
    """

    folder: str
    origin: str
    setting: bool = False
    problem: str = ""
    version: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.folder} ({self.origin})" + (f": {self.problem}" if self.problem else "")


@dataclass(frozen=True)
class CudaToolchain:
    """nvcc, the CUDA toolkit it belongs to, and the headers of CUTLASS.

    ``origin`` and ``cutlass_origin`` say how each was found, ``passed_over`` what was tried before
    without success.
    """

    root: str
    origin: str
    version: tuple[int, ...]
    cutlass_include: str
    cutlass_origin: str
    cutlass_version: tuple[int, ...]
    launcher: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def find(
        cls,
        cuda: str | None = None,
        cutlass: str | None = None,
        launcher: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> CudaToolchain:
        """The first usable nvcc and the first usable headers of CUTLASS.

        nvcc: ``cuda``, ``$CKDISP_CUDA_PATH``, ``$CUDA_HOME``, ``$CUDA_PATH``, the wheels of pip,
        ``nvcc`` on ``$PATH``, ``/usr/local/cuda``. CUTLASS: ``cutlass``,
        ``$CKDISP_CUTLASS_INCLUDE``, the package ``nvidia-cutlass``. A place that a person named
        must be right; any other that is incomplete is passed over. :class:`NotInstalled` tells
        what was tried, :class:`BuildError` what is wrong with a setting.
        """
        env = os.environ if env is None else env
        passed: list[str] = []
        root = _choose("nvcc", cuda_places(cuda, env), passed, SETTING, HELP_CUDA)
        headers = _choose(
            "CUTLASS", cutlass_places(cutlass, env), passed, CUTLASS_SETTING, HELP_CUTLASS
        )
        if launcher is None:
            names = ("CKDISP_COMPILER_LAUNCHER", "CMAKE_CUDA_COMPILER_LAUNCHER")
            launcher = next((env[n] for n in names if env.get(n)), "")
        return cls(
            root.folder,
            root.origin,
            root.version,
            headers.folder,
            headers.origin,
            headers.version,
            find_launcher(launcher, env),
            tuple(passed),
        )

    @property
    def nvcc(self) -> str:
        return os.path.join(self.root, "bin", "nvcc")

    @property
    def command(self) -> tuple[str, ...]:
        """Launcher and compiler."""
        return (*self.launcher, self.nvcc)

    @property
    def include_dirs(self) -> tuple[str, ...]:
        """Where a C++ compiler finds the headers of CUTLASS and CUDA."""
        include = os.path.join(self.root, "include")
        return (self.cutlass_include, include, os.path.join(include, "cccl"))

    def identity(self) -> str:
        """64 hex digits over the content of the compilers; neither paths nor time stamps."""
        return _identity(self.root, signature(os.path.realpath(self.nvcc)))


def cuda_places(cuda: str | None, env: Mapping[str, str]) -> Iterator[Place]:
    """Where a CUDA toolkit may be, in order."""
    if cuda:
        yield _cuda(cuda, "the CUDA setting", True)
    for name in (SETTING, *SHARED_SETTINGS):
        if env.get(name):
            yield _cuda(env[name], name, True)
    for folder in _package_folders("nvidia"):
        for root in sorted(Path(folder).glob("cu[0-9]*"), reverse=True):
            yield _cuda(str(root), "the Python package nvidia-cuda-nvcc", False)
    found = which("nvcc", env)
    if found:
        yield _cuda(os.path.dirname(os.path.dirname(os.path.realpath(found))), "PATH", False)
    yield _cuda(_DEFAULT_ROOT, "the usual place", False)


def cutlass_places(cutlass: str | None, env: Mapping[str, str]) -> Iterator[Place]:
    """Where the headers of CUTLASS may be, in order."""
    if cutlass:
        yield _cutlass(cutlass, "the CUTLASS setting", True)
    if env.get(CUTLASS_SETTING):
        yield _cutlass(env[CUTLASS_SETTING], CUTLASS_SETTING, True)
    for folder in _package_folders("cutlass_library"):
        include = os.path.join(folder, "source", "include")
        yield _cutlass(include, "the Python package nvidia-cutlass", False)


HELP_CUDA = (
    "Install CUDA 13, or `pip install nvidia-cuda-nvcc nvidia-nvvm nvidia-cuda-crt "
    "nvidia-cuda-runtime nvidia-cuda-cccl` of one version, or set CKDISP_CUDA_PATH to the folder "
    "of a toolkit with bin/nvcc. Kernels for CPUs need none"
)
HELP_CUTLASS = (
    "`pip install --no-deps nvidia-cutlass==4.2.0.0`, or set CKDISP_CUTLASS_INCLUDE to the include "
    "folder of a CUTLASS 4.2 or later"
)


def _package_folders(name: str) -> list[str]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or ()) if spec is not None else []


def _cuda(folder: str, origin: str, setting: bool) -> Place:
    folder = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(folder):
        return Place(folder, origin, setting, "there is no such folder")
    for path in ("bin/nvcc", "include/cuda.h", "include/crt", "include/cccl/cuda"):
        if not os.path.exists(os.path.join(folder, path)):
            return Place(folder, origin, setting, f"it has no {path}")
    version = _macro(Path(folder, "include/cuda.h"), "CUDA_VERSION")
    numbers = (version // 1000, version % 1000 // 10)
    if numbers < _OLDEST_CUDA:
        return Place(folder, origin, setting, f"it is CUDA {dotted(numbers)}, which is too old")
    return Place(folder, origin, setting, "", numbers)


def _cutlass(folder: str, origin: str, setting: bool) -> Place:
    folder = os.path.abspath(os.path.expanduser(folder))
    header = Path(folder, "cutlass/version.h")
    if not header.is_file():
        return Place(folder, origin, setting, "it has no cutlass/version.h")
    numbers = (_macro(header, "CUTLASS_MAJOR"), _macro(header, "CUTLASS_MINOR"))
    if numbers < _OLDEST_CUTLASS:
        return Place(folder, origin, setting, f"it is CUTLASS {dotted(numbers)}, 4.2 is needed")
    return Place(folder, origin, setting, "", numbers)


def _macro(path: Path, name: str) -> int:
    """The number that a header defines ``name`` as; 0 if it does not."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    found = re.search(rf"^#define\s+{name}\s+(\d+)", text, re.MULTILINE)
    return int(found[1]) if found is not None else 0


def dotted(version: tuple[int, ...]) -> str:
    """``13.0``: a version as messages have it."""
    return ".".join(map(str, version))


def _choose(
    what: str, places: Iterator[Place], passed: list[str], setting: str, remedy: str
) -> Place:
    """The first of ``places`` that is usable; those before it are added to ``passed``."""
    tried = []
    for place in places:
        if not place.problem:
            return place
        if place.setting:
            raise BuildError(
                f"no {what} at {place.origin}={place.folder}: {place.problem}. Correct the "
                "setting, or unset it so that it is searched for"
            )
        tried.append(str(place))
    passed += tried
    raise NotInstalled(
        f"no usable {what}: tried {setting} (not set){''.join(f', {t}' for t in tried)}. {remedy}"
    )


@functools.cache
def _identity(root: str, _signature: tuple[int, ...]) -> str:
    digest = hashlib.sha256()
    for path in ("bin/nvcc", "bin/ptxas", "bin/cudafe++", "nvvm/bin/cicc"):
        file = Path(root, path)
        if file.is_file():
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    version = run_compiler([os.path.join(root, "bin", "nvcc"), "--version"], setting=SETTING)
    digest.update(f"{version.returncode}\n{version.stdout}".encode())
    return digest.hexdigest()
