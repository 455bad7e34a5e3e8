"""The options of commands about stores in buckets."""

from __future__ import annotations

from typing import Annotated

import typer

from vcache_cli.buckets import Place, is_url
from vcache_cli.cli.options import option, parsed
from vcache_cli.errors import UsageError

__all__ = ["JobsOption", "UrlArgument", "check_lasting", "jobs_of", "url_of"]

UrlArgument = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        show_default=False,
        help="Of the store in a bucket, such as s3://BUCKET/PATH; also gs://, az:// and file:///.",
    ),
]
JobsOption = Annotated[
    str | None,
    option("--jobs", "-j", metavar="N", about="Objects moved at once.", default="16"),
]


def jobs_of(text: str | None) -> int:
    """How many objects are moved at once.

    Raises:
        UsageError: no number, or more than anybody has use for.
    """
    from vcache_cli.config import parse_count

    jobs = parsed("--jobs", text, expected="a number of at least 1", parse=parse_count) or 16
    if jobs > 1024:
        raise UsageError(f"`--jobs {jobs}`: at most 1024")
    return int(jobs)


def url_of(argument: str | None, option: str | None) -> str | None:
    """The URL of the store that the user named; None where a folder was, or none.

    Raises:
        UsageError: two different stores.
    """
    found = [each for each in (argument, option) if each]
    if not any(is_url(each) for each in found):
        return None
    if len(set(found)) > 1:
        raise UsageError("two stores were named", hint="name one of them")
    return found[0]


def check_lasting(place: Place) -> None:
    """Refuse what is gone when the command ends: entries would be written into nothing.

    Raises:
        UsageError: a filesystem in memory.
    """
    if place.scheme == "memory":
        raise UsageError(
            f"`{place.url}` lies in the memory of this process, and ends with it",
            hint="name a bucket (s3://, gs://, az://), or a folder by file:///PATH",
        )
