"""What the ckdisp under test was installed with."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest

import ckdisp


def package_file(name: str) -> Path | None:
    """A file of the installed package, which an editable install spreads over several folders."""
    return next((f for p in ckdisp.__path__ if (f := Path(p) / name).is_file()), None)


def installed_without_kernels() -> bool:
    """Whether this is a developer's editable install that left the prebuilt kernels out."""
    origin = importlib.metadata.distribution("ckdisp").read_text("direct_url.json") or "{}"
    editable = json.loads(origin).get("dir_info", {}).get("editable", False)
    return bool(editable) and package_file("prebuilt/libckdisp_cpu_generic.so") is None


needs_prebuilt = pytest.mark.skipif(
    installed_without_kernels(), reason="an editable install made with CKDISP_PREBUILT=OFF"
)
