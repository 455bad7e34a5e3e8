"""Every socket of vcache on one page.

A socket is a Protocol of one to three methods; a capability is a Protocol of its own. What can
be plugged in names its entry-point group in its docstring; `registry` finds it there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from vcache_cli.checkpoint import Checkpoint
    from vcache_cli.entry import Entry
    from vcache_cli.header import HeaderLimits
    from vcache_cli.items import Features, FileStat, Frames, Kind, MediaItem, Pixels
    from vcache_cli.outcome import Failure
    from vcache_cli.profile import Profile
    from vcache_cli.recipe import Recipe
    from vcache_cli.tensor import Tensor

__all__ = [
    "Backend",
    "Decoder",
    "Encoder",
    "Engine",
    "Evidence",
    "Family",
    "KeyFrom",
    "Layout",
    "Memo",
    "Preprocessor",
    "Seen",
    "Session",
    "Source",
    "Target",
    "Tier",
    "Tower",
    "TowerPlan",
]

In = TypeVar("In", contravariant=True)
Out = TypeVar("Out", covariant=True)

KeyFrom = Literal["digest", "frames", "pixels"]
"""After which step a target's key can be computed."""


# --- finding and reading ---------------------------------------------------------------------


class Source(Protocol):
    """Items of a corpus, streamed: work starts on the first before the last is found."""

    def items(self) -> Iterator[MediaItem]:
        """Each item once per name; order is deterministic for an unchanged corpus."""
        ...


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


# --- preprocessing ---------------------------------------------------------------------------


class Preprocessor(Protocol):
    """Frames to Pixels for resolved settings. Pure, picklable, any thread."""

    def __call__(self, frames: Frames) -> Pixels:
        """Bit for bit what the profile's server computes.

        Raises:
            EncodeError: the server refuses such a picture.
        """
        ...

    def num_tokens(self, width: int, height: int) -> int:
        """Tokens for a picture of that size, pixels, without decoding it."""
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


# --- encoding --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TowerPlan:
    """What a tower reads of a checkpoint, and what it resolved."""

    settings: Mapping[str, Any]
    """JSON values that decide the arithmetic (sizes, layers, activation, epsilon)."""
    tensors: Mapping[str, str]
    """The tower's own name of each weight, to its name in the checkpoint."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Expected shape by the tower's own name."""


class Tower(Protocol):
    """Forward pass of one vision tower over a backend's operations. Group: ``vcache.towers``."""

    @property
    def name(self) -> str:
        """The `model_type` that it serves."""
        ...

    @property
    def revision(self) -> int:
        """Bumped by any change of ours that changes features beyond tolerance."""
        ...

    def plan(self, checkpoint: Checkpoint) -> TowerPlan:
        """What to read. Reads JSON and tensor headers only.

        Raises:
            ModelError: no vision part, a missing or misshapen tensor, an unknown setting.
        """
        ...

    def forward(
        self, ops: Any, weights: Mapping[str, Any], settings: Mapping[str, Any], pixels: Any  # noqa: ANN401
    ) -> dict[str, Any]:
        """`features` (N, num_tokens, hidden_size) and more, of `pixels` (N, C, H, W), as the
        backend's own arrays."""
        ...


class Backend(Protocol):
    """A way to compute. Group: ``vcache.backends``."""

    @property
    def name(self) -> str:
        """``numpy``, ``mlx`` or ``torch``."""
        ...

    def unavailable(self) -> str | None:
        """Why it cannot be used here, with what to install; None where it can."""
        ...

    def preference(self) -> int:
        """The higher, the better this backend suits the machine; asked only where available."""
        ...

    def ops(self, compute_dtype: str) -> Any:  # noqa: ANN401  each backend has its own arrays
        """The small set of operations that towers are written against."""
        ...


class Encoder(Protocol):
    """A loaded vision tower."""

    @property
    def fingerprint(self) -> str:
        """Names the weights and resolved settings; revisions and dtypes are the recipe's."""
        ...

    @property
    def concurrency(self) -> int:
        """How many threads may call `encode` at once: 1 on an accelerator, cores on a CPU."""
        ...

    @property
    def device(self) -> Mapping[str, str]:
        """``backend``, ``device``, ``dtype`` and versions, as provenance."""
        ...

    def encode(self, batch: Sequence[Pixels]) -> list[Features]:
        """Features of each item, in order; the items share one `shape_key`.

        Raises:
            EncodeError: the batch cannot be encoded.
        """
        ...


