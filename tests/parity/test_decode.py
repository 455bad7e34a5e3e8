"""Decoding against the servers' own loaders, and against oMLX's rule in plain Pillow calls."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.parity.fixtures import Fixtures, differing, exif_saying, noise
from tests.parity.omlx import omlx_picture
from tests.parity.tally import Tally
from vcache_cli.errors import ItemError
from vcache_cli.media import PillowDecoder
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, OMLX, TRANSFORMERS_PIL_5
from vcache_cli.profile import Profile
from vcache_cli.targets.omlx_names import image_hash

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]

LOADERS = {"mlx_vlm.utils": MLX_VLM_0_7, "transformers.image_utils": TRANSFORMERS_PIL_5}
FAMILY = "(decode)"


def loader_of(module: str) -> Callable[..., Image.Image]:
    """The server's own `load_image`."""
    load: Callable[..., Image.Image] = pytest.importorskip(module, exc_type=ImportError).load_image
    return load


@pytest.mark.parametrize("module", LOADERS)
def test_pictures_are_those_of_the_loader(module: str, fixtures: Fixtures, tally: Tally) -> None:
    load_image, profile = loader_of(module), LOADERS[module]
    decoder = PillowDecoder(profile)
    wrong = {}
    for name, frames in fixtures.frames(profile).items():
        theirs = np.asarray(load_image(str(fixtures.files[name])))
        count = differing(frames.rgb[0], theirs)
        tally.add(profile.name, FAMILY, name, differing=count, values=theirs.size)
        measured = decoder.measure(fixtures.files[name].read_bytes())
        if count or measured != (frames.width, frames.height):
            wrong[name] = count
    assert wrong == {}


def broken_metadata() -> dict[str, tuple[str, dict[str, Any]]]:
    """Good pictures whose metadata is not: format, and what `Image.save` is told."""
    head = b"Exif\0\0"
    entry = b"II*\0\x08\0\0\0\x01\0\x12\x01"
    blocks = {
        "garbage": head + b"garbage!",
        "empty": head,
        "cut": head + b"II*\0\x08\0\0\0\x05\0\x12\x01",
        "far-offset": head + b"II*\0\xff\xff\xff\x7f",
        "orientation-9": head + entry + b"\x03\0\x01\0\0\0\x09\0\0\0\0\0\0\0",
        "orientation-text": head + entry + b"\x02\0\x02\0\0\0\x36\0\0\0\0\0\0\0",
        "count-wrong": head + entry + b"\x03\0\x00\x01\0\0\x06\0\0\0\0\0\0\0",
        "not-utf8": head + b"II*\0\x08\0\0\0\x02\0\x0e\x01\x02\0\x04\0\0\0\xff\xfe\xe9\0"
        b"\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0",
    }
    kinds = ("JPEG", "PNG", "WEBP")
    found = {
        f"{name}-{kind}": (kind, {"exif": block})
        for name, block in blocks.items()
        for kind in kinds
    }
    found |= {f"xmp-{kind}": (kind, {"xmp": b"\xff\xfe\0<x"}) for kind in ("JPEG", "WEBP")}
    found |= {f"icc-{kind}": (kind, {"icc_profile": b"no profile"}) for kind in (*kinds, "TIFF")}
    return found


BROKEN = broken_metadata()


@pytest.mark.parametrize("module", LOADERS)
@pytest.mark.parametrize("name", BROKEN)
def test_broken_metadata_is_treated_as_the_loader_treats_it(
    name: str, module: str, tmp_path: Path, tally: Tally
) -> None:
    load_image, profile = loader_of(module), LOADERS[module]
    kind, options = BROKEN[name]
    data = saved(noise().convert("RGB"), kind, **options)
    (tmp_path / "picture").write_bytes(data)
    decoder = PillowDecoder(profile)
    try:
        theirs = np.asarray(load_image(str(tmp_path / "picture")))
    except Exception:  # noqa: BLE001  whatever the loader raises, we must refuse too
        for ask in (decoder.decode, decoder.measure):
            with pytest.raises(ItemError):
                ask(data)
        return
    frames = decoder.decode(data)
    count = differing(frames.rgb[0], theirs)
    tally.add(profile.name, FAMILY, name, differing=count, values=theirs.size)
    assert count == 0
    assert decoder.measure(data) == (frames.width, frames.height)


def omlx_hash(picture: Image.Image) -> str:
    """SHA-256 of the size in ASCII and the levels."""
    width, height = picture.size
    return hashlib.sha256(f"{width}x{height}".encode("ascii") + picture.tobytes()).hexdigest()


