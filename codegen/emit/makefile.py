"""``Makefile``: the same library by GNU make, with dependency files.

Make cannot hold a blank in the name of a target; all targets here are relative, so the folder
itself may have one. Headers below a folder with blanks are tracked as far as the compiler escapes
them in dependency files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from ..providers.base import include_flags
from ..steps import Command, Rule
from .graph import shared_flags
from .manifest import again_command
from .templates import render
from .tree import LIBRARY_OBJECT, LIBRARY_SOURCE, Tree
from .unit import TEXT_MARKER

_PLAIN = re.compile(r"[\w./+@,^-]+", re.ASCII)


def shell(words: Iterable[str]) -> str:
    """``words`` as a shell reads them, with ``$`` and ``#`` as make wants them."""
    return " ".join(shlex.quote(w) for w in words).replace("$", "$$").replace("#", "$(HASH)")


def makefile_text(tree: Tree) -> str:
    """The text of ``Makefile``."""
    kernel_rules = [rule for rule in tree.rules if rule.output != LIBRARY_OBJECT]
    return render(
        "Makefile.j2",
        marker=TEXT_MARKER,
        output=tree.output,
        seal=shell(tree.seal),
        library_object=LIBRARY_OBJECT,
        library_source=LIBRARY_SOURCE,
        needed_dirs=list(filter(_PLAIN.fullmatch, tree.setup.include_dirs)),
        again=again_command(".", tree.library, tree.setup.group, tree.setup.targets),
        objects=[rule.name for rule in kernel_rules if rule.makes_object],
        groups=[
            (rule, [s for s in tree.steps if s.rule.name == rule.name], _lines(rule), _needs(rule))
            for rule in kernel_rules
        ],
    )


def _lines(rule: Rule) -> list[str]:
    """The recipe of a rule."""
    if rule.compiler == "cxx":
        return [f"$(CXX) $(FLAGS_{rule.name}) $(CXXFLAGS) $(INCLUDES) -MD -MP -MF $@.d -c $< -o $@"]
    return [f"$(RUN_{rule.name}_{i}) {_files(c, rule)}" for i, c in enumerate(rule.commands)]


def _files(command: Command, rule: Rule) -> str:
    source = "$<" if "%" in rule.source else shell([rule.source])
    words = command.files.split()
    text = " ".join(source if word == "$in" else word for word in words)
    return re.sub(r"\$(out|kernels)", lambda m: {"out": "$@"}.get(m[1], f"$({m[1]})"), text)


def _needs(rule: Rule) -> list[str]:
    """The prerequisites of every target: those whose path make can hold."""
    sources = [] if "%" not in rule.source else [rule.source]
    return [*sources, "flags.mk", *filter(_PLAIN.fullmatch, rule.needs)]


def flags_text(tree: Tree) -> str:
    """The text of ``flags.mk``: compiler and flags, apart so that objects can depend on them.

    ``CXX`` and ``CXXFLAGS`` can be set on the command line of make.
    """
    toolchain = tree.setup.toolchain
    user = toolchain.cxx_flags if toolchain is not None else ()
    return render(
        "flags.mk.j2",
        marker=TEXT_MARKER,
        cxx=shell(toolchain.command) if toolchain is not None else "c++",
        flags=shell((*tree.optional_flags, *user)),
        includes=shell(include_flags(tree.setup)),
        variants=[(r.name, shell(r.flags)) for r in tree.rules if r.compiler == "cxx"],
        commands=[
            (f"{rule.name}_{i}", shell(command.words))
            for rule in tree.rules
            if rule.compiler != "cxx"
            for i, command in enumerate(rule.commands)
        ],
        link_flags=shell(shared_flags(tree)),
    )
