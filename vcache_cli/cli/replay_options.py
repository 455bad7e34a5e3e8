"""The options of `replay`: which server, and how it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from vcache_cli.cli.options import option, parsed
from vcache_cli.errors import UsageError
from vcache_cli.quantity import parse_age, parse_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vcache_cli.replay import Address, Manner

__all__ = [
    "AgainOption",
    "ApiKeyEnvOption",
    "ConcurrencyOption",
    "MeasureOption",
    "PromptOption",
    "ProxyOption",
    "RateOption",
    "RetriesOption",
    "ServedModelOption",
    "ServerOption",
    "StateOption",
    "TimeoutOption",
    "VideosOption",
    "address_asked",
    "manner_asked",
]

ServerOption = Annotated[
    str | None,
    option(
        "--server",
        metavar="URL",
        about="The server, such as http://127.0.0.1:8080: what /v1/chat/completions follows."
        " Nothing is sent anywhere else.",
    ),
]
ServedModelOption = Annotated[
    str | None,
    option(
        "--model",
        "-m",
        metavar="NAME",
        about="The model as the server calls it; some load another one when they are asked for it.",
    ),
]
ApiKeyEnvOption = Annotated[
    str | None,
    option(
        "--api-key-env",
        metavar="VARIABLE",
        about="Name of the environment variable that holds the server's key.",
    ),
]
ProxyOption = Annotated[
    str | None,
    option(
        "--proxy",
        metavar="URL",
        about="Send by this proxy, such as http://proxy:3128; those of the environment are not"
        " used.",
    ),
]
ConcurrencyOption = Annotated[
    str | None,
    option("--concurrency", "-j", metavar="N", about="Requests at once.", default="4"),
]
RateOption = Annotated[
    str | None,
    option("--rate", metavar="N", about="Most requests begun in a second.", default="no limit"),
]
RetriesOption = Annotated[
    str | None,
    option(
        "--retries",
        metavar="N",
        about="How often a request is sent again that the server had no room for, or that was"
        " lost.",
        default="5",
    ),
]
TimeoutOption = Annotated[
    str | None,
    option(
        "--timeout", metavar="DURATION", about="Longest that one request may take.", default="5m"
    ),
]
PromptOption = Annotated[
    str | None,
    option(
        "--prompt",
        metavar="TEXT",
        about="What is asked about each picture; matters where a server's key holds it.",
        default="`What is this?`",
    ),
]
VideosOption = Annotated[
    bool, option("--videos", about="Send videos too, as `video_url`; request logs' are left out.")
]
MeasureOption = Annotated[
    str | None,
    option(
        "--measure",
        metavar="N",
        about="Send N of those that this run sent a second time, with another question, and say"
        " how long first tokens took before and after.",
    ),
]
AgainOption = Annotated[
    bool, option("--again", about="Send all: the server was restarted, or dropped what it had.")
]
StateOption = Annotated[
    str | None,
    option(
        "--state",
        metavar="FILE",
        about="Where it is noted what the server was sent; else in the platform's cache folder.",
    ),
]


def address_asked(given: Mapping[str, Any]) -> Address:
    """The server that the user named.

    Raises:
        UsageError: none, or no URL of one.
    """
    from vcache_cli.replay import address_of, bearer

    if given["server"] is None:
        raise UsageError("no server was named", hint="add `--server http://127.0.0.1:8080`")
    return address_of(given["server"], proxy=given["proxy"], key=bearer(given["api_key_env"]))


def manner_asked(given: Mapping[str, Any]) -> Manner:
    """How the user would have it sent.

    Raises:
        UsageError: no model, or a value that makes no sense.
    """
    from vcache_cli.config import parse_count
    from vcache_cli.replay import Manner

    if not given["model"]:
        raise UsageError("no model was named", hint="add `--model NAME`, as the server calls it")
    a_number = "a number of at least 1"
    read = {
        "prompt": given["prompt"],
        "concurrency": _read(given, "concurrency", a_number, parse_count),
        "rate": _read(given, "rate", "requests a second, such as 2 or 0.5", _parse_rate),
        "retries": _read(given, "retries", "0 or more", _parse_retries),
        "timeout_seconds": _read(given, "timeout", "a time such as 90s or 5m", _parse_timeout),
        "max_file_bytes": _read(given, "max_file_size", "a size such as 20MiB", parse_size),
        "measure": _read(given, "measure", a_number, parse_count),
    }
    if (read["concurrency"] or 0) > 1024:
        raise UsageError(f"`--concurrency {read['concurrency']}`: at most 1024")
    chosen = {name: value for name, value in read.items() if value is not None}
    return Manner(given["model"], videos=given["videos"], **chosen)


def _read(given: Mapping[str, Any], name: str, expected: str, parse: Any) -> Any:  # noqa: ANN401
    flag = f"--{name.replace('_', '-')}"
    return parsed(flag, given[name], expected=expected, parse=parse)


def _parse_rate(text: str) -> float:
    rate = float(text)
    if not 0 < rate < 1e6:
        raise ValueError(text)
    return rate


def _parse_timeout(text: str) -> float:
    seconds = parse_age(text)
    if not 0 < seconds <= 86_400:
        raise ValueError(text)
    return seconds


def _parse_retries(text: str) -> int:
    retries = int(text)
    if not 0 <= retries <= 1000:
        raise ValueError(text)
    return retries
