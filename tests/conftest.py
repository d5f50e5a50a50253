"""Fixtures of all tests."""

from __future__ import annotations

import amd
import pytest
from on_gpu import OnGpu


@pytest.fixture(scope="session")
def on_gpu(tmp_path_factory: pytest.TempPathFactory) -> OnGpu:
    """Runs functions on an AMD GPU, emulated or real."""
    return OnGpu(amd.kernel_cache(tmp_path_factory.getbasetemp()))
