from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

from tests.pipeline.fakes import item_of
from vcache_cli.assemble import create_root
from vcache_cli.assemble.options import WarmOptions
from vcache_cli.assemble.passes import make_prepare
from vcache_cli.assemble.recipes import load_recipe
from vcache_cli.outcome import Outcome
from vcache_cli.pipeline import Prepared, PrepareItem
from vcache_cli.store.presence import Presence

IN_ANOTHER_PROCESS = """
import pickle, sys
work, item = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps(work(item)))
assert not {"mlx", "torch", "av"} & set(sys.modules), "a worker needs none of these"
"""


def real_work(store: Path, model: Path) -> PrepareItem:
    options = WarmOptions()
    loaded = load_recipe(str(model), options)
    root = create_root(store, target="native")
    return make_prepare(loaded, options, Presence(root))


def test_the_work_of_an_item_gives_the_same_in_another_process(
    tmp_path: Path, media: Path, tiny_siglip: Path
) -> None:
    work = real_work(tmp_path / "store", tiny_siglip)
    item = item_of(media / "chart.png")
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS],
        input=pickle.dumps((work, item)),
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.fspath(Path(__file__).parents[2])},
    )
    there, here = pickle.loads(done.stdout), work(item)  # noqa: S301  our own process
    assert isinstance(there, Prepared)
    assert isinstance(here, Prepared)
    assert there.key == here.key
    pixels = [each.pixels[0].tensors["pixel_values"].tobytes() for each in (there, here)]
    assert pixels[0] == pixels[1]


def test_a_failure_crosses_processes_as_an_outcome(
    tmp_path: Path, samples: Path, tiny_siglip: Path
) -> None:
    work = real_work(tmp_path / "store", tiny_siglip)
    outcome = work(item_of(samples / "bad" / "truncated.jpg"))
    assert isinstance(outcome, Outcome)
    again = pickle.loads(pickle.dumps(outcome))  # noqa: S301  our own bytes
    assert again.failure == outcome.failure
    assert again.source_sha256
