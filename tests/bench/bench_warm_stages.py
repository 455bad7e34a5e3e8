"""P4: a whole `warm` on a CPU, against its stages' core-seconds alone, spread over all cores."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.bench.measure import report
from tests.bench.pictures import make_jpegs, make_siglip
from vcache_cli import media
from vcache_cli.assemble import WarmOptions, open_warm
from vcache_cli.assemble.recipes import LoadedRecipe, load_recipe
from vcache_cli.encode.processor import usable_processors
from vcache_cli.items import Frames, MediaItem

COUNT = int(os.environ.get("VCACHE_BENCH_PICTURES", "120"))
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "2"))
BATCH_SIZE = 8
OPTIONS = WarmOptions(backend="numpy")


def stages_seconds(loaded: LoadedRecipe, corpus: Path, out: Path) -> float:
    """Every stage alone, in one thread; seconds that all cores together would take."""
    begun = time.perf_counter()
    decoder = media.PillowDecoder(loaded.profile)
    paths = sorted(corpus.glob("*.jpg"))
    data = [media.read_item(MediaItem(str(path)), max_bytes=2**30) for path in paths]
    pixels = [loaded.preprocessor(decoder.decode(each)) for each in data]
    assert loaded.encoder is not None
    for at in range(0, len(pixels), BATCH_SIZE):
        for number, value in enumerate(loaded.encoder.encode(pixels[at : at + BATCH_SIZE]), at):
            tensors = loaded.target.tensors(loaded.recipe, value)
            (out / str(number)).write_bytes(b"".join(each.data for each in tensors.values()))
    return (time.perf_counter() - begun) / usable_processors()


def take_weights(loaded: LoadedRecipe) -> None:
    """Before the clock runs."""
    grey = Frames(np.full((1, 64, 64, 3), 128, np.uint8))
    assert loaded.encoder is not None
    loaded.encoder.encode([loaded.preprocessor(grey)])


def warm_seconds(corpus: Path, store: Path, model: Path) -> float:
    """From the first item to the last, the model loaded before."""
    shutil.rmtree(store, ignore_errors=True)
    source = media.sources([str(corpus)])
    with open_warm(source, store=store, model=str(model), options=OPTIONS) as run:
        begun = time.perf_counter()
        list(run)
    return time.perf_counter() - begun


def main() -> None:
    """Medians of A B A B; the ratio is that of times, so 0.9 of the cores' use is 1.11."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        base = Path(name)
        make_jpegs(base / "corpus", COUNT)
        model = make_siglip(base / "model")
        loaded = load_recipe(model, OPTIONS)
        take_weights(loaded)
        (base / "out").mkdir()
        ours, alone = [], []
        for _ in range(ROUNDS):
            ours.append(warm_seconds(base / "corpus", base / "store", model))
            alone.append(stages_seconds(loaded, base / "corpus", base / "out"))
        report(
            f"P4 warm of {COUNT} JPEGs / its stages alone over {usable_processors()} cores",
            *map(statistics.median, (ours, alone)),
            unit="s",
            rounds=ROUNDS,
        )


if __name__ == "__main__":
    main()
