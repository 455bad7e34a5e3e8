"""Which document a file is by its name, and how it gets there."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vcache_cli.errors import UsageError
from vcache_cli.outcome import Status
from vcache_cli.report.junit import junit
from vcache_cli.report.markdown import markdown
from vcache_cli.report.page import html_page
from vcache_cli.report.places import list_failed
from vcache_cli.report.thumbnails import Thumbnails

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final, Literal

    from vcache_cli.report.gather import Report

__all__ = ["Written", "format_of", "write_report"]

_FORMATS: Final = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".json": "json",
    ".xml": "junit",
    ".txt": "failed",
}


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was written."""

    path: str
    format: str
    """``html``, ``markdown``, ``json``, ``junit`` or ``failed``."""
    size_bytes: int
    unlisted: int = 0
    """Names that a list of lines cannot hold."""


def format_of(path: str) -> str:
    """The format of a file, by the end of its name.

    Raises:
        UsageError: no format ends so.

    >>> format_of("report.html"), format_of("out/vcache.junit.xml"), format_of("failed.txt")
    ('html', 'junit', 'failed')
    """
    ending = os.path.splitext(path)[1].lower()
    if ending not in _FORMATS:
        raise UsageError(
            f"`--out {path}`: its ending says no format",
            hint="write .html, .md, .json, .xml (JUnit), or .txt (the failed sources as a list)",
        )
    return _FORMATS[ending]


def write_report(
    path: str,
    report: Report,
    document: Mapping[str, Any],
    *,
    null: bool = False,
    isolation: Literal["process", "thread"] = "process",
) -> Written:
    """Write the document that `path` is by its name, whole or not at all.

    Args:
        path: replaced where it is there.
        report: what it is about.
        document: ``vcache.report/1`` of it.
        null: the list of failed sources is separated by NUL instead of newlines.
        isolation: where the page's small pictures are decoded.

    Raises:
        UsageError: `path` is in no folder, or is one.
        OSError: it cannot be written.
    """
    form, unlisted = format_of(path), 0
    if form == "failed":
        content, unlisted = _failed(report, null=null)
    else:
        content = _content(form, report, document, isolation)
    try:
        _replace(path, content)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        raise UsageError(f"`--out {path}`: {error.strerror}") from error
    return Written(path, form, len(content), unlisted)


def _content(
    form: str, report: Report, document: Mapping[str, Any], isolation: Literal["process", "thread"]
) -> bytes:
    if form == "junit":
        return junit(document, report.run.outcomes())
    if form == "json":
        return f"{json.dumps(document, indent=2, allow_nan=False)}\n".encode("ascii")
    if form == "markdown":
        return markdown(document).encode("utf-8", "replace")
    if isolation == "thread":
        page = html_page(document, Thumbnails(report.folder))
    else:
        from vcache_cli.report.drawn_apart import drawn_apart

        with drawn_apart() as draw:
            page = html_page(document, Thumbnails(report.folder, draw))
    return page.encode("utf-8", "replace")


def _failed(report: Report, *, null: bool) -> tuple[bytes, int]:
    """The failed sources as a list, and how many of their names a line cannot hold."""
    lines = report.run.outcomes()
    failed = (line.get("source") for line in lines if line.get("status") == Status.FAILED)
    end = b"\0" if null else b"\n"
    names = list(list_failed((name for name in failed if isinstance(name, str)), report.folder))
    listed = [name for name in names if end not in name]
    return b"".join(name + end for name in listed), len(names) - len(listed)


def _replace(path: str, content: bytes) -> None:
    """A reader sees the old file or the new one; a pipe or a device is written to."""
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        regular = True
    if not regular:
        with open(path, "wb") as file:
            file.write(content)
        return
    real = os.path.realpath(path)
    beside = f"{real}.{os.getpid()}.tmp"
    try:
        with open(beside, "xb") as file:
            file.write(content)
        os.replace(beside, real)
    except BaseException:
        if os.path.lexists(beside):
            os.unlink(beside)
        raise
