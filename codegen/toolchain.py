"""Finding a C++ compiler, telling it apart from others, and asking what it can do."""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError
from .probing import Said, compile_probe, has_content, run_compiler, takes

CXX_COMMANDS = ("c++", "g++", "clang++")
_LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")


@dataclass(frozen=True)
class Toolchain:
    """A compiler, the flags of the user, and a launcher such as ccache in front of it."""

    cxx: str
    cxx_flags: tuple[str, ...] = ()
    launcher: tuple[str, ...] = ()

    @classmethod
    def find(
        cls,
        cxx: str | None = None,
        *,
        cxx_flags: Sequence[str] | None = None,
        launcher: str | None = None,
        commands: Sequence[str] = CXX_COMMANDS,
        env: Mapping[str, str] | None = None,
    ) -> Toolchain:
        """The compiler ``cxx``, else ``$CXX``, else the first of ``commands`` on ``$PATH``.

        ``cxx`` and ``$CXX`` may carry flags or a launcher (``ccache g++ -m64``). ``cxx_flags``
        defaults to ``$CKDISP_CXXFLAGS``, ``launcher`` to ``$CKDISP_COMPILER_LAUNCHER`` or
        ``$CMAKE_CXX_COMPILER_LAUNCHER``. :class:`BuildError` tells what was tried.
        """
        env = os.environ if env is None else env
        asked, origin = (cxx, "the compiler setting") if cxx else (env.get("CXX"), "CXX")
        if asked and asked.strip():
            words = [asked] if which(asked, env) else _split(asked, origin)
            tried = [f"{origin}={asked}"]
        else:
            words = [next((c for c in commands if which(c, env)), "")]
            tried = [f"{c} on PATH" for c in commands]
        front: list[str] = []
        while words and Path(words[0]).name in _LAUNCHERS and len(words) > 1:
            name = words.pop(0)
            front.append(_must_find(name, env, [f"the launcher {name} of {origin}={asked}"]))
        path = _must_find(words[0] if words else "", env, tried)
        if launcher is None:
            launcher = env.get("CKDISP_COMPILER_LAUNCHER") or env.get("CMAKE_CXX_COMPILER_LAUNCHER")
        front += find_launcher(launcher, env)
        if cxx_flags is None:
            cxx_flags = _split(env.get("CKDISP_CXXFLAGS", ""), "CKDISP_CXXFLAGS")
        return cls(path, (*words[1:], *cxx_flags), tuple(front))

    @property
    def command(self) -> tuple[str, ...]:
        """Launcher and compiler."""
        return (*self.launcher, self.cxx)

    def accepts(self, flag: str) -> bool:
        """Whether a shared library compiles and links with ``flag``.

        :class:`BuildError` if it does not, and does not without ``flag`` either: that is no answer.
        """
        return _accepts(self.cxx, self.cxx_flags, flag, signature(self.cxx))

    def links(self) -> bool:
        """Whether a shared library compiles and links at all, now."""
        return _link(self.cxx, self.cxx_flags, False).good

    def identity(self) -> str:
        """64 hex digits over the content of the compiler and what it says of itself.

        Neither its path nor its time stamps take part; a launcher does not either.
        """
        return _identity(self.cxx, signature(real_binary(self.cxx)))

    def system_dirs(self) -> tuple[str, ...]:
        """The folders searched for ``<...>`` includes, in order."""
        search = tuple(os.environ.get(n, "") for n in ("CPATH", "CPLUS_INCLUDE_PATH"))
        return _system_dirs(self.cxx, self.cxx_flags, search)


def which(command: str, env: Mapping[str, str] | None = None) -> str | None:
    """Absolute path of an executable; empty and relative entries of ``PATH`` are passed over."""
    env = os.environ if env is None else env
    if os.path.dirname(command):
        path = os.path.abspath(command)
        return path if _executable(path) else None
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, command)
        if command and os.path.isabs(folder) and _executable(path):
            return path
    return None


