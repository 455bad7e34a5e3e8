"""P5: `warm --stage pixels` against transformers' PIL processor, and decoding on two workers."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from multiprocessing.pool import Pool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from PIL import Image

import vcache_cli
from tests.bench.measure import compare
from vcache_cli.assemble import WarmOptions
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.items import Stage
from vcache_cli.media import PillowDecoder
from vcache_cli.preprocess import qwen2_5_vl
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5

COUNT = int(os.environ.get("VCACHE_BENCH_FILES", "48"))
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "5"))
WORKERS = 2
WIDTH, HEIGHT = 1920, 1080
SETTINGS = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "min_pixels": 3136,
    "max_pixels": 12_845_056,
    "patch_size": 14,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
"""As the checkpoints of Qwen2.5-VL carry them."""


def make_pictures(folder: Path) -> list[Path]:
    """1080p JPEGs of about 0.8 MB, all different."""
    folder.mkdir()
    rng = np.random.default_rng(5)
    paths = []
    for number in range(COUNT):
        rough = rng.integers(0, 256, (HEIGHT // 4, WIDTH // 4, 3), np.uint8)
        paths.append(folder / f"{number:04d}.jpg")
        picture = Image.fromarray(rough).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
        picture.save(paths[-1], quality=85)
    return paths


def make_model(folder: Path) -> Path:
    """A model folder; stage `pixels` asks for no weights."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2_5_vl"}))
    (folder / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    return folder


def warm(corpus: Path, model: Path, base: Path) -> TemporaryDirectory[str]:
    """Everything into a new store, durably; it vanishes with what is returned."""
    folder = TemporaryDirectory(dir=base)
    options = WarmOptions(stage=Stage.PIXELS, workers=WORKERS)
    store = Path(folder.name) / "store"
    outcomes = list(vcache_cli.warm(corpus, store=store, model=model, options=options))
    failures = [each.failure for each in outcomes if each.failure]
    if failures:
        raise SystemExit(f"not all was stored: {failures[0]}")
    return folder


@cache
def server_processor(model: Path) -> Any:  # noqa: ANN401  untyped library
    """One a process."""
    transformers = importlib.import_module("transformers")
    return transformers.Qwen2VLImageProcessorPil.from_pretrained(model)


def save_one(path: Path, model: Path, folder: Path) -> None:
    """What a script does for one picture."""
    load_image = importlib.import_module("transformers.image_utils").load_image
    save_file = importlib.import_module("safetensors.numpy").save_file
    found = server_processor(model)(images=[load_image(str(path))], return_tensors="np")
    save_file(dict(found), folder / f"{path.stem}.safetensors")


def script(pool: Pool, paths: list[Path], model: Path, base: Path) -> TemporaryDirectory[str]:
    """Everything into a new folder; nothing is synchronised."""
    folder = TemporaryDirectory(dir=base)
    pool.map(partial(save_one, model=model, folder=Path(folder.name)), paths, chunksize=1)
    return folder


def against_script(base: Path, paths: list[Path], model: Path) -> None:
    """P5 itself, where transformers is."""
    if importlib.util.find_spec("transformers") is None:
        print("P5 is left out: its peer, transformers, is not installed", file=sys.stderr)
        return
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        compare(
            f"P5 warm {COUNT} pictures of 1080p to pixels / transformers-PIL, {WORKERS} processes",
            partial(warm, paths[0].parent, model, base),
            partial(script, pool, paths, model, base),
            unit="s",
            rounds=ROUNDS,
        )


def scaling(paths: list[Path], model: Path) -> None:
    """Decode and preprocess, by two threads and by one: 0.5 would be twice as fast."""
    decoder, family = PillowDecoder(TRANSFORMERS_PIL_5), qwen2_5_vl.FAMILY
    settings = family.resolve(open_checkpoint(str(model)), TRANSFORMERS_PIL_5)
    made = family.preprocessor(settings, TRANSFORMERS_PIL_5)
    files = [path.read_bytes() for path in paths]

    def work(threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(lambda data: made.compact(decoder.decode(data)).num_tokens, files):
                pass

    compare(
        "P5 decode + preprocess, 2 workers / 1",
        partial(work, 2),
        partial(work, 1),
        unit="s",
        rounds=ROUNDS,
    )


def main() -> None:
    """Both lines."""
    with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        base = Path(name)
        paths, model = make_pictures(base / "corpus"), make_model(base / "model")
        scaling(paths, model)
        against_script(base, paths, model)


if __name__ == "__main__":
    main()
