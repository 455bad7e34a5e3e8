"""The per-item work as one picklable callable: digest, decode, key and preprocess."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vcache_cli.digest import digest_bytes, digest_json
from vcache_cli.errors import EncodeError, ItemError, MediaError
from vcache_cli.items import Group, Kind, Stage
from vcache_cli.media import claims_media, describe, read_if
from vcache_cli.outcome import Failure, Foreseen, Outcome, Status
from vcache_cli.pipeline.clips import VIDEO_SKIPPED, FrameWork, clip_fields
from vcache_cli.pipeline.frames import Bundle, Still, stills_of
from vcache_cli.pipeline.losses import Noted, lost_outcome
from vcache_cli.pipeline.prepared import NOT_MEDIA, NOT_STORED, Prepared
from vcache_cli.pipeline.trace import Trace
from vcache_cli.protocols import Annotator, Evidence, LevelTarget, RequestPreprocessor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vcache_cli.items import Frames, MediaItem, WarmItem
    from vcache_cli.media.clip_source import ClipSource
    from vcache_cli.pipeline.clips import ClipWork
    from vcache_cli.protocols import Decoder, KeyFrom, Loss, Preprocessor, WarmTarget
    from vcache_cli.recipe import Recipe

__all__ = ["PrepareItem"]

_MAX_DIGEST_BYTES: Final = 64 * 1024**2
"""A non-picture up to this size is digested, so that its failure can be remembered."""


@dataclass(frozen=True, slots=True)
class PrepareItem:
    """Takes an item or a group from its path to Pixels, or to an Outcome where it ends earlier."""

    recipe: Recipe
    target: WarmTarget
    decoder: Decoder
    preprocessor: Preprocessor
    present: Callable[[str], bool]
    """Whether an entry is in the store, by key."""
    max_file_bytes: int
    clips: ClipWork | FrameWork | Failure = VIDEO_SKIPPED
    """The work on videos, or why they are skipped."""
    only_key: bool = False
    """End each item once its key is known: `check` asks for presence alone."""
    note: Callable[[object], None] | None = None
    """Set in a process that may die: takes a `Noted` of what is about to be decoded."""

    def noting(self, note: Callable[[object], None]) -> PrepareItem:
        """See `Isolable`."""
        return replace(self, note=note)

    def lost(self, item: WarmItem | Still, loss: Loss, noted: Noted | None) -> Outcome:
        """See `Isolable`."""
        return lost_outcome(item.item if isinstance(item, Still) else item, loss, noted)

    def __call__(self, item: WarmItem | Still) -> Prepared | Bundle | Outcome:
        """Prepared, or the Outcome of an item that is present, skipped or failed.

        A clip whose frames are entries becomes a `Bundle` of those that are missing; each is
        then handed in again.
        """
        trace = Trace(item.item if isinstance(item, Still) else item)
        try:
            if isinstance(item, Still):
                return self._prepare_still(item, trace)
            if isinstance(item, Group):
                return self._prepare_group(item, trace)
            return self._prepare(item, trace)
        except ItemError as error:
            if self.note and error.item_kind == "memory":
                raise MemoryError from error  # of the worker, which knows the limit
            return trace.fail(error)
        except MemoryError:
            if self.note:
                raise
            return trace.fail(
                EncodeError("not enough memory", kind="out_of_memory", hint="use fewer --workers")
            )

    def _prepare(self, item: MediaItem, trace: Trace) -> Prepared | Bundle | Outcome:
        with trace.step("digest"):
            data = self._read(item, trace)
        if data is None or trace.source_sha256 is None:
            return self._end_unread(item, trace)
        evidence = Evidence(trace.source_sha256, processed=self.preprocessor.processed)
        found = self._settle("digest", trace, evidence, data=data)
        if found:
            return found
        evidence = replace(evidence, frames=self._decode(data, trace))
        del data  # the encoded bytes are not needed beside the pixels
        found = self._settle("frames", trace, evidence)
        if found:
            return found
        evidence = self._with_pixels(evidence, trace)
        return self._settle("pixels", trace, evidence) or self._prepared(trace, evidence)

    def _prepare_group(self, group: Group, trace: Trace) -> Prepared | Outcome:
        """As for an item, each step for all pictures; what fails one fails the request."""
        pictures = [self._picture(item, trace) for item in group.items]
        trace.kind, trace.members_sha256 = Kind.IMAGE, tuple(p.source_sha256 for p in pictures)
        trace.source_sha256 = digest_json(list(trace.members_sha256))
        evidence = Evidence(
            trace.source_sha256,
            members=tuple(pictures),
            processed=self.preprocessor.processed,
        )
        found = self._settle("digest", trace, evidence) or self._settle("frames", trace, evidence)
        if found:
            return found
        evidence = replace(evidence, members=self._request_pixels(pictures, trace))
        return self._settle("pixels", trace, evidence) or self._prepared(trace, evidence)

    def _picture(self, item: MediaItem, trace: Trace) -> Evidence:
        """One decoded picture of a group.

        Raises:
            ItemError: it cannot be had; the message names it.
        """
        part = Trace(item)
        with _named(item), trace.step("digest"):
            data = self._read(item, part)
            if part.kind is Kind.VIDEO:
                raise MediaError("a video, and requests are of pictures", kind="video")
            if data is None or part.source_sha256 is None:
                raise MediaError(NOT_MEDIA.message, kind=NOT_MEDIA.kind)
        with _named(item):
            frames = self._decode(data, trace)
        trace.bytes_read += part.bytes_read
        return Evidence(part.source_sha256, frames)

    def _with_pixels(self, evidence: Evidence, trace: Trace) -> Evidence:
        if evidence.frames is None:
            raise TypeError("a picture was not decoded")
        with trace.step("preprocess"):
            make = self.preprocessor.compact if self._takes_levels else self.preprocessor
            return replace(evidence, pixels=make(evidence.frames))

    def _request_pixels(self, pictures: list[Evidence], trace: Trace) -> tuple[Evidence, ...]:
        """Pixels of a request: those of all pictures with the first, where they are made as one."""
        make, frames = self.preprocessor, [each.frames for each in pictures if each.frames]
        if self.target.key_from == "pixels" and isinstance(make, RequestPreprocessor):
            with trace.step("preprocess"):
                return replace(pictures[0], pixels=make.together(frames)), *pictures[1:]
        return tuple(self._with_pixels(each, trace) for each in pictures)

    @property
    def _takes_levels(self) -> bool:
        """True where pixels end in the store, as levels; an encoder takes none such."""
        return self.recipe.stage is Stage.PIXELS and isinstance(self.target, LevelTarget)

    def _prepared(
        self, trace: Trace, evidence: Evidence, more: Mapping[str, str] | None = None
    ) -> Prepared | Outcome:
        pixels = tuple(each.pixels for each in evidence.pictures if each.pixels)
        if trace.key is None:
            return trace.end(Status.FAILED)
        metadata = dict(more or {})
        if isinstance(self.target, Annotator):
            metadata = {**self.target.metadata(self.recipe, evidence), **metadata}
        return Prepared(trace, trace.key, pixels, metadata)

    def _read(self, item: MediaItem, trace: Trace) -> bytes | None:
        """The bytes of a picture; None where the item ends here as no picture."""
        data = read_if(item, lambda head: self._read_limit(item, head, trace))
        if data is None:
            return None
        trace.bytes_read = len(data)
        trace.source_sha256 = digest_bytes(data)
        self._note(item, trace)
        if trace.kind is Kind.OTHER:
            raise MediaError(
                f"not a picture: {describe(data[:512])}",
                kind="unrecognised",
                hint="replace the file, or leave it out of the corpus",
            )
        return data

    def _note(self, item: MediaItem, trace: Trace) -> None:
        if self.note:
            self.note(Noted.of(item, trace))

    def _read_limit(self, item: MediaItem, head: bytes, trace: Trace) -> int | None:
        """The most bytes to read of a file that begins with `head`; None to leave it unread."""
        trace.kind = self.decoder.sniff(head)
        if trace.kind is Kind.IMAGE:
            return self.max_file_bytes
        if trace.kind is Kind.OTHER and (item.explicit or claims_media(item.name)):
            return _MAX_DIGEST_BYTES  # an error, since its name or the user calls it a picture
        return None

    def _end_unread(self, item: MediaItem, trace: Trace) -> Prepared | Bundle | Outcome:
        if trace.kind is not Kind.VIDEO:
            return trace.end(Status.SKIPPED, NOT_MEDIA)
        if isinstance(self.clips, Failure):
            return trace.end(Status.SKIPPED, self.clips)
        with ExitStack() as held:
            with trace.step("digest"):
                clip = held.enter_context(self.clips.reader.opened(item))
            trace.source_sha256, trace.bytes_read = clip.source_sha256, clip.size_bytes
            self._note(item, trace)
            if isinstance(self.clips, FrameWork):
                return self._part_clip(self.clips, clip, trace)
            return self._prepare_clip(self.clips, clip, trace)

    def _prepare_clip(self, work: ClipWork, clip: ClipSource, trace: Trace) -> Prepared | Outcome:
        trace.key = self.target.key(work.recipe, Evidence(clip.source_sha256))
        if self.present(trace.key):
            return trace.end(Status.PRESENT)
        with trace.step("decode"):
            if self.only_key:
                trace.foreseen = work.foresee(clip, compact=self._takes_levels)
                return trace.end(Status.SKIPPED, NOT_STORED)
            frames = work.frames(clip)
        trace.warn(frames)
        with trace.step("preprocess"):
            pixels = work.pixels(frames, compact=self._takes_levels)
        return Prepared(trace, trace.key, (pixels,), clip_fields(frames), work.recipe)

    def _part_clip(self, work: FrameWork, clip: ClipSource, trace: Trace) -> Bundle | Outcome:
        """The frames of a clip whose entries are missing; frames that are alike share one."""
        with trace.step("decode"):
            frames = work.frames(clip)
        trace.warn(frames)
        digest = clip.source_sha256
        key_of = self.target.key
        found = {key_of(self.recipe, Evidence(digest, each)): each for each in stills_of(frames)}
        trace.keys = tuple(found)
        missing = {key: frame for key, frame in found.items() if not self.present(key)}
        if not missing:
            return trace.end(Status.PRESENT)
        if self.only_key:
            members = tuple(Evidence(digest, each) for each in missing.values())
            self._foresee(trace, Evidence(digest, members=members))
            told = f"{len(missing)} of {len(found)} frames: {NOT_STORED.message}"
            return trace.end(Status.SKIPPED, replace(NOT_STORED, message=told))
        stills = (Still(trace.item.files[0], key, digest, each) for key, each in missing.items())
        return Bundle(trace, tuple(stills))

    def _prepare_still(self, still: Still, trace: Trace) -> Prepared | Outcome:
        trace.source_sha256, trace.kind, trace.key = still.source_sha256, Kind.VIDEO, still.key
        self._note(still.item, trace)
        processed = self.preprocessor.processed
        evidence = Evidence(still.source_sha256, still.frame, processed=processed)
        return self._prepared(trace, self._with_pixels(evidence, trace), still.fields)

    def _decode(self, data: bytes, trace: Trace) -> Frames:
        with trace.step("decode"):
            frames = self.decoder.decode(data)
        trace.warn(frames)
        return frames

    def _settle(
        self, step: KeyFrom, trace: Trace, evidence: Evidence, *, data: bytes = b""
    ) -> Outcome | None:
        """After the step from which the target's key comes: ask the store.

        Raises:
            MediaError, EncodeError: it is not there, only its key was wanted, and by its header
                it could not be made.
        """
        if self.target.key_from != step:
            return None
        trace.key = self.target.key(self.recipe, evidence)
        if self.present(trace.key):
            return trace.end(Status.PRESENT)
        if not self.only_key:
            return None
        self._foresee(trace, evidence, data)
        return trace.end(Status.SKIPPED, NOT_STORED)

    def _foresee(self, trace: Trace, evidence: Evidence, data: bytes = b"") -> None:
        """Tokens and bytes that would come of it; nothing more is decoded for that."""
        with trace.step("decode"):
            frames = [each.frames for each in evidence.pictures if each.frames is not None]
            sizes = [(each.width, each.height) for each in frames] or [self.decoder.measure(data)]
        with trace.step("preprocess"):
            made, compact = self.preprocessor, self._takes_levels
            trace.foreseen = Foreseen(
                sum(made.num_tokens(width, height) for width, height in sizes),
                sum(made.pixel_bytes(width, height, compact=compact) for width, height in sizes),
            )


@contextmanager
def _named(item: MediaItem) -> Iterator[None]:
    """What goes wrong with one picture of a group is told with its name."""
    try:
        yield
    except ItemError as error:
        message = f"{item.source}: {error.message}"
        raise type(error)(message, kind=error.item_kind, hint=error.hint) from error
