"""What a reply means for its item, and for the run. Pure."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from vcache_cli.errors import AccessError, ModelError, RefusedError, VcacheError
from vcache_cli.printable import clean

if TYPE_CHECKING:
    from vcache_cli.replay.address import Address
    from vcache_cli.replay.wire import Reply

__all__ = ["DONE", "Verdict", "judge", "pause_seconds", "silent"]

_BUSY: Final = frozenset({429, 503})
_PASSING: Final = frozenset({408, 425, 502, 504})
_MOST_PAUSE_SECONDS: Final = 600.0
_MOST_BACK_OFF_SECONDS: Final = 30.0
_REDIRECTS: Final = range(300, 400)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reply means."""

    kind: str = ""
    """Of the failure; empty where the item is done."""
    message: str = ""
    hint: str = ""
    tries: int | None = 1
    """How often the same may be sent in all; None is as often as the user allows."""
    holds: bool = False
    """All others are to wait too."""
    ends: VcacheError | None = None
    """What ends the run, once no try is left."""


DONE: Final = Verdict()


def judge(reply: Reply, address: Address, model: str) -> Verdict:
    """What `reply` means."""
    if reply.trouble:
        return _troubled(reply, address)
    if reply.status == 200:
        return DONE
    if error := _ending(reply, address, model):
        told = f"the server says {reply.status}"
        return Verdict(error.kind, told, error.hint, ends=error)
    return _refused(
        reply.status, clean(f"the server says {reply.status}: {reply.message}".rstrip(": "))
    )


def _refused(status: int, told: str) -> Verdict:
    """What the server's refusal of one item means."""
    if status in _BUSY:
        hint = "run it again later, or with a lower --concurrency or --rate"
        return Verdict("rate_limited", told, hint, tries=None, holds=True)
    if status >= 500 or status in _PASSING:
        tries = None if status in _PASSING else 2
        return Verdict("server_error", told, "see what the server logs", tries=tries)
    return Verdict("refused_by_server", told, "leave it out, or raise the server's limit")


def _ending(reply: Reply, address: Address, model: str) -> VcacheError | None:
    """What ends the run, since every other item would meet it."""
    told = clean(f"{address.url}: {reply.status}: {reply.message}".rstrip(": "))
    if reply.status in {401, 403, 407}:
        hint = "put a key that it takes into the environment, and name that with --api-key-env"
        return AccessError(told, hint=hint)
    if reply.status == 404:
        hint = f"`--model {clean(model)}` has to be as the server lists it at .../v1/models, and"
        return ModelError(told, hint=f"{hint} --server has to be the URL that /v1 follows")
    if reply.status in _REDIRECTS:
        told = f"{address.url} leads to `{clean(reply.location)}`, and no redirect is followed"
        return RefusedError(told, hint="name that URL as --server, if pictures may go there")
    return None


def silent(verdict: Verdict, address: Address) -> Verdict:
    """`verdict` of a connection that broke, where no request was ever answered."""
    hint = "see that it speaks HTTP or HTTPS as --server says, and what it logs"
    return replace(
        verdict, ends=ModelError(f"{address.url} never answers: {verdict.message}", hint=hint)
    )


def _troubled(reply: Reply, address: Address) -> Verdict:
    told = clean(reply.message)
    if reply.trouble == "unreachable":
        message = f"{address.url} cannot be reached: {told}"
        error = ModelError(message, hint="start the server, or correct --server; then run it again")
        return Verdict(error.kind, "not reached", error.hint, tries=None, ends=error)
    if reply.trouble == "untrusted":
        message = f"{address.url}: its certificate is not trusted: {told}"
        refused = RefusedError(message, hint="name the authority's file in SSL_CERT_FILE")
        return Verdict(refused.kind, "not sent", refused.hint, ends=refused)
    if reply.trouble in {"timeout", "broken"}:
        return Verdict(reply.trouble, told, "see what the server logs", tries=None)
    return Verdict(reply.trouble, told, "see that --server is a server of OpenAI's API")


def pause_seconds(
    retry_after: str, tries: int, *, now: datetime | None = None, spread: float | None = None
) -> float:
    """How long to wait before the next try: as the server says, else twice as long each time.

    Args:
        retry_after: the header, seconds or a date; empty for none.
        tries: made so far, at least 1.
        now: the time; None is the clock's.
        spread: 0..1, so that not all come back at one moment; None is drawn.

    >>> pause_seconds("7", 1), pause_seconds("", 3, spread=1.0)
    (7.0, 4.0)
    """
    asked = _asked(retry_after.strip(), now or datetime.now(UTC))
    if asked is not None:
        return min(max(0.0, asked), _MOST_PAUSE_SECONDS)
    drawn = random.random() if spread is None else spread  # noqa: S311  no secret
    longest: float = min(2.0 ** min(tries - 1, 10), _MOST_BACK_OFF_SECONDS)
    return longest * (0.5 + drawn / 2)


def _asked(text: str, now: datetime) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if math.isfinite(seconds):
        return seconds
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds()
