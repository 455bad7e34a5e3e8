"""Numbers of single tokens, from a model folder's tokenizer; none is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcache_cli.checkpoint.jsonfile import read_object

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["token_number"]


def token_number(folder: Path, text: str) -> int | None:
    """The number of the token that is written `text`; None where no file names it.

    Raises:
        ModelError: a file is there and is no JSON object.
    """
    for content, number in _named(folder):
        if content == text and type(number) is int:
            return number
    return None


def _named(folder: Path) -> Iterator[tuple[object, object]]:
    """Tokens with their numbers: first those that were added to the vocabulary."""
    whole = read_object(folder / "tokenizer.json") or {}
    added = whole.get("added_tokens")
    for each in added if isinstance(added, list) else ():
        if isinstance(each, dict):
            yield each.get("content"), each.get("id")
    decoder = (read_object(folder / "tokenizer_config.json") or {}).get("added_tokens_decoder")
    for number, each in decoder.items() if isinstance(decoder, dict) else ():
        if isinstance(each, dict) and number.isascii() and number.isdecimal():
            yield each.get("content"), int(number[:18])
    yield from (read_object(folder / "added_tokens.json") or {}).items()
    model = whole.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    yield from vocabulary.items() if isinstance(vocabulary, dict) else ()
