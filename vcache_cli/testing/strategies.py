"""Hypothesis strategies: texts that go wrong, and metadata that lies."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from hypothesis import strategies as st

from vcache_cli.entry import Provenance
from vcache_cli.protocols import StoredFile
from vcache_cli.tensor import ITEMSIZE_BYTES, Tensor

__all__ = ["changed_metadata", "hostile_texts", "lies", "stored_files", "texts_near"]

_HOSTILE: Final = (
    "",
    ".",
    "..",
    "/",
    "//",
    "../..",
    "../../etc/passwd",
    "/etc/passwd",
    "a/../b",
    "a/./b",
    "a//b",
    "a\\..\\b",
    "a\0b",
    "a\nb",
    " ",
    "-rf",
    "~",
    "CON",
    "CACHEDIR.TAG",
    ".vcache",
    ".VCACHE",
    ".vcache/store.json",
    ".vcache/tmp/x.safetensors",
    ".VCache/x.safetensors",
    "lost+found",
    "caf\u00e9",
    "cafe\u0301",
    "\u202egnp.exe",
    "\udcff",
    "x" * 300,
    "0" * 64,
    "A" * 64,
    "\u0660" * 64,
)
_VALUES: Final = (
    "",
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "1e999",
    "NaN",
    "9" * 400,
    "9" * 4400,  # more digits than Python turns into a number
    "\u0661",
    "[]",
    "{}",
    "[1,2",
    "[" * 3000,
    '{"a":' * 1000,
    "0" * 64,
)
_JSON_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, 10**30, math.nan, -math.inf),
    *("", "x", [], [1], {}, {"a": 1}, {"a": [math.nan]}),
)
_UNICODE: Final = st.text(st.characters(exclude_categories=["Cs"]))  # a header holds no others
_JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _UNICODE,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(_UNICODE, part, max_size=3),
    max_leaves=6,
)
_PROVENANCES: Final = st.dictionaries(
    st.sampled_from([field.name for field in fields(Provenance)]), _JSON, max_size=4
)


def hostile_texts() -> st.SearchStrategy[str]:
    """Any text, with what has gone wrong elsewhere more often."""
    return st.sampled_from(_HOSTILE) | st.text()


def texts_near(samples: Sequence[str]) -> st.SearchStrategy[str]:
    """Hostile texts, `samples`, and samples with something put in, cut out or replaced."""
    return hostile_texts() | st.builds(
        _spliced,
        st.sampled_from(samples),
        st.integers(0, 100),
        st.integers(0, 3),
        st.sampled_from(["", "/", ".", "..", "\n", "\0", "A", "0"]) | st.text(max_size=2),
    )


def changed_metadata(sample: Mapping[str, str]) -> st.SearchStrategy[dict[str, str]]:
    """`sample` with fields missing, replaced and added; texts, numbers and JSON of any kind."""
    values = (
        st.sampled_from(_VALUES)
        | st.sampled_from([*sample.values(), ""])
        | _UNICODE
        | st.builds(json.dumps, _JSON | _PROVENANCES)
    )
    names = st.sampled_from([*sample, "grid_thw", "vcache.provenance"]) | _UNICODE
    return st.builds(
        _changed,
        st.just(sample),
        st.sets(st.sampled_from([*sample, ""]), max_size=2),
        st.dictionaries(names, values, max_size=3),
    )


def lies(sample: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """`sample` with one field missing, or replaced by each text and JSON value that goes wrong.

    A field that is a JSON object has each of its own values replaced so.
    """
    for name, text in sample.items():
        yield {other: sample[other] for other in sample if other != name}
        yield from ({**sample, name: value} for value in _VALUES)
        yield from ({**sample, name: json.dumps(value)} for value in _replaced(text))


def _replaced(text: str) -> Iterator[dict[str, Any]]:
    try:
        known = json.loads(text)
    except ValueError:
        return
    for name in known if isinstance(known, dict) else ():
        yield from ({**known, name: value} for value in _JSON_VALUES)


def stored_files(
    paths: Sequence[str],
    metadata: st.SearchStrategy[dict[str, str]],
    tensors: Mapping[str, Tensor],
) -> st.SearchStrategy[StoredFile]:
    """Files at `paths` or near them, with any facts that a listing and a header can show."""
    shapes = st.lists(st.integers(0, 2**31), max_size=5).map(tuple)
    specs = st.tuples(st.sampled_from(sorted(ITEMSIZE_BYTES)), shapes)
    path, size_bytes = texts_near(paths) | st.sampled_from(paths), st.integers(0, 2**40)
    mtime_ns = st.integers(-(10**9), 2**63)
    names = st.sampled_from([*tensors, "x"]) | _UNICODE
    read = st.builds(
        StoredFile,
        *(path, size_bytes, mtime_ns, metadata),
        st.dictionaries(names, specs, max_size=3),
    )
    error = st.none() | st.just("header is not valid JSON")
    unread = st.builds(StoredFile, path, size_bytes, mtime_ns, error=error)
    return read | unread


def _spliced(sample: str, start: int, removed: int, added: str) -> str:
    start %= len(sample) + 1
    return sample[:start] + added + sample[start + removed :]


def _changed(
    sample: Mapping[str, str], missing: set[str], others: Mapping[str, Any]
) -> dict[str, str]:
    return {name: text for name, text in sample.items() if name not in missing} | dict(others)
