"""The size of a picture is foretold by its header, also where nothing else of it is whole."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.media.pictures import HEIGHT, SAMPLES, WIDTH, encoded, noise, turned
from vcache_cli.errors import MediaError
from vcache_cli.media import PillowDecoder
from vcache_cli.media.jxl import jxl_size
from vcache_cli.media.measure import with_metadata_first
from vcache_cli.media.shrink import fitted
from vcache_cli.profile import Profile

PLAIN = PillowDecoder(Profile("plain", 1, "x", ("1",)))
UNTURNED = PillowDecoder(Profile("unturned", 1, "x", ("1",), exif=False))
SHRINKING = PillowDecoder(Profile("shrinking", 1, "x", ("1",), max_side=11))
DECODERS = {"plain": PLAIN, "unturned": UNTURNED, "shrinking": SHRINKING}
FILES = SAMPLES | {
    f"turned-{number}-{kind}": turned(number, kind)
    for number in range(1, 9)
    for kind in ("JPEG", "PNG", "WEBP", "TIFF", "AVIF")
}


def size_of(data: bytes, decoder: PillowDecoder = PLAIN) -> tuple[int, int]:
    """What decoding gives."""
    frames = decoder.decode(data)
    return frames.width, frames.height


def chunk(name: bytes, data: bytes) -> bytes:
    framed = name + data
    return struct.pack(">I", len(data)) + framed + struct.pack(">I", zlib.crc32(framed))


def with_late_exif(orientation: int) -> bytes:
    """A PNG that says how it is to be turned after its levels."""
    plain = encoded(noise(), "PNG")
    exif = Image.Exif()
    exif[0x0112] = orientation
    end = plain.index(b"IEND") - 4
    return plain[:end] + chunk(b"eXIf", exif.tobytes()[6:]) + plain[end:]


@pytest.mark.parametrize("rule", DECODERS)
@pytest.mark.parametrize("name", FILES)
def test_the_header_tells_the_size_that_decoding_gives(name: str, rule: str) -> None:
    decoder = DECODERS[rule]
    assert decoder.measure(FILES[name]) == size_of(FILES[name], decoder)


def test_a_late_orientation_counts() -> None:
    data = with_late_exif(6)
    assert size_of(data) == PLAIN.measure(data) == (HEIGHT, WIDTH)
    assert UNTURNED.measure(data) == (WIDTH, HEIGHT)
    assert with_metadata_first(data).index(b"eXIf") < with_metadata_first(data).index(b"IDAT")


def test_an_orientation_in_xmp_counts() -> None:
    info = PngInfo()
    info.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="8"/>')
    data = encoded(noise(), "PNG", pnginfo=info)
    assert size_of(data) == PLAIN.measure(data) == (HEIGHT, WIDTH)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "TIFF", "BMP", "JPEG2000"])
def test_a_body_that_is_gone_does_not_matter(kind: str) -> None:
    """Nothing is decoded: it could not be."""
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(noise(width=300, height=200), kind, exif=exif)
    half = data[: len(data) // 2]
    assert PLAIN.measure(half) == PLAIN.measure(data)
    with pytest.raises(MediaError):
        PLAIN.decode(half)


@pytest.mark.parametrize("data", [b"", b"<svg/>", SAMPLES["png"][:8], SAMPLES["jpeg"][:3]])
def test_what_has_no_header_is_refused_as_decoding_does(data: bytes) -> None:
    kinds = []
    for ask in (PLAIN.measure, PLAIN.decode):
        with pytest.raises(MediaError) as error:
            ask(data)
        kinds.append(error.value.item_kind)
    assert kinds[0] == kinds[1]


def test_limits_count_before_anything_is_decoded() -> None:
    small = PillowDecoder(PLAIN.profile, max_pixels=WIDTH * HEIGHT - 1)
    with pytest.raises(MediaError, match=str(WIDTH * HEIGHT - 1)) as error:
        small.measure(SAMPLES["jpeg"])
    assert error.value.item_kind == "bomb"


@given(st.sampled_from(sorted(FILES)), st.sampled_from(sorted(DECODERS)), st.data())
def test_damage_gives_a_size_or_a_media_error(name: str, rule: str, data: st.DataObject) -> None:
    damaged = bytearray(FILES[name])
    places = st.integers(0, len(damaged) - 1)
    for place, level in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=6)):
        damaged[place] = level
    del damaged[data.draw(places | st.just(len(damaged))) :]
    with suppress(MediaError):
        width, height = DECODERS[rule].measure(bytes(damaged))
        assert width * height > 0


@given(st.integers(1, 700), st.integers(1, 700), st.integers(1, 400))
def test_a_shrunk_size_is_that_of_a_thumbnail(width: int, height: int, side: int) -> None:
    picture = Image.new("L", (width, height))
    picture.thumbnail((side, side), Image.Resampling.BOX)
    assert fitted(width, height, side) == picture.size


def test_large_pictures_are_brought_down_and_then_turned() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    rgba = noise("RGBA", width=90, height=60)
    frames = SHRINKING.decode(encoded(rgba, "PNG", exif=exif))
    expected = rgba.convert("RGB")
    expected.thumbnail((11, 11), Image.Resampling.LANCZOS)
    assert (frames.width, frames.height) == (7, 11)
    turned_back = np.rot90(frames.rgb[0])
    assert np.array_equal(turned_back, np.asarray(expected))
    assert frames.warnings == ("alpha_dropped",)


def bits(*fields: tuple[int, int]) -> bytes:
    """Fields of (value, bits), least bit first, after the signature of JPEG XL."""
    number = at = 0
    for value, count in fields:
        number |= value << at
        at += count
    return b"\xff\x0a" + number.to_bytes(24, "little")


JXL = {
    "small": (bits((1, 1), (3, 5), (0, 3), (1, 5), (1, 1)), (16, 32)),
    "small-square": (bits((1, 1), (3, 5), (1, 3), (1, 1)), (32, 32)),
    "wide": (bits((0, 1), (1, 2), (1079, 13), (5, 3), (1, 1)), (1920, 1080)),
    "any": (bits((0, 1), (0, 2), (16, 9), (0, 3), (0, 2), (22, 9), (1, 1)), (23, 17)),
    "large": (bits((0, 1), (3, 2), (99_999, 30), (0, 3), (2, 2), (7, 18), (1, 1)), (8, 100_000)),
    "turned": (
        bits((0, 1), (0, 2), (16, 9), (0, 3), (0, 2), (22, 9), (0, 1), (1, 1), (5, 3)),
        (17, 23),
    ),
}


@pytest.mark.parametrize("name", JXL)
def test_a_jpeg_xl_header_tells_its_size(name: str) -> None:
    codestream, expected = JXL[name]
    assert jxl_size(codestream) == expected
    signature = b"\0\0\0\x0cJXL \r\n\x87\n"
    other = struct.pack(">I4s4s", 12, b"ftyp", b"jxl ")
    boxed = struct.pack(">I4s", 0, b"jxlc") + codestream
    assert jxl_size(signature + other + boxed) == expected
    long = struct.pack(">I4sQI", 1, b"jxlp", 20 + len(codestream), 0) + codestream
    assert jxl_size(signature + other + long) == expected


@pytest.mark.parametrize("data", [b"\0\0\0\x0cJXL \r\n\x87\n", b"\0\0\0\0JXL ", b""])
def test_a_jpeg_xl_without_a_header_is_refused(data: bytes) -> None:
    with pytest.raises(MediaError, match="no header"):
        jxl_size(data)
