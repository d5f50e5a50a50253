"""Fixtures of all tests."""

from __future__ import annotations

import amd
import pytest
from on_gpu import OnGpu


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail if pytest-xdist does not keep groups together: each worker would make their fixtures."""
    grouping = getattr(item.config.option, "loadgroup", False)  # in workers of --dist=loadgroup
    if grouping and item.get_closest_marker("xdist_group") and "@" not in item.nodeid:
        pytest.fail(
            f"pytest {pytest.__version__} and this pytest-xdist ignore the groups of tests; "
            "install the versions that pyproject.toml asks for"
        )


@pytest.fixture(scope="session")
def on_gpu(tmp_path_factory: pytest.TempPathFactory) -> OnGpu:
    """Runs functions on an AMD GPU, emulated or real."""
    return OnGpu(amd.kernel_cache(tmp_path_factory.getbasetemp()))
