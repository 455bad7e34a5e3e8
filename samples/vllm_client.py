"""A client that tells a vLLM server under which id it finds a picture's features.

    vcache warm samples/media -m MODEL --target vllm-ec -s ROOT --manifest warm.jsonl
    vllm serve MODEL --ec-transfer-config '{"ec_connector": "ECExampleConnector",
        "ec_role": "ec_consumer",
        "ec_connector_extra_config": {"shared_storage_path": "ROOT"}}'
    python samples/vllm_client.py --model MODEL --manifest warm.jsonl \
        "What do these show?" samples/media/hills.jpg samples/media/chart.png

Each line of the manifest has a picture's `source_sha256` and its `key`. The client looks its own
pictures up by their bytes, so they may have other names, and sends the key as the `uuid` of the
content part beside the picture, as vLLM's chat API has it:

    {"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}, "uuid": "<key>"}

A picture that the manifest does not have goes without, and the server encodes it itself. The
picture is sent all the same: the server counts its tokens by it. A request with options of its own
(`mm_processor_kwargs`, `media_io_kwargs`) would not hit: vLLM hashes the uuid together with them.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import mimetypes
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

MAX_ANSWER_BYTES = 16 * 1024**2
TIMEOUT_SECONDS = 300.0


def read_manifest(path: Path) -> dict[str, str]:
    """The uuid of each warmed picture, by the SHA-256 of its bytes."""
    lines = (json.loads(line) for line in path.read_text("ascii").splitlines())
    return {line["source_sha256"]: line["key"] for line in lines}


def picture_part(path: Path, uuids: Mapping[str, str]) -> dict[str, Any]:
    """The content part of a picture, with its uuid where it was warmed."""
    data = path.read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    url = f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"
    part: dict[str, Any] = {"type": "image_url", "image_url": {"url": url}}
    uuid = uuids.get(hashlib.sha256(data).hexdigest())
    return part | ({"uuid": uuid} if uuid else {})


def chat_request(
    model: str, question: str, pictures: Iterable[Path], uuids: Mapping[str, str]
) -> dict[str, Any]:
    """The body of a chat request: the pictures in their order, then the question."""
    parts = [picture_part(path, uuids) for path in pictures]
    content = [*parts, {"type": "text", "text": question}]
    return {"model": model, "messages": [{"role": "user", "content": content}]}


def ask(server: str, body: Mapping[str, Any]) -> str:
    """The text that the server answers with.

    Raises:
        OSError: it cannot be reached, or refuses; an `HTTPError` has its words.
        ValueError: it answers with something else.
    """
    if not server.startswith(("http://", "https://")):
        raise ValueError(f"expected a server such as http://127.0.0.1:8000, got {server}")
    request = urllib.request.Request(  # noqa: S310  checked above
        f"{server.rstrip('/')}/v1/chat/completions",
        data=json.dumps(body).encode("ascii"),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  as above
        value = json.loads(answer.read(MAX_ANSWER_BYTES))
    try:
        return str(value["choices"][0]["message"]["content"])
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"expected a chat completion, got {value!s:.200}") from error


def main(words: Sequence[str] | None = None) -> int:
    """Ask, print the answer on stdout, and on stderr how many pictures were warmed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question")
    parser.add_argument("pictures", nargs="+", type=Path)
    parser.add_argument("--model", required=True, help="the name by which the server has it")
    parser.add_argument("--manifest", required=True, type=Path, help="of `vcache warm`")
    parser.add_argument("--server", default="http://127.0.0.1:8000")
    options = parser.parse_args(words)
    try:
        uuids = read_manifest(options.manifest)
        body = chat_request(options.model, options.question, options.pictures, uuids)
        warmed = sum("uuid" in part for part in body["messages"][0]["content"])
        print(f"{warmed} of {len(options.pictures)} pictures were warmed", file=sys.stderr)
        print(ask(options.server, body))
    except urllib.error.HTTPError as error:
        with error:
            print(f"error: {error}: {error.read(1000).decode(errors='replace')}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
