"""Fixtures of the integration tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from jit_lab import Lab


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    return Lab(tmp_path, monkeypatch)