@dataclass(frozen=True)
class Large:
    """A picture beyond 2048 pixels, made when it is asked for."""

    mode: str
    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    size: tuple[int, int] = (2200, 1500)

    def made(self) -> bytes:
        width, height = self.size
        picture = noise(width // 10 + 1, height // 10 + 1).resize(self.size)
        if self.mode == "I;16":
            levels = np.asarray(picture.getchannel("R")).astype(np.uint16) * 257
            return saved(Image.fromarray(levels), self.kind, **self.options)
        if self.mode == "P":
            return saved(picture.convert("RGB").quantize(16), self.kind, **self.options)
        return saved(picture.convert(self.mode), self.kind, **self.options)


def turned(orientation: int) -> dict[str, Any]:
    return {"exif": exif_saying(orientation)}


SIDES = ((2049, 10), (10, 2049), (2048, 2048), (2049, 2048), (9001, 7), (4097, 3))
LARGE = {
    **{f"jpeg-exif-{n}": Large("RGB", "JPEG", turned(n), (4200, 900)) for n in range(1, 9)},
    **{f"{kind}-exif-6": Large("RGB", kind, turned(6)) for kind in ("PNG", "TIFF", "WEBP")},
    **{f"png-{mode}": Large(mode, "PNG", turned(5)) for mode in ("RGBA", "LA", "P", "1", "L")},
    **{f"jpeg-{mode}": Large(mode, "JPEG", turned(7), (4200, 900)) for mode in ("CMYK", "L")},
    "cmyk-tiff": Large("CMYK", "TIFF", turned(8)),
    "jpeg-progressive": Large("RGB", "JPEG", {"progressive": True}, (4200, 900)),
    "jpeg-444": Large("RGB", "JPEG", {"subsampling": 0}, (4200, 900)),
    "png-I;16": Large("I;16", "PNG"),
    "png-trns": Large("P", "PNG", {"transparency": 3}),
    **{f"jpeg-{w}x{h}": Large("RGB", "JPEG", size=(w, h)) for w, h in SIDES},
    **{f"png-{w}x{h}": Large("RGBA", "PNG", size=(w, h)) for w, h in SIDES},
    "jpeg-48-megapixels": Large("RGB", "JPEG", turned(6), (8000, 6000)),
    "jpeg-48-megapixels-grey": Large("L", "JPEG", turned(6), (8000, 6000)),
}


def saved(picture: Image.Image, kind: str, **options: Any) -> bytes:  # noqa: ANN401  Pillow's
    """As a file of `kind`; quickly, where it may be large."""
    stream = BytesIO()
    quick = {"PNG": {"compress_level": 1}, "WEBP": {"method": 0}}.get(kind, {})
    picture.save(stream, kind, **quick, **options)
    return stream.getvalue()


def compare_with_omlx(pictures: dict[str, bytes], max_side: int, tally: Tally) -> list[str]:
    """Names of pictures whose hash is another than oMLX's, or whose size was foretold wrongly."""
    profile: Profile = replace(OMLX, max_side=max_side or None)
    decoder = PillowDecoder(profile)
    wrong = []
    for name, data in pictures.items():
        frames = decoder.decode(data)
        theirs = omlx_picture(data, max_side)
        count = differing(frames.rgb[0], np.asarray(theirs))
        label = f"(decode, max side {max_side})"
        tally.add(
            profile.name, label, name, differing=count, values=theirs.width * theirs.height * 3
        )
        same = image_hash([frames.rgb[0]]) == omlx_hash(theirs)
        if not same or decoder.measure(data) != theirs.size:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("max_side", [0, 40, 300, 2048])
def test_hashes_of_the_fixtures_are_those_of_omlx(
    max_side: int, fixtures: Fixtures, tally: Tally
) -> None:
    pictures = {name: path.read_bytes() for name, path in fixtures.files.items()}
    assert compare_with_omlx(pictures, max_side, tally) == []


@pytest.mark.parametrize("name", LARGE)
def test_the_hash_of_a_large_picture_is_that_of_omlx(name: str, tally: Tally) -> None:
    assert compare_with_omlx({name: LARGE[name].made()}, 2048, tally) == []


def test_the_draft_matters() -> None:
    """Else a large JPEG would prove nothing: decoded whole, it gives another hash."""
    data = LARGE["jpeg-exif-6"].made()
    whole = Image.open(BytesIO(data)).copy()
    whole.thumbnail((2048, 2048), Image.Resampling.LANCZOS)
    assert omlx_hash(ImageOps.exif_transpose(whole).convert("RGB")) != omlx_hash(
        omlx_picture(data, 2048)
    )


def test_the_loaders_are_those_of_the_profiles() -> None:
    """A profile names the versions whose code these comparisons ran."""
    metadata = importlib.import_module("importlib.metadata")
    for profile in LOADERS.values():
        found = metadata.version(profile.package)
        assert any(f"{found}.".startswith(f"{version}.") for version in profile.versions)
