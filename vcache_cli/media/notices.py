"""Sentences for what a profile's own rules lose of a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

__all__ = [
    "ALPHA",
    "ANIMATION",
    "CLIP_COUNTED",
    "CLIP_DAMAGED",
    "CLIP_DEEP",
    "CLIP_NOT_TURNED",
    "CLIP_ODD",
    "CLIP_SEEKS",
    "CLIP_SHORT",
    "CLIP_UNSTEADY",
    "CMYK",
    "GREY16",
    "INEXACT",
    "KEY",
    "PLUGIN",
    "WARNED",
    "notice_text",
]

ALPHA: Final = "alpha_dropped"
ANIMATION: Final = "animation_first_frame"
CLIP_COUNTED: Final = "clip_counted"
CLIP_DAMAGED: Final = "clip_damaged"
CLIP_DEEP: Final = "clip_deep_colour"
CLIP_NOT_TURNED: Final = "clip_not_turned"
CLIP_ODD: Final = "clip_odd_sides"
CLIP_SEEKS: Final = "clip_seeks_miss"
CLIP_SHORT: Final = "clip_ended_early"
CLIP_UNSTEADY: Final = "clip_variable_rate"
CMYK: Final = "cmyk_converted"
GREY16: Final = "grey16_clipped"
KEY: Final = "transparent_colour"
PLUGIN: Final = "needs_plugin"
WARNED: Final = "decoder_warned"

INEXACT: Final = frozenset(
    {CLIP_COUNTED, CLIP_DAMAGED, CLIP_DEEP, CLIP_ODD, CLIP_SEEKS, CLIP_UNSTEADY}
)
"""Kinds under which a server may see other pixels: its entry says `exact: false`."""

_TEXTS: Final = {
    ALPHA: "transparency is dropped, as the image processor does: hidden colours become visible",
    ANIMATION: "only the first frame or page is used, as the image processor does",
    CLIP_COUNTED: "the container does not say how many frames it has, so that some of the server's "
    "decoders refuse it; counted",
    CLIP_DAMAGED: "a part of the clip is damaged and was left out; a server may stop there",
    CLIP_DEEP: "more than 8 bits a channel: the server's decoder rounds them differently",
    CLIP_NOT_TURNED: "the clip is to be shown turned, and the server does not turn it",
    CLIP_ODD: "sides are odd and colours are kept at half size: builds of the server's decoder "
    "differ in the last level",
    CLIP_SEEKS: "the container has no index, and the server, which seeks by number, may get "
    "other frames",
    CLIP_SHORT: "the clip ended early",
    CLIP_UNSTEADY: "frames follow each other at varying distances, and the server, which seeks "
    "by number, gets others for some of them",
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
    text = _TEXTS.get(name, kind.replace("_", " "))
    return f"{text}: {detail}" if detail and name in _TEXTS else text
