"""A small HTTP server that embeds the cache: post a picture, get its features' shape and the time.

    python samples/serve_with_cache.py samples/media/hills.jpg samples/media/chart.png

posts each picture to a server of its own on 127.0.0.1, three times: cold (decoded and encoded),
after a restart (read from the store and verified), and again (from memory); prints the latencies
and stops. A store that `vcache warm` filled makes the first time warm too: name it with --store.
With --serve it goes on serving until you interrupt it:

    curl --data-binary @samples/media/hills.jpg http://127.0.0.1:PORT/features
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import vcache_cli as vcache
from vcache_cli.assemble import create_root
from vcache_cli.digest import digest_bytes
from vcache_cli.entry import Entry, Provenance, creation_time
from vcache_cli.errors import EncodeError, MediaError
from vcache_cli.items import Kind
from vcache_cli.media import PillowDecoder
from vcache_cli.store import DiskStore
from vcache_cli.store.memory import MemoryTier
from vcache_cli.store.tiered import TieredCache

MAX_BODY_BYTES = 16 * 1024**2
MAX_REQUESTS = 8
MEMORY_BYTES = 256 * 1024**2
TIMEOUT_SECONDS = 10.0
TINY = Path(__file__).resolve().parent / "tiny-siglip"


class Features:
    """Features of pictures: from memory, from the store, else computed and kept in both."""

    def __init__(self, recipe: vcache.LoadedRecipe, store: DiskStore) -> None:
        if recipe.encoder is None:
            raise ValueError("a recipe of stage `features` is needed")
        self.recipe, self.encoder = recipe, recipe.encoder
        self.memory = MemoryTier(MEMORY_BYTES)
        self.cache = TieredCache(self.memory, store)
        self.decoder = PillowDecoder(recipe.profile)
        self._encoding = threading.Lock()  # an encoder has one owner

    def of(self, data: bytes) -> tuple[Entry, str]:
        """The entry of an encoded picture, and where it came from.

        Raises:
            MediaError, EncodeError: it is no picture that can be used.
        """
        key = self.recipe.key_of(data)
        origin = "memory" if self.memory.contains(key) else "store"
        entry = self.cache.get(key)
        if entry is None:
            with self._encoding:  # whoever waited finds what the first one made
                origin, entry = "store", self.cache.get(key)
                if entry is None:
                    origin, entry = "encoder", self._encode(key, data)
                    self.cache.put(entry)
        return entry, origin

    def _encode(self, key: str, data: bytes) -> Entry:
        recipe = self.recipe
        (value,) = self.encoder.encode([recipe.preprocessor(self.decoder.decode(data))])
        provenance = Provenance(
            source_sha256=digest_bytes(data),
            recipe=recipe.recipe.as_json(),
            model=recipe.checkpoint.label,
            kind=Kind.IMAGE,
            num_tokens=value.num_tokens,
            created=creation_time(),
            versions=recipe.versions,
        )
        tensors = recipe.target.tensors(recipe.recipe, value)
        return Entry(key, recipe.recipe.stage, tensors, provenance)


class Server(ThreadingHTTPServer):
    """On 127.0.0.1 only, at a free port; a few requests at a time, the others are turned away."""

    daemon_threads = True

    def __init__(self, features: Features, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.features = features
        self.places = threading.BoundedSemaphore(MAX_REQUESTS)


class Handler(BaseHTTPRequestHandler):
    """`POST /features` with a picture as the body."""

    server: Server
    timeout = TIMEOUT_SECONDS

    def do_POST(self) -> None:
        """Answer with a JSON object: key, origin, tokens, seconds."""
        if not self.server.places.acquire(blocking=False):
            self._answer(503, {"error": "busy"})
            return
        try:
            self._answer(*self._features())
        finally:
            self.server.places.release()

    def _features(self) -> tuple[int, dict[str, Any]]:
        length = self.headers.get("Content-Length", "")
        if self.path != "/features":
            return 404, {"error": "only /features is here"}
        if not (length.isascii() and length.isdecimal()):
            return 411, {"error": "a Content-Length is needed"}
        if len(length) > 10 or int(length) > MAX_BODY_BYTES:
            return 413, {"error": f"at most {MAX_BODY_BYTES} bytes"}
        started = time.perf_counter()
        data = self.rfile.read(int(length))
        if len(data) < int(length):
            return 400, {"error": "the body is shorter than announced"}
        try:
            entry, origin = self.server.features.of(data)
        except (MediaError, EncodeError) as error:
            return 422, {"error": error.message, "kind": error.item_kind}
        return 200, {
            "key": entry.key,
            "from": origin,
            "shapes": {name: list(each.shape) for name, each in entry.tensors.items()},
            "seconds": time.perf_counter() - started,
        }

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.close_connection = True  # what is left of a refused body is never read
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  http.server's name
        """Say nothing of each request."""


@contextmanager
def running(features: Features) -> Iterator[int]:
    """Serve in the background; the port."""
    with Server(features) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def post(port: int, data: bytes) -> dict[str, Any]:
    """What the server answers, with the seconds that the client waited."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("POST", "/features", data)
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
    finally:
        connection.close()
    return {"status": response.status, "waited": time.perf_counter() - started, **answer}


def demonstrate(recipe: vcache.LoadedRecipe, store: DiskStore, pictures: Sequence[Path]) -> int:
    """Post each picture before and after a restart, and once more; how many were refused."""
    bodies = [path.read_bytes() for path in pictures]
    with running(Features(recipe, store)) as port:
        first = [post(port, body) for body in bodies]
    with running(Features(recipe, store)) as port:  # a restart: the memory is empty
        again = [[post(port, body) for body in bodies] for _ in range(2)]
    for path, answers in zip(pictures, zip(first, *again, strict=True), strict=True):
        told = [
            f"{each.get('from', each.get('error'))} {each['waited'] * 1e3:.2f} ms"
            for each in answers
        ]
        print(f"{path.name}: {' | '.join(told)}")
    return sum(each["status"] != 200 for each in first)


def main(arguments: Sequence[str] | None = None) -> int:
    """Demonstrate, or serve until interrupted; 3 where a picture was refused."""
    words = argparse.ArgumentParser(description="Serve features of pictures through the cache.")
    words.add_argument("pictures", nargs="*", type=Path, help="posted by the demonstration")
    words.add_argument("--model", default=str(TINY), help="a model folder")
    words.add_argument("--store", type=Path, help="a folder; a temporary one by default")
    words.add_argument("--serve", action="store_true", help="go on serving until interrupted")
    chosen = words.parse_args(arguments)
    if not (chosen.pictures or chosen.serve):
        words.error("name pictures to post, or --serve")
    recipe = vcache.load_recipe(chosen.model)
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.store or Path(folder, "store")
        create_root(path, target=recipe.target.name)
        with vcache.open_store(path, mode="w") as store:
            refused = demonstrate(recipe, store, chosen.pictures)
            if chosen.serve:
                serve(Features(recipe, store))
    return 3 if refused else 0


def serve(features: Features) -> None:
    """Serve in this thread until Ctrl-C."""
    with Server(features) as server:
        print(f"http://127.0.0.1:{server.server_port}/features", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("stopped")


if __name__ == "__main__":
    raise SystemExit(main())
