"""Two caches and a channel that delays, drops, repeats and re-orders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.serving.threads import in_threads
from vcache_cli.serving.mirror import MultiModalCacheMissError
from vcache_cli.serving.receiver import LruKeyReplicatedReceiverCache
from vcache_cli.serving.sender import LruKeyReplicatedSenderCache

Sender = LruKeyReplicatedSenderCache[Any, str]
Receiver = LruKeyReplicatedReceiverCache[Any]

NAMES = "abcdefgh"
CAPACITY_BYTES = 100
HASHES = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)


def payload(name: str) -> dict[str, Any]:
    """The one payload of that hash; `h` is larger than the whole cache."""
    size_bytes = 10 * (1 + NAMES.index(name)) if name != "h" else CAPACITY_BYTES + 1
    return {"pixel_values": np.full(size_bytes, ord(name), np.uint8)}


def items_of(names: Sequence[str]) -> list[tuple[Any, str]]:
    """What the front end has at hand for a request."""
    return [(payload(name), f"updates of {name}") for name in names]


def check_arrived(names: Sequence[str], arrived: Sequence[Any]) -> None:
    """Each payload is that of its hash."""
    assert len(arrived) == len(names)
    for name, item in zip(names, arrived, strict=True):
        np.testing.assert_array_equal(item["pixel_values"], payload(name)["pixel_values"])


@dataclass
class Feature:
    """As servers have it."""

    data: Any
    mm_hash: str | None
    identifier: str = ""


@dataclass(eq=False)
class Request:
    """One request of the front end."""

    names: list[str]
    misses: int = 0
    done: bool = False
    sent: list[Any] = field(default_factory=list)
    """The last message about it; None where a payload was left out."""


@dataclass
class Link:
    """Front end, engine and what travels between them."""

    sender: Sender = field(default_factory=lambda: Sender(capacity_bytes=CAPACITY_BYTES))
    receiver: Receiver = field(default_factory=lambda: Receiver(capacity_bytes=CAPACITY_BYTES))
    channel: list[Request] = field(default_factory=list)
    resend: bool = True

    def submit(self, names: Sequence[str]) -> Request:
        """Send a request."""
        request = Request(list(names))
        self._send(request, self.sender.get_and_update(items_of(names), names))
        return request

    def deliver(self, number: int, *, features: bool = False, again: bool = False) -> Request:
        """Let one message arrive, out of order if `number` says so; `again` leaves a copy."""
        request = self.channel[number] if again else self.channel.pop(number)
        try:
            arrived = self._arrive(request, features=features)
        except MultiModalCacheMissError as error:
            self._retry(request, error.mm_hashes)
        else:
            check_arrived(request.names, arrived)
            request.done = True
        return request

    def _arrive(self, request: Request, *, features: bool) -> Sequence[Any]:
        if not features:
            return self.receiver.get_and_update(list(request.sent), request.names)
        specs = [Feature(*pair) for pair in zip(request.sent, request.names, strict=True)]
        return [spec.data for spec in self.receiver.get_and_update_features(specs)]

    def _retry(self, request: Request, missing: Sequence[str]) -> None:
        request.misses += 1
        items, names = items_of(request.names), request.names
        if not self.resend:
            for name in missing:
                self.sender.invalidate(name)
        self._send(request, self.sender.get_and_update(items, names, resend=self.resend))

    def _send(self, request: Request, answers: Sequence[tuple[Any, str]]) -> None:
        assert [updates for _, updates in answers] == [f"updates of {n}" for n in request.names]
        request.sent = [item for item, _ in answers]
        self.channel.append(request)


class DriftingCaches(RuleBasedStateMachine):
    """Whatever happens between them, a request is retried at most once and is never wrong."""

    @initialize()
    def start(self) -> None:
        self.link = Link()
        self.requests: list[Request] = []

    @rule(names=HASHES)
    def submit(self, names: list[str]) -> None:
        self.requests.append(self.link.submit(names))

    @precondition(lambda self: self.link.channel)
    @rule(data=st.data(), features=st.booleans(), again=st.booleans())
    def deliver(self, data: st.DataObject, features: bool, again: bool) -> None:  # noqa: FBT001
        number = data.draw(st.integers(0, len(self.link.channel) - 1))
        self.link.deliver(number, features=features, again=again)

    @precondition(lambda self: self.link.channel)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        """Lost on the way: the sender believes that it arrived. The request is given up."""
        lost = self.link.channel.pop(data.draw(st.integers(0, len(self.link.channel) - 1)))
        lost.done = lost not in self.link.channel or lost.done

    @rule(name=st.sampled_from(NAMES))
    def touch_one_side(self, name: str) -> None:
        self.link.sender.touch_sender_cache_item(name)

    @rule(name=st.sampled_from(NAMES))
    def invalidate(self, name: str) -> None:
        self.link.sender.invalidate(name)

    @rule()
    def restart_the_receiver(self) -> None:
        self.link.receiver.clear_cache()

    @rule()
    def restart_the_sender(self) -> None:
        self.link.sender.clear_cache()

    @invariant()
    def no_request_is_retried_twice(self) -> None:
        assert all(request.misses <= 1 for request in self.requests)

    @invariant()
    def both_keep_to_their_budget(self) -> None:
        for cache in (self.link.sender, self.link.receiver):
            sizes = [payload(str(name))["pixel_values"].nbytes for name in cache.hashes()]
            assert sum(sizes) == cache.total_bytes <= CAPACITY_BYTES

    def teardown(self) -> None:
        """What is still on its way arrives, the youngest first."""
        while self.link.channel:
            self.link.deliver(-1)
        assert all(request.done and request.misses <= 1 for request in self.requests)


TestDriftingCaches = DriftingCaches.TestCase


@given(requests=st.lists(HASHES, max_size=30), features=st.booleans())
def test_in_order_and_without_loss_the_two_never_drift(
    requests: list[list[str]],
    features: bool,  # noqa: FBT001  drawn
) -> None:
    """The mirror itself is exact: same hashes, same order, same bytes after each request."""
    link = Link()
    for names in requests:
        for name in names if features else ():  # the features form touches first; so must we
            link.sender.touch_sender_cache_item(name)
        request = link.submit(names)
        link.deliver(0, features=features)
        assert request.misses == 0
        assert link.sender.hashes() == link.receiver.hashes()
        assert link.sender.total_bytes == link.receiver.total_bytes


def most_misses(seed: int, *, resend: bool) -> int:
    """The misses of the unluckiest request, where up to twelve are under way in any order."""
    chance, link = random.Random(seed), Link(resend=resend)
    requests = []
    for _ in range(300):
        requests.append(link.submit(chance.sample(NAMES[:7], 3)))
        while len(link.channel) > chance.randint(0, 12):
            link.deliver(chance.randrange(len(link.channel)))
    while link.channel:
        link.deliver(chance.randrange(len(link.channel)))
    assert all(request.done for request in requests)
    return max(request.misses for request in requests)


def test_the_naive_way_can_need_many_retries_and_resend_one() -> None:
    """Forgetting the missing hashes alone lets other requests under way drift again."""
    naive = max(most_misses(seed, resend=False) for seed in range(5))
    assert naive >= 4
    assert max(most_misses(seed, resend=True) for seed in range(5)) == 1


def misses_by_hand(*, resend: bool) -> int:
    """A request that others overtake before and after its retry."""
    link = Link(resend=resend)
    link.submit("cb")  # 30 + 20 bytes of 100
    link.deliver(0)
    slow = link.submit("cb")  # both left out
    link.submit("eba")  # 50 and 10 bytes more, `b` used again: `c` is pushed out
    link.deliver(1)
    assert link.deliver(0) is slow  # `c` is missing
    assert [item is None for item in slow.sent] == [False, not resend]
    for name in "gd":  # overtake the retry, and push `b` out
        link.submit(name)
        link.deliver(1)
    while not slow.done:
        link.deliver(0)
    return slow.misses


def test_the_naive_way_needs_two_retries_where_resend_needs_one() -> None:
    """The retry still leaves out what it believes to be there."""
    assert misses_by_hand(resend=False) == 2
    assert misses_by_hand(resend=True) == 1


@pytest.mark.parametrize("form", ["lists", "features"])
def test_sixteen_threads_lose_no_count_and_no_byte(form: str) -> None:
    """Each request is retried at most once, and every lookup is counted."""
    link, rounds = Link(), 150

    def work(number: int) -> None:
        chance = random.Random(number)
        for _ in range(rounds):
            names = chance.sample(NAMES, 3)
            sent = [item for item, _ in link.sender.get_and_update(items_of(names), names)]
            try:
                arrived = link._arrive(Request(names, sent=sent), features=form == "features")
            except MultiModalCacheMissError:
                again = link.sender.get_and_update(items_of(names), names, resend=True)
                sent = [item for item, _ in again]
                arrived = link._arrive(Request(names, sent=sent), features=form == "features")
            check_arrived(names, arrived)

    in_threads(16, work)
    assert link.sender.make_stats().total == 16 * rounds * 3
    for cache in (link.sender, link.receiver):
        sizes = [payload(str(name))["pixel_values"].nbytes for name in cache.hashes()]
        assert sum(sizes) == cache.total_bytes <= CAPACITY_BYTES
