"""Fixtures that several unit tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from naive_kernels import compile_fmha, compile_library


@pytest.fixture(scope="session")
def naive_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of plain loops; tests that use it name the xdist group ``naive``."""
    return compile_library(tmp_path_factory.mktemp("naive"))


@pytest.fixture(scope="session")
def naive_fmha(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of naive attention kernels; same xdist group."""
    return compile_fmha(tmp_path_factory.mktemp("naive_fmha"))
