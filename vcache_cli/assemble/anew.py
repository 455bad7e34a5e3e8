"""What an entry's source becomes with the model and the code of today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vcache_cli import media
from vcache_cli.assemble.clips import make_clip_work, make_reader
from vcache_cli.assemble.options import WarmOptions
from vcache_cli.digest import digest_bytes
from vcache_cli.errors import ItemError, ReadError
from vcache_cli.items import Kind
from vcache_cli.outcome import Failure
from vcache_cli.pipeline.clips import ClipWork
from vcache_cli.preprocess.video_stills import OneFrame

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from vcache_cli.assemble.recipes import LoadedRecipe
    from vcache_cli.entry import Entry
    from vcache_cli.items import Pixels
    from vcache_cli.media.clip_source import ClipSource
    from vcache_cli.recipe import Recipe

__all__ = ["SkipEntry", "Sources", "recipe_for", "tensors_anew"]


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the index last saw the files. Paths are `surrogateescape` text."""

    by_key: Mapping[str, tuple[str, ...]]
    by_digest: Mapping[str, tuple[str, ...]]

    def paths(self, entry: Entry) -> tuple[str, ...]:
        """Files that may hold the entry's source, likeliest first."""
        digest = entry.provenance.source_sha256 or ""
        both = *self.by_key.get(entry.key, ()), *self.by_digest.get(digest, ())
        return tuple(dict.fromkeys(both))


_FRAME: Final = "vcache.frame_index"
_MOST_DIGITS: Final = 9


class SkipEntry(Exception):  # noqa: N818  no error: an entry of which nothing can be said
    """Why an entry is not computed anew."""


def recipe_for(entry: Entry, loaded: LoadedRecipe) -> Recipe:
    """That of videos, where the entry is of a whole one.

    Raises:
        SkipEntry: the model takes no videos any more.
    """
    if entry.provenance.kind is not Kind.VIDEO or _FRAME in entry.metadata:
        return loaded.recipe
    if isinstance(loaded.clips, Failure):
        raise SkipEntry("video")
    return loaded.clips.recipe


def tensors_anew(
    entry: Entry, loaded: LoadedRecipe, sources: Sources
) -> Mapping[str, NDArray[Any]]:
    """The tensors that an entry of the same source would have now.

    Raises:
        SkipEntry: its source is not there, or cannot be encoded.
    """
    found, paths = "source_unknown", sources.paths(entry)
    for path in paths:
        try:
            pixels = _pixels(entry, loaded, path)
            if pixels is None:
                found = "source_changed"
                continue
            value = loaded.encoder.encode([pixels])[0] if loaded.encoder else pixels
            tensors = loaded.target.tensors(recipe_for(entry, loaded), value)
        except ReadError:
            found = "source_gone"
        except ItemError as error:
            raise SkipEntry("not_encodable") from error
        else:
            return {name: tensor.numpy() for name, tensor in tensors.items()}
    is_group = loaded.target.unit == "group" and len(paths) > 1
    raise SkipEntry("group" if is_group else found)


def _pixels(entry: Entry, loaded: LoadedRecipe, path: str) -> Pixels | None:
    """None where the file is another by now."""
    options, item = WarmOptions(), media.reopened(path)
    if entry.provenance.kind is Kind.VIDEO:
        with make_reader(loaded.profile, options).opened(item) as clip:
            if clip.source_sha256 != entry.provenance.source_sha256:
                return None
            return _clip_pixels(entry, loaded, clip)
    data = media.read_item(item, max_bytes=options.max_file_bytes)
    if digest_bytes(data) != entry.provenance.source_sha256:
        return None
    return loaded.preprocessor(media.PillowDecoder(loaded.profile).decode(data))


def _clip_pixels(entry: Entry, loaded: LoadedRecipe, clip: ClipSource) -> Pixels:
    options, frame = WarmOptions(), entry.metadata.get(_FRAME)
    if frame is None:
        work = make_clip_work(loaded.clips, loaded.profile, options)
        if not isinstance(work, ClipWork):
            raise SkipEntry("video")
        return work.pixels(work.frames(clip), compact=False)
    if not frame.isdecimal() or len(frame) > _MOST_DIGITS:
        raise SkipEntry("no_recipe")
    decoder = make_reader(loaded.profile, options).decoder()
    return loaded.preprocessor(decoder.decode(clip.file, OneFrame(int(frame))))
