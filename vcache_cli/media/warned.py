"""What Pillow warns of while a picture is decoded, caught per thread.

Python's own way of catching warnings is per process. Here the one function that shows them is
replaced at a decode, and again where a caller put back another; what does not come from Pillow
goes to whatever showed warnings before.
"""

from __future__ import annotations

import re
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import PIL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

__all__ = ["decoder_warnings"]

_PILLOW: Final = re.compile(r"PIL\.")
"""Modules of Pillow, as a filter of `warnings` holds them."""

_FOLDER: Final = PIL.__path__[0]

_TOLD_OTHERWISE: Final = ("Palette images with Transparency", "Image size (")
"""Beginnings of warnings of lost transparency and of size, for which we have words of our own."""

_heard = threading.local()


@contextmanager
def decoder_warnings() -> Iterator[list[str]]:
    """Texts of what Pillow warns of inside, in this thread, each once; none is shown or raised."""
    _listen()
    texts: list[str] = []
    _heard.texts = texts
    try:
        yield texts
    finally:
        _heard.texts = None


def _listen() -> None:
    rule: tuple[str, object, object, object, int] = ("always", None, Warning, _PILLOW, 0)
    if not warnings.filters or warnings.filters[0] != rule:  # tests and callers replace the list
        warnings.filterwarnings("always", module=_PILLOW.pattern)
    shows: object = warnings.showwarning
    if not isinstance(shows, _Listener):
        listener: Callable[..., None] = _Listener(warnings.showwarning)
        warnings.showwarning = listener


class _Listener:
    """Shows a warning: of Pillow to who decodes in this thread, of any other as before."""

    def __init__(self, before: Callable[..., object]) -> None:
        self._before = before

    def __call__(
        self, message: Warning | str, category: type[Warning], filename: str, *rest: object
    ) -> None:
        if not filename.startswith(_FOLDER):
            self._before(message, category, filename, *rest)
            return
        texts = getattr(_heard, "texts", None)
        text = " ".join(str(message).split())
        if texts is not None and text not in texts and not text.startswith(_TOLD_OTHERWISE):
            texts.append(text)
