"""Entries from elsewhere into a store: out of an archive, or out of other stores."""

from __future__ import annotations

import contextlib
import os
import time
from itertools import chain
from typing import TYPE_CHECKING, Final

from vcache_cli.assemble.stores import create_root, open_budget, open_root
from vcache_cli.assemble.targets import load_target
from vcache_cli.errors import NotAStoreError, RefusedError, UsageError, VcacheError
from vcache_cli.items import display_path
from vcache_cli.protocols import Bounded
from vcache_cli.store import DiskStore, read_meta
from vcache_cli.store.archive_parts import Origin
from vcache_cli.store.archive_reader import ArchiveReader, ByteSource
from vcache_cli.store.create import refuse_others
from vcache_cli.store.export import StoreFiles
from vcache_cli.store.intake import Intake, IntakeResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vcache_cli.assemble.options import WarmOptions
    from vcache_cli.protocols import Layout
    from vcache_cli.store import StoreRoot
    from vcache_cli.store.archive_parts import ArchivedFile, Part

__all__ = ["import_archive", "merge_stores", "taking"]

_WRITER_THREADS: Final = 4


def import_archive(source: ByteSource, *, store: Path, options: WarmOptions) -> IntakeResult:
    """Store the entries of an export. Each is checked whole before anything of it is written.

    What is in the store already is not read from it twice. An archive that turns out to be
    damaged ends the import; `error` of the result says so, and what was stored before stays.

    Args:
        source: the archive's bytes.
        store: made where there is none.
        options: the limits of the store; nothing else of them is looked at.

    Raises:
        RefusedError: no export, or one of another target or other options than the store's.
        FormatTooNewError, NotAStoreError, AccessError, StoreFullError, LockBusyError: the
            archive cannot be read, or the store not be written.
    """
    reader = ArchiveReader(source)
    parts = reader.parts()
    first = next(parts)
    with taking(store, first.origin, options) as (root, intake, result):
        order = _Order(root.layout)
        try:
            for part in chain([first], parts):
                for key, file in order.checked(part):
                    _take(reader, intake, result, (key, file))
        except (VcacheError, OSError) as error:
            result.error = result.error or error
        result.read_bytes = reader.read_bytes
    return result


def merge_stores(sources: Sequence[Path], *, store: Path, options: WarmOptions) -> IntakeResult:
    """Copy the entries of stores of one target into another store; `sources` stay as they are.

    Each is checked whole. Where the store has a good entry of a key already, that one stays.

    Args:
        sources: in the order in which they are read.
        store: made where there is none.
        options: the limits of the store; nothing else of them is looked at.

    Raises:
        UsageError: the store is one of the sources, or none was given.
        RefusedError: the stores are not of one target with the same options, or someone else
            could have filled one of them.
        NotAStoreError, FormatTooNewError, AccessError, StoreFullError, LockBusyError: one cannot
            be read, or the store not be written.
    """
    roots = [open_root(path) for path in sources]
    origin = _common_origin(roots, store)
    with taking(store, origin, options) as (_, intake, result):
        try:
            for each in roots:
                _copy(each, intake, result)
        except (VcacheError, OSError) as error:
            result.error = result.error or error
    return result


def _take(
    reader: ArchiveReader, intake: Intake, result: IntakeResult, member: tuple[str, ArchivedFile]
) -> None:
    key, file = member
    standing = intake.standing(key, file)
    if standing in {"present", "kept"}:
        reader.skip(file)
        intake.leave(key, standing)
        return
    data = reader.take(file)
    if data is None:
        result.remarks.fail(key, "digest", "its bytes are not those that the manifest promises")
    elif (fault := intake.fault(file, data)) is not None:
        result.remarks.fail(key, fault.finding, fault.message)
    else:
        intake.put(key, file, data, standing)


def _copy(source: StoreRoot, intake: Intake, result: IntakeResult) -> None:
    files = StoreFiles(source, result.remarks, place=display_path(str(source.path)))
    for key, file, data in files:
        result.read_bytes += file.size_bytes
        standing = intake.standing(key, file)
        if standing in {"present", "kept"}:
            intake.leave(key, standing)
        else:
            intake.put(key, file, data, standing)


@contextlib.contextmanager
def taking(
    store: Path, origin: Origin, options: WarmOptions
) -> Iterator[tuple[StoreRoot, Intake, IntakeResult]]:
    """The store, open to be filled; what was put is durable at the end.

    Raises:
        RefusedError: it is a store of other options, or of another target.
        NotAStoreError, FormatTooNewError, AccessError, StoreFullError, LockBusyError: it cannot be
            written.
    """
    started = time.monotonic()
    root = _destination(store, origin)
    target = load_target(origin.target)
    result = IntakeResult(origin.target)
    with DiskStore(root, mode="w") as held:
        budget = open_budget(root, options, target)
        with held.writer(_WRITER_THREADS, budget) as writer:
            intake = Intake(root, writer, result)
            try:
                yield root, intake, result
            finally:
                intake.finish()
    if result.written_bytes and isinstance(target, Bounded):
        result.note = target.note
    result.seconds = time.monotonic() - started


def _destination(store: Path, origin: Origin) -> StoreRoot:
    """The store, made where there is none. One that is there is not told whose it is."""
    with contextlib.suppress(NotAStoreError):
        meta = read_meta(store)
        if meta.target == origin.target:
            refuse_others(store, meta, origin.target_options)
    try:
        return create_root(store, target=origin.target, options=origin.target_options)
    except UsageError as error:  # what comes from elsewhere is not what the user typed
        raise RefusedError(error.message, hint=error.hint) from error


class _Order:
    """The rules of a manifest that only a layout can tell. One pass."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self._last = layout, ""

    def checked(self, part: Part) -> list[tuple[str, ArchivedFile]]:
        """Key and description of each file.

        Raises:
            RefusedError: one is no entry's, larger than any, or not behind the one before.
        """
        return [(self._key(file), file) for file in part.files]

    def _key(self, file: ArchivedFile) -> str:
        most_bytes = self._layout.limits.max_file_bytes
        if file.size_bytes > most_bytes:
            raise _refused(file, f"{file.size_bytes} bytes, at most {most_bytes} are allowed")
        key = self._layout.key_of(file.path)
        if key is None or self._layout.path_of(key) != file.path:
            raise _refused(file, "no place of an entry")
        if key <= self._last:
            raise _refused(file, "it comes twice, or out of order")
        self._last = key
        return key


def _refused(file: ArchivedFile, reason: str) -> RefusedError:
    return RefusedError(
        f"the archive was not made by `vcache export`: {display_path(file.path)[:120]}: {reason}"
    )


def _common_origin(roots: Sequence[StoreRoot], store: Path) -> Origin:
    if not roots:
        raise UsageError("no store was named", hint="`vcache merge STORE... --store DIR`")
    first = max((root.meta for root in roots), key=lambda meta: len(meta.target_options))
    for root in roots:
        if os.path.exists(store) and os.path.samefile(root.path, store):
            raise UsageError(f"{root.path} is the store to merge into, and a source as well")
        if root.meta.target != first.target:
            raise RefusedError(
                f"{root.path} is a store of target `{root.meta.target}`, not `{first.target}`",
                hint="merge stores of one target",
            )
        refuse_others(root.path, root.meta, first.target_options)
    return Origin(first.target, first.target_options)
