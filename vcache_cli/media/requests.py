"""What a line of a request log asks of a model: its pictures, in their order.

Forms: OpenAI chat (``messages``), OpenAI responses (``input``), Anthropic messages (``messages``
with ``source``), bare or inside a batch line or a proxy's record (``body``, ``request``,
``params``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_PICTURES", "Named", "find_request", "pictures_of"]

MAX_PICTURES: Final = 4096
"""Of one request."""

_WRAPPERS: Final = ("body", "request", "params", "request_body", "payload")
_MAX_WRAPPERS: Final = 4
_INNER: Final = ("content", "output")
"""Where a message, or the result of a tool, holds its parts."""


class Named(NamedTuple):
    """A picture as a request names it."""

    text: str
    """A URL of any scheme, a path, or base64; empty where the request holds none of them."""
    is_base64: bool = False
    """True where `text` is nothing but base64."""


def find_request(record: object) -> dict[str, Any] | None:
    """The body of the request that a line records; None where there is none.

    >>> find_request({"custom_id": "a", "body": {"messages": []}})
    {'messages': []}
    """
    for _ in range(_MAX_WRAPPERS):
        if isinstance(record, str) and record.lstrip().startswith("{"):
            record = json.loads(record)  # some proxies write the body as text
        if not isinstance(record, dict):
            return None
        if isinstance(record.get("messages"), list) or isinstance(record.get("input"), str | list):
            return record
        record = next((record[name] for name in _WRAPPERS if record.get(name)), None)
    return None


def pictures_of(request: dict[str, Any]) -> Iterator[Named]:
    """The pictures of a request as a server meets them: message by message, part by part."""
    for name in ("messages", "input"):
        yield from _pictures(request.get(name))


def _pictures(value: object) -> Iterator[Named]:
    if isinstance(value, list):
        for each in value:
            yield from _pictures(each)
    elif isinstance(value, dict):
        make = _PARTS.get(str(value.get("type")))
        named = make(value) if make else None
        if named is not None:
            yield named
        else:
            for name in _INNER:
                yield from _pictures(value.get(name))


def _openai(part: dict[str, Any]) -> Named:
    """``image_url`` of chat (an object) and ``input_image`` of responses (a text)."""
    found = part.get("image_url")
    url = found.get("url") if isinstance(found, dict) else found
    return Named(url if isinstance(url, str) else "")


def _image(part: dict[str, Any]) -> Named:
    """Anthropic's ``image``; also the one of chat templates, whose ``image`` is a URL or path."""
    source = part.get("source")
    if not isinstance(source, dict):
        found = part.get("image", part.get("url"))
        return Named(found) if isinstance(found, str) else _openai(part)
    if source.get("type") == "base64":
        data = source.get("data")
        return Named(data, is_base64=True) if isinstance(data, str) else Named("")
    url = source.get("url")
    return Named(url if isinstance(url, str) else "")


_PARTS: Final = {"image_url": _openai, "input_image": _openai, "image": _image}
