"""Reading headers that are alike: what a strict parse has settled once is compared, not parsed.

All entries of a model have the same header but for a few texts of the same length: key, source,
time, checksum. A template knows their places, proven by a parse of other text in them.
"""

from __future__ import annotations

import itertools
import operator
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vcache_cli.errors import InvalidEntryError
from vcache_cli.header.limits import Header, HeaderLimits
from vcache_cli.header.parse import parse_header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["HeaderReader"]

_PLAIN: Final = bytes(code for code in range(0x20, 0x7F) if code not in b'"\\')
"""Characters that stand for themselves in a JSON string and cannot end it."""
_OTHERS: Final = bytes(ord("y" if code == ord("x") else "x") for code in range(256))
"""For each character another plain one."""
_MAX_KINDS: Final = 256
"""Pairs of header and payload length that are remembered."""
_MAX_TEMPLATES: Final = 4
"""Of one kind, such as those of models whose names are equally long."""
_MAX_HEADER_BYTES: Final = 8192
"""Longer ones are parsed each time, so that templates take little memory."""


@dataclass(frozen=True, slots=True, eq=False)
class _Template:
    """What some headers of one length and payload have in common."""

    raw: bytes
    header: Header
    names: Sequence[str]
    """Metadata fields that vary."""
    cut: Callable[[bytes], tuple[bytes, ...]]
    """Cuts a header where their values begin and end: every second part is a value."""
    fixed: tuple[bytes, ...]
    """The other parts of `raw`."""

    def match(self, raw: bytes) -> Header | None:
        """The header in `raw`; None where more than plain values in their places differs."""
        parts = self.cut(raw)
        if parts[::2] != self.fixed:
            return None
        values = parts[1::2]
        if b"".join(values).translate(None, _PLAIN):
            return None
        metadata = dict(self.header.metadata)
        for name, value in zip(self.names, values, strict=False):  # the last one is empty
            metadata[name] = value.decode("ascii")
        return Header(metadata, self.header.tensors, self.header.data_start)

    def other(self) -> bytes:
        """`raw` with each character of the varying values replaced."""
        parts = list(self.cut(self.raw))
        parts[1::2] = [value.translate(_OTHERS) for value in parts[1::2]]
        return b"".join(parts)


class HeaderReader:
    """`parse_header` under the same limits, faster for headers like earlier ones. Any thread.

    Answers and refusals are those of `parse_header`.
    """

    def __init__(self, limits: HeaderLimits) -> None:
        self._limits = limits
        self._known: dict[tuple[int, int], tuple[_Template, ...]] = {}
        self._changing = threading.Lock()

    def read(self, raw: bytes, payload_bytes: int) -> Header:
        """The header in `raw` (the JSON alone), checked against `payload_bytes` of tensor data.

        Raises:
            InvalidEntryError: as `parse_header`.
        """
        kind = len(raw), payload_bytes
        known = self._known.get(kind, ())
        for template in known:
            found = template.match(raw)
            if found is not None:
                return found
        header = parse_header(raw, payload_bytes, self._limits)
        if len(raw) <= _MAX_HEADER_BYTES:
            self._keep(kind, self._learnt(raw, payload_bytes, header))
        return header

    def _keep(self, kind: tuple[int, int], templates: tuple[_Template, ...]) -> None:
        with self._changing:
            self._known.pop(kind, None)
            self._known[kind] = templates  # the newest comes last
            if len(self._known) > _MAX_KINDS:
                del self._known[next(iter(self._known))]

    def _learnt(self, raw: bytes, payload_bytes: int, header: Header) -> tuple[_Template, ...]:
        """The templates of a kind, once `raw` that none of them matches is known, too."""
        known = self._known.get((len(raw), payload_bytes), ())
        for template in known:
            wider = _widened(template, raw, header)
            if wider is not None and self._holds(wider, payload_bytes):
                return wider, *(other for other in known if other is not template)
        return _template(raw, header, ()), *known[: _MAX_TEMPLATES - 1]

    def _holds(self, template: _Template, payload_bytes: int) -> bool:
        """Whether other text in the places is, to the parser, just other values of the fields."""
        other = template.other()
        try:
            return parse_header(other, payload_bytes, self._limits) == template.match(other)
        except InvalidEntryError:
            return False


def _widened(template: _Template, raw: bytes, header: Header) -> _Template | None:
    """A template of `raw` that matches what `template` is of; None where too much differs."""
    old, new = template.header.metadata, header.metadata
    varying = {*template.names, *(name for name in new if old.get(name) != new[name])}
    wider = _template(raw, header, varying)
    return wider if wider.match(template.raw) else None


def _template(raw: bytes, header: Header, varying: Iterable[str]) -> _Template:
    """A template of `raw` alone but for the values of some fields, not yet proven."""
    own = Header(dict(header.metadata), header.tensors, header.data_start)
    found = sorted((*_place(raw, name, own.metadata.get(name, "")), name) for name in varying)
    edges = [0, *(edge for begin, end, _ in found for edge in (begin, end)), len(raw), len(raw)]
    parts = [slice(begin, end) for begin, end in itertools.pairwise(edges)]
    cut = operator.itemgetter(*parts)  # of two parts at least, else its result is no tuple
    return _Template(raw, own, [name for _, _, name in found], cut, cut(raw)[::2])


def _place(raw: bytes, name: str, value: str) -> tuple[int, int]:
    """Where `value` seems to lie; an empty place where it is spelled in another way."""
    before, text = f'"{name}":"'.encode(), value.encode()
    begin = raw.find(before + text + b'"') + len(before)
    return (begin, begin + len(text)) if begin >= len(before) else (0, 0)
