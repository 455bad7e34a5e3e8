"""Pictures become RGB as the loaders make it; anything else is a MediaError, never a crash."""

from __future__ import annotations

import pickle
import struct
import time
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tests.media.pictures import HEIGHT, SAMPLES, WIDTH, deep_grey, encoded, noise, turned
from vcache_cli.errors import MediaError, ModelError
from vcache_cli.items import Kind
from vcache_cli.media import PillowDecoder, notice_text, versions
from vcache_cli.profile import Profile

PROFILE = Profile("test", 1, "transformers", ("5",))
DECODER = PillowDecoder(PROFILE)


def failure(data: bytes, decoder: PillowDecoder = DECODER) -> MediaError:
    """The error that decoding ends with."""
    with pytest.raises(MediaError) as error:
        decoder.decode(data)
    return error.value


def png_of(width: int, height: int) -> bytes:
    """A PNG of a few bytes that announces a size."""

    def chunk(name: bytes, data: bytes) -> bytes:
        framed = name + data
        return struct.pack(">I", len(data)) + framed + struct.pack(">I", zlib.crc32(framed))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("name", SAMPLES)
def test_each_format_decodes_as_pillow_converts_it(name: str) -> None:
    frames = DECODER.decode(SAMPLES[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(BytesIO(SAMPLES[name])) as image:
            expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    assert frames.rgb.shape == (1, *expected.shape)
    assert np.array_equal(frames.rgb[0], expected)
    assert frames.pts_seconds == (0.0,)


@pytest.mark.parametrize("name", SAMPLES)
def test_each_format_is_an_image_by_its_first_bytes(name: str) -> None:
    assert DECODER.sniff(SAMPLES[name][:64]) is Kind.IMAGE


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(orientation: int) -> None:
    frames = DECODER.decode(turned(orientation))
    sides = (WIDTH, HEIGHT) if orientation < 5 else (HEIGHT, WIDTH)
    assert (frames.width, frames.height) == sides
    corner = [(0, 0), (0, -1), (-1, -1), (-1, 0), (0, 0), (0, -1), (-1, -1), (-1, 0)]
    row, column = corner[orientation - 1]
    assert frames.rgb[0, row, column].tolist() == np.asarray(noise())[0, 0].tolist()


def test_a_profile_may_ignore_orientation() -> None:
    decoder = PillowDecoder(Profile("test", 1, "x", ("1",), exif=False))
    assert decoder.decode(turned(6)).width == WIDTH


def test_a_profile_with_an_unknown_alpha_rule_is_refused() -> None:
    with pytest.raises(ModelError, match="unknown alpha rule `white`"):
        PillowDecoder(Profile("test", 1, "x", ("1",), alpha="white"))


PAIR = {"save_all": True, "append_images": [noise("L").convert("RGB")]}
LOSSES = {
    "opaque-rgba": (encoded(noise().convert("RGBA"), "PNG"), ()),
    "rgba": (encoded(noise("RGBA"), "PNG"), ("alpha_dropped",)),
    "la": (encoded(noise("LA"), "PNG"), ("alpha_dropped",)),
    "webp": (encoded(noise("RGBA"), "WEBP"), ("alpha_dropped",)),
    "palette-levels": (
        encoded(noise().quantize(8), "PNG", transparency=bytes(range(8))),
        ("alpha_dropped",),
    ),
    "palette-key": (encoded(noise().quantize(8), "PNG", transparency=2), ("transparent_colour",)),
    "grey-key": (encoded(noise("L"), "PNG", transparency=int(np.asarray(noise("L"))[0, 0])),
                 ("transparent_colour",)),
    "key-not-used": (encoded(noise("L").point(lambda level: level // 2), "PNG", transparency=255),
                     ()),
    "deep": (encoded(deep_grey(3000), "PNG"), ("grey16_clipped",)),
    "deep-big-endian": (SAMPLES["tiff-big-endian"], ("grey16_clipped",)),
    "deep-but-dark": (encoded(deep_grey(255), "PNG"), ()),
    "cmyk": (encoded(noise("CMYK"), "JPEG"), ("cmyk_converted",)),
    "gif": (encoded(noise(), "GIF", **PAIR), ("animation_first_frame",)),
    "webp-animated": (encoded(noise(), "WEBP", **PAIR), ("animation_first_frame",)),
    "apng": (encoded(noise(), "PNG", **PAIR), ("animation_first_frame",)),
    "tiff-pages": (encoded(noise(), "TIFF", **PAIR), ("animation_first_frame",)),
    "stereo-jpeg": (encoded(noise(), "MPO", **PAIR), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_only_what_is_lost_is_told(name: str) -> None:
    data, expected = LOSSES[name]
    frames = DECODER.decode(data)
    assert frames.warnings == expected
    assert all(" " in notice_text(kind) for kind in expected)


def test_a_colour_marked_transparent_is_kept_as_a_mark() -> None:
    picture = noise().quantize(8)
    palette = picture.getpalette() or []
    frames = DECODER.decode(encoded(picture, "PNG", transparency=2))
    assert frames.key_rgb == tuple(palette[6:9])
    assert DECODER.decode(encoded(picture, "PNG")).key_rgb is None


def test_a_bomb_is_refused_by_its_header() -> None:
    error = failure(png_of(20_000, 20_000))
    assert error.item_kind == "bomb"
    assert "178956970" in error.message
    assert "smaller" in error.hint


@pytest.mark.parametrize(
    "head",
    [
        *(magic + rest for magic in (b"P1", b"P4", b"P6") for rest in (b"\n", b"\n#", b"\n3 #")),
        b"P6\n3 2\n#",
    ],
)
def test_a_header_without_an_end_is_refused_at_once(head: bytes) -> None:
    data = head + b" " * 40_000_000
    started = time.thread_time()  # a busy machine is no fault of ours
    error = failure(data)
    assert error.item_kind == "corrupt"
    assert "no end" in error.message
    assert time.thread_time() - started < 1


@pytest.mark.parametrize("mode", ["1", "L", "RGB"])
@pytest.mark.parametrize("comment", [b"", b"# by hand\n", b"#\r# 9 9 9\n\n"])
def test_a_long_picture_with_comments_is_read(mode: str, comment: bytes) -> None:
    picture = noise(mode, width=800, height=800)
    data = encoded(picture, "PPM")
    frames = DECODER.decode(data[:3] + comment + data[3:])
    assert np.array_equal(frames.rgb[0], np.asarray(picture.convert("RGB")))


def test_the_limit_is_per_decoder_and_exact() -> None:
    data = encoded(noise(), "PNG")
    assert PillowDecoder(PROFILE, max_pixels=WIDTH * HEIGHT).decode(data).width == WIDTH
    error = failure(data, PillowDecoder(PROFILE, max_pixels=WIDTH * HEIGHT - 1))
    assert error.item_kind == "bomb"
    assert f"{WIDTH} x {HEIGHT} = {WIDTH * HEIGHT} pixels" in error.message


def test_a_limit_above_pillows_own_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert DECODER.decode(encoded(noise(), "PNG")).width == WIDTH


def test_a_file_above_the_limit_is_refused() -> None:
    assert failure(SAMPLES["png"], PillowDecoder(PROFILE, max_file_bytes=9)).item_kind == (
        "too_large"
    )


FAILURES = {
    "empty": (b"", "not_media", "an empty file"),
    "html": (b"<!DOCTYPE html><h1>404</h1>", "not_media", "HTML"),
    "svg": (b"<?xml version='1.0'?>\n<svg xmlns='x'/>", "not_media", "SVG"),
    "text": (b"just words\n", "not_media", "text"),
    "jpeg-cut": (SAMPLES["jpeg"][:-200], "truncated", "cut short"),
    "png-cut": (SAMPLES["png"][:200], "truncated", "cut short"),
    "png-signature-only": (SAMPLES["png"][:8], "corrupt", "PNG"),
    "jpeg-start-only": (SAMPLES["jpeg"][:3], "corrupt", "JPEG"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_is_no_picture_is_told_by_kind(name: str) -> None:
    data, kind, words = FAILURES[name]
    error = failure(data)
    assert (error.item_kind, words in error.message) == (kind, True)


@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_damage_anywhere_gives_a_picture_or_a_media_error(name: str, data: st.DataObject) -> None:
    damaged = bytearray(SAMPLES[name])
    places = st.integers(0, len(damaged) - 1)
    for place, level in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=6)):
        damaged[place] = level
    del damaged[data.draw(places | st.just(len(damaged))) :]
    with suppress(MediaError):
        frames = PillowDecoder(PROFILE, max_pixels=1_000_000).decode(bytes(damaged))
        assert frames.rgb.ndim == 4
        assert frames.rgb.dtype == np.uint8


def test_decoding_does_not_depend_on_threads_or_order() -> None:
    names = sorted(SAMPLES) * 4
    alone = {name: DECODER.decode(SAMPLES[name]).rgb for name in SAMPLES}
    with ThreadPoolExecutor(8) as pool:
        together = pool.map(lambda name: DECODER.decode(SAMPLES[name]).rgb, names)
        for name, rgb in zip(names, together, strict=True):
            assert np.array_equal(rgb, alone[name])


def test_warnings_of_pillow_neither_print_nor_raise(
    recwarn: pytest.WarningsRecorder,
) -> None:
    data = encoded(noise().quantize(8), "PNG", transparency=bytes(range(8)))
    warnings.simplefilter("error")
    DECODER.decode(data)
    assert len(recwarn) == 0


def test_what_a_decoder_warns_of_is_recorded_in_its_own_thread() -> None:
    noisy = noise("RGB")
    exif = b"Exif\0\0II*\0\x08\0\0\0\x05\0\x12\x01"
    data = encoded(noisy, "JPEG", exif=exif)
    plain = encoded(noisy, "JPEG")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(DECODER.decode, [data, plain] * 8))
    for warned, quiet in zip(found[::2], found[1::2], strict=True):
        assert quiet.warnings == ()
        [kind] = warned.warnings
        assert kind.startswith("decoder_warned: ")
        assert notice_text(kind).startswith("the decoder warned: ")


def test_warnings_of_others_are_shown_as_before() -> None:
    DECODER.decode(SAMPLES["png"])
    with pytest.warns(UserWarning, match="not of Pillow"):
        warnings.warn("not of Pillow", UserWarning, stacklevel=1)


def test_a_decoder_can_be_sent_to_another_process() -> None:
    copy: Any = pickle.loads(pickle.dumps(DECODER))  # noqa: S301  our own bytes
    assert copy == DECODER


def test_versions_name_what_decides_a_pixel() -> None:
    assert {"pillow", "jpg", "webp", "zlib"} <= set(versions())
