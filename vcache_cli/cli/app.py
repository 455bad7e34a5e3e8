"""The entry point: builds the commands, runs one, and turns what happened into an exit code."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from vcache_cli.cli.documents import envelope
from vcache_cli.cli.errors import Problem, Terminated, explain
from vcache_cli.cli.output import DEBUGGING, WORDS, Output, discard
from vcache_cli.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["build", "main", "run"]

_COMPLETE = "_VCACHE_COMPLETE"
_STDERR = 2
_NEW_OBJECTS = 5_000
"""Between two searches for cycles: what flows through a run has none, and is freed without."""
_OF_A_SHELL = frozenset({"--show-completion", "--install-completion"})
_NO_LOOK = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"
"""Where it is set, the options of completion take the name of a shell; else typer drops it."""


def build(only: str | None = None) -> typer.Typer:
    """The application with its commands. Loads no heavy library.

    Args:
        only: the one command that will be run, which saves half of the start; None: all of them.
    """
    from vcache_cli.cli.commands import COMMANDS
    from vcache_cli.cli.help import HelpfulCommand, HelpfulGroup

    app = typer.Typer(
        name="vcache",
        cls=HelpfulGroup,
        callback=_root,
        invoke_without_command=True,
        rich_markup_mode=None,  # plain help: half the start-up time, and it can be piped
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    )
    chosen = {only: COMMANDS[only]} if only else COMMANDS
    for name, command in chosen.items():
        app.command(name, cls=HelpfulCommand)(command)
    return app


def main() -> NoReturn:
    """The command `vcache`. Never returns."""
    _open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="backslashreplace")  # a name must not end a run
    gc.set_threshold(_NEW_OBJECTS)
    signal.signal(signal.SIGTERM, _terminate)
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # a closed pipe, or a full disk that was told of
            discard(stream)
    sys.exit(code)


def _open_missing_streams() -> None:
    """Streams that our caller closed lead nowhere.

    Else the first files that we open take their numbers, and libraries that write to stderr by
    its number would write into the store.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(fd)
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115  until the end
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def run(args: Sequence[str]) -> int:
    """Run one command line; the exit code. Nothing escapes but the exit of the interpreter."""
    options = list(args)
    plain = options[: options.index("--")] if "--" in options else options
    debugging = DEBUGGING.set("--debug" in plain or bool(os.environ.get("VCACHE_DEBUG")))
    words = WORDS.set(tuple(options))
    try:
        return _run(options, Output(json="--json" in plain))
    finally:
        WORDS.reset(words)
        DEBUGGING.reset(debugging)


def _run(options: list[str], output: Output) -> int:
    try:
        return _invoke(options)
    except typer.Exit as leaving:
        return leaving.exit_code
    except SystemExit as leaving:  # the installer of shell completion
        return leaving.code if isinstance(leaving.code, int) else 0
    except BrokenPipeError:  # who reads our help or result has seen enough
        discard(sys.stdout)
        return 0
    except BaseException as error:  # noqa: BLE001  the one boundary that turns errors into codes
        problem = explain(error)
        try:
            return _report(problem, output)
        except OSError:  # nowhere to tell it
            return problem.code


def _invoke(args: list[str]) -> int:
    from vcache_cli.cli.commands import COMMANDS

    if _COMPLETE in os.environ:
        # All words but the last one, which is being written and may become another command.
        line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
        named = line.split(" ")[1:-1]
        build(named[0] if named and named[0] in COMMANDS else None)(prog_name="vcache")
    with (
        _shell_is_named() if len(args) > 1 and args[0] in _OF_A_SHELL else contextlib.nullcontext()
    ):
        command = typer.main.get_command(build(args[0] if args and args[0] in COMMANDS else None))
    with command.make_context("vcache", args) as context:
        code = command.invoke(context)
    return code if isinstance(code, int) else 0


@contextlib.contextmanager
def _shell_is_named() -> Iterator[None]:
    """What is built meanwhile asks for the name of a shell, and does not look which one runs."""
    before = os.environ.get(_NO_LOOK)
    os.environ[_NO_LOOK] = "1"
    try:
        yield
    finally:
        os.environ.pop(_NO_LOOK)
        if before is not None:
            os.environ[_NO_LOOK] = before


def _report(problem: Problem, output: Output) -> int:
    if output.json:
        return output.finish(envelope("error", {}), lambda _: (), problem=problem)
    output.problem(problem)
    return problem.code


def _root(
    context: typer.Context,
    debug: Annotated[  # noqa: ARG001  read by `run`, which must know it before options are parsed
        bool, typer.Option("--debug", help="Show the traceback of an error.")
    ] = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)
    ] = False,
) -> None:
    """Warm the vision caches of VLM servers before the first user arrives."""
    if show_version:
        typer.echo(f"vcache {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _terminate(*_: object) -> NoReturn:
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is being finished is not torn
    raise Terminated
