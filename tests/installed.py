"""What the ckdisp under test was installed with."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from amd import missing

import ckdisp

LEVEL = next(level for level in ckdisp.host_arches() if not ckdisp.arch(level).is_gpu)


def package_file(name: str) -> Path | None:
    """A file of the installed package, which an editable install spreads over several folders."""
    return next((f for p in ckdisp.__path__ if (f := Path(p) / name).is_file()), None)


def installed_without_kernels() -> bool:
    """Whether this is a developer's editable install that left the prebuilt kernels out."""
    origin = importlib.metadata.distribution("ckdisp").read_text("direct_url.json") or "{}"
    editable = json.loads(origin).get("dir_info", {}).get("editable", False)
    return bool(editable) and package_file(f"prebuilt/libckdisp_cpu_{LEVEL}.so") is None


def prebuilt(level: str) -> Path:
    """The prebuilt library for a CPU level; outside CI only this machine's is sure to be there."""
    library = package_file(f"prebuilt/libckdisp_cpu_{level}.so")
    if library is None and level != LEVEL:
        missing(f"ckdisp was installed without prebuilt kernels for {level} (CKDISP_CPU_LEVELS)")
    assert library is not None
    return library


needs_prebuilt = pytest.mark.skipif(
    installed_without_kernels(), reason="an editable install made with CKDISP_PREBUILT=OFF"
)
