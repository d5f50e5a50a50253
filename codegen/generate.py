"""``generate``: write a folder that builds a kernel library, touching only what changed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import cuda as nvidia
from . import rocm
from . import seal as seal_module
from .arch import arch
from .check import checked_keys
from .compilers import (
    LeftOut,
    check_group,
    find_cuda,
    find_cxx,
    find_hip,
    split,
    targets_of,
    warn_of_refused,
)
from .emit.cmake import RESERVED_TARGETS, cmake_text
from .emit.files import write_atomic
from .emit.graph import ninja_text
from .emit.makefile import flags_text, makefile_text
from .emit.manifest import compile_commands_text, manifest_text, read_manifest
from .emit.ownership import check_folder, stale_files
from .emit.templates import render
from .emit.tree import LIBRARY_SOURCE, Regenerate, Tree, make_tree, needs
from .emit.unit import CPP_MARKER, TEXT_MARKER, bundle_text, symbol, unit_text
from .enums import unknown
from .errors import BuildError, InvalidKey
from .headers import missing_headers, own_include_dirs
from .key import KernelKey
from .locks import acquire
from .providers import COMPILER_FILE, Setup, provider
from .rocm import HipToolchain
from .toolchain import Toolchain
from .version import VERSION

EMITTERS = ("ninja", "cmake", "make")
MISSING = ("error", "skip")
_LIBRARY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class GenerateResult:
    """What :func:`generate` did to the folder, as paths relative to it.

    ``left_out`` are the kernels that cannot be built here, with ``missing="skip"``.
    """

    folder: Path
    library: str
    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()


def generate(
    kernels: Iterable[KernelKey],
    out: str | os.PathLike[str],
    emit: Collection[str] = EMITTERS,
    *,
    name: str = "ckdisp_kernels",
    group: str | None = None,
    archs: Sequence[str] = (),
    missing: str = "error",
    toolchain: Toolchain | None = None,
    hip: HipToolchain | None = None,
    cuda: nvidia.CudaToolchain | None = None,
    include_dirs: Sequence[str | os.PathLike[str]] | None = None,
    regenerate: Regenerate | None = None,
) -> GenerateResult:
    """Write one unit per kernel, the registration unit, the build files and the manifest.

    ``emit`` names the build files wanted: ``ninja`` (with ``compile_commands.json``), ``cmake``,
    ``make``; those written before and not named now are removed. ``name`` is the library.
    ``include_dirs`` are the folders with ckdisp's C++ headers, by default those of this package.
    ``group="tile"`` compiles GPU kernels that share a tile together: less work in all, more for
    one kernel that changes. ``archs`` may name target features, such as ``gfx942:xnack-``, for
    the kernels of an arch.

    ``ninja`` needs a C++ compiler, ``toolchain``, by default :meth:`Toolchain.find`; kernels for
    AMD GPUs need a HIP compiler, ``hip``, by default :meth:`HipToolchain.find`, those for NVIDIA
    GPUs nvcc, ``cuda``, by default :meth:`CudaToolchain.find`. Where one is missing,
    ``missing="skip"`` leaves its kernels out and says so in the result.

    Everything is checked before anything is written: :class:`InvalidKey` for an empty set or a
    key that breaks a rule, :class:`BuildError` for a missing compiler, a folder that holds files
    of someone else, or a write that fails. A write that fails leaves old files whole.
    """
    if isinstance(emit, str):
        emit = (emit,)
    for kind in emit:
        if kind not in EMITTERS:
            raise BuildError(unknown("emit", kind, EMITTERS))
    if not _LIBRARY_NAME.fullmatch(name):
        raise BuildError(
            f"library name {name!r} is not a C identifier; use letters, digits and underscores"
        )
    if "cmake" in emit and name in RESERVED_TARGETS:
        raise BuildError(
            f"library name {name!r} is a target that CMake reserves; choose another name, or leave "
            "'cmake' out of what is emitted"
        )
    if missing not in MISSING:
        raise BuildError(unknown("missing", missing, MISSING))
    check_group(group)
    targets = targets_of(archs)
    keys = checked_keys(kernels)
    if not keys:
        raise InvalidKey("the kernel set is empty, so there is nothing to generate; widen it")
    left_out: tuple[LeftOut, ...] = ()
    if hip is None:
        try:
            hip = find_hip(keys)
        except rocm.NotInstalled as error:
            if missing == "error":
                raise
            keys, left_out = split("hip", keys, str(error))
    elif not needs("hip", keys):
        hip = None
    if cuda is None:
        try:
            cuda = find_cuda(keys)
        except nvidia.NotInstalled as error:
            if missing == "error":
                raise
            keys, others = split("cuda", keys, str(error))
            left_out += others
    elif not needs("cuda", keys):
        cuda = None
    if toolchain is None and "ninja" in emit:
        toolchain = find_cxx(keys, hip)
    folder = Path(os.path.abspath(out))
    view = {} if include_dirs else missing_headers()
    setup = Setup(
        toolchain,
        tuple(os.path.abspath(d) for d in include_dirs or own_include_dirs()),
        hip=hip,
        cuda=cuda,
        targets=targets,
        group=group,
    )
    seal = (sys.executable, os.path.abspath(seal_module.__file__)) if sys.executable else ()
    tree = make_tree(name, keys, setup, regenerate=regenerate, seal=seal)
    warn_of_refused(tree, "generate again")
    texts = {**view, **folder_texts(tree, folder, emit)}
    return dataclasses.replace(_write(folder, tree, texts), left_out=left_out)


def folder_texts(tree: Tree, folder: Path, emit: Collection[str]) -> dict[str, str]:
    """Path -> text of every file of the folder, the manifest last."""
    texts = unit_texts([(u.name, u.key) for u in tree.units], tree.setup.targets)
    texts.update((source, bundle_text(source, parts)) for source, parts in tree.bundles.items())
    if tree.setup.hip is not None:
        texts[COMPILER_FILE] = f"{TEXT_MARKER}\n{tree.setup.hip.identity()}\n"
    texts[LIBRARY_SOURCE] = library_text(tree)
    texts[tree.header] = render("library.hpp.j2", marker=CPP_MARKER, library=tree.library)
    if "ninja" in emit:
        texts["build.ninja"] = ninja_text(tree)
        texts["compile_commands.json"] = compile_commands_text(tree, folder)
    if "cmake" in emit:
        texts["CMakeLists.txt"] = cmake_text(tree)
    if "make" in emit:
        texts["Makefile"] = makefile_text(tree)
        texts["flags.mk"] = flags_text(tree)
    texts["manifest.json"] = manifest_text(tree, [*texts, "manifest.json"])
    return texts


def unit_texts(keys: Sequence[tuple[str, KernelKey]], targets: Mapping[str, str]) -> dict[str, str]:
    """Path -> text of the unit of each key, given as (canonical name, key) pairs."""
    texts = {}
    for name, key in keys:
        owner = provider(key.provider, arch(key.arch))
        target = targets.get(key.arch, key.arch)
        texts[f"units/{name}{owner.suffix}"] = unit_text(key, name, owner, target)
    return texts


def library_text(tree: Tree) -> str:
    """The registration unit: the table of all kernels, and the function that returns it."""
    objects = {unit.object for unit in tree.units}
    flags = {s.rule.name: " ".join(s.rule.flags) for s in tree.steps if s.output in objects}
    return render(
        "library.cpp.j2",
        marker=CPP_MARKER,
        library=tree.library,
        version=VERSION,
        symbols=[symbol(u.name) for u in tree.units],
        flags=_c_string(flags),
        hip=_c_string(tree.setup.hip.version) if tree.setup.hip is not None else "",
    )


def _c_string(value: object) -> str:
    import json

    return json.dumps(json.dumps(value))


def _write(folder: Path, tree: Tree, texts: dict[str, str]) -> GenerateResult:
    changed = _changed(folder, texts)
    check_folder(folder, changed)
    if not changed and not _stale(folder, tree, texts, changed):
        return GenerateResult(folder, tree.library, (), tuple(texts), ())
    with _locked(folder):
        changed = _changed(folder, texts)
        stale = _stale(folder, tree, texts, changed)
        for path in changed:
            write_atomic(folder / path, texts[path].encode())
        removed = tuple(path for path in stale if _remove(folder / path))
    unchanged = tuple(path for path in texts if path not in changed)
    return GenerateResult(folder, tree.library, tuple(changed), unchanged, removed)


def _changed(folder: Path, texts: dict[str, str]) -> dict[str, None]:
    return dict.fromkeys(p for p, text in texts.items() if _bytes(folder / p) != text.encode())


def _stale(folder: Path, tree: Tree, texts: dict[str, str], changed: Collection[str]) -> list[str]:
    old = read_manifest(folder) if "manifest.json" in changed else None
    return stale_files(folder, tree, texts, old)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _remove(path: Path) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise BuildError(
            f"cannot remove {path}, which is no longer part of the kernel set: "
            f"{error.strerror}; remove it by hand"
        ) from error
    return True


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep two processes from mixing two sets in one folder, where there are locks.

    Without one every file is still written in one step, and the last writer wins.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"cannot create the folder {folder}: {error.strerror}; choose a writable one"
        ) from error
    lock = acquire(folder / ".ckdisp.lock")
    try:
        yield
    finally:
        if lock is not None:
            lock.release()
