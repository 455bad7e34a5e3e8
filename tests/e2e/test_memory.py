"""A large model warms within the memory of its vision part."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.bench.pictures import make_jpegs, make_siglip
from vcache_cli.checkpoint import open_checkpoint

MODEL_BYTES = 3 * 10**9
VISION_BYTES = 100 * 10**6
MOST_RESIDENT_BYTES = 600 * 10**6
MOST_READ_BYTES = 150 * 10**6

SCRIPT = """
import json, sys
from pathlib import Path
from vcache_cli.cli.app import run

def told(name, word):
    lines = Path("/proc/self", name).read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(word)))

code = run(sys.argv[1:])
print(json.dumps([code, told("status", "VmHWM") * 1024, told("io", "rchar")]), file=sys.stderr)
"""


def grown(folder: Path) -> int:
    """Add a sparse language model to the weights; bytes of the vision part."""
    path = folder / "model.safetensors"
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    rest = MODEL_BYTES - len(data)
    header["language_model.weight"] = {
        "dtype": "BF16",
        "shape": [rest // 2],
        "data_offsets": [len(data), len(data) + rest // 2 * 2],
    }
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)
        file.truncate(file.tell() + rest // 2 * 2)
    return len(data)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="no /proc/self/io here")
def test_a_large_model_warms_within_the_memory_of_its_vision_part(tmp_path: Path) -> None:
    make_jpegs(tmp_path / "corpus", 10)
    folder = make_siglip(tmp_path / "model", num_hidden_layers=2)
    assert 0.8 * VISION_BYTES < grown(folder) < 1.2 * VISION_BYTES
    assert (folder / "model.safetensors").stat().st_size > 0.99 * MODEL_BYTES
    words = ["warm", tmp_path / "corpus", "-m", folder, "-s", tmp_path / "store", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, words), "--backend", "numpy"],
        capture_output=True,
        text=True,
        check=True,
    )
    code, resident_bytes, read_bytes = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    assert resident_bytes < MOST_RESIDENT_BYTES
    assert read_bytes < MOST_READ_BYTES
    assert json.loads(done.stdout)["items"]["stored"] == 10
    assert np.prod(open_checkpoint(str(folder)).tensors["language_model.weight"].shape) > 10**9
