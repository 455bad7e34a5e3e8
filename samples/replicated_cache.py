"""A front end and an engine as two processes: a picture that the engine holds is not sent again.

The front end prepares pictures and keeps `LruKeyReplicatedSenderCache`; the engine keeps
`LruKeyReplicatedReceiverCache`. Arrays cross in shared memory, everything else in a pipe. Run it::

    python samples/replicated_cache.py
    python samples/replicated_cache.py --kill engine   # killed halfway, replaced, nothing is lost
    python samples/replicated_cache.py --kill front    # killed halfway, its segments are removed
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import secrets
import signal
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from vcache_cli.serving import (
    LruKeyReplicatedReceiverCache,
    LruKeyReplicatedSenderCache,
    MultiModalCacheMissError,
    SharedMailbox,
    SharedPayload,
)

PICTURES = 24
PER_REQUEST = 3
UNDER_WAY = 4
SLOTS = 2 * UNDER_WAY * PER_REQUEST
CAPACITY_BYTES = 10 * 2**20
SPAWN = multiprocessing.get_context("spawn")


def pixels_of(number: int) -> dict[str, Any]:
    """What a processor would make of a picture: here 0.6 MB of noise."""
    noise = np.random.default_rng(number)
    return {
        "pixel_values": noise.random((3, 224, 224), dtype=np.float32),
        "image_grid_thw": np.array([[1, 16, 16]]),
    }


def checksum(payload: dict[str, Any]) -> int:
    """Tells a wrong payload."""
    return zlib.crc32(payload["pixel_values"], zlib.crc32(payload["image_grid_thw"]))


# --- the engine ---------------------------------------------------------------------------------


def run_engine(pipe: Connection, prefix: str) -> None:
    """Answer each request with the checksums of its payloads, or with what it misses."""
    cache = LruKeyReplicatedReceiverCache[Any](capacity_bytes=CAPACITY_BYTES)
    with contextlib.suppress(EOFError, ConnectionError):
        while (request := pipe.recv()) is not None:
            number, names, parts = request
            try:
                payloads = cache.get_and_update([taken(part) for part in parts], names)
                pipe.send((number, [checksum(payload) for payload in payloads]))
            except MultiModalCacheMissError as miss:
                pipe.send((number, miss))
        return
    removed = SharedMailbox(prefix, slots=SLOTS).clear()
    print(f"engine: the front end died; removed {removed} of its segments", flush=True)


def taken(part: object) -> object:
    """The payload that waits in shared memory; None where it was left out, or is gone."""
    if not isinstance(part, SharedPayload):
        return part
    with contextlib.suppress(LookupError):
        return part.take()
    return None


# --- the front end ------------------------------------------------------------------------------


@dataclass
class Request:
    """The pictures of one request."""

    pictures: list[int]
    retries: int = 0


@dataclass
class FrontEnd:
    """Sends requests, a few at a time."""

    prefix: str
    sender: LruKeyReplicatedSenderCache[Any, str] = field(
        default_factory=lambda: LruKeyReplicatedSenderCache(capacity_bytes=CAPACITY_BYTES)
    )
    under_way: dict[int, Request] = field(default_factory=dict)
    done: list[Request] = field(default_factory=list)
    payloads_sent: int = 0

    def __post_init__(self) -> None:
        """Start an engine and the shared memory to it."""
        self.mailbox = SharedMailbox(self.prefix, slots=SLOTS)
        self.start_engine()

    def start_engine(self) -> None:
        """Start an empty one."""
        self.pipe, theirs = SPAWN.Pipe()
        self.engine = SPAWN.Process(target=run_engine, args=(theirs, self.prefix))
        self.engine.start()
        theirs.close()  # so that we see the end when the engine dies

    def send(self, number: int, request: Request, *, resend: bool = False) -> None:
        """Send what the engine lacks; all of it after a miss."""
        self.under_way[number] = request
        names = [f"picture-{picture}" for picture in request.pictures]
        items = [(pixels_of(picture), "") for picture in request.pictures]
        answers = self.sender.get_and_update(items, names, resend=resend)
        parts = [None if item is None else self.mailbox.share(item) or item for item, _ in answers]
        self.payloads_sent += sum(part is not None for part in parts)
        self.pipe.send((number, names, parts))

    def receive(self) -> None:
        """Take one answer; a miss is retried, with everything."""
        number, answer = self.pipe.recv()
        request = self.under_way.pop(number)
        if isinstance(answer, MultiModalCacheMissError):
            request.retries += 1
            self.send(number, request, resend=True)
            return
        assert answer == [checksum(pixels_of(picture)) for picture in request.pictures]  # noqa: S101
        self.done.append(request)

    def replace_engine(self) -> None:
        """After its death: what was under way is sent again, what was in transit is freed."""
        self.engine.join()
        self.pipe.close()
        print(f"front end: the engine died; removed {self.mailbox.clear()} segments")
        self.start_engine()
        for number, request in self.under_way.copy().items():
            self.send(number, request, resend=True)

    def run(self, requests: Sequence[Request], *, kill: str | None) -> None:
        """Send all of them, and survive the engine."""
        waiting = list(enumerate(requests))
        while waiting or self.under_way:
            try:
                while waiting and len(self.under_way) < UNDER_WAY:
                    number, request = waiting.pop(0)
                    self.send(number, request)
                    if kill and number == len(requests) // 2:
                        os.kill(os.getpid() if kill == "front" else self._engine_id, signal.SIGKILL)
                self.receive()
            except (EOFError, ConnectionError):
                self.replace_engine()
        self.pipe.send(None)
        self.engine.join()
        self.mailbox.clear()

    @property
    def _engine_id(self) -> int:
        return self.engine.pid or 0


def main() -> None:
    """Send random requests and say what the caches saved."""
    parser = argparse.ArgumentParser(description="Run the mirrored caches over two processes.")
    parser.add_argument("--requests", type=int, default=120)
    parser.add_argument("--kill", choices=["engine", "front"])
    arguments = parser.parse_args()
    chance = random.Random(1)
    liked = [1 / (1 + picture) for picture in range(PICTURES)]
    requests = [
        Request(chance.choices(range(PICTURES), liked, k=PER_REQUEST))
        for _ in range(arguments.requests)
    ]
    prefix = f"vcache-{secrets.token_hex(4)}"
    print(f"segments: {prefix}-*", flush=True)
    front = FrontEnd(prefix)
    front.run(requests, kill=arguments.kill)
    hits = front.sender.make_stats()
    print(f"requests: {len(front.done)}, all payloads as expected")
    print(f"payloads: {PER_REQUEST * len(front.done)} asked, {front.payloads_sent} sent")
    print(f"hits: {hits.hits} of {hits.total} ({hits.hit_ratio:.0%})")
    print(f"retries: {max(request.retries for request in front.done)} at most per request")


if __name__ == "__main__":
    main()
