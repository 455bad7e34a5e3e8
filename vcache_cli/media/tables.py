"""Cells of a Parquet file that may hold pictures; the extra ``parquet`` reads them.

Rows are compressed together, so a cell has no place in the file. Workers ask for rows about in
order; a cursor per row group gives them, and keeps a few around for those that come late. Memory
is that of the pages that the file was written with, up to a row group. Of an object in a bucket
the footer and the columns of bytes are fetched, by each process that asks for rows of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vcache_cli.buckets import is_url
from vcache_cli.errors import ReadError
from vcache_cli.items import Trouble
from vcache_cli.media.object_bytes import object_bytes
from vcache_cli.media.parts import MAX_MEMBERS, opened_container
from vcache_cli.media.read import HEAD_BYTES, check_size
from vcache_cli.media.readable import as_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vcache_cli.items import FileStat
    from vcache_cli.media.object_bytes import ObjectBytes

__all__ = ["CellPart", "cell_parts", "looks_like_parquet"]

_BATCH_ROWS: Final = 8
_MAX_KEPT_BYTES: Final = 64 * 1024**2
"""Of the rows that a cursor keeps, beside the batch just read."""
_MAX_CURSORS: Final = 2
_BUFFER_BYTES: Final = 1024 * 1024
_HINT: Final = "pip install 'vcache-cli[parquet]'"
_AGAIN: Final = "copy or download it again"


@dataclass(frozen=True, slots=True)
class CellPart:
    """A cell: the bytes of one row of a column."""

    column: str
    """Dotted, where the bytes are a field of a structure."""
    row_group: int
    row: int
    """In its row group."""
    number: int
    """Of the row in the file, from 0."""

    @property
    def name(self) -> str:
        """Rows have no names."""
        return f"row {self.number} {self.column}"

    @property
    def locator(self) -> str:
        """As `name`."""
        return self.name

    @property
    def size_bytes(self) -> int:
        """Not known before it is read."""
        return 0

    def read(
        self, path: str, stat: FileStat | None, limit_of: Callable[[bytes], int | None]
    ) -> bytes | None:
        """See `items.Part`."""
        with opened_container(path, stat):  # is it still the same file?
            data = _CURSORS.cell(path, stat, self)
        max_bytes = limit_of(data[:HEAD_BYTES])
        if max_bytes is None:
            return None
        check_size(len(data), max_bytes)
        return data


def looks_like_parquet(head: bytes) -> bool:
    """True for a Parquet file whose footer is not encrypted."""
    return head[:4] == b"PAR1"


def cell_parts(
    path: str, stat: FileStat | None, *, explicit: bool
) -> Iterator[CellPart | tuple[str, Trouble]]:
    """Each cell of the columns of bytes, row by row; reads the footer alone.

    Raises:
        ReadError: an object that cannot be read.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        told = "Parquet files need the package pyarrow, which is not installed"
        yield "", Trouble("needs_package", told, hint=_HINT, skipped=not explicit)
        return
    source = object_bytes(path, stat) if is_url(path) else None
    damage = None
    try:
        with parquet.ParquetFile(as_file(source) if source else path) as file:
            columns = list(_columns(file.schema_arrow))
            rows = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
    except (pa.ArrowException, OSError, UnicodeError) as error:
        damage = Trouble("damaged", f"damaged: {_first_line(error)}", hint=_AGAIN)
    if source:  # damaged, or another one by now?
        source.check()
    yield from [("", damage)] if damage else _cells(columns, rows)


def _cells(columns: list[str], rows: list[int]) -> Iterator[CellPart | tuple[str, Trouble]]:
    if not columns:
        yield "", Trouble("no_images", "no column holds bytes", skipped=True)
    number = 0
    for group, count in enumerate(rows):
        if not 0 <= count <= MAX_MEMBERS - number:
            yield "", Trouble("damaged", f"more than {MAX_MEMBERS} rows", hint=_AGAIN)
            return
        for row in range(count):
            for column in columns:
                yield CellPart(column, group, row, number)
            number += 1


