"""What earlier runs learnt ends an item before its file is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vcache_cli.digest import digest_json
from vcache_cli.items import Group, Kind
from vcache_cli.outcome import Failure, Notice, Outcome, Status
from vcache_cli.pipeline.clips import VIDEO_SKIPPED
from vcache_cli.pipeline.frames import frame_source
from vcache_cli.pipeline.prepared import NOT_MEDIA
from vcache_cli.protocols import Evidence, Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vcache_cli.items import MediaItem, Trouble, WarmItem
    from vcache_cli.protocols import Memo, WarmTarget
    from vcache_cli.recipe import Recipe

__all__ = ["Triage"]


@dataclass(frozen=True, slots=True)
class Triage:
    """Decides from memos alone, or not at all. A memo never proves presence: `present` does."""

    recipe: Recipe
    target: WarmTarget
    memo: Memo
    make_context: Callable[[], str]
    """Gives `context`: to ask libraries for their versions, they have to be loaded."""
    present: Callable[[str], bool]
    retry_errors: bool = False
    clips: Recipe | Failure = VIDEO_SKIPPED
    """The recipe of videos, or why they are skipped."""
    present_each: Callable[[Sequence[str]], Sequence[bool]] | None = None
    """What `present` says of each of many keys, where asking together is faster."""
    by_frames: bool = False
    """True where each frame of a video is an entry: which ones, only a memo can tell."""

    @property
    def context(self) -> str:
        """Digest of recipe and library versions: what was learnt under another does not count."""
        return self.make_context()

    def __call__(self, item: WarmItem) -> Outcome | None:
        """The Outcome of an item whose files need not be opened; None for any other."""
        if not isinstance(item, Group) and item.trouble:
            return _told(item, item.trouble)
        files = [self._seen(each) for each in item.files]
        seen = files[0]
        if isinstance(item, Group):
            seen, members = _together(files), tuple(s.source_sha256 for s in files if s)
        else:
            members = ()
        if seen is None:
            return None
        if not seen.source_sha256:
            return self._skipped(item, seen)
        found = self._present(item, seen) or self._failed_before(item, seen)
        return found._replace(members_sha256=members) if found else None

    def are_there(self, keys: Sequence[str]) -> Sequence[bool]:
        """What `present` says of each key."""
        return self.present_each(keys) if self.present_each else [*map(self.present, keys)]

    def _skipped(self, item: WarmItem, seen: Seen) -> Outcome | None:
        """A file whose content was not read; None where it would be now."""
        reason: Recipe | Failure = self.clips if seen.kind is Kind.VIDEO else NOT_MEDIA
        if not isinstance(reason, Failure):
            return None
        return Outcome(item, Status.SKIPPED, kind=seen.kind, failure=reason)

    def _seen(self, item: MediaItem) -> Seen | None:
        return self.memo.unchanged(item.absolute_path, item.stat) if item.stat else None

    def _failed_before(self, item: WarmItem, seen: Seen) -> Outcome | None:
        if self.retry_errors:
            return None
        failure = self.memo.failed(seen.source_sha256, self.context)
        if failure is None:
            return None
        return Outcome(
            item,
            Status.FAILED,
            source_sha256=seen.source_sha256,
            kind=seen.kind,
            failure=failure,
        )

    def _present(self, item: WarmItem, seen: Seen) -> Outcome | None:
        keys = tuple(self._keys_of(seen))
        if not keys or not all(map(self.present, keys)):
            return None
        (key, several) = (None, keys) if self._parts(seen) else (keys[0], ())
        return Outcome(item, Status.PRESENT, key, seen.source_sha256, seen.kind, keys=several)

    def _parts(self, seen: Seen) -> bool:
        return seen.kind is Kind.VIDEO and self.by_frames

    def _keys_of(self, seen: Seen) -> Iterator[str]:
        """Keys of content seen before; none where only decoding can tell."""
        digest, key = seen.source_sha256, None
        if self._parts(seen):
            number = 0
            while key := self.memo.known(frame_source(digest, number), self.context):
                yield key
                number += 1
            return
        if seen.kind is Kind.VIDEO and not isinstance(self.clips, Failure):
            key = self.target.key(self.clips, Evidence(digest))
        elif seen.kind is Kind.IMAGE:
            by_digest = self.target.key_from == "digest"
            key = (
                self.target.key(self.recipe, Evidence(digest))
                if by_digest
                else self.memo.known(digest, self.context)
            )
        if key is not None:
            yield key


def _told(item: MediaItem, trouble: Trouble) -> Outcome:
    """Of what was found and can be no item. It is told again each time: nothing was read."""
    failure = Failure("discover", trouble.kind, trouble.message, trouble.hint, transient=True)
    if not trouble.skipped:
        return Outcome(item, Status.FAILED, failure=failure)
    notices = (Notice(trouble.kind, trouble.message),) if trouble.warns else ()
    return Outcome(item, Status.SKIPPED, failure=failure, notices=notices)


def _together(files: Sequence[Seen | None]) -> Seen | None:
    """A group as seen before; None where one of its files was not, or is no picture."""
    digests = [each.source_sha256 for each in files if each and each.source_sha256]
    return Seen(digest_json(digests), Kind.IMAGE) if len(digests) == len(files) else None
