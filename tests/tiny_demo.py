"""A demo of the command line, made small enough for a test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

import ckdisp


def shrink(
    demo: ModuleType,
    layers: dict[str, tuple[int, ...]],
    quick: Sequence[str],
    library: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let ``demo`` run ``layers`` on the kernels of ``library``, with no compiler at hand."""
    monkeypatch.setenv("CXX", str(library.with_name("no-compiler")))
    monkeypatch.setenv("CKDISP_CACHE_DIR", str(library.with_name("no-cache")))
    registry = ckdisp.Registry.load(library)
    monkeypatch.setattr(ckdisp.Registry, "prebuilt", lambda: registry)
    monkeypatch.setattr(demo, "LAYERS", layers)
    monkeypatch.setattr(demo, "QUICK_LAYERS", quick)
    monkeypatch.setattr(demo, "SECONDS", 0.01)
