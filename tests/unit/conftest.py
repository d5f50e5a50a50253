"""Fixtures that several unit tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from naive_kernels import compile_library


@pytest.fixture(scope="session")
def naive_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of plain loops; tests that use it name the xdist group ``naive``."""
    return compile_library(tmp_path_factory.mktemp("naive"))
