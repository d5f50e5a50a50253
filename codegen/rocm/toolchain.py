"""The HIP compiler with all it needs: found once, asked often."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import BuildError
from ..probing import Said, compile_probe, run_compiler, takes
from ..toolchain import find_launcher, signature, which
from . import ck as ck_headers
from . import roots

PROBE_ARCH = "gfx942"


class NotInstalled(BuildError):
    """No ROCm or no CK Tile headers were found. A setting that is wrong raises BuildError."""


@dataclass(frozen=True)
class HipToolchain:
    """A HIP compiler, the ROCm it belongs to, and the CK Tile headers.

    ``compiler`` is ``hipcc``, or a clang that ``flags`` turn into a HIP compiler. ``origin`` and
    ``ck_origin`` say how each was found, ``passed_over`` what was tried before without success.
    """

    compiler: str
    flags: tuple[str, ...]
    root: str
    origin: str
    version: str
    llvm_bin: str
    ck_include: str
    ck_origin: str
    launcher: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def find(
        cls,
        rocm: str | None = None,
        ck: str | None = None,
        launcher: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> HipToolchain:
        """The first usable ROCm and the first usable CK Tile headers.

        ROCm: ``rocm``, ``$CKDISP_ROCM_PATH``, ``$ROCM_PATH``, ``$HIP_PATH``, the ROCm SDK of pip,
        ``hipcc`` on ``$PATH``, ``/opt/rocm``. CK: ``ck``, ``$CKDISP_CK_INCLUDE``, ROCm's own
        headers, the package ``amd-aiter``. A place that a person named must be right; any other
        that is incomplete is passed over. :class:`NotInstalled` tells what was tried,
        :class:`BuildError` what is wrong with a setting.
        """
        env = os.environ if env is None else env
        passed: list[str] = []
        found = choose_rocm(roots.candidates(rocm, env), passed)
        headers = choose_headers(ck_headers.candidates(ck, found.folder, env), passed)
        if launcher is None:
            names = ("CKDISP_COMPILER_LAUNCHER", "CMAKE_HIP_COMPILER_LAUNCHER")
            launcher = next((env[n] for n in names if env.get(n)), "")
        return cls(
            found.compiler,
            found.flags,
            found.folder,
            found.origin,
            found.version,
            found.llvm_bin,
            headers.folder,
            headers.origin,
            find_launcher(launcher, env),
            tuple(passed),
        )

    @property
    def command(self) -> tuple[str, ...]:
        """Launcher, compiler and the flags it needs to compile HIP."""
        return (*self.launcher, self.compiler, *self.flags)

    def accepts(self, *flags: str, arch: str = PROBE_ARCH) -> bool:
        """Whether an empty kernel compiles for ``arch`` with ``flags``.

        :class:`BuildError` if it does not, and does not without them either: that is no answer.
        """
        return _accepts(self.compiler, self.flags, flags, arch, self._signature())

    def check(self, arch: str = PROBE_ARCH) -> None:
        """:class:`BuildError`, with what the compiler says, unless a kernel compiles at all."""
        said = _compile(self.compiler, self.flags, arch)
        if not said.good:
            raise BuildError(
                f"{self.compiler} cannot compile an empty kernel for {arch}: {said.reason}; repair "
                f"the ROCm at {self.root} or set CKDISP_ROCM_PATH to another"
            )

    def identity(self) -> str:
        """64 hex digits over the content of compiler, linker and device libraries.

        Neither paths nor time stamps take part, nor does a launcher.
        """
        return _identity(self.compiler, self.root, self.llvm_bin, self._signature())

    def features(self) -> frozenset[str]:
        """What the CK Tile headers have, e.g. ``comp_async``; see :mod:`.ck`."""
        return ck_headers.features(self.ck_include)

    def tool(self, name: str) -> str:
        """The path of an LLVM tool such as ``llvm-objdump``."""
        for folder in (self.llvm_bin, os.path.join(self.root, "bin")):
            path = which(os.path.join(folder, name))
            if path is not None:
                return path
        raise BuildError(
            f"{name} is not in {self.llvm_bin}; install the LLVM tools of this compiler there "
            "(ROCm: the package rocm-llvm; Debian: llvm and clang-tools of the same version)"
        )

    def _signature(self) -> tuple[int, ...]:
        return (*signature(os.path.realpath(self.compiler)), *signature(_clang(self.llvm_bin)))


def choose_rocm(places: Iterable[roots.Rocm], passed: list[str]) -> roots.Rocm:
    """The first of ``places`` that is usable; those before it are added to ``passed``."""
    for place in places:
        if not place.problem:
            return place
        if place.setting:
            raise BuildError(
                f"no HIP compiler at {place.origin}: {place.problem}. Set it to the folder of a "
                "ROCm with bin/hipcc, or unset it so that ROCm is searched for"
            )
        passed.append(str(place))
    raise NotInstalled(
        f"no usable HIP compiler: tried {', '.join(roots.SETTINGS)} (not set), "
        f'{", ".join(passed)}. Install ROCm, or `pip install "rocm[devel]"` and run `rocm-sdk '
        "init`, or set CKDISP_ROCM_PATH to the folder of a ROCm with bin/hipcc. Kernels for CPUs "
        "need no HIP compiler"
    )


def choose_headers(places: Iterable[ck_headers.Headers], passed: list[str]) -> ck_headers.Headers:
    """The first of ``places`` that is usable; those before it are added to ``passed``."""
    tried = []
    for place in places:
        if not place.problem:
            return place
        if place.setting:
            raise BuildError(
                f"no CK Tile headers at {place.origin}: {place.problem}. Set it to the include "
                "folder of Composable Kernel, or unset it so that the headers are searched for"
            )
        passed.append(str(place))
        tried.append(str(place))
    raise NotInstalled(
        f"no CK Tile headers: tried {ck_headers.SETTING} (not set), {', '.join(tried)}. Install "
        "the package composable-kernel of ROCm, or `pip install --no-deps amd-aiter`, or set "
        f"{ck_headers.SETTING} to the include folder of Composable Kernel"
    )


def _clang(llvm_bin: str) -> str:
    return os.path.realpath(os.path.join(llvm_bin, "clang++"))


@functools.cache
def _accepts(
    compiler: str,
    own: tuple[str, ...],
    flags: tuple[str, ...],
    arch: str,
    _signature: tuple[int, ...],
) -> bool:
    def ask(asked: bool) -> Said:
        return _compile(compiler, (*own, *flags) if asked else own, arch, small=asked)

    return takes(ask, compiler, " ".join(flags))


def _compile(compiler: str, flags: Sequence[str], arch: str, *, small: bool = True) -> Said:
    """Compile an empty kernel; one that is not ``small`` takes more room."""
    source = "__attribute__((global)) void ckdisp_probe() {}\n"
    if not small:
        source += "__attribute__((device, used)) char ckdisp_room[1 << 16] = {1};\n"
    command = [compiler, f"--offload-arch={arch}", "--offload-device-only", *flags, "-c"]
    return compile_probe(command, ".hip", source, os.path.isfile, "CKDISP_ROCM_PATH")


@functools.cache
def _identity(compiler: str, root: str, llvm_bin: str, _signature: tuple[int, ...]) -> str:
    digest = hashlib.sha256()
    files = [Path(os.path.realpath(compiler)), Path(_clang(llvm_bin))]
    files += [Path(os.path.realpath(os.path.join(llvm_bin, "ld.lld")))]
    files += device_libraries(root, llvm_bin)
    for path in files:
        if path.is_file():
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    # A clang that is a thin program over shared libraries is told apart by what it says.
    version = run_compiler([compiler, "--version"], setting="CKDISP_ROCM_PATH")
    lines = [
        line
        for line in version.stdout.splitlines()
        if not line.startswith(("InstalledDir", "Configuration file"))
    ]
    digest.update("\n".join([str(version.returncode), roots.hip_version(root), *lines]).encode())
    return digest.hexdigest()


def device_libraries(root: str, llvm_bin: str) -> list[Path]:
    """The bitcode that clang links into every kernel, from where it looks first."""
    llvm = Path(llvm_bin).parent
    for folder in (
        Path(root, "amdgcn/bitcode"),
        *sorted(llvm.glob("lib/clang/*/lib/amdgcn/bitcode")),
        llvm / "amdgcn/bitcode",
    ):
        found = sorted(folder.glob("*.bc"))
        if found:
            return found
    return []
