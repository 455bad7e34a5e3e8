"""Text of files that anyone may have named, made safe to show."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

__all__ = ["clean"]

_UNSAFE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that move the cursor, hide or reorder text, or cannot be encoded."""


def clean(text: str) -> str:
    r"""`text` on one line, without anything that a terminal would obey.

    >>> clean("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\\nc'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escaped(char) if unicodedata.category(char) in _UNSAFE else char for char in text
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
