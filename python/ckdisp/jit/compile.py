"""Compiling on an executor of the caller: threads, processes or a cluster, in place of ninja."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from concurrent.futures import Executor, Future, as_completed
from pathlib import Path

from ..codegen.build import Progress
from ..codegen.errors import BuildError
from ..codegen.failures import Failure, failure_error, unwritten_error
from ..codegen.steps import Step
from ..codegen.supervise import supervised
from ..codegen.toolchain import which


def run_commands(
    commands: list[list[str]], folder: str, timeout: float | None
) -> tuple[int, str, list[str]]:
    """Run ``commands`` in ``folder`` until one fails: exit code, output and the last one run."""
    output = ""
    for command in commands:
        code, text = _run(command, folder, timeout)
        output += text
        if code != 0:
            break
    return code, output, command


def _run(command: list[str], folder: str, timeout: float | None) -> tuple[int, str]:
    """Exit code and output of ``command``; every child ends with it."""
    if which(command[0]) is None:
        return 127, f"error: cannot run {command[0]}: there is no such program"
    try:
        with supervised(command, folder) as running:
            try:
                output, _ = running.process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                running.end()
                output, _ = running.process.communicate()
                return 124, f"{output}error: not done within {timeout:g} s, so it was stopped"
    except OSError as error:
        return 127, f"error: cannot run {command[0]}: {error.strerror}"
    return running.process.returncode, output


def require_outputs(folder: Path, steps: Sequence[Step]) -> None:
    """:class:`BuildError` if a step that ended well has not written its output."""
    for step in steps:
        if not (folder / step.output).is_file():
            command = shlex.join(step.rule.commands[0].words)
            raise BuildError(unwritten_error(step.name, step.output, command))


def compile_on(
    executor: Executor,
    folder: Path,
    steps: Sequence[Step],
    progress: Progress,
    timeout: float | None,
) -> None:
    """Run ``steps`` on ``executor``, each when what it needs is there.

    The first failure cancels what has not begun. Processes of the executor see the cache folder
    at the same path as this one.
    """
    for path in {os.path.dirname(step.output) for step in steps}:
        (folder / path).mkdir(exist_ok=True)
    made = {step.output for step in steps}
    first = [step for step in steps if not made.intersection(step.rule.needs)]
    others = [step for step in steps if made.intersection(step.rule.needs)]
    done = 0
    for wave in (first, others):
        futures: dict[Future[tuple[int, str, list[str]]], Step] = {}
        try:
            for step in wave:
                commands = [command.arguments(step) for command in step.rule.commands]
                futures[executor.submit(run_commands, commands, str(folder), timeout)] = step
            for future in as_completed(futures):
                step = futures[future]
                code, output, command = future.result()
                if code != 0:
                    failure = Failure(step.output, shlex.join(command), output)
                    raise failure_error(folder, [failure])
                require_outputs(folder, [step])
                done += 1
                progress(done, len(steps), step.name)
        finally:
            for future in futures:
                future.cancel()
            for future in futures:
                if not future.cancelled():
                    future.exception()  # wait: a compiler must not write into a folder that is gone
