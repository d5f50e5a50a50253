"""Fixtures of the integration tests."""

from __future__ import annotations

from pathlib import Path

import fmha_kernels
import pytest
from jit_lab import Lab

import ckdisp


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)


@pytest.fixture(scope="session")
def dispatchers(kernel_cache: Path) -> list[ckdisp.Dispatcher]:
    """Of attention kernels for the CPU; tests that use them name the xdist group ``cpu_fmha``."""
    return fmha_kernels.build(kernel_cache)
