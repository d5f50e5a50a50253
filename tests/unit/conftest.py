"""Fixtures that several unit tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from naive_kernels import compile_fmha, compile_library

import ckdisp


@pytest.fixture(scope="session")
def naive_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of plain loops; tests that use it name the xdist group ``naive``."""
    return compile_library(tmp_path_factory.mktemp("naive"))


@pytest.fixture(scope="session")
def naive_fmha(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of naive attention kernels; same xdist group."""
    return compile_fmha(tmp_path_factory.mktemp("naive_fmha"))


@pytest.fixture
def ops(naive_fmha: Path) -> Iterator[Any]:
    """``ckdisp.torch`` with naive kernels for fp32 and bf16."""
    with ckdisp.torch.use_dispatcher(ckdisp.Dispatcher(ckdisp.Registry.load(naive_fmha))):
        yield ckdisp.torch
