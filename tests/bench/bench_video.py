"""V1: 16 frames of a minute of 720p, against the cheaper of seeking and decoding in turn.

V2: peak memory of `warm` of ten minutes of 1080p at two frames a second, against 400 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import av
import numpy as np
from av.packet import Packet
from av.video.frame import VideoFrame

from tests.bench.measure import compare, report
from vcache_cli.clips import ClipPlan
from vcache_cli.media.video import VideoDecoder
from vcache_cli.preprocess.profiles import MLX_VLM_0_7

if TYPE_CHECKING:
    from vcache_cli.clips import ClipFacts

ROUNDS: Final = int(os.environ.get("VCACHE_BENCH_ROUNDS", "5"))
SECONDS: Final = int(os.environ.get("VCACHE_BENCH_SECONDS", "600"))
"""Of the long clip."""
RATE: Final = 30
PART_SECONDS: Final = 20
LIMIT_BYTES: Final = 400_000_000
RSS_UNIT_BYTES: Final = 1 if sys.platform == "darwin" else 1024
SETTINGS: Final = {
    "video_processor_type": "Qwen3VLVideoProcessor",
    "size": {"longest_edge": 25_165_824, "shortest_edge": 4096},
    "patch_size": 16,
    "merge_size": 2,
    "temporal_patch_size": 2,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "fps": 2,
    "max_frames": 1200,
}
"""As the checkpoints of Qwen3-VL carry them, but for the most frames: all of two a second."""


def make_clip(path: Path, wide: int, high: int, seconds: int) -> Path:
    """An MP4 of moving noise, a whole picture every two seconds; one part, over and over."""
    rng = np.random.default_rng(7)
    rough = rng.integers(0, 256, (high // 8, wide // 8 + RATE * PART_SECONDS, 3), np.uint8)
    with av.open(str(path), "w", format="mp4") as out:
        stream: Any = out.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = wide, high, "yuv420p", 60
        stream.options = {"preset": "ultrafast", "crf": "30"}
        stream.time_base = stream.codec_context.time_base = Fraction(1, RATE)
        part = []
        for at in range(RATE * PART_SECONDS):
            picture = rough[:, at : at + wide // 8].repeat(8, 0).repeat(8, 1)
            frame = VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = at, Fraction(1, RATE)
            part += stream.encode(frame)
        part += stream.encode(None)
        kept = [(bytes(each), each.pts, each.dts, each.is_keyframe) for each in part]
        base = part[0].time_base
        for turn in range(-(-seconds // PART_SECONDS)):
            later = int(turn * PART_SECONDS / base)
            for data, pts, dts, is_key in kept:
                packet = Packet(data)
                packet.stream, packet.time_base = stream, base
                packet.pts, packet.dts, packet.is_keyframe = pts + later, dts + later, is_key
                out.mux(packet)
    return path


def sought(path: Path, indices: list[int]) -> Any:  # noqa: ANN401
    """The plain way: a seek for each frame."""
    taken = []
    with av.open(str(path)) as clip:
        stream = clip.streams.video[0]
        stream.codec_context.thread_count = 1
        for index in indices:
            wanted = int(index / RATE / (stream.time_base or Fraction(1, RATE)))
            clip.seek(wanted, stream=stream)
            for frame in clip.decode(stream):
                if frame.pts is not None and frame.pts >= wanted:
                    taken.append(frame.to_ndarray(format="rgb24"))
                    break
    return np.stack(taken)


def in_turn(path: Path, indices: list[int]) -> Any:  # noqa: ANN401
    """The other plain way: every frame up to the last one."""
    taken, wanted = [], set(indices)
    with av.open(str(path)) as clip:
        stream = clip.streams.video[0]
        stream.codec_context.thread_count = 1
        for at, frame in enumerate(clip.decode(stream)):
            if at in wanted:
                taken.append(frame.to_ndarray(format="rgb24"))
            if at >= indices[-1]:
                break
    return np.stack(taken)


def ours(path: Path, indices: list[int]) -> Any:  # noqa: ANN401
    """All that a warm does before it resizes, opening included."""

    def planner(facts: ClipFacts) -> ClipPlan:
        return ClipPlan(tuple(indices), (facts.height, facts.width), lambda levels: levels)

    with path.open("rb") as file:
        return VideoDecoder(MLX_VLM_0_7).decode(file, planner)


def speed(folder: Path) -> None:
    """Few frames, for which seeks are cheaper, and many, for which they are not."""
    path = make_clip(folder / "minute.mp4", 1280, 720, 60)
    for count in (16, 120):
        indices = np.linspace(0, 60 * RATE - 1, count).round().astype(int).tolist()
        expected = in_turn(path, indices)
        assert np.array_equal(ours(path, indices).rgb, expected)
        for name, peer in (("seeks", sought), ("in turn", in_turn)):
            label = f"V1 {count} frames of 60 s of 720p, against {name}"
            compare(label, lambda: ours(path, indices), lambda: peer(path, indices),  # noqa: B023
                    unit="ms", rounds=ROUNDS)  # fmt: skip


def memory(folder: Path) -> None:
    """Another process, as the kernel counts it."""
    corpus, model = folder / "corpus", folder / "model"
    corpus.mkdir()
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": "qwen3_vl"}))
    (model / "preprocessor_config.json").write_text(json.dumps(SETTINGS))
    (model / "video_preprocessor_config.json").write_text(json.dumps(SETTINGS))
    script = [sys.executable, "-m", "tests.bench.bench_video", str(corpus / "long.mp4")]
    subprocess.run(script, check=True)  # what it takes to make the clip is not counted
    words = ["warm", str(corpus), "-m", str(model), "--stage", "pixels", "--quiet"]
    words += ["--profile", "mlx-vlm-0.7", "--force-profile"]
    words += ["-s", str(folder / "store")]
    with subprocess.Popen([sys.executable, "-m", "vcache_cli", *words]) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"warm ended with {process.returncode}")
    peak = usage.ru_maxrss * RSS_UNIT_BYTES  # of the largest of its processes
    label = f"V2 peak memory of {SECONDS} s of 1080p at 2 fps, against 400 MB"
    report(label, peak, LIMIT_BYTES, unit="MiB", rounds=1)


def main() -> None:
    """Both, in a folder of their own; with an argument, only make the long clip there."""
    if len(sys.argv) > 1:
        make_clip(Path(sys.argv[1]), 1920, 1080, SECONDS)
        return
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as name:
        memory(Path(name))  # first: a process begins with the peak of the one that starts it
        speed(Path(name))


if __name__ == "__main__":
    main()
