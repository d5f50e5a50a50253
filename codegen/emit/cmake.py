"""``CMakeLists.txt``: the same library as a plain CMake target."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable

from .. import sizes
from ..steps import Command, Rule, Step, is_local
from .manifest import again_command
from .templates import render
from .tree import LIBRARY_OBJECT, LIBRARY_SOURCE, Tree
from .unit import TEXT_MARKER

# Names that CMake gives to no target of a project.
RESERVED_TARGETS = (
    *("all", "ALL_BUILD", "clean", "edit_cache", "help", "install", "INSTALL", "preinstall"),
    *("rebuild_cache", "ZERO_CHECK"),
)
SIZES = os.path.abspath(sizes.__file__)
_SOURCE_DIR, _BUILD_DIR = "${CMAKE_CURRENT_SOURCE_DIR}", "${CMAKE_CURRENT_BINARY_DIR}"


def quote(word: str) -> str:
    """``word`` as one CMake argument."""
    for special in ("\\", '"', "$", ";"):
        word = word.replace(special, "\\" + special)
    return f'"{word}"'


def words(items: Iterable[str]) -> str:
    return " ".join(map(quote, items))


def quote_list(items: Iterable[str]) -> str:
    """``items`` as one argument that holds a CMake list."""
    return '"' + ";".join(quote(i)[1:-1] for i in items) + '"'


def _flags(rule: Rule, tree: Tree) -> str:
    extra = tree.setup.toolchain.cxx_flags if tree.setup.toolchain is not None else ()
    # The C++ standard is a property of the target; everything else belongs to the kernels and
    # must not be weakened by the flags of the build type, so it goes on the source files.
    flags = (*(f for f in rule.flags if not f.startswith("-std=")), *extra)
    return quote_list(flags)


def cmake_text(tree: Tree) -> str:
    """The text of ``CMakeLists.txt``; it also works through ``add_subdirectory``."""
    by_rule: dict[str, list[Step]] = {rule.name: [] for rule in tree.rules}
    for step in tree.steps:
        by_rule[step.rule.name].append(step)
    plain = [r for r in tree.rules if r.compiler == "cxx" and r.output != LIBRARY_OBJECT]
    custom = [step for step in tree.steps if step.rule.compiler != "cxx"]
    made = {step.output for step in custom}
    return render(
        "CMakeLists.txt.j2",
        marker=TEXT_MARKER,
        library=tree.library,
        seal=words(tree.seal),
        sizes=words((*tree.seal[:1], SIZES)),
        library_source=LIBRARY_SOURCE,
        base_flags=_flags(tree.rules[0], tree),
        groups=[
            (rule.name, [s.source for s in by_rule[rule.name]], _flags(rule, tree))
            for rule in plain
        ],
        include_dirs=words(tree.setup.include_dirs),
        again=again_command(".", tree.library, tree.setup.group, tree.setup.targets),
        openmp="-fopenmp" in tree.optional_flags,
        pools=[
            (f"{tree.library}_{name}", depth)
            for name, depth in tree.pools().items()
            if any(step.rule.pool == name for step in custom)
        ],
        commands=[
            (f"{tree.library}_{rule.name}_{i}", " ".join(map(_argument, command.words)))
            for rule in tree.rules
            if rule.compiler != "cxx"
            for i, command in enumerate(rule.commands)
        ],
        steps=[
            (
                step,
                [_files(command, step) for command in step.rule.commands],
                _depends(step, made),
            )
            for step in custom
        ],
        objects=" ".join(_in_build(step.output) for step in custom if step.rule.makes_object),
    )


def _in_source(path: str) -> str:
    """``path``, relative to the generated folder or absolute, as one argument."""
    return f'"{_SOURCE_DIR}/{quote(path)[1:]}' if is_local(path) else quote(path)


def _in_build(path: str) -> str:
    return f'"{_BUILD_DIR}/{path}"'


def _argument(word: str) -> str:
    """A word of a command that runs in the build folder, where the generated one is not."""
    return f'"-I{_SOURCE_DIR}/include"' if word == "-Iinclude" else quote(word)


def _files(command: Command, step: Step) -> str:
    """What follows the words of ``command``."""
    words = command.operands(step)
    return " ".join(_in_source(w) if w == step.source else quote(w) for w in words)


def _depends(step: Step, made: Collection[str]) -> str:
    needs = (_in_build(n) if n in made else _in_source(n) for n in step.rule.needs)
    return " ".join((_in_source(step.source), *needs))
