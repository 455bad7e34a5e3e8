"""P15: decode and resize in spawned, limited workers against threads; what a killed one costs."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.bench_pixels import make_model, make_pictures
from tests.bench.isolated import Decode, Mortal
from tests.bench.measure import compare
from vcache_cli.checkpoint import open_checkpoint
from vcache_cli.engines import Limits, ProcessEngine, ThreadEngine
from vcache_cli.media import PillowDecoder
from vcache_cli.preprocess import qwen2_5_vl, siglip
from vcache_cli.preprocess.profiles import TRANSFORMERS_PIL_5
from vcache_cli.protocols import Engine, Session

ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "5"))
WORKERS = 2
LIMITS = Limits(seconds=300.0, memory_bytes=4 * 1024**3)
TINY_SIGLIP = Path(__file__).resolve().parents[2] / "samples/tiny-siglip"


def run(session: Session[Any, Any], values: list[Any]) -> None:
    """Every value through a session; results are let go."""
    for value in values:
        session.submit(value)
        while session.full:
            session.take(wait=True)
    while session.pending:
        session.take(wait=True)


def side_by_side(name: str, work: Decode, paths: list[Path]) -> None:
    """Workers that have started, in both."""
    processes: Engine = ProcessEngine(WORKERS, LIMITS)
    threads: Engine = ThreadEngine(WORKERS)
    with processes.session(work) as there, threads.session(work) as here:
        compare(
            name, partial(run, there, paths), partial(run, here, paths), unit="s", rounds=ROUNDS
        )


def started(work: Decode, path: Path) -> None:
    """A session of one input, from nothing."""
    with ProcessEngine(WORKERS, LIMITS).session(work) as session:
        run(session, [path])


def here(work: Decode, path: Path) -> None:
    """The same in a thread."""
    with ThreadEngine(WORKERS).session(work) as session:
        run(session, [path])


def killed() -> None:
    """From the input that kills to the next one's result: a worker more."""
    with ProcessEngine(1, LIMITS).session(Mortal()) as session:
        run(session, [1])
        compare(
            "P15 an input that kills its worker, and the next / 200 ms",
            partial(run, session, [-1, 1]),
            partial(time.sleep, 0.2),
            unit="ms",
            rounds=20,
        )


def main() -> None:
    """All lines."""
    profile = TRANSFORMERS_PIL_5
    decoder = PillowDecoder(profile)
    with TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        base = Path(name)
        paths, model = make_pictures(base / "corpus"), make_model(base / "model")
        for family, folder, told in (
            (siglip.FAMILY, TINY_SIGLIP, "decode + resize"),
            (qwen2_5_vl.FAMILY, model, "decode + patches of 30 MB"),
        ):
            settings = family.resolve(open_checkpoint(str(folder)), profile)
            work = Decode(decoder, family.preprocessor(settings, profile))
            side_by_side(f"P15 {told}, {WORKERS} limited processes / threads", work, paths)
        compare(
            "P15 one picture, processes started for it / a thread",
            partial(started, work, paths[0]),
            partial(here, work, paths[0]),
            unit="ms",
            rounds=ROUNDS,
        )
        killed()


if __name__ == "__main__":
    main()
