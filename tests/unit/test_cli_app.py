"""The root command: help, errors, exit codes, pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ckdisp.cli.app import app
from ckdisp.codegen.errors import BuildError, InvalidKey

COMMANDS = app.list_commands(click.Context(app))


def run_process(
    arguments: Sequence[str], env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ckdisp", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(env or {})},
    )


def run_shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line in which ``"$PYTHON" -m ckdisp`` is the command."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHON": sys.executable},
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_matches_the_overview(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert "Exit codes:" in result.output
    overview = CliRunner().invoke(app, ["--help"], terminal_width=200)
    assert command.get_short_help_str(200) in " ".join(overview.output.split())


def test_overview_lists_every_command() -> None:
    result = CliRunner().invoke(app, [])
    for name in COMMANDS:
        assert f"\n  {name} " in result.output


def test_version_and_folders_are_one_line_each() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output.startswith("ckdisp ")
    cmake = CliRunner().invoke(app, ["--cmake-dir"])
    assert (Path(cmake.output.strip()) / "ckdispConfig.cmake").is_file()
    include = CliRunner().invoke(app, ["--include-dir"])
    assert (Path(include.output.strip()) / "ckdisp" / "abi.hpp").is_file()


def test_overview_does_not_import_commands_or_rich() -> None:
    program = (
        "import sys\nfrom ckdisp.cli.app import app\n"
        "try:\n    app.main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'rich', 'jinja2', 'torch', 'ckdisp.cli.demo_gemm', 'ckdisp.cli.sets'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert result.stderr.strip() == "[]"


def test_unknown_command_names_the_nearest() -> None:
    result = CliRunner().invoke(app, ["lst"])
    assert result.exit_code == 2
    assert "unknown command 'lst' (did you mean 'list'?)" in result.stderr
    assert result.stdout == ""


def test_unknown_option_names_the_nearest() -> None:
    result = CliRunner().invoke(app, ["arch", "--jso"])
    assert result.exit_code == 2
    assert "--json" in result.stderr
    assert "Usage: ckdisp arch" in result.stderr


@pytest.mark.parametrize(("error", "code"), [(InvalidKey("bad key"), 2), (BuildError("no g++"), 1)])
def test_errors_become_one_message(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr("ckdisp.cli.arch.arch", fail)
    result = CliRunner().invoke(app, ["arch", "gfx942"])
    assert result.exit_code == code
    assert result.stderr == f"error: {error}\n"


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_process(["arch", "nope"], env={"CKDISP_DEBUG": "1"})
    assert "Traceback" in result.stderr
    assert "InvalidKey" in result.stderr
    assert "Traceback" not in run_process(["arch", "nope"]).stderr


def test_interrupt_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ckdisp.cli.arch.arch", interrupt)
    result = CliRunner().invoke(app, ["arch", "gfx942"])
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    many = "list gemm.standard --arch gfx942 --tiles all"
    result = run_shell(f'"$PYTHON" -m ckdisp {many} | head -n 1; echo ${{PIPESTATUS[0]}}')
    name, status = result.stdout.split()
    assert name.startswith("gemm_standard_cktile_gfx942_")
    assert status == "141"  # what the shell shows for a program that SIGPIPE ends
    assert result.stderr == ""


def test_interrupt_in_the_middle_is_quiet() -> None:
    many = ["list", "gemm.standard", "--arch", "gfx942", "--tiles", "all"]
    # A shell starts its background jobs with interrupts off, and children keep that.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from ckdisp.cli import main; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, *many],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("gemm_standard_")
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)
    assert process.returncode == 130
    assert text.strip() == "error: interrupted"


def test_warnings_are_one_plain_line() -> None:
    program = (
        "import ckdisp.cli.app as m, ckdisp.cli as c, warnings\n"
        "m.app.main = lambda: warnings.warn('the cache is full', RuntimeWarning)\n"
        "c.main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert result.stderr.startswith("warning: the cache is full\n")


def test_full_disk_is_reported() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    result = run_shell('"$PYTHON" -m ckdisp arch > /dev/full')
    assert result.returncode == 1
    assert "No space left on device" in result.stderr
    assert "Traceback" not in result.stderr


def test_closed_streams_work() -> None:
    result = run_shell('"$PYTHON" -m ckdisp arch >&- 2>&-')
    assert result.returncode == 0


def test_no_colour_and_no_control_codes_in_pipes() -> None:
    for env in ({}, {"NO_COLOR": "1"}):
        result = run_process(["arch", "gfx942"], env=env)
        assert "\x1b" not in result.stdout + result.stderr
        assert "\x1b" not in run_process(["arch", "nope"], env=env).stderr


def test_arch_list_names_every_arch() -> None:
    result = CliRunner().invoke(app, ["arch", "--json"])
    names = [a["name"] for a in json.loads(result.stdout)]
    table = CliRunner().invoke(app, ["arch"]).stdout.splitlines()
    assert [line.split()[0] for line in table[1:]] == names
    assert "gfx942" in names and "generic" in names


def test_arch_accepts_target_features() -> None:
    result = CliRunner().invoke(app, ["arch", "gfx942:sramecc+:xnack-", "--json"])
    assert json.loads(result.stdout)["lds_bytes"] == 65536


def test_unknown_arch_lists_the_known_ones() -> None:
    result = CliRunner().invoke(app, ["arch", "gfx94"])
    assert result.exit_code == 2
    assert "did you mean 'gfx942'?" in result.stderr
    assert "x86-64-v3" in result.stderr
