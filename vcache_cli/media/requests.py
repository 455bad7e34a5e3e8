"""What a line of a request log asks of a model: its pictures and videos, in their order.

Forms: OpenAI chat (``messages``), OpenAI responses (``input``), Anthropic messages (``messages``
with ``source``), bare or inside a batch line or a proxy's record (``body``, ``request``,
``params``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MAX_PICTURES", "Named", "find_request", "media_of"]

MAX_PICTURES: Final = 4096
"""Of one request, videos counted too."""

_WRAPPERS: Final = ("body", "request", "params", "request_body", "payload")
_MAX_WRAPPERS: Final = 4
_INNER: Final = ("content", "output")
"""Where a message, or the result of a tool, holds its parts."""


class Named(NamedTuple):
    """A picture or a video as a request names it."""

    text: str
    """A URL of any scheme, a path, or base64; empty where the request holds none of them."""
    is_base64: bool = False
    """True where `text` is nothing but base64."""
    is_video: bool = False
    """By the part that names it; what it is, its first bytes tell."""


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


def media_of(request: dict[str, Any]) -> Iterator[Named]:
    """Pictures and videos of a request as a server meets them: message by message, part by part."""
    for name in ("messages", "input"):
        yield from _media(request.get(name))


def _media(value: object) -> Iterator[Named]:
    if isinstance(value, list):
        for each in value:
            yield from _media(each)
    elif isinstance(value, dict):
        make = _PARTS.get(str(value.get("type")))
        named = make(value) if make else None
        if named is not None:
            yield named
        else:
            for name in _INNER:
                yield from _media(value.get(name))


def _openai(part: dict[str, Any], field: str = "image_url") -> Named:
    """``image_url`` of chat (an object) and ``input_image`` of responses (a text)."""
    found = part.get(field)
    url = found.get("url") if isinstance(found, dict) else found
    return Named(url if isinstance(url, str) else "")


def _image(part: dict[str, Any], name: str = "image") -> Named:
    """Anthropic's ``image``; also the one of chat templates, whose ``image`` is a URL or path."""
    source = part.get("source")
    if not isinstance(source, dict):
        found = part.get(name, part.get("url"))
        return Named(found) if isinstance(found, str) else _openai(part, f"{name}_url")
    if source.get("type") == "base64":
        data = source.get("data")
        return Named(data, is_base64=True) if isinstance(data, str) else Named("")
    url = source.get("url")
    return Named(url if isinstance(url, str) else "")


def _video(part: dict[str, Any]) -> Named:
    """``video_url`` (an object or a text), ``input_video`` under either name, and ``video``."""
    if "source" in part or isinstance(part.get("video"), str):
        named = _image(part, "video")
    else:
        named = _openai(part, next((name for name in _VIDEO_FIELDS if part.get(name)), "url"))
    return named._replace(is_video=True)


_VIDEO_FIELDS: Final = ("video_url", "input_video", "video")
_PARTS: Final[dict[str, Callable[[dict[str, Any]], Named]]] = {
    "image_url": _openai,
    "input_image": _openai,
    "image": _image,
    "video_url": _video,
    "input_video": _video,
    "video": _video,
}
