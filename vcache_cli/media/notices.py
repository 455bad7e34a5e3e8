"""Sentences for what a profile's own rules lose of a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

__all__ = ["ALPHA", "ANIMATION", "CMYK", "GREY16", "KEY", "PLUGIN", "WARNED", "notice_text"]

ALPHA: Final = "alpha_dropped"
ANIMATION: Final = "animation_first_frame"
CMYK: Final = "cmyk_converted"
GREY16: Final = "grey16_clipped"
KEY: Final = "transparent_colour"
PLUGIN: Final = "needs_plugin"
WARNED: Final = "decoder_warned"

_TEXTS: Final = {
    ALPHA: "transparency is dropped, as the image processor does: hidden colours become visible",
    ANIMATION: "only the first frame or page is used, as the image processor does",
    CMYK: "CMYK becomes RGB without its colour profile, as the image processor does",
    GREY16: "grey levels above 255 are clipped to white, as the image processor does",
    KEY: "one colour is marked transparent: all pixels of that colour become white, "
    "where the image processor converts to RGB",
    PLUGIN: "a plug-in of Pillow decoded it: only a server that has the same one opens it at all",
}


def notice_text(kind: str) -> str:
    """A sentence for people on a kind of `Frames.warnings`; the kind itself where it is new."""
    name, _, detail = kind.partition(": ")
    if name == WARNED and detail:
        return f"the decoder warned: {detail}"
    return _TEXTS.get(kind, kind.replace("_", " "))
