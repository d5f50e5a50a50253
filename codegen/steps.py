"""What a build is made of: rules say how a file is made, steps which file is made from which.

Every writer of build files, and the JIT, works from these alone.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Command:
    """One command: ``words`` as they are, then ``files``.

    ``files`` is plain text in which ``$in``, ``$out`` and the variables of a step are filled in;
    none of these needs quoting, but for ``$in`` where the source lies outside the folder. The
    first ``program`` words cannot go into a response file.
    """

    words: tuple[str, ...]
    files: str
    program: int = 1

    def arguments(self, step: Step) -> list[str]:
        """The command for ``step`` as one list."""
        return [*self.words, *self.operands(step)]

    def operands(self, step: Step) -> list[str]:
        """What follows ``words`` in the command for ``step``."""
        return [step.fill(word) if "$" in word else word for word in self.files.split()]


@dataclass(frozen=True)
class Rule:
    """How the files of one kind are made: ``commands``, one after the other.

    ``source`` and ``output`` are paths with ``%`` for the name of the step; a source that is an
    absolute path is a file of ckdisp. The first command writes the dependency file ``$out.d``.
    ``compiler`` is ``cxx`` or ``hip``. ``flags`` decide, together with compiler, source, headers
    and the flags of the user, what comes out. ``needs`` are the other files that each step reads.
    ``pool`` is the provider, whose jobs take a like amount of memory. ``description`` is what is
    shown while a step runs, with ``$in`` and ``$out``.
    """

    name: str
    compiler: str
    source: str
    output: str
    flags: tuple[str, ...]
    commands: tuple[Command, ...]
    pool: str
    description: str = "compile $in"
    needs: tuple[str, ...] = ()

    @property
    def makes_object(self) -> bool:
        """Whether the output is linked into the library."""
        return self.output.endswith(".o")


@dataclass(frozen=True)
class Step:
    """One file to make: ``rule``, applied to ``name``."""

    name: str
    rule: Rule
    variables: Mapping[str, str] = field(default_factory=dict)

    @functools.cached_property
    def source(self) -> str:
        return self.rule.source.replace("%", self.name)

    @functools.cached_property
    def output(self) -> str:
        return self.rule.output.replace("%", self.name)

    @property
    def description(self) -> str:
        return self.fill(self.rule.description)

    def fill(self, text: str) -> str:
        """``text`` with source, output and the variables of this step."""
        values = {"in": self.source, "out": self.output, **self.variables}
        return _VARIABLE.sub(lambda found: values[found[1]], text)

    @property
    def depfile(self) -> str:
        return f"{self.output}.d"


def is_local(path: str) -> bool:
    """Whether ``path`` lies in the generated folder."""
    return not os.path.isabs(path)
