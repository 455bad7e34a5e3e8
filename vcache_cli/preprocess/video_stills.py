"""Clips for models that are given some frames of them, each as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vcache_cli.clips import ClipPlan
from vcache_cli.errors import ModelError
from vcache_cli.items import Frames, Pixels
from vcache_cli.preprocess.sampling import MLX_VLM_STILLS, OMLX_STILLS, sample_frames
from vcache_cli.preprocess.video_settings import sampling_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Final

    from numpy.typing import NDArray

    from vcache_cli.clips import ClipFacts
    from vcache_cli.protocols import Preprocessor

__all__ = [
    "MIMO_V2",
    "STILLS",
    "OmlxStills",
    "OneFrame",
    "StillsPlanner",
    "StillsPreprocessor",
    "stills_sampling",
]

STILLS: Final = 16
"""As many as mlx-vlm and oMLX make of a clip at most."""


def stills_sampling(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the sampler: two frames a second, of which few are kept.

    Raises:
        ModelError: a wish that is no number.
    """
    given = {"rule": MLX_VLM_STILLS, "fps": 2.0}
    asked = {name: value for name, value in wanted.items() if name != "max_frames"}
    most = wanted.get("max_frames") or STILLS
    return sampling_settings({}, asked, given) | {"factor": 2, "stills": max(2, int(most))}


@dataclass(frozen=True, slots=True)
class StillsPreprocessor:
    """Every frame as the family's preprocessor of pictures makes it. Pure, picklable."""

    settings: Mapping[str, Any]
    """Those of pictures, and `sampling`."""
    picture: Preprocessor

    def plan(self, facts: ClipFacts) -> ClipPlan:
        """Which frames the server takes; they keep their size.

        Raises:
            EncodeError: kind ``sampling``.
        """
        return StillsPlanner(self.settings["sampling"])(facts)

    def __call__(self, frames: Frames) -> Pixels:
        """What all frames become, one after another along the first axis of each tensor.

        Raises:
            EncodeError: the server refuses a picture of that size.
        """
        return _joined([self.picture(each) for each in _each(frames)])

    def compact(self, frames: Frames) -> Pixels:
        """The same as uint8 levels with their tables where that is exact.

        Raises:
            EncodeError: see `__call__`.
        """
        return _joined([self.picture.compact(each) for each in _each(frames)])

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """As the server's processor gives the pictures of one request."""
        return self.picture.processed(request)

    def num_tokens(self, facts: ClipFacts) -> int:
        """Tokens of all frames.

        Raises:
            EncodeError: see `plan`.
        """
        return len(self.plan(facts).indices) * self.picture.num_tokens(facts.width, facts.height)

    def pixel_bytes(self, facts: ClipFacts, *, compact: bool = False) -> int:
        """Bytes of all frames' tensors, at most.

        Raises:
            EncodeError: see `plan`.
        """
        one = self.picture.pixel_bytes(facts.width, facts.height, compact=compact)
        return len(self.plan(facts).indices) * one


@dataclass(frozen=True, slots=True)
class StillsPlanner:
    """Chooses frames by a server's rule, and leaves them as they are. Picklable."""

    sampling: Mapping[str, Any]

    def __call__(self, facts: ClipFacts) -> ClipPlan:
        """See `Planner`.

        Raises:
            EncodeError: kind ``sampling``.
        """
        indices = sample_frames(self.sampling, facts)[: facts.delivered]
        return ClipPlan(indices, (facts.height, facts.width), _unchanged)


@dataclass(frozen=True, slots=True)
class OneFrame:
    """Takes one frame, as it is. Picklable."""

    index: int

    def __call__(self, facts: ClipFacts) -> ClipPlan:
        """See `Planner`."""
        return ClipPlan((self.index,), (facts.height, facts.width), _unchanged)


@dataclass(frozen=True, slots=True)
class OmlxStills:
    """A `StillsFamily`: oMLX takes frames of its clips as pictures of the request."""

    name: str

    def resolve(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of the sampler; the most frames are all that the server's rule knows.

        Raises:
            ModelError: another wish, or one that is no number of frames.
        """
        for name in ("fps", "num_frames"):
            if wanted.get(name) is not None:
                raise ModelError(
                    f"oMLX takes up to so many frames of a `{self.name}` video, evenly, whatever "
                    f"its rate: `--{name.replace('_', '-')}` means nothing there",
                    hint=f"`--max-frames` sets how many; the server's own number is {STILLS}",
                )
        most = wanted.get("max_frames")
        most = STILLS if most is None else most
        if type(most) is not int or most < 1:
            raise ModelError(f"`max_frames`: expected a number of frames, found {most!r:.40}")
        return {"rule": OMLX_STILLS, "stills": most}

    def planner(self, sampling: Mapping[str, Any]) -> StillsPlanner:
        """Which frames are taken, by resolved settings."""
        return StillsPlanner(sampling)


MIMO_V2: Final = OmlxStills("mimo_v2")


def _unchanged(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return levels


def _each(frames: Frames) -> Iterator[Frames]:
    for rgb in frames.rgb:
        yield Frames(rgb[np.newaxis])


def _joined(parts: Sequence[Pixels]) -> Pixels:
    join: Callable[..., NDArray[Any]] = np.concatenate
    tensors = {name: join([part.tensors[name] for part in parts]) for name in parts[0].tensors}
    return Pixels(tensors, sum(part.num_tokens for part in parts), parts[0].tables)
