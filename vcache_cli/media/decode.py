"""The decoder of pictures as a value: what carries it out is loaded for the first picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.errors import ModelError
from vcache_cli.media.sniff import sniff

if TYPE_CHECKING:
    from vcache_cli.items import Frames, Kind
    from vcache_cli.media.pillow import PillowPictures
    from vcache_cli.profile import Profile

__all__ = ["PillowDecoder"]


@dataclass(frozen=True, slots=True)
class PillowDecoder:
    """Pictures by the rules that mlx-vlm's and transformers' loaders share, and by oMLX's."""

    profile: Profile
    max_pixels: int = 178_956_970
    """Width times height; Pillow's own hard limit by default."""
    max_file_bytes: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        """Check that the profile's rules are known.

        Raises:
            ModelError: they are not.
        """
        if self.profile.alpha != "drop":
            raise ModelError(
                f"profile `{self.profile.name}`: unknown alpha rule `{self.profile.alpha}`"
            )

    def sniff(self, head: bytes) -> Kind:
        """The kind by magic bytes; `head` is the first 64 bytes or fewer."""
        return sniff(head)

    def decode(self, data: bytes) -> Frames:
        """The picture in `data`, the first frame where there are more: (1, H, W, 3).

        Raises:
            MediaError: kind ``not_media``, ``unsupported``, ``too_large``, ``bomb``,
                ``truncated``, ``corrupt``, ``exif_broken`` or ``memory``.
        """
        return self._pictures().decode(data)

    def measure(self, data: bytes) -> tuple[int, int]:
        """Width and height, pixels, of what `decode` will give; reads the header, decodes nothing.

        Raises:
            MediaError: the header cannot be read, or says that a limit is passed.
        """
        return self._pictures().measure(data)

    def _pictures(self) -> PillowPictures:
        from vcache_cli.media.pillow import PillowPictures

        return PillowPictures(self.profile, self.max_pixels, self.max_file_bytes)
