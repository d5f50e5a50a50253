"""The generator as a program, for build systems: ``python -m ckdisp.codegen generate ...``.

Exit code 0, or 2 with one line that says what is wrong.
"""

from __future__ import annotations

import argparse
import functools
import operator
import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .arch import arches
from .cuda import CudaToolchain
from .cuda.toolchain import dotted
from .declare import resolve_archs, serves_gpus
from .emit.tree import Regenerate
from .errors import BuildError, Error, InvalidKey
from .generate import EMITTERS, MISSING, GenerateResult, generate
from .rocm import HipToolchain, NotInstalled
from .toolchain import Toolchain

if TYPE_CHECKING:
    from .compilers import LeftOut
    from .kernel_set import KernelSet

_PACKAGE = Path(__file__).parent
_NAMED = 3  # of the kernels that are left out
_STAND_IN = "gfx942"


def inputs() -> list[Path]:
    """The files of the generator itself: a change of any asks to generate again."""
    kinds = (".py", ".json", ".j2")
    return sorted(p for p in _PACKAGE.rglob("*") if p.suffix in kinds and p.is_file())


def _kernels(options: argparse.Namespace) -> KernelSet:
    from .kernel_set import KernelSet

    if not options.arch and options.preset and serves_gpus(options.provider):
        options.arch = list(resolve_archs("native", options.provider))
    archs: list[str] = options.arch
    sets = [
        KernelSet.from_spec(os.path.abspath(spec), archs=archs or None, provider=options.provider)
        for spec in options.spec
    ]
    if options.preset and not archs:
        raise InvalidKey("a preset names no arch; add --arch (ARCHS of ckdisp_add_kernels)")
    sets += [KernelSet.preset(p, archs, provider=options.provider) for p in options.preset]
    if not sets:
        raise InvalidKey("no kernels are declared; give --spec FILE or --preset NAME")
    return functools.reduce(operator.or_, sets)


def _name_some_arch() -> None:
    """Where nothing can be compiled for GPUs, any arch will do to say what is left out."""
    from .rocm.archs import DEVICES, SETTING, find_archs

    found = find_archs()
    if found.origin == DEVICES and not found.names:
        try:
            HipToolchain.find()
        except NotInstalled:
            os.environ[SETTING] = _STAND_IN
        except BuildError:
            return


def _generate(options: argparse.Namespace) -> None:
    if options.missing == "skip":
        _name_some_arch()
    kernels = _kernels(options)
    toolchain = None
    if "ninja" in options.emit or options.cxx:
        toolchain = Toolchain.find(
            options.cxx, cxx_flags=options.cxx_flag, launcher=options.launcher
        )
    regenerate = None
    if options.regenerate:
        specs = [os.path.abspath(spec) for spec in options.spec]
        regenerate = Regenerate(_again(options), (*specs, *map(str, inputs())))
    result = generate(
        kernels,
        options.out,
        options.emit,
        name=options.name,
        group=options.group,
        archs=options.arch,
        missing=options.missing,
        toolchain=toolchain,
        include_dirs=options.include or None,
        regenerate=regenerate,
    )
    for text in _left_out(result.left_out):
        print(f"warning: {text}", file=sys.stderr)
    if options.quiet:
        return
    for line in _summary(kernels, result):
        print(line)
    if result.written or result.removed:
        removed = f", {len(result.removed)} removed" if result.removed else ""
        print(f"{result.folder}: {len(result.written)} files written{removed}")


def _left_out(kernels: Sequence[LeftOut]) -> Iterator[str]:
    """Which kernels are left out, by a few of their names, and why."""
    by_reason: dict[str, list[str]] = {}
    for kernel in kernels:
        by_reason.setdefault(kernel.reason, []).append(kernel.name)
    for reason, names in by_reason.items():
        more = ", ..." if len(names) > _NAMED else ""
        count = f"{len(names)} kernel{'s' if len(names) > 1 else ''}"
        yield f"{count} left out: {reason}. Left out: {', '.join(names[:_NAMED])}{more}"


def _summary(kernels: KernelSet, result: GenerateResult) -> Iterator[str]:
    """What will be built for GPUs, and by which compiler; nothing if no GPU kernel is asked for."""
    missing = {kernel.name for kernel in result.left_out}
    counts = Counter(key.arch for key in kernels if key.name not in missing)
    kinds = {arches()[name].device_kind for name in counts} - {""}
    if missing or kinds:
        archs = "".join(f", {count} for {name}" for name, count in counts.items())
        yield f"{result.library}: {sum(counts.values())} kernels{archs}"
    if "hip" in kinds:
        hip = HipToolchain.find()
        yield f"HIP compiler: {hip.compiler}, {hip.version} ({hip.origin})"
        yield f"CK Tile headers: {hip.ck_include} ({hip.ck_origin})"
    if "cuda" in kinds:
        cuda = CudaToolchain.find()
        yield f"nvcc: {cuda.nvcc}, CUDA {dotted(cuda.version)} ({cuda.origin})"
        headers = f"{cuda.cutlass_include}, {dotted(cuda.cutlass_version)}"
        yield f"CUTLASS headers: {headers} ({cuda.cutlass_origin})"


