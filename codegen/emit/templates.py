"""The jinja2 environment over ``codegen/templates``."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parent.parent / "templates"


@functools.cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )


@functools.cache
def template(name: str) -> Any:
    """The compiled template ``name``."""
    return _environment().get_template(name)


def render(name: str, /, **values: object) -> str:
    """The text of template ``name`` with ``values`` filled in; a missing value is an error."""
    text: str = template(name).render(**values)
    return text
