"""What turns a source into pixels: of a model, or of an entry's own recipe."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from vcache_cli import media, registry
from vcache_cli.assemble.clips import ClipParts, make_reader
from vcache_cli.assemble.recipes import load_recipe
from vcache_cli.assemble.targets import load_warm_target, resolve_options
from vcache_cli.assemble.whymiss_recipes import recipe_of
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.digest import digest_bytes
from vcache_cli.errors import EncodeError, ModelError, VcacheError
from vcache_cli.items import Kind, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.items import Frames, MediaItem, Pixels
    from vcache_cli.profile import Profile

__all__ = ["Eyes", "Sight", "eyes_of_model", "eyes_of_recipe"]

_MAX_PIXEL_BYTES: Final = 1024**3
"""Of what one picture may become: a recipe may ask for any size."""
_NO_RECIPE: Final = (
    VcacheError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
)
"""What settings that make no sense raise where they are used; a file may say anything."""


_MAX_NUMBER: Final = 2**31
_MAX_DEPTH: Final = 8
_MOST_OF: Final = {"min_tiles": 256, "max_tiles": 256, "max_num_crops": 1024, "sampling": 2**17}
"""Counts over which is looped, and the most that a family takes."""


@dataclass(frozen=True, slots=True, eq=False)
class Sight:
    """A source, and the pixels that it becomes."""

    source: Frames | None
    """As decoded, before any resize; None of a video, whose frames are fitted as they come."""
    pixels: Pixels
    pts_seconds: tuple[float, ...] = ()
    source_sha256: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Eyes:
    """Decoding and preprocessing under one recipe."""

    profile: Profile
    settings: Mapping[str, Any]
    """Of pictures, or of clips."""
    preprocessor: Any
    """A `Preprocessor`, or a `ClipPreprocessor`; None where there is none for such an item."""
    clips: Eyes | None = None
    """For videos, where pictures and videos are both known."""
    is_clip: bool = False

    def see(self, item: MediaItem, options: WarmOptions) -> Sight:
        """What becomes of `item`.

        Raises:
            ItemError: it cannot be read, decoded or preprocessed.
            ModelError: videos are not taken.
        """
        if self.is_clip:
            return self.see_clip(item, options)
        if _kind_of(item) is Kind.VIDEO:
            return self._for_clips.see_clip(item, options)
        data = media.read_item(item, max_bytes=options.max_file_bytes)
        decoder = media.PillowDecoder(
            self.profile, max_pixels=options.max_pixels, max_file_bytes=options.max_file_bytes
        )
        frames = decoder.decode(data)
        with _settings_used():
            self._check_size(self.preprocessor.pixel_bytes(frames.width, frames.height))
            pixels = self.preprocessor.compact(frames)
        return Sight(frames, pixels, source_sha256=digest_bytes(data))

    def see_clip(self, item: MediaItem, options: WarmOptions) -> Sight:
        """As `see`, of a video."""
        reader = make_reader(self.profile, options)
        with reader.opened(item) as clip, _settings_used():
            decoder = reader.decoder()
            self._check_size(self.preprocessor.pixel_bytes(decoder.measure(clip.file)))
            frames = decoder.decode(clip.file, self.preprocessor.plan)
            pixels = self.preprocessor.compact(frames)
            return Sight(None, pixels, frames.pts_seconds, clip.source_sha256)

    @property
    def _for_clips(self) -> Eyes:
        if self.clips is None:
            raise ModelError("this model takes no videos here", hint="name a picture")
        return self.clips

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > _MAX_PIXEL_BYTES:
            raise EncodeError(
                f"its pixels would have {size_bytes} bytes, the limit is {_MAX_PIXEL_BYTES}",
                kind="too_large",
            )


def _kind_of(item: MediaItem) -> Kind:
    kinds: list[Kind] = []

    def look(head: bytes) -> int | None:
        kinds.append(media.sniff(head))
        return None

    media.read_if(item, look)
    return kinds[0] if kinds else Kind.OTHER


@contextmanager
def _settings_used() -> Iterator[None]:
    """Settings that make no sense are told as such.

    Raises:
        EncodeError: they do not.
    """
    try:
        yield
    except VcacheError:
        raise
    except (*_NO_RECIPE, MemoryError) as error:
        raise EncodeError(
            f"the settings of the recipe make no sense: {type(error).__name__}", kind="settings"
        ) from error


def eyes_of_model(model: str, options: WarmOptions) -> Eyes:
    """How the server of `options` sees with `model`; no weights are loaded.

    Raises:
        ModelError, UsageError, RefusedError: see `load_recipe`.
    """
    target = load_warm_target(options.target)
    chosen = resolve_options(target, options, open_checkpoint(model)) if not _plain(options) else {}
    plain = replace(
        options,
        target="native",
        stage=Stage.PIXELS,
        profile=target.profile or options.profile,
        target_options={},
        output=None,
    )
    loaded = load_recipe(model, plain)
    profile = loaded.profile
    if "max_side" in chosen:
        profile = replace(profile, max_side=chosen["max_side"] or None)
    clips = None
    if isinstance(loaded.clips, ClipParts):
        settings = loaded.clips.recipe.settings["clip"]
        clips = Eyes(profile, settings, loaded.clips.preprocessor, is_clip=True)
    return Eyes(profile, loaded.recipe.settings, loaded.preprocessor, clips)


def _is_bounded(value: Any, most: int = _MAX_NUMBER, depth: int = 0) -> bool:  # noqa: ANN401  any JSON value
    """False for numbers that no server has and that would take for ever; a file may say anything.

    Settings that a model folder gives were checked as they were resolved.
    """
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(
            _is_bounded(part, min(most, _MOST_OF.get(name, most)), depth + 1)
            for name, part in value.items()
        )
    if isinstance(value, list):
        return all(_is_bounded(part, most, depth + 1) for part in value)
    return not isinstance(value, int | float) or -most <= value <= most


def _plain(options: WarmOptions) -> bool:
    return options.target == "native" and not options.target_options


def eyes_of_recipe(value: Mapping[str, Any]) -> Eyes | None:
    """How an entry's source was seen, by its recipe as JSON; None where it does not say."""
    recipe = recipe_of(value)
    if recipe is None or not _is_bounded(recipe.settings):
        return None
    try:
        profile: Profile = registry.load("profiles", recipe.profile)
        if "max_side" in recipe.target_options:
            profile = replace(profile, max_side=recipe.target_options["max_side"] or None)
        is_clip = "clip" in recipe.settings
        settings = recipe.settings["clip"] if is_clip else recipe.settings
        family = registry.load("clips" if is_clip else "families", recipe.family)
        made = family.preprocessor(settings, profile)
    except _NO_RECIPE:
        return None
    return Eyes(profile, settings, made, is_clip=is_clip)
