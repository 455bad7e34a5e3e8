"""The request about an item: the bytes as they are, in data URIs."""

from __future__ import annotations

import base64
import json
import secrets
from typing import TYPE_CHECKING, Final, NamedTuple

from vcache_cli.items import Kind
from vcache_cli.media.sniff import format_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vcache_cli.replay.manner import Manner

__all__ = ["Encoded", "body_of", "media_type"]

_TYPES: Final = {
    "JPEG": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WebP": "image/webp",
    "AVIF": "image/avif",
    "HEIC": "image/heic",
    "TIFF": "image/tiff",
    "BMP": "image/bmp",
    "PNM": "image/x-portable-anymap",
    "ICO": "image/vnd.microsoft.icon",
    "JPEG XL": "image/jxl",
    "JPEG 2000": "image/jp2",
    "MP4": "video/mp4",
    "QuickTime": "video/quicktime",
    "Matroska": "video/x-matroska",
    "AVI": "video/x-msvideo",
    "MPEG-PS": "video/mpeg",
    "MPEG-TS": "video/mp2t",
    "FLV": "video/x-flv",
    "ASF": "video/x-ms-asf",
    "Ogg Theora": "video/ogg",
}
_HEAD_BYTES: Final = 64


class Encoded(NamedTuple):
    """A picture or video as it was found."""

    kind: Kind
    data: bytes


def media_type(data: bytes) -> str:
    r"""Of encoded bytes, by the first of them.

    >>> media_type(b"\x89PNG\r\n\x1a\n")
    'image/png'
    """
    return _TYPES.get(format_of(data[:_HEAD_BYTES]) or "", "application/octet-stream")


def body_of(found: Sequence[Encoded], manner: Manner, *, prefix: str = "") -> list[bytes]:
    """The JSON of a request for one token about `found`, in pieces that are sent in turn.

    Base64 stands in pieces of its own: of a large file there is one copy of it, and no more.

    Args:
        found: what is asked about, in order.
        manner: model and question.
        prefix: before the question, so that what a server keeps of prompts does not match.
    """
    mark = secrets.token_hex(16)  # where base64 will stand; no prompt has it
    content: list[dict[str, object]] = [{"type": "text", "text": prefix + manner.prompt}]
    for each in found:
        part = "video_url" if each.kind is Kind.VIDEO else "image_url"
        url = f"data:{media_type(each.data)};base64,{mark}"
        content.append({"type": part, part: {"url": url}})
    request = {
        "model": manner.model,
        "max_tokens": 1,
        "temperature": 0,
        "stream": True,
        "messages": [{"role": "user", "content": content}],
    }
    between = json.dumps(request).encode("ascii").split(mark.encode("ascii"))
    pieces = [between[0]]
    for each, after in zip(found, between[1:], strict=True):
        pieces += [base64.b64encode(each.data), after]
    return pieces
