"""Sockets of clips: what a family that takes videos adds to its pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import BinaryIO

    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.clips import ClipFacts, ClipPlan, Planner
    from vcache_cli.items import Frames, Pixels
    from vcache_cli.profile import Profile

__all__ = [
    "ClipDecoder",
    "ClipFamily",
    "ClipPreprocessor",
    "ClipTarget",
    "StillsFamily",
    "StillsTarget",
]


class ClipDecoder(Protocol):
    """Encoded clips to chosen frames by one profile's rules. Picklable; any thread."""

    def measure(self, source: BinaryIO) -> ClipFacts:
        """What the server knows of the clip in `source` before it chooses frames.

        Raises:
            MediaError: not decodable, or beyond a limit (which is named).
        """
        ...

    def decode(self, source: BinaryIO, planner: Planner) -> Frames:
        """The frames that `planner` chooses, each as its plan fits it.

        Raises:
            MediaError: not decodable, or beyond a limit (which is named).
            EncodeError: the server refuses such a clip.
        """
        ...


class ClipPreprocessor(Protocol):
    """Fitted frames to Pixels for resolved settings. Pure, picklable, any thread."""

    def plan(self, facts: ClipFacts) -> ClipPlan:
        """Which frames the server takes, and what each becomes at once.

        Raises:
            EncodeError: the server refuses such a clip.
        """
        ...

    def __call__(self, frames: Frames) -> Pixels:
        """Bit for bit what the profile's server computes of frames that are fitted."""
        ...

    def compact(self, frames: Frames) -> Pixels:
        """The same pixels as uint8 levels with their tables where that is exact, else as above."""
        ...

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """What the server's own processor gives for the ordered clips of one request."""
        ...

    def num_tokens(self, facts: ClipFacts) -> int:
        """Tokens for a clip, without decoding it.

        Raises:
            EncodeError: the server refuses such a clip.
        """
        ...

    def pixel_bytes(self, facts: ClipFacts, *, compact: bool = False) -> int:
        """Bytes of the tensors for a clip, without decoding it.

        Raises:
            EncodeError: the server refuses such a clip.
        """
        ...


class ClipFamily(Protocol):
    """Clips of one model family. Group: ``vcache.clips``, named as `model_type`."""

    @property
    def name(self) -> str:
        """The `model_type`."""
        ...

    @property
    def revision(self) -> int:
        """Bumped by any change of ours that changes pixels."""
        ...

    def resolve(
        self, checkpoint: Checkpoint, profile: Profile, wanted: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Settings as the server resolves them: JSON values, every default filled in.

        Args:
            checkpoint: of the model.
            profile: whose rules.
            wanted: `fps`, `num_frames`, `max_frames`; missing or None where not asked for.

        Raises:
            ModelError: settings that this family cannot follow.
        """
        ...

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> ClipPreprocessor:
        """The preprocessor of resolved settings."""
        ...


@runtime_checkable
class StillsFamily(Protocol):
    """A family of whose clips a server makes pictures. Group: ``vcache.clips``, as `ClipFamily`.

    The pictures are those of the family's own preprocessing; all that is decided here is which.
    """

    @property
    def name(self) -> str:
        """The `model_type`."""
        ...

    def resolve(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of the server's sampler: JSON values, every default filled in.

        Args:
            wanted: as for `ClipFamily.resolve`.

        Raises:
            ModelError: a wish that the server cannot be given.
        """
        ...

    def planner(self, sampling: Mapping[str, Any]) -> Planner:
        """Which frames are taken, by resolved settings; they keep their size. Picklable."""
        ...


@runtime_checkable
class StillsTarget(Protocol):
    """Capability of a target with `key_from` ``frames``: clips of a `StillsFamily` are entries."""

    @property
    def takes_stills(self) -> bool:
        """True where each frame would be found as a picture."""
        ...


@runtime_checkable
class ClipTarget(Protocol):
    """Capability of a target with `key_from` ``digest``: an entry may be of a video."""

    @property
    def takes_clips(self) -> bool:
        """True where a video's entry would be found, and be of the frames that are expected."""
        ...
