"""The root command: options that stand alone, lazily loaded commands, errors to exit codes."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

EPILOG = (
    "Exit codes: 0 it worked; 1 the command failed or found a problem; 2 wrong usage or invalid "
    "input; 130 interrupted."
)

# Command -> (module, one line of help). The line is repeated here so that `ckdisp --help` need not
# import every command; a test compares it with the command's own.
_COMMANDS = {
    "demo": ("demo", "Build a few kernels, run the layers of a real model and check the results."),
    "doctor": ("doctor", "Say what this machine has, what is missing and what to do about it."),
    "arch": ("arch", "Show the known architectures, or the facts of one."),
    "list": ("sets", "List the kernels of a set, a library or the prebuilt kernels."),
    "count": ("sets", "Count the kernels of a set without making them."),
    "rules": ("rules", "Show the named rules that a kernel key must keep."),
    "generate": ("build", "Write the sources and build files of a kernel set."),
    "build": ("build", "Build a folder written by `ckdisp generate`."),
    "inspect": (
        "inspect",
        "Show the kernels in libraries and objects for AMD GPUs: registers, memory, instructions.",
    ),
    "select": ("dispatch", "Say which kernel runs a problem."),
    "explain": ("dispatch", "Show every candidate kernel for a problem and why it loses or wins."),
    "verify": ("verify", "Run kernels on this machine and compare them with references."),
    "bench": ("bench", "Time a problem against NumPy and PyTorch."),
    "cache": ("cache", "Look at and clean the cache of compiled kernels."),
}


class App(click.Group):
    """A group that imports a command when it is asked for and turns errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f".{_COMMANDS[cmd_name][0]}", __package__)
        command: click.Command = getattr(module, f"{cmd_name}_command")
        command.epilog = command.epilog or EPILOG
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from ..codegen.errors import suggest

            known = tuple(_COMMANDS)
            raise click.UsageError(
                f"unknown command {name!r}{suggest(name, known)}; known: {', '.join(known)}", ctx
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would make it a failure
            _silence_stdout()
            ctx.exit(EXIT_BROKEN_PIPE)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def main(  # type: ignore[override]  # always exits, as click's does in standalone mode
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        extra.pop("standalone_mode", None)
        try:
            try:
                code = super().main(args, prog_name or "ckdisp", standalone_mode=False, **extra)
            except SystemExit as ended:
                code = ended.code
            _flush()
        except BaseException as error:
            if _debug():
                raise
            code = _report(error)
        sys.exit(code if isinstance(code, int) else EXIT_OK)


def _debug() -> bool:
    return os.environ.get("CKDISP_DEBUG", "") not in ("", "0")


def _flush() -> None:
    # A full disk or a closed pipe shows here at the latest, while it can still be reported.
    if sys.stdout is not None:
        sys.stdout.flush()


def _say(message: str) -> None:
    """One error message on standard error; a closed standard error is no second error."""
    try:
        label = click.style("error:", fg="red", bold=True)
        click.echo(f"{label} {message}", err=True, color=None if colour_allowed() else False)
    except OSError:
        pass


def colour_allowed() -> bool:
    """Whether colours may be used at all; a stream that is no terminal never gets them."""
    return not os.environ.get("NO_COLOR")


def _report(error: BaseException) -> int:
    """Print what went wrong, briefly, and give the exit code."""
    from ..codegen.errors import Error, InvalidArgument, InvalidKey

    if isinstance(error, click.UsageError):
        context = error.ctx
        if context is not None:
            _say(
                f"{error.format_message()}\n{context.get_usage()}\n"
                f"Try '{context.command_path} --help'."
            )
        else:
            _say(error.format_message())
        return EXIT_USAGE
    if isinstance(error, click.ClickException):
        _say(error.format_message())
        return error.exit_code
    if isinstance(error, (InvalidKey, InvalidArgument)):
        _say(str(error))
        return EXIT_USAGE
    if isinstance(error, Error):
        _say(str(error))
        return EXIT_FAILED
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        _say("interrupted")
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _silence_stdout()
        return EXIT_BROKEN_PIPE
    if isinstance(error, OSError):
        _silence_stdout()
        place = f"{error.filename}: " if error.filename else ""
        _say(f"{place}{error.strerror or error}; check the path, permissions and free space")
        return EXIT_FAILED
    if isinstance(error, MemoryError):
        _say("not enough memory; use smaller shapes or close other programs")
        return EXIT_FAILED
    raise error


def _silence_stdout() -> None:
    """Keep the interpreter's last flush from complaining about an output that is gone."""
    if sys.stdout is None:
        return
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):
        pass  # not a real file, as in tests


def _print_and_exit(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    if param.name == "version":
        from ..codegen.version import VERSION

        click.echo(f"ckdisp {VERSION}")
    else:
        from . import folders

        click.echo(folders.cmake_dir() if param.name == "cmake_dir" else folders.include_dir())
    ctx.exit()


def _set_debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        os.environ["CKDISP_DEBUG"] = "1"


def _print_option(name: str, text: str) -> Callable[[_Command], _Command]:
    return click.option(
        name, is_flag=True, expose_value=False, is_eager=True, callback=_print_and_exit, help=text
    )


@click.group(
    cls=App,
    name="ckdisp",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@_print_option("--version", "Print the version and exit.")
@_print_option("--cmake-dir", "Print the folder for find_package(ckdisp) and exit.")
@_print_option("--include-dir", "Print the folder of the C++ headers and exit.")
@click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_set_debug,
    help="Show a traceback with errors; the same as CKDISP_DEBUG=1.",
)
@click.pass_context
def app(ctx: click.Context) -> None:
    """Declare, generate, build and dispatch GPU and CPU kernels."""
    if not colour_allowed():
        ctx.color = False
