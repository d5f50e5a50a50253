"""``build.ninja``: one edge per kernel, one link, escaping and job pools in one place."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any, cast

from .tree import LIBRARY_OBJECT, LIBRARY_SOURCE, Tree, Unit, Variant
from .unit import TEXT_MARKER

# Longer commands go through a response file: Linux takes 128 KB per argument, and ninja hands the
# whole command to the shell as one; Windows takes 32 KB in all.
_LONG_COMMAND = 8000
_PLAIN = re.compile(r"[\w./+=@%,~^-]+", re.ASCII)


def shell(words: Iterable[str]) -> str:
    """``words`` as a shell reads them, with ``$`` doubled as ninja wants."""
    return " ".join(shlex.quote(w) for w in words).replace("$", "$$")


def include_flags(tree: Tree) -> list[str]:
    return [f"-I{d}" for d in ("include", *tree.include_dirs)]


def compile_command(tree: Tree, variant: Variant) -> list[str]:
    """The compile command up to, not including, source and output."""
    assert tree.toolchain is not None
    return [
        *tree.toolchain.command,
        *variant.flags,
        *tree.optional_flags,
        *tree.toolchain.cxx_flags,
        *include_flags(tree),
    ]


def link_command(tree: Tree) -> list[str]:
    """The link command up to, not including, output and objects, which the libraries follow.

    Launchers are left out: they cache no links.
    """
    assert tree.toolchain is not None
    flags = (*tree.toolchain.cxx_flags, *tree.optional_flags)
    return [tree.toolchain.cxx, *shared_flags(tree), *flags]


def shared_flags(tree: Tree) -> list[str]:
    """What makes the link a shared library that is found by its file name alone."""
    return ["-shared", *([] if sys.platform == "darwin" else [f"-Wl,-soname,{tree.output}"])]


class _Graph:
    """A ninja writer that also takes paths with ``$``, ``|``, blanks and colons."""

    def __init__(self) -> None:
        from ninja import ninja_syntax

        self.text = io.StringIO()
        self.writer = ninja_syntax.Writer(cast(Any, self.text), width=1_000_000)
        self._paths = 0

    def path(self, path: str) -> str:
        """``path`` for use in a build line: as a variable if it needs escaping."""
        if _PLAIN.fullmatch(path):
            return path
        self._paths += 1
        self.writer.variable(f"path{self._paths}", path.replace("$", "$$"))
        return f"$path{self._paths}"


def ninja_text(tree: Tree) -> str:
    """The text of ``build.ninja``."""
    graph = _Graph()
    writer = graph.writer
    graph.text.write(f"{TEXT_MARKER}\n")
    writer.variable("ninja_required_version", "1.8")
    for name, depth in tree.pools().items():
        writer.pool(f"compile_{name}", depth)
    writer.pool("link", 1)
    for variant in (tree.base, *tree.variants.values()):
        _compile_rule(graph, tree, variant)
    _link_rule(graph, tree)
    objects = [_unit_edge(graph, tree, unit) for unit in tree.units]
    writer.build([LIBRARY_OBJECT], "library", [LIBRARY_SOURCE])
    writer.build([tree.output], "link", [LIBRARY_OBJECT, *objects])
    writer.build(["all"], "phony", [tree.output])
    writer.default(["all"])
    if tree.regenerate is not None:
        _regenerate_edge(graph, tree.regenerate.command, tree.regenerate.inputs)
    return graph.text.getvalue()


def _compile_rule(graph: _Graph, tree: Tree, variant: Variant) -> None:
    tail = "-MD -MF $out.d -c $in -o $out"
    words = compile_command(tree, variant)
    command, rspfile, content = shell(words), None, None
    if len(command) > _LONG_COMMAND:
        assert tree.toolchain is not None
        size = len(tree.toolchain.command)
        rspfile, content = "$out.rsp", shell(words[size:])
        command = f"{shell(words[:size])} @$out.rsp"
    graph.writer.rule(
        variant.name,
        command=f"{command} {tail}",
        description="compile $in",
        depfile="$out.d",
        deps="gcc",
        pool=f"compile_{variant.provider.name}",
        rspfile=rspfile,
        rspfile_content=content,
    )


def _link_rule(graph: _Graph, tree: Tree) -> None:
    # Linked aside and moved into place: whoever loads the library meanwhile sees the old or the
    # new one, never a part of it.
    command = f"{shell(link_command(tree))} -o $out.new @$out.rsp {shell(tree.libraries())}"
    graph.writer.rule(
        "link",
        command=f"{command.rstrip()} && mv -f $out.new $out",
        description="link $out",
        pool="link",
        rspfile="$out.rsp",
        rspfile_content="$in_newline",
    )


def _unit_edge(graph: _Graph, tree: Tree, unit: Unit) -> str:
    prebuilt = tree.prebuilt.get(unit.name)
    if prebuilt is not None:
        return graph.path(prebuilt)
    graph.writer.build([unit.object], unit.variant, [unit.source])
    graph.writer.build([unit.name], "phony", [unit.object])
    return unit.object


def _regenerate_edge(graph: _Graph, command: Sequence[str], inputs: Sequence[str]) -> None:
    graph.writer.rule(
        "regenerate",
        command=shell(command),
        description="generate build.ninja",
        generator=True,
        restat=True,
        pool="console",
    )
    graph.writer.build(["build.ninja"], "regenerate", implicit=[graph.path(p) for p in inputs])
    # An input that is gone is no error of its own: the command says what it misses.
    for path in inputs:
        graph.writer.build([graph.path(path)], "phony")
