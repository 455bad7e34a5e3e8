"""Sockets between a corpus and pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.items import Frames, Kind, Pixels, WarmItem
    from vcache_cli.profile import Profile

__all__ = ["Batched", "Decoder", "Family", "Preprocessor", "Source", "batches_of"]


class Source(Protocol):
    """Items of a corpus, streamed: work starts on the first before the last is found."""

    def items(self) -> Iterator[WarmItem]:
        """Each item or group once per name; in one order for an unchanged corpus."""
        ...


@runtime_checkable
class Batched(Protocol):
    """A source that finds many items at a time. A capability of `Source`."""

    def batches(self) -> Iterator[Sequence[WarmItem]]:
        """The same items in the same order; files of a folder as `FolderFiles`."""
        ...


def batches_of(source: Source) -> Iterator[Sequence[WarmItem]]:
    """The items of `source`: many at a time where it finds them so, else each alone."""
    return source.batches() if isinstance(source, Batched) else zip(source.items())


class Decoder(Protocol):
    """Encoded bytes to pictures by one profile's rules. Picklable; any thread."""

    def sniff(self, head: bytes) -> Kind:
        """The kind by magic bytes; `head` is the first 64 bytes or fewer."""
        ...

    def decode(self, data: bytes) -> Frames:
        """The pictures in `data`.

        Raises:
            MediaError: not decodable, or beyond a limit (which is named).
        """
        ...

    def measure(self, data: bytes) -> tuple[int, int]:
        """Width and height, pixels, of what `decode` will give; reads the header alone.

        Raises:
            MediaError: no header that can be read, or it says that a limit is passed.
        """
        ...


class Preprocessor(Protocol):
    """Frames to Pixels for resolved settings. Pure, picklable, any thread."""

    def __call__(self, frames: Frames) -> Pixels:
        """Bit for bit what the profile's server computes.

        Raises:
            EncodeError: the server refuses such a picture.
        """
        ...

    def compact(self, frames: Frames) -> Pixels:
        """The same pixels as uint8 levels with their tables where that is exact, else as above.

        Raises:
            EncodeError: the server refuses such a picture.
        """
        ...

    def processed(self, request: Sequence[Pixels]) -> dict[str, NDArray[Any]]:
        """What the server's own processor gives for the ordered pictures of one request.

        Its names, batch axes, padding and dtypes; `request` holds expanded pixels.
        """
        ...

    @property
    def pixel_shape(self) -> tuple[int, int, int] | None:
        """(C, H, W) of what it makes of every picture; None where that depends on the picture."""
        ...

    def num_tokens(self, width: int, height: int) -> int:
        """Tokens for a picture of that size, pixels, without decoding it.

        Raises:
            EncodeError: the server refuses a picture of that size.
        """
        ...

    def pixel_bytes(self, width: int, height: int, *, compact: bool = False) -> int:
        """Bytes of the tensors for a picture of that size, pixels, without decoding it.

        Raises:
            EncodeError: the server refuses a picture of that size.
        """
        ...


@runtime_checkable
class RequestPreprocessor(Protocol):
    """A preprocessor that cannot put a request together from pictures prepared one by one."""

    def together(self, request: Sequence[Frames]) -> Pixels:
        """Pixels of all pictures of one request, in order: `processed` takes them as one.

        Raises:
            EncodeError: the server refuses such a request.
        """
        ...


class Family(Protocol):
    """Preprocessing of one model family. Group: ``vcache.families``, named as `model_type`."""

    @property
    def name(self) -> str:
        """The `model_type`."""
        ...

    @property
    def revision(self) -> int:
        """Bumped by any change of ours that changes pixels."""
        ...

    def resolve(self, checkpoint: Checkpoint, profile: Profile) -> dict[str, Any]:
        """Settings as the server resolves them: JSON values, every default filled in.

        Raises:
            ModelError: settings that this family cannot follow.
        """
        ...

    def preprocessor(self, settings: Mapping[str, Any], profile: Profile) -> Preprocessor:
        """The preprocessor of resolved settings."""
        ...
