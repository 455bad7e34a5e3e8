"""The same pictures as archives, a table and request logs."""

from __future__ import annotations

import base64
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

__all__ = [
    "chat",
    "clip_uri",
    "filmed_chat",
    "filmed_messages",
    "filmed_responses",
    "log",
    "make_parquet",
    "make_tar",
    "make_zip",
    "messages",
    "responses",
    "uri",
]


def make_tar(path: Path, members: Mapping[str, bytes]) -> Path:
    """A plain tar of the members."""
    with tarfile.open(path, "w") as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, BytesIO(data))
    return path


def make_zip(path: Path, members: Mapping[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    """A zip of the members."""
    with zipfile.ZipFile(path, "w", packing) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def make_parquet(path: Path, members: Mapping[str, bytes], **options: Any) -> Path:  # noqa: ANN401
    """A table as data sets of images are kept: a structure of bytes and path."""
    import pyarrow as pa
    from pyarrow import parquet

    cells = [{"bytes": data, "path": name} for name, data in members.items()]
    table = pa.table({"image": cells, "label": list(range(len(cells)))})
    parquet.write_table(table, path, **options)
    return path


def uri(data: bytes) -> str:
    """`data` as a data URI."""
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def chat(*urls: str) -> dict[str, Any]:
    """A request in OpenAI's chat form."""
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = [{"type": "text", "text": "What is it?"}, *parts]
    return {"model": "m", "messages": [{"role": "user", "content": content}]}


def responses(*urls: str) -> dict[str, Any]:
    """A request in OpenAI's responses form."""
    parts = [{"type": "input_image", "image_url": url} for url in urls]
    content = [{"type": "input_text", "text": "What is it?"}, *parts]
    return {"model": "m", "input": [{"role": "user", "content": content}]}


def messages(*pictures: bytes) -> dict[str, Any]:
    """A request in Anthropic's form."""
    parts = [
        {
            "type": "image",
            "source": {
                "type": "base64",
                "media_type": "image/png",
                "data": base64.b64encode(data).decode(),
            },
        }
        for data in pictures
    ]
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": parts}]}


def clip_uri(data: bytes) -> str:
    """A clip as a data URI."""
    return f"data:video/mp4;base64,{base64.b64encode(data).decode()}"


def filmed_chat(url: str, *pictures: str) -> dict[str, Any]:
    """A request of a clip and pictures in OpenAI's chat form."""
    body = chat(*pictures)
    body["messages"][0]["content"].append({"type": "video_url", "video_url": {"url": url}})
    return body


def filmed_responses(url: str, *pictures: str) -> dict[str, Any]:
    """The same in OpenAI's responses form."""
    body = responses(*pictures)
    body["input"][0]["content"].append({"type": "input_video", "video_url": url})
    return body


def filmed_messages(clip: bytes, *pictures: bytes) -> dict[str, Any]:
    """The same in Anthropic's form."""
    body, data = messages(*pictures), base64.b64encode(clip).decode()
    source = {"type": "base64", "media_type": "video/mp4", "data": data}
    body["messages"][0]["content"].append({"type": "video", "source": source})
    return body


def log(path: Path, lines: Sequence[object]) -> Path:
    """A log; a text is a line as it is."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes("".join(f"{text}\n" for text in texts).encode("utf-8", "surrogatepass"))
    return path
