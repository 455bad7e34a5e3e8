"""Clips that oMLX makes pictures of, for MiMo: frames, keys and features.

What the server does is written out from its published rules, with OpenCV as it uses it.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from tests.e2e.omlx_lookup import Engine, clip_indices, image_hash
from tests.media.clips import index_of, made_clip
from tests.parity.fixtures import differing
from tests.parity.test_clips import CLIPS
from tests.parity.tiny_models import make_model
from vcache_cli import WarmOptions, open_store, registry
from vcache_cli.assemble import open_warm
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.encode.mlx_vlm import ModelOwner
from vcache_cli.errors import MediaError
from vcache_cli.media import sources
from vcache_cli.media.notices import INEXACT
from vcache_cli.media.video import VideoDecoder
from vcache_cli.outcome import Status
from vcache_cli.preprocess.profiles import OMLX
from vcache_cli.targets.omlx_names import omlx_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.parity.tally import Tally

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("mlx_vlm")
cv2 = pytest.importorskip("cv2")

LEAST, MOST = 4 * 28 * 28, 64 * 28 * 28
"""Pixels of a picture, as the tiny model's processor is set."""
LIMIT = 2e-2
"""Largest difference, relative to the largest value: entries are kept as bfloat16."""


def frames_of_the_server(path: Path, most: int = 16) -> list[NDArray[np.uint8]]:
    """Each found by a seek, those that cannot be read left out."""
    capture = cv2.VideoCapture(str(path))
    found = []
    for index in clip_indices(int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), most):
        capture.set(cv2.CAP_PROP_POS_FRAMES, index)
        is_there, frame = capture.read()
        if is_there:
            found.append(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
    capture.release()
    return found


@pytest.mark.parametrize("name", CLIPS)
def test_frames_are_those_of_the_server(name: str, tmp_path: Path, tally: Tally) -> None:
    """What is not equal is told: such an entry says that it is not exact."""
    clip, path = CLIPS[name](), tmp_path / "clip"
    path.write_bytes(clip)
    family = registry.load("clips", "mimo_v2")
    theirs = frames_of_the_server(path)
    if not theirs:  # it is refused
        with pytest.raises(MediaError):
            VideoDecoder(OMLX).decode(BytesIO(clip), family.planner(family.resolve({})))
        return
    ours = VideoDecoder(OMLX).decode(BytesIO(clip), family.planner(family.resolve({})))
    told = {each for each in ours.warnings if each.partition(": ")[0] in INEXACT}
    wrong = differing(ours.rgb, np.stack(theirs))
    tally.add(OMLX.name, "clips told to be inexact" if told else "clips", name, differing=wrong,
              values=ours.rgb.size)  # fmt: skip
    assert wrong == 0 or told, ours.warnings


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("mimo") / "model", "mimo_v2")


def warmed(model: Path, source: Path, store: Path) -> list[Status]:
    options = WarmOptions(target="omlx")
    with open_warm(sources([str(source)]), store=store, model=str(model), options=options) as run:
        return [outcome.status for outcome in run]


def test_every_frame_of_a_clip_hits_for_mimo(model: Path, tmp_path: Path) -> None:
    folder, store = tmp_path / "clips", tmp_path / "vision_features"
    folder.mkdir()
    for at, name in enumerate(("a", "b", "c")):
        (folder / f"{name}.mp4").write_bytes(made_clip(1 + 40 * at, first=100 * at))
    assert warmed(model, folder, store) == [Status.STORED] * 3
    assert warmed(model, folder, store) == [Status.PRESENT] * 3
    engine = Engine(store, str(model), LEAST, MOST, patch=16)
    asked = []
    for at, path in enumerate(sorted(folder.iterdir())):
        frames = frames_of_the_server(path)
        assert [index_of(each) - 100 * at for each in frames] == clip_indices(1 + 40 * at)
        pictures = [Image.fromarray(each) for each in frames]
        asked += [engine.answer([each]) for each in pictures]
        whole = engine.answer(pictures)
        assert (whole.hit, whole.skips_processor) == ("images", True)
    assert [each.hit for each in asked] == ["images"] * 33
    assert all(each.skips_processor for each in asked)


def test_the_model_of_the_server_takes_the_entries_of_a_request(
    model: Path, tmp_path: Path
) -> None:
    """As it merges its own features of all frames, so it does those that the store has."""
    clip, store = tmp_path / "a.mp4", tmp_path / "vision_features"
    clip.write_bytes(made_clip(30))
    assert warmed(model, clip, store) == [Status.STORED]
    pictures = [Image.fromarray(each) for each in frames_of_the_server(clip)]
    opened = open_store(store)
    found = [opened.get(omlx_key(str(model), image_hash([each]))) for each in pictures]
    features = np.concatenate([entry.numpy("feature") for entry in found if entry])
    owner = ModelOwner(open_checkpoint(str(model)))
    cold, warm = owner.run(lambda: merged(owner, pictures, features))
    assert len(features) == 16 * 12
    assert np.abs(warm - cold).max() <= LIMIT * np.abs(cold).max()
    assert np.ptp(cold) > 0


def merged(
    owner: ModelOwner, pictures: list[Image.Image], features: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What the language model is given: by the vision tower, and by `features` instead."""
    import mlx.core as mx
    from mlx_vlm.prompt_utils import apply_chat_template
    from mlx_vlm.utils import prepare_inputs

    loaded = owner.loaded
    config = loaded.model.config
    prompt = apply_chat_template(loaded.processor, config, "?", num_images=len(pictures))
    inputs = prepare_inputs(
        loaded.processor, images=pictures, prompts=prompt, add_special_tokens=False
    )
    grid = {"image_grid_thw": inputs["image_grid_thw"]}
    given: Any = (inputs["input_ids"], inputs["pixel_values"])
    cold = loaded.model.get_input_embeddings(*given, **grid)
    warm = loaded.model.get_input_embeddings(
        *given, **grid, cached_image_features=mx.array(features)
    )
    made = [np.array(each.inputs_embeds.astype(mx.float32)) for each in (cold, warm)]
    return made[0], made[1]
