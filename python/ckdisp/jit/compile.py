"""Compiling on an executor of the caller: threads, processes or a cluster, in place of ninja."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import Executor, Future, as_completed
from pathlib import Path

from ..codegen.build import Failure, Progress, failure_error
from ..codegen.emit.graph import compile_command
from ..codegen.emit.tree import Tree, Unit


def run_command(command: list[str], folder: str, timeout: float | None) -> tuple[int, str]:
    """Exit code and output of ``command``, run in ``folder``; every child ends with it."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return 127, f"error: cannot run {command[0]}: {error.strerror}"
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return 124, f"{output}error: not done within {timeout:g} s, so it was stopped"
    return process.returncode, output


def compile_on(
    executor: Executor,
    folder: Path,
    tree: Tree,
    units: Sequence[Unit],
    progress: Progress,
    timeout: float | None,
) -> None:
    """Compile ``units`` on ``executor``; the first failure cancels what has not begun.

    Processes of the executor see the cache folder at the same path as this one.
    """
    (folder / "obj").mkdir(exist_ok=True)
    futures: dict[Future[tuple[int, str]], tuple[Unit, list[str]]] = {}
    for unit in units:
        command = compile_command(tree, tree.variants[unit.variant])
        command += ["-MD", "-MF", f"{unit.object}.d", "-c", unit.source, "-o", unit.object]
        futures[executor.submit(run_command, command, str(folder), timeout)] = unit, command
    try:
        for done, future in enumerate(as_completed(futures), 1):
            unit, command = futures[future]
            code, output = future.result()
            if code != 0:
                raise failure_error(folder, [Failure(unit.object, shlex.join(command), output)])
            progress(done, len(units), unit.name)
    finally:
        for future in futures:
            future.cancel()
        for future in futures:
            if not future.cancelled():
                future.exception()  # wait: a compiler must not write into a folder that is gone
