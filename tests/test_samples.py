"""The samples that ship with the source: what users try first, and what other tests read."""

from __future__ import annotations

import hashlib
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import ExifTags, Image, UnidentifiedImageError
from safetensors import safe_open

from samples import make_samples, make_tiny_checkpoints

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
MEDIA = SAMPLES / "media"
TINY = SAMPLES / "tiny-siglip"
IMAGES = sorted(path for path in MEDIA.rglob("*.*") if path.suffix != ".mp4")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under `folder`, by relative name."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def tensor_names(folder: Path) -> dict[str, list[str]]:
    """The tensors of each weight file."""
    names = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "np") as weights:
            names[path.name] = list(weights.keys())
    return names


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: path.relative_to(MEDIA).as_posix())
def test_a_sample_image_decodes_and_is_not_flat(path: Path) -> None:
    """A flat picture would hide a wrong resize or a swapped channel."""
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("F" if image.mode == "I;16" else "RGB"))
    assert pixels.std() > 10


def test_the_samples_cover_the_kinds_that_differ() -> None:
    """Each of these takes a path of its own through a decoder."""
    kinds = set()
    for path in IMAGES:
        with Image.open(path) as image:
            kinds.add((image.format, image.mode))
    assert kinds >= {
        ("JPEG", "RGB"),
        ("JPEG", "CMYK"),
        ("PNG", "RGB"),
        ("PNG", "RGBA"),
        ("PNG", "P"),
        ("PNG", "I;16"),
        ("WEBP", "RGB"),
        ("AVIF", "RGB"),
        ("TIFF", "RGB"),
        ("BMP", "RGB"),
    }


def test_the_phone_picture_is_stored_on_its_side() -> None:
    """Who ignores the tag sees a picture that is wider than high."""
    with Image.open(MEDIA / "phone-upright.jpg") as image:
        assert image.getexif()[ExifTags.Base.Orientation] == 6
        assert image.width > image.height


def test_the_animation_has_several_frames() -> None:
    """One frame would not show which one is taken."""
    with Image.open(MEDIA / "pan.gif") as image:
        assert getattr(image, "n_frames", 1) == 5


def test_the_copy_is_the_same_byte_for_byte() -> None:
    """A copy shares the fate of the first, so there must be one."""
    assert (MEDIA / "hills.jpg").read_bytes() == (MEDIA / "trip/hills-copy.jpg").read_bytes()


def test_the_clip_lasts_a_second_and_moves() -> None:
    """Frame sampling needs time and change."""
    with av.open(MEDIA / "clip.mp4") as container:
        rate = container.streams.video[0].average_rate
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert rate is not None
    assert len(frames) / rate == 1
    assert np.abs(frames[0].astype(int) - frames[-1]).mean() > 5


@pytest.mark.parametrize("name", ["truncated.jpg", "not-found.jpg", "empty.png"])
def test_a_bad_sample_does_not_decode(name: str) -> None:
    """A failing item is a value, and these are the items that fail."""
    with (
        pytest.raises((OSError, UnidentifiedImageError)),
        Image.open(SAMPLES / "bad" / name) as bad,
    ):
        bad.load()


def test_the_samples_stay_small() -> None:
    """They travel with every clone."""
    assert sum(map(len, contents(MEDIA).values())) < 400_000
    assert sum(map(len, contents(TINY).values())) < 400_000


def test_the_samples_are_what_the_script_makes(tmp_path: Path) -> None:
    """Names, not bytes: those change with the codecs' versions."""
    make_samples.make_media(tmp_path / "media")
    make_samples.make_bad(tmp_path / "bad")
    assert contents(tmp_path / "media").keys() == contents(MEDIA).keys()
    assert contents(tmp_path / "bad").keys() == contents(SAMPLES / "bad").keys()


def test_samples_are_the_same_each_time(tmp_path: Path) -> None:
    """Who regenerates them sees no difference in git."""
    make_samples.make_media(tmp_path / "one")
    make_samples.make_media(tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_corpus_has_many_formats_and_no_two_alike(tmp_path: Path) -> None:
    """A corpus of one format measures one decoder; a repeated picture measures the cache."""
    paths = make_samples.make_corpus(tmp_path, count=40)
    kinds, digests = set(), set()
    for path in paths:
        with Image.open(path) as image:
            kinds.add((image.format, image.mode, "progressive" in image.info))
            digests.add(hashlib.sha256(image.convert("RGB").tobytes()).digest())
            assert min(image.size) >= make_samples.MIN_SIDE_PX
            assert max(image.size) <= make_samples.MAX_SIDE_PX
    assert len(kinds) >= 10
    assert len(make_samples.VARIANTS) >= 10
    assert len(digests) == len({*paths}) == 40


def test_a_corpus_depends_on_its_seed_alone(tmp_path: Path) -> None:
    """Two machines that name a seed mean the same corpus, and a longer one begins like it."""
    make_samples.make_corpus(tmp_path / "one", count=10, seed=7)
    make_samples.make_corpus(tmp_path / "two", count=12, seed=7)
    make_samples.make_corpus(tmp_path / "other", count=10, seed=8)
    one, two, other = (contents(tmp_path / name) for name in ("one", "two", "other"))
    assert one.items() <= two.items()
    assert not set(one.values()) & set(other.values())


def test_the_checkpoint_has_both_towers(tmp_path: Path) -> None:
    """A text tower must be there for a reader to leave alone."""
    (names,) = tensor_names(TINY).values()
    assert {name.partition(".")[0] for name in names} >= {"vision_model", "text_model"}
    make_tiny_checkpoints.make_checkpoint(tmp_path)
    assert [*contents(tmp_path)] == [*contents(TINY)]
    assert tensor_names(tmp_path) == tensor_names(TINY)


@pytest.mark.parametrize("family", ["siglip", "clip"])
def test_a_checkpoint_depends_on_its_seed_alone(tmp_path: Path, family: str) -> None:
    """A golden fingerprint of it holds only then."""
    for name, seed in (("one", 3), ("two", 3), ("other", 4)):
        make_tiny_checkpoints.make_checkpoint(tmp_path / name, family=family, seed=seed)
    one, two, other = (contents(tmp_path / name) for name in ("one", "two", "other"))
    assert one == two
    assert one["model.safetensors"] != other["model.safetensors"]


def test_shards_hold_every_tensor_once(tmp_path: Path) -> None:
    """The index is the only way to find a tensor, and vision tensors are in each file."""
    make_tiny_checkpoints.make_checkpoint(tmp_path / "whole", family="clip")
    make_tiny_checkpoints.make_checkpoint(tmp_path / "parts", family="clip", shards=3)
    (whole,), parts = tensor_names(tmp_path / "whole").values(), tensor_names(tmp_path / "parts")
    index = json.loads((tmp_path / "parts/model.safetensors.index.json").read_bytes())
    assert index["weight_map"] == {name: file for file, some in parts.items() for name in some}
    assert sorted(index["weight_map"]) == sorted(whole)
    assert all(any(name.startswith("vision_model") for name in some) for some in parts.values())


def test_the_picture_of_a_run_is_whole_and_fetches_nothing() -> None:
    text = (SAMPLES / "warm.svg").read_text(encoding="utf-8")
    assert ET.fromstring(text).tag.endswith("svg")  # noqa: S314  our own
    assert "url(http" not in text
    assert "<script" not in text
    assert "coverage" in text