def find_launcher(launcher: str | None, env: Mapping[str, str]) -> tuple[str, ...]:
    """The words of ``launcher``, ``ccache --flag`` or ``ccache;--flag``, the first as a path."""
    words = _split(launcher.replace(";", " "), "launcher") if launcher else []
    return (*(_must_find(w, env, [f"launcher {launcher}"]) for w in words[:1]), *words[1:])


def real_binary(path: str) -> str:
    """The file behind symbolic links and behind a launcher that poses as the compiler."""
    resolved = os.path.realpath(path)
    if Path(resolved).name not in _LAUNCHERS:
        return resolved
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        other = os.path.join(folder, Path(path).name)
        real = os.path.realpath(other)
        if os.path.isabs(folder) and _executable(real) and Path(real).name not in _LAUNCHERS:
            return real
    return resolved


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _split(text: str, origin: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BuildError(
            f"cannot read {origin}={text!r}: {error}; quote it as a shell would"
        ) from None


def _must_find(command: str, env: Mapping[str, str], tried: Sequence[str]) -> str:
    path = which(command, env) if command else None
    if path is None:
        raise BuildError(
            f"no usable C++ compiler: tried {', '.join(tried)}. Install one (Debian and Ubuntu: "
            "apt install g++; Fedora: dnf install gcc-c++; conda: cxx-compiler) or set CXX to its "
            "path. Without a compiler, ckdisp.Registry.prebuilt() holds the kernels of the wheel."
        )
    return path


def signature(path: str) -> tuple[int, ...]:
    """Changes with every change of the file; only keys memory of this process, never a cache."""
    try:
        stat = os.stat(path)
    except OSError:
        return ()
    return (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)


@functools.cache
def _accepts(cxx: str, flags: tuple[str, ...], flag: str, _signature: tuple[int, ...]) -> bool:
    return takes(lambda asked: _link(cxx, (*flags, flag) if asked else flags, asked), cxx, flag)


def _link(cxx: str, flags: Sequence[str], small: bool) -> Said:
    """Compile and link a shared library; one that is not ``small`` takes more room."""
    source = 'extern "C" int ckdisp_probe() { return 0; }\n'
    if not small:
        source += 'extern "C" const char ckdisp_room[1 << 16] = {1};\n'
    command = [cxx, *flags, "-shared", "-fPIC"]
    return compile_probe(command, ".cpp", source, has_content, "CXX")


@functools.cache
def _identity(cxx: str, _signature: tuple[int, ...]) -> str:
    digest = hashlib.sha256()
    inner = run_compiler([cxx, "-print-prog-name=cc1plus"]).stdout.strip()
    for path in (real_binary(cxx), inner):
        if os.path.isabs(path) and os.path.isfile(path):
            with open(path, "rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    # The first word of gcc's text is the name by which it was called.
    version = run_compiler([cxx, "--version"])
    lines = [line for line in version.stdout.splitlines() if not line.startswith("InstalledDir")]
    text = "\n".join(lines).partition(" ")[2]
    digest.update(f"{version.returncode}\n{text}".encode())
    return digest.hexdigest()


@functools.cache
def _system_dirs(cxx: str, flags: tuple[str, ...], _search: tuple[str, ...]) -> tuple[str, ...]:
    return search_dirs(cxx, *flags, "-x", "c++")


def search_dirs(*command: str) -> tuple[str, ...]:
    """The folders that a compiler, asked by ``command``, searches for ``<...>`` includes."""
    result = run_compiler([*command, "-E", "-v", "-", "-o", os.devnull])
    folders: list[str] = []
    listing = False
    for line in result.stderr.splitlines():
        if line.startswith("#include"):
            listing = True
        elif line.startswith("End of search list"):
            listing = False
        elif listing:
            folders.append(os.path.realpath(line.strip().removesuffix(" (framework directory)")))
    return tuple(dict.fromkeys(folders))


def shared_library_name(name: str) -> str:
    """The file name of the shared library ``name`` on this system."""
    return f"lib{name}.dylib" if sys.platform == "darwin" else f"lib{name}.so"