def _again(options: argparse.Namespace) -> tuple[str, ...]:
    """The command that repeats this one from any folder."""
    words = [sys.executable, "-c", _RUN, str(_PACKAGE.parent), _PACKAGE.name, "generate"]
    words += ["--out", os.path.abspath(options.out), "--name", options.name]
    words += ["--emit", ",".join(options.emit), "--regenerate"]
    for spec in options.spec:
        words += ["--spec", os.path.abspath(spec)]
    for preset in options.preset:
        words += ["--preset", preset]
    for arch in options.arch:
        words += ["--arch", arch]
    if options.provider is not None:
        words += ["--provider", options.provider]
    if options.group is not None:
        words += ["--group", options.group]
    words += ["--missing", options.missing]
    if options.cxx is not None:
        words += ["--cxx", options.cxx]
    if options.launcher is not None:
        words += ["--launcher", options.launcher]
    words += [f"--cxx-flag={f}" for f in options.cxx_flag or ()]
    for folder in options.include:
        words += ["--include", os.path.abspath(folder)]
    return tuple(words)


# Runs this package by its place alone: it need not be importable by name.
_RUN = (
    "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def _list_inputs(options: argparse.Namespace) -> None:
    for path in inputs():
        print(path)
    for spec in options.spec:
        print(os.path.abspath(spec))


def _cpu_levels(options: argparse.Namespace) -> None:
    for name in resolve_archs(options.level):
        if arches()[name].is_gpu:
            raise InvalidKey(f"{name} is a GPU; name CPU levels, or native")
        print(name)


def _cpp_view(options: argparse.Namespace) -> None:
    from .emit.cpp_view import write_cpp_view

    write_cpp_view(Path(options.out))


def _emitters(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ckdisp.codegen", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("generate", help="write the folder that builds a kernel library")
    command.set_defaults(run=_generate)
    command.add_argument(
        "--spec", action="append", default=[], help="file that declares kernels; may be repeated"
    )
    command.add_argument(
        "--preset", action="append", default=[], help="named kernel set; may be repeated"
    )
    command.add_argument("--out", required=True, help="folder to write")
    command.add_argument("--name", default="ckdisp_kernels", help="name of the library")
    command.add_argument(
        "--arch", action="append", default=[], help="arch of presets, and of specs that name none"
    )
    command.add_argument("--provider", help="only kernels of this provider")
    command.add_argument("--group", help="tile: compile GPU kernels that share a tile together")
    command.add_argument(
        "--missing",
        choices=MISSING,
        default="error",
        help="what to do with GPU kernels where there is no HIP compiler",
    )
    command.add_argument(
        "--emit", type=_emitters, default=list(EMITTERS), help="of ninja,cmake,make"
    )
    command.add_argument("--cxx", help="the compiler; by default CXX, then c++, g++, clang++")
    command.add_argument("--cxx-flag", action="append", help="one more compiler flag")
    command.add_argument("--launcher", help="program in front of the compiler, such as ccache")
    command.add_argument(
        "--include", action="append", default=[], help="folder with the headers of ckdisp"
    )
    command.add_argument(
        "--regenerate", action="store_true", help="let build.ninja run this command again"
    )
    command.add_argument("--quiet", action="store_true", help="print nothing on success")

    command = commands.add_parser("list-inputs", help="print the files that generate depends on")
    command.set_defaults(run=_list_inputs)
    command.add_argument("--spec", action="append", default=[], help="a spec, printed too")

    command = commands.add_parser("cpu-levels", help="print the CPU levels that the words name")
    command.set_defaults(run=_cpu_levels)
    command.add_argument("level", nargs="+", help="a level, cpu (all) or native (the best here)")

    command = commands.add_parser("cpp-view", help="write the generated C++ headers")
    command.set_defaults(run=_cpp_view)
    command.add_argument("--out", required=True, help="include folder to write into")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            options.run(options)
            status = 0
        except Error as error:
            print(f"error: {error}", file=sys.stderr)
            status = 2
    for warning in caught:
        print(f"warning: {warning.message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
