"""What a caller may choose of a run, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from vcache_cli.errors import UsageError
from vcache_cli.items import Stage

__all__ = ["COMPUTE_DTYPES", "DTYPES", "WarmOptions"]

DTYPES: Final = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
"""Names that people use, to the names that files use."""

COMPUTE_DTYPES: Final = {"auto": None, **DTYPES}
"""The same; ``auto`` leaves it to the backend."""

MAX_FILE_BYTES: Final = 256 * 1024**2
MAX_FPS: Final = 1000
MAX_PIXELS: Final = 178_956_970
"""Pillow's own limit of a picture that is no decompression bomb: 2 GiB / 4 / 3."""


@dataclass(frozen=True, slots=True)
class WarmOptions:
    """Choices of a run; the defaults are those of the command line."""

    stage: Stage = Stage.FEATURES
    target: str = "native"
    profile: str = "transformers-pil-5"
    force_profile: bool = False
    """Follow the profile although the installed server package is of another version."""
    target_options: Mapping[str, Any] = field(default_factory=dict)
    """What only some targets take: ``model_name``, ``max_side``, ``allow_lossy``,
    ``omlx_version``; and ``groups``: ``also`` or ``only`` where requests are warmed whole."""
    backend: str | None = None
    """None is what the machine does best."""
    dtype: str = "bfloat16"
    """Of the stored features: ``bfloat16``, ``float16`` or ``float32``."""
    compute_dtype: str = "auto"
    """What the encoder computes in: one of `COMPUTE_DTYPES`."""
    output: str | None = None
    """``projected`` or ``hidden``; None is what the family's tower gives by default."""
    workers: int | None = None
    """Items decoded at once; None is one per core."""
    isolation: Literal["process", "thread"] = "process"
    """Where they are decoded: in processes that may crash, or in threads of this one."""
    item_timeout_seconds: float | None = 300.0
    """Longest that a process may take for an item; None is no limit."""
    item_memory_bytes: int | None = 4 * 1024**3
    """Most memory that a process may take for an item; None is no limit."""
    engine: Literal["local", "ray"] = "local"
    """Where the pass runs: in this process, or in parts on a Ray cluster."""
    ray_address: str = "auto"
    """Of the cluster: ``HOST:PORT``, or ``auto`` for the one of this machine."""
    encoder_resources: str | None = None
    """What one encoder of the cluster takes, such as ``CPU=4,GPU=1``; None is all CPUs of a node,
    or one GPU with its share of them."""
    batch_size: int | None = None
    """Items encoded at once; None lets the encoder decide."""
    on_error: Literal["skip", "fail"] = "skip"
    max_errors: str | None = None
    """A number of items, or a percentage such as ``5%``."""
    retry_errors: bool = False
    download: bool = False
    """Bring what is missing of a model of the Hugging Face Hub into the local cache."""
    max_size_bytes: int | None = None
    """Budget of the whole store."""
    min_free_bytes: int | None = None
    """Free space to leave on the store's filesystem."""
    on_full: Literal["stop", "prune"] = "stop"
    grace_seconds: float = 600.0
    """Entries younger than this are not pruned for this run."""
    fps: float | None = None
    """Frames taken of a second of video; None is what the model's settings say."""
    num_frames: int | None = None
    """Frames taken of each video, in place of a rate."""
    max_frames: int | None = None
    """The most frames taken of a video."""
    max_pixels: int = MAX_PIXELS
    """Largest picture that is decoded, pixels."""
    max_file_bytes: int = MAX_FILE_BYTES
    """Largest picture file that is read."""
    trust_remote_code: bool = False
    """Run code that a checkpoint brings along, where mlx-vlm would."""

    def __post_init__(self) -> None:
        """Check the choices that no one else checks.

        Raises:
            UsageError: a value outside its range.
        """
        if self.dtype not in DTYPES:
            raise UsageError(f"no dtype `{self.dtype}`; available: {', '.join(sorted(DTYPES))}")
        if self.compute_dtype not in COMPUTE_DTYPES:
            known = ", ".join(sorted(COMPUTE_DTYPES))
            raise UsageError(f"no compute dtype `{self.compute_dtype}`; available: {known}")
        if self.item_timeout_seconds is not None and self.item_timeout_seconds <= 0:
            raise UsageError(f"item_timeout_seconds is {self.item_timeout_seconds}, more is needed")
        if self.fps is not None and self.num_frames is not None:
            raise UsageError("fps and num_frames exclude each other")
        if self.fps is not None and not 0 < self.fps <= MAX_FPS:
            raise UsageError(f"fps is {self.fps}, more than 0 and at most {MAX_FPS} is needed")
        counts = ("workers", "batch_size", "max_pixels", "max_file_bytes")
        for name in (*counts, "num_frames", "max_frames", "item_memory_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}, at least 1 is needed")

    @property
    def stored_dtype(self) -> str:
        """The dtype as files name it."""
        return DTYPES[self.dtype]