# --- storing ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What is known of an item when its key is asked for; later steps are None before they ran."""

    source_sha256: str
    frames: Frames | None = None
    pixels: Pixels | None = None


class Layout(Protocol):
    """The pure path and packing half of a target. No I/O; any thread; picklable."""

    @property
    def limits(self) -> HeaderLimits:
        """What this layout's files may hold."""
        ...

    @property
    def checksum_field(self) -> str | None:
        """Metadata field that holds XXH3-128 of the whole file with its own 32 digits read as
        ``0``; None where files carry no checksum ("structure only")."""
        ...

    @property
    def shards(self) -> tuple[str, ...]:
        """Names of the directories, directly below the root, that hold entries."""
        ...

    def path_of(self, key: str) -> str:
        """Path of the entry below the root, ``/`` between parts. Never leaves the root.

        Raises:
            ValueError: not a key of this layout.
        """
        ...

    def key_of(self, path: str) -> str | None:
        """The key whose entry lies at `path` below the root; None for a foreign file."""
        ...

    def pack(self, entry: Entry) -> tuple[dict[str, str], Mapping[str, Tensor]]:
        """Metadata (without the checksum) and tensors of the file, by name."""
        ...

    def unpack(
        self, path: str, metadata: Mapping[str, str], tensors: Mapping[str, Tensor]
    ) -> Entry:
        """The entry in a file found at `path` below the root.

        `tensors` may be empty where only the header was read.

        Raises:
            InvalidEntryError: the metadata does not describe an entry, or not the one of `path`
                (finding ``key_mismatch``).
        """
        ...


class Target(Protocol):
    """A consumer's whole contract. Group: ``vcache.targets``."""

    @property
    def name(self) -> str:
        """Such as ``native``."""
        ...

    @property
    def key_from(self) -> KeyFrom:
        """After which step `key` can be asked."""
        ...

    @property
    def unit(self) -> Literal["item", "group"]:
        """What one entry holds: an item, or the ordered images of a request."""
        ...

    @property
    def layout(self) -> Layout:
        """Its path and packing half."""
        ...

    def key(self, recipe: Recipe, evidence: Evidence) -> str:
        """The key under which the consumer looks the entry up. Pure; any thread."""
        ...

    def tensors(self, recipe: Recipe, value: Pixels | Features) -> dict[str, Tensor]:
        """The tensors to store, by the consumer's names and in the recipe's stored dtype."""
        ...


class Tier(Protocol):
    """Somewhere entries can be."""

    def get(self, key: str) -> Entry | None:
        """The entry; None where it is absent, damaged or half-known."""
        ...

    def put(self, entry: Entry) -> int:
        """Keep the entry, replacing what was there; bytes written."""
        ...

    def contains(self, key: str) -> bool:
        """True where a get would find a file; says nothing of damage."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """What an earlier run learnt of a file."""

    source_sha256: str
    kind: Kind


class Memo(Protocol):
    """What earlier runs learnt. A hint only: it never proves presence. One thread."""

    def unchanged(self, path: str, stat: FileStat) -> Seen | None:
        """What was learnt of that path, where its stat is still the same."""
        ...

    def known(self, source_sha256: str, context: str) -> str | None:
        """The entry key of known content; `context` digests recipe and library versions."""
        ...

    def failed(self, source_sha256: str, context: str) -> Failure | None:
        """The permanent failure that this content met before."""
        ...


class Session(Protocol[In, Out]):
    """Work under way on an engine. Used by one thread."""

    @property
    def full(self) -> bool:
        """True where nothing more should be submitted before some result was taken."""
        ...

    @property
    def pending(self) -> int:
        """Inputs submitted whose results were not taken yet."""
        ...

    def submit(self, value: In) -> None:
        """Start the work on one input."""
        ...

    def take(self, *, wait: bool) -> list[Out]:
        """Results that are there, in any order; with `wait`, at least one while any is pending."""
        ...


class Engine(Protocol):
    """Where work runs. A bounded number of inputs is in flight, so memory is bounded too."""

    def session(self, work: Callable[[In], Out]) -> AbstractContextManager[Session[In, Out]]:
        """Start workers; leaving the context ends them. `work` is picklable and never raises
        for a bad item: an exception out of it ends the run."""
        ...
