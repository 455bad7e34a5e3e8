"""Frames that ours and a server's sampler take, over every length of a clip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vcache_cli.clips import ClipFacts
from vcache_cli.errors import EncodeError
from vcache_cli.preprocess.sampling import sample_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.parity.tally import Tally

__all__ = ["LONGEST", "RATES", "REFUSALS", "compare_samplers", "facts_of"]

LONGEST: Final = 20_000
"""Every length from 1 frame to this one."""
RATES: Final = (10.0, 24000 / 1001, 25.0, 30000 / 1001, 30.0, 60.0)
"""Frames per second."""
REFUSALS: Final = (ValueError, TypeError, ZeroDivisionError, RuntimeError, IndexError)
"""What a server's sampler raises where there are not enough frames."""


def facts_of(length: int, rate: float) -> ClipFacts:
    return ClipFacts(length, rate, length / rate, 64, 48)


def clips(step: int) -> Iterator[ClipFacts]:
    lengths = sorted({*range(1, min(200, LONGEST)), *range(1, LONGEST + 1, step)})
    for rate in RATES:
        for length in lengths:
            yield facts_of(length, rate)


def ours(settings: Mapping[str, Any], facts: ClipFacts) -> list[int] | None:
    """None where it is refused."""
    try:
        return list(sample_frames(settings, facts))
    except EncodeError:
        return None


def compare_samplers(
    settings: Mapping[str, Any],
    theirs: Callable[[ClipFacts], list[int]],
    tally: Tally | None = None,
    *,
    step: int = 1,
) -> list[ClipFacts]:
    """Clips of which other frames are taken; a clip that only one refuses is one.

    Args:
        step: of every how many lengths one is compared, beyond 200 frames.
    """
    wrong, compared = [], 0
    for facts in clips(step):
        try:
            expected = theirs(facts) or None
        except REFUSALS:
            expected = None
        compared += 1
        if ours(settings, facts) != expected:
            wrong.append(facts)
    assert step > 1 or compared == len(RATES) * LONGEST
    print(f"{settings}: {compared:,} clips, {len(wrong)} disagreements")
    if tally is not None:
        name = f"frames, {settings['rule']}"
        tally.add("samplers", name, str(settings), differing=len(wrong), values=compared)
    return wrong