def _columns(schema: Any) -> Iterator[str]:  # noqa: ANN401  pyarrow has no types
    """Columns of bytes, and the field ``bytes`` of structures, as datasets keep images."""
    from pyarrow import types

    for each in schema:
        if types.is_binary(each.type) or types.is_large_binary(each.type):
            yield each.name
        elif types.is_struct(each.type):
            inner = [each.type.field(i) for i in range(each.type.num_fields)]
            if any(f.name == "bytes" and types.is_binary(f.type) for f in inner):
                yield f"{each.name}.bytes"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


@dataclass(slots=True)
class _Cursor:
    """Reads the columns of bytes of a row group forward, together."""

    columns: list[str]
    num_rows: int
    file: Any
    batches: Iterator[Any]
    source: ObjectBytes | None = None
    """Where it reads an object."""
    following: int = 0
    """The first row that was not read yet."""
    kept: deque[tuple[int, dict[str, Any]]] = field(default_factory=deque)
    """First row and cells by column of the last batches."""

    def cell(self, row: int, column: str) -> bytes | None:
        """The bytes of a cell; None where the cursor has passed it."""
        while row >= self.following:
            batch = next(self.batches, None)
            if batch is None:
                raise ReadError("the table ends before it", kind="damaged", hint=_AGAIN)
            self._keep(batch)
        if self.source:
            self.source.check()
        for first, cells in self.kept:
            if first <= row < first + len(cells[column]):
                return cells[column][row - first].as_py() or b""
        return None

    def _keep(self, batch: Any) -> None:  # noqa: ANN401  pyarrow has no types
        self.kept.append((self.following, {name: _flat(batch, name) for name in self.columns}))
        self.following += batch.num_rows
        while len(self.kept) > 1 and sum(map(_held, self.kept)) > _MAX_KEPT_BYTES:
            self.kept.popleft()
        if self.following >= self.num_rows:
            self.close()

    def close(self) -> None:
        """Let go of the file and of its pages, which may be as large as the row group."""
        import pyarrow as pa

        self.batches = iter(())
        self.file.close()
        pa.default_memory_pool().release_unused()


def _held(kept: tuple[int, dict[str, Any]]) -> int:
    return sum(int(cells.nbytes) for cells in kept[1].values())


def _flat(batch: Any, column: str) -> Any:  # noqa: ANN401  pyarrow has no types
    """The cells of a column, or of the field ``bytes`` of a structure."""
    if column in batch.schema.names:
        return batch.column(column)
    return batch.column(column.removesuffix(".bytes")).field("bytes")


@dataclass(slots=True)
class _Cursors:
    """The cursors of this process, the last used ones; one thread reads at a time."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    open: OrderedDict[tuple[Any, ...], _Cursor] = field(default_factory=OrderedDict)

    def cell(self, path: str, stat: FileStat | None, part: CellPart) -> bytes:
        """The bytes of a cell.

        Raises:
            ReadError: kind ``damaged``.
        """
        import pyarrow as pa

        key = (path, stat, part.row_group)
        with self.lock:
            try:
                cursor = self.open.pop(key, None) or _opened(path, stat, part)
                data = cursor.cell(part.row, part.column)
                if data is None:  # it went by long ago
                    cursor = _opened(path, stat, part)
                    data = cursor.cell(part.row, part.column)
            except (pa.ArrowException, OSError, KeyError, ValueError) as error:
                raise ReadError(
                    f"cannot be read: {_first_line(error)}", kind="damaged", hint=_AGAIN
                ) from error
            self.open[key] = cursor
            while len(self.open) > _MAX_CURSORS:
                self.open.popitem(last=False)[1].close()
        return data or b""


def _opened(path: str, stat: FileStat | None, part: CellPart) -> _Cursor:
    from pyarrow import parquet

    source = object_bytes(path, stat) if is_url(path) else None
    place = as_file(source) if source else path
    file = parquet.ParquetFile(place, pre_buffer=False, buffer_size=_BUFFER_BYTES)
    columns = list(_columns(file.schema_arrow))
    batches = file.iter_batches(
        _BATCH_ROWS, row_groups=[part.row_group], columns=columns, use_threads=False
    )
    num_rows = file.metadata.row_group(part.row_group).num_rows
    return _Cursor(columns, num_rows, file, iter(batches), source)


_CURSORS: Final = _Cursors()
