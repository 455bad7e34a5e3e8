"""Model folders that the servers' own processors load, and what those make of pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.parity.fixtures import Fixtures, differing
from tests.parity.omlx import omlx_picture
from tests.parity.tally import Tally
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.errors import EncodeError
from vcache_cli.items import Frames, Pixels
from vcache_cli.preprocess.profiles import MLX_VLM_0_7, OMLX, TRANSFORMERS_PIL_5
from vcache_cli.profile import Profile
from vcache_cli.protocols import Family, Preprocessor

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

__all__ = [
    "ALL_PROFILES",
    "PROFILES",
    "Server",
    "compare_pictures",
    "compare_request",
    "model_folder",
    "ours",
]

MARKS = ("<image>", "[IMG]", "[IMG_BREAK]", "[IMG_END]", "<boi>", "<eoi>")
PROFILES = {each.name: each for each in (TRANSFORMERS_PIL_5, MLX_VLM_0_7)}
"""Whose processors are installed."""
ALL_PROFILES = PROFILES | {OMLX.name: OMLX}
"""And oMLX, which takes those of mlx-vlm on pictures of its own loader."""
LOADERS = {"transformers": "transformers.image_utils", "mlx-vlm": "mlx_vlm.utils"}


@dataclass(frozen=True)
class Server:
    """A loaded processor of one server."""

    profile: Profile
    processor: Any
    mark: str
    """What stands for a picture in a prompt."""
    image_token: str
    """What stands there for each of its tokens."""

    def load(self, fixtures: Fixtures, name: str) -> Image.Image:
        """The picture as the server's loader gives it."""
        if self.profile.max_side is not None:
            return omlx_picture(fixtures.files[name].read_bytes(), self.profile.max_side)
        loader = import_module(LOADERS[self.profile.processors])
        picture: Image.Image = loader.load_image(str(fixtures.files[name]))
        return picture

    def outputs(self, pictures: Sequence[Image.Image]) -> dict[str, NDArray[Any]]:
        """Everything that the processor gives for one prompt with `pictures`."""
        text = [" ".join([self.mark] * len(pictures))]
        images: Any = pictures
        if self.profile.processors == "transformers":
            images = [list(pictures)]
        found = self.processor(images=images, text=text)
        return {name: np.asarray(value) for name, value in found.items()}

    def num_tokens(self, outputs: Mapping[str, NDArray[Any]]) -> int:
        """Tokens of pictures in the prompt."""
        number = self.processor.tokenizer.convert_tokens_to_ids(self.image_token)
        return int(np.count_nonzero(outputs["input_ids"] == number))


def model_folder(folder: Path, image_token: str, **files: Mapping[str, Any]) -> Path:
    """A model folder without weights: a tokenizer that knows the marks, and JSON `files`."""
    tokenizers = pytest.importorskip("tokenizers")
    fast = import_module("transformers").PreTrainedTokenizerFast
    words = ("<pad>", "<unk>", *MARKS)
    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token=words[1]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    named = {"image_token": image_token, "boi_token": "<boi>", "eoi_token": "<eoi>"}
    plain = {"unk_token": "<unk>", "pad_token": "<pad>"}
    made = fast(tokenizer_object=tokenizer, extra_special_tokens=named, **plain)
    made.add_tokens(list(MARKS), special_tokens=True)
    made.save_pretrained(folder)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def ours(family: Family, folder: Path, profile: Profile) -> Preprocessor:
    """Our preprocessor of that model folder."""
    settings = family.resolve(open_checkpoint(str(folder)), profile)
    return family.preprocessor(settings, profile)


def compare_pictures(
    server: Server,
    prepare: Preprocessor,
    fixtures: Fixtures,
    counts: tuple[Tally, str],
    *,
    step: int = 1,
) -> dict[str, object]:
    """One request for each fixture; what is wrong, by fixture.

    Args:
        server: theirs.
        prepare: ours.
        fixtures: what both are given.
        counts: where it is counted, and for which family.
        step: every how manieth fixture is taken.
    """
    tally, family = counts
    wrong: dict[str, object] = {}
    for name, frames in list(fixtures.frames(server.profile).items())[::step]:
        picture = server.load(fixtures, name)
        try:
            theirs = server.outputs([picture])
        except ValueError:  # a side of the target is 0
            with pytest.raises(EncodeError):
                prepare(frames)
            with pytest.raises(EncodeError):
                prepare.num_tokens(frames.width, frames.height)
            continue
        pixels = prepare(frames)
        bad = _unequal(prepare, [pixels], theirs, (server.profile.name, family, name), tally)
        compact = prepare.compact(frames).expanded()
        if differing(compact.tensors["pixel_values"], pixels.tensors["pixel_values"]):
            bad["compact"] = 1
        numbers = _counts(prepare, frames, pixels) | {server.num_tokens(theirs)}
        if len(numbers) > 1:
            bad["tokens"] = numbers
        if bad:
            wrong[name] = bad
    return wrong


def compare_request(
    server: Server, prepare: Preprocessor, fixtures: Fixtures, counts: tuple[Tally, str]
) -> dict[str, object]:
    """One request with several fixtures of unlike shapes; what is wrong, by tensor."""
    tally, family = counts
    names = ("640x480.png", "55x57.png", "333x777.png", "trns-rgb.png", "14x14.png")
    frames = [fixtures.frames(server.profile)[name] for name in names]
    pixels = [prepare(each) for each in frames]
    theirs = server.outputs([server.load(fixtures, name) for name in names])
    place = (server.profile.name, family, "request")
    bad = _unequal(prepare, pixels, theirs, place, tally)
    if sum(each.num_tokens for each in pixels) != server.num_tokens(theirs):
        bad["tokens"] = server.num_tokens(theirs)
    if server.profile.processors == "mlx-vlm":
        bad |= _unequal_key(prepare.processed(pixels), theirs)
    return bad


def _unequal(
    prepare: Preprocessor,
    pixels: Sequence[Pixels],
    theirs: Mapping[str, NDArray[Any]],
    place: tuple[str, str, str],
    tally: Tally,
) -> dict[str, object]:
    bad: dict[str, object] = {}
    processed = prepare.processed(pixels)
    expected = {name for name in theirs if name.startswith(("pixel_", "image_"))}
    if set(processed) != expected:
        bad["names"] = (sorted(processed), sorted(expected))
    for name in sorted(expected & set(processed)):
        count = differing(processed[name], theirs[name])
        tally.add(*place, differing=count, values=theirs[name].size)
        if count:
            bad[name] = count
    return bad


def _unequal_key(
    processed: Mapping[str, NDArray[Any]], theirs: Mapping[str, NDArray[Any]]
) -> dict[str, object]:
    """mlx-vlm's own key for a request, of our arrays and of its own."""
    key = import_module("mlx_vlm.vision_cache").processed_image_key
    array = import_module("mlx.core").array
    keys = [
        key(**{name: array(found[name]) for name in processed}) for found in (processed, theirs)
    ]
    return {} if keys[0] == keys[1] else {"key": keys}


def _counts(prepare: Preprocessor, frames: Frames, pixels: Pixels) -> set[int]:
    width, height = frames.width, frames.height
    assert prepare.pixel_bytes(width, height) == pixels.size_bytes
    return {pixels.num_tokens, prepare.num_tokens(width, height)}
