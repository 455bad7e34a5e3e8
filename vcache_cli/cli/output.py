"""The one sink of every command: stdout is the result only, everything else goes to stderr."""

from __future__ import annotations

import os
import sys
import traceback
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from vcache_cli.cli.blocks import plain_lines
from vcache_cli.cli.documents import dump
from vcache_cli.cli.text import clean
from vcache_cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from vcache_cli.cli.blocks import Block
    from vcache_cli.cli.errors import Problem

    View = Callable[[Mapping[str, Any]], Sequence[Block]]
    """What people see of a document. Pure."""

__all__ = ["DEBUGGING", "WORDS", "Output", "discard", "is_rich", "is_terminal"]

DEBUGGING: Final[ContextVar[bool]] = ContextVar("debugging", default=False)
"""True under `--debug`: every error is shown with its traceback."""

WORDS: Final[ContextVar[tuple[str, ...]]] = ContextVar("words", default=())
"""The command line that is run, without ``vcache``; empty where it is not known."""


def _stdout() -> TextIO:
    return sys.stdout


def _stderr() -> TextIO:
    return sys.stderr


@dataclass(frozen=True, slots=True)
class Output:
    """Renders a document as JSON, as text for people, or, when quiet, as its bare lines."""

    json: bool = False
    quiet: bool = False
    verbose: bool = False
    stdout: TextIO = field(default_factory=_stdout)
    stderr: TextIO = field(default_factory=_stderr)

    def finish(
        self,
        document: Mapping[str, Any],
        view: View,
        *,
        bare: Sequence[str] = (),
        problem: Problem | None = None,
    ) -> int:
        """Print the result of a command, and why it did not end well; the exit code.

        `bare` is what `--quiet` leaves of it.
        """
        if self.json:
            error = {"error": problem.as_json()} if problem else {}
            self._write(self.stdout, dump({**document, **error}))
        elif self.quiet:
            for line in bare:
                self._write(self.stdout, clean(line))
        else:
            self._show(view(document))
        if problem:
            self.problem(problem)
        return problem.code if problem else 0

    def problem(self, problem: Problem) -> None:
        """Say on stderr what is wrong, and what to do about it."""
        if problem.cause and DEBUGGING.get():
            for part in traceback.format_exception(problem.cause):
                for line in part.split("\n")[:-1]:
                    self._write(self.stderr, clean(line))
        self._write(self.stderr, f"error: {clean(problem.message)}")
        if problem.hint:
            self._write(self.stderr, f"hint: {clean(problem.hint)}")

    def say(self, text: str) -> None:
        """Talk: one line on stderr, nothing when quiet."""
        if not self.quiet:
            self.complain(text)

    def complain(self, text: str) -> None:
        """One line on stderr, also when quiet."""
        self._write(self.stderr, clean(text))

    @property
    def can_ask(self) -> bool:
        """True where there is someone to ask."""
        return not self._why_alone()

    def _why_alone(self) -> str:
        """Why nobody can be asked; empty where someone can."""
        if self.json:
            return "--json is for programs"
        for name, stream in (("stdin", sys.stdin), ("stderr", self.stderr)):
            if not stream.isatty():
                return f"{name} is no terminal"
        return ""

    def confirm(self, question: str, *, yes: bool) -> bool:
        """True where the user agrees to remove something; asked on a terminal only.

        Raises:
            UsageError: nobody can be asked, and `--yes` was not given.
        """
        if yes:
            return True
        if reason := self._why_alone():
            raise UsageError(
                f"nothing was removed: {reason}, so nobody can confirm",
                hint="add --yes, or --dry-run to see the plan",
            )
        self.stderr.write(f"{clean(question)} [y/N] ")
        self.stderr.flush()
        return sys.stdin.readline().strip().lower() in {"y", "yes"}

    def _show(self, blocks: Sequence[Block]) -> None:
        if not is_rich(self.stdout):
            for line in plain_lines(blocks):
                self._write(self.stdout, line)
            return
        from vcache_cli.cli.rich_blocks import print_blocks

        print_blocks(blocks, self.stdout)

    def _write(self, stream: TextIO, line: str) -> None:
        try:
            stream.write(line + "\n")
            stream.flush()
        except BrokenPipeError:
            discard(stream)


def is_rich(stream: TextIO) -> bool:
    """True for a terminal whose user has nothing against colours."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def is_terminal(stream: TextIO) -> bool:
    """True for a terminal whose cursor can be moved."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def discard(stream: TextIO) -> None:
    """Send what is still written to a closed pipe nowhere: who left the pipe has seen enough."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
