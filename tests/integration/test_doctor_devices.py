"""``ckdisp doctor`` on the HIP runtime and its devices, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import amd

SCRIPT = """
import json
from click.testing import CliRunner
from ckdisp.cli.app import app
document = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
print(json.dumps({check["name"]: check for check in document["checks"]}))
"""


def test_devices_are_listed_with_the_runtime_that_shows_them() -> None:
    devices = "gfx942:sramecc+:xnack-,gfx1201"
    found = json.loads(amd.run_with_stub(SCRIPT, CKDISP_STUB_DEVICES=devices))
    assert Path(found["hip runtime"]["found"]).samefile(amd.stub_runtime())
    assert "gfx942:sramecc+:xnack-, " in found["gpu 0"]["found"]
    assert "gfx1201, " in found["gpu 1"]["found"]
    assert "gpus" not in found


def test_a_runtime_without_devices() -> None:
    found = json.loads(amd.run_with_stub(SCRIPT, CKDISP_STUB_DEVICES=""))
    assert found["hip runtime"]["status"] == "ok"
    assert found["gpus"]["status"] == "warn" and found["gpus"]["todo"]


def test_no_runtime(tmp_path: Path) -> None:
    missing = tmp_path / "libamdhip64.so.7"
    environment = {**os.environ, "CKDISP_HIP_RUNTIME": str(missing)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert "hip runtime" not in found
    assert found["gpus"]["status"] == "warn"
    assert str(missing) in found["gpus"]["todo"]
