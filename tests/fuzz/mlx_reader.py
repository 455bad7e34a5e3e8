"""MLX in a process of its own, which a file may crash: it reads paths, and answers with lines.

Run as a program it is that process; `MlxReader` is the other side.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.fuzz.readers import Seen, fingerprint

__all__ = ["MlxReader"]

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30.0
WORDS = (sys.executable, "-m", "tests.fuzz.mlx_reader")
DTYPES = {
    "bfloat16": "BF16",
    "bool": "BOOL",
    "float16": "F16",
    "float32": "F32",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
}


class MlxReader:
    """Asks the process about files, a batch at a time; begins another where one ends it.

    Args:
        words: the command line of the process.
    """

    def __init__(self, words: Sequence[str] = WORDS) -> None:
        self._words = words
        self._child = self._started()

    def close(self) -> None:
        """End the process."""
        self._ended()

    def answers(self, paths: Sequence[str]) -> Iterator[Seen | str]:
        """For each path what MLX finds there; why it refuses, or how the process ended."""
        for path in paths:
            yield self._answer(path)

    def _answer(self, path: str) -> Seen | str:
        stdin, stdout = self._child.stdin, self._child.stdout
        if stdin is None or stdout is None:
            raise AssertionError("the process has no pipes")
        stdin.write(path + "\n")
        stdin.flush()
        ready = select.select([stdout], [], [], SECONDS)[0]
        line = stdout.readline() if ready else ""
        if not line:
            status = self._ended()
            self._child = self._started()
            return f"crashed: exit status {status}" if ready else "hung"
        return _seen(json.loads(line))

    def _ended(self) -> int:
        """Its exit status; what it did not end with by itself is SIGKILL."""
        with self._child as child:  # closes the pipes, too
            if child.stdin:
                child.stdin.close()
            try:
                return child.wait(1)
            except subprocess.TimeoutExpired:
                child.kill()
                return child.wait()

    def _started(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self._words,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )


def _seen(value: dict[str, Any]) -> Seen | str:
    if "refused" in value:
        return f"refused: {value['refused']}"
    tensors = {name: (dtype, tuple(shape), data) for name, dtype, shape, data in value["tensors"]}
    return Seen(tensors, value["metadata"])


def _read(path: str) -> dict[str, Any]:
    """What MLX and the reference's other door find in a file; used as a server would use it."""
    import mlx.core as mx
    import numpy as np
    from safetensors import safe_open

    try:
        loaded: Any = mx.load(path, format="safetensors", return_metadata=True)
        arrays, metadata = loaded
        rows = []
        for name, array in arrays.items():
            mx.eval(array, array.sum(axis=0) if array.ndim else array + array)
            kind = str(array.dtype).removeprefix("mlx.core.")
            plain = array.view(mx.uint16) if kind == "bfloat16" else array
            data = np.array(plain).tobytes()
            rows.append((name, DTYPES.get(kind, kind), array.shape, fingerprint(data)))
    except (RuntimeError, ValueError, TypeError, MemoryError) as error:
        return {"refused": str(error)[:300]}
    with safe_open(path, "numpy") as opened:
        other = opened.metadata() or {}
    if other != metadata:
        return {"refused": f"metadata {metadata} and, of the reference, {other}"}
    return {"tensors": rows, "metadata": metadata}


def main() -> None:
    """Answer until there is no more question."""
    for line in sys.stdin:
        answer = json.dumps(_read(line.rstrip("\n")))
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
