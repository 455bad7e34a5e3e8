"""P3, P3b: a whole `warm` of JPEGs, against the script that a user would write, both processes.

Needs torch and transformers: `.venv-parity-torch`, which `make parity-torch` makes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.bench.measure import compare
from tests.bench.pictures import SMALL, make_jpegs, make_siglip, skip_without
from vcache_cli.encode.processor import has_bfloat16_units

COUNT = int(os.environ.get("VCACHE_BENCH_PICTURES", "500"))
ROUNDS = int(os.environ.get("VCACHE_BENCH_ROUNDS", "2"))
PEER = Path(__file__).with_name("peer_script.py")


def warm(base: Path, model: Path, dtype: str) -> None:
    """Ours, into a store of its own."""
    store = base / "store"
    shutil.rmtree(store, ignore_errors=True)
    words = ["warm", str(base / "corpus"), "-m", str(model), "-s", str(store), "--quiet"]
    more = ["--backend", "torch", "--compute-dtype", dtype]
    subprocess.run([sys.executable, "-m", "vcache_cli", *words, *more], check=True)


def script(base: Path, model: Path, dtype: str) -> None:
    """The peer, into a folder of its own."""
    out = base / "out"
    shutil.rmtree(out, ignore_errors=True)
    words = [str(model), str(base / "corpus"), str(out), dtype]
    subprocess.run(
        [sys.executable, str(PEER), *words],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def main() -> None:
    """A base-sized tower in both precisions, then a small one."""
    skip_without("torch", "transformers")
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        base = Path(name)
        make_jpegs(base / "corpus", COUNT)
        large, small = make_siglip(base / "base"), make_siglip(base / "small", **SMALL)
        cases = [("P3", large, "float32"), ("P3b small tower", small, "float32")]
        if has_bfloat16_units():
            cases.insert(1, ("P3", large, "bfloat16"))
        for title, model, dtype in cases:
            compare(
                f"{title} whole warm of {COUNT} JPEGs, {dtype} / script on transformers",
                partial(warm, base, model, dtype),
                partial(script, base, model, dtype),
                unit="s",
                rounds=ROUNDS,
            )


if __name__ == "__main__":
    main()
