"""``build.ninja``: one edge per kernel, one link, escaping and job pools in one place."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any, cast

from ..steps import Rule, Step
from .tree import Tree
from .unit import TEXT_MARKER

# Longer commands go through a response file: Linux takes 128 KB per argument, and ninja hands the
# whole command to the shell as one; Windows takes 32 KB in all.
_LONG_COMMAND = 8000
_PLAIN = re.compile(r"[\w./+=@%,~^-]+", re.ASCII)


def shell(words: Iterable[str]) -> str:
    """``words`` as a shell reads them, with ``$`` doubled as ninja wants."""
    return " ".join(shlex.quote(w) for w in words).replace("$", "$$")


def link_command(tree: Tree) -> list[str]:
    """The link command up to, not including, output and objects.

    Launchers are left out: they cache no links.
    """
    toolchain = tree.setup.toolchain
    assert toolchain is not None
    return [toolchain.cxx, *shared_flags(tree), *toolchain.cxx_flags, *tree.optional_flags]


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
    steps = tree.open_steps()
    for rule in {step.rule.name: step.rule for step in steps}.values():
        _rule(graph, rule)
    _link_rule(graph, tree)
    for step in steps:
        _edge(graph, step)
    for unit in tree.units:
        if unit.object not in tree.done:
            writer.build([unit.name], "phony", [unit.object])
    writer.build([tree.output], "link", list(tree.objects))
    writer.build(["all"], "phony", [tree.output])
    writer.default(["all"])
    if tree.regenerate is not None:
        _regenerate_edge(graph, tree.regenerate.command, tree.regenerate.inputs)
    return graph.text.getvalue()


def _rule(graph: _Graph, rule: Rule) -> None:
    first, *others = rule.commands
    command, rspfile, content = shell(first.words), None, None
    if len(command) > _LONG_COMMAND:
        command = f"{shell(first.words[: first.program])} @$out.rsp"
        rspfile, content = "$out.rsp", shell(first.words[first.program :])
    lines = [f"{command} {first.files}", *(f"{shell(c.words)} {c.files}" for c in others)]
    graph.writer.rule(
        rule.name,
        command=" && ".join(lines),
        description=rule.description,
        depfile="$out.d",
        deps="gcc",
        pool=f"compile_{rule.pool}",
        rspfile=rspfile,
        rspfile_content=content,
    )


def _link_rule(graph: _Graph, tree: Tree) -> None:
    # Linked aside and moved into place: whoever loads the library meanwhile sees the old or the
    # new one, never a part of it.
    command = f"{shell(link_command(tree))} -o $out.new @$out.rsp"
    seal = f" && {{ {shell(tree.seal)} $out.new || true; }}" if tree.seal else ""
    graph.writer.rule(
        "link",
        command=f"{command}{seal} && mv -f $out.new $out",
        description="link $out",
        pool="link",
        rspfile="$out.rsp",
        rspfile_content="$in_newline",
    )


def _edge(graph: _Graph, step: Step) -> None:
    graph.writer.build(
        [step.output],
        step.rule.name,
        [graph.path(step.source)],
        implicit=[graph.path(need) for need in step.rule.needs],
        variables=dict(step.variables),
    )


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
