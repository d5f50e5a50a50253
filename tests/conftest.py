"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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


@pytest.fixture(scope="session", autouse=True)
def kernel_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kernel cache of all tests that name no other, in all processes of the run.

    What one test compiled the next one finds, and the cache of the user is left alone.
    """
    folder = amd.kernel_cache(tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CKDISP_CACHE_DIR", str(folder))
        yield folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "on_gpu" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(scope="session")
def on_gpu(kernel_cache: Path) -> OnGpu:
    """Runs functions on an AMD GPU, emulated or real."""
    return OnGpu(kernel_cache)
