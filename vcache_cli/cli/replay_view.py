"""What people see of a replay. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from vcache_cli.cli.blocks import Block, Facts, Lines
from vcache_cli.cli.text import duration
from vcache_cli.quantity import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Final

__all__ = ["replay_view"]

_NAMES: Final = ("sent", "present", "copy", "skipped", "failed")
_WORDS: Final = {"present": "sent before"}
_SHOWN: Final = 5


def replay_view(document: Mapping[str, Any]) -> Sequence[Block]:
    """A replay: what became of the items, and how long first tokens took."""
    return (Facts(tuple(_facts(document))), Lines(tuple(_failures(document))))


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    items, requests = document["items"], document["requests"]
    parts = [f"{items[name]:,} {_WORDS.get(name, name)}" for name in _NAMES if items[name]]
    yield "items", f"{items['total']:,}" + (f" ({', '.join(parts)})" if parts else "")
    if skips := document["skips"]:
        yield "skipped", ", ".join(f"{n:,} {kind.replace('_', ' ')}" for kind, n in skips.items())
    again = f", {requests['again']:,} of them again" if requests["again"] else ""
    yield "requests", f"{requests['made']:,}{again}"
    yield "bytes", f"{format_size(document['bytes']['sent'])} sent"
    rate = f"{document['items_per_second']:,.1f} items/s"
    yield "time", f"{duration(document['seconds']['total'])}, {rate}"
    yield from _first_token(document.get("first_token", {}))
    yield "server", document["server"]
    if proxy := document.get("proxy"):
        yield "proxy", proxy
    yield "model", document["model"]
    yield "state", document["state"]


def _first_token(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if cold := found.get("cold"):
        yield "first token", f"{_milliseconds(cold)} ({cold['items']:,} items)"
    if sample := found.get("sample"):
        told = f"{_milliseconds(sample['cold'])} cold, {_milliseconds(sample['warm'])} warm"
        yield "sent twice", f"{told} ({sample['warm']['items']:,} items)"


def _milliseconds(timed: Mapping[str, Any]) -> str:
    return f"{timed['median_seconds'] * 1000:,.0f} ms"


def _failures(document: Mapping[str, Any]) -> Iterator[str]:
    """The kinds, then the first items."""
    failures = document["failures"]
    if not failures:
        return
    kinds = Counter(each["kind"] for each in failures).most_common()
    yield "failed: " + ", ".join(f"{number:,} {kind}" for kind, number in kinds)
    for each in failures[:_SHOWN]:
        yield f"  {each['source']}: {each['stage']}: {each['message']}"
    if (more := document["items"]["failed"] - len(failures[:_SHOWN])) > 0:
        yield f"  and {more:,} more"
