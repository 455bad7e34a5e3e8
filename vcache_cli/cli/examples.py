"""Command lines that each help ends with; a test parses every one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

__all__ = ["EXAMPLES"]

EXAMPLES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "warm": (
        ("vcache warm photos -m models/siglip", "a folder, into the platform's cache folder"),
        ("vcache warm photos -m models/siglip --dry-run", "what that would do, and how long"),
        ("vcache warm photos --preset photos", "model and limits from vcache.toml"),
        ("vcache warm @failed.txt -m models/siglip --retry-errors", "only what failed before"),
        ("find scans -name '*.tif' -print0 | vcache warm -0 - -m models/siglip", "names by a pipe"),
        (
            "vcache warm photos -m models/gemma --target omlx -s ~/.omlx/cache/vision_features",
            "files that oMLX finds",
        ),
        (
            "vcache warm photos -m models/siglip -s s3://bucket/vcache",
            "into a bucket, to pull from",
        ),
    ),
    "check": (
        ("vcache check photos -m models/siglip", "exit code 5 unless every picture would hit"),
        ("vcache check photos -m models/siglip --fail-under 95% --json", "a gate for a script"),
    ),
    "stats": (
        ("vcache stats", "the store of the platform's cache folder"),
        ("vcache stats ~/.omlx/cache/vision_features", "a server's own"),
    ),
    "ls": (
        ("vcache ls --sort size:desc --limit 10", "the largest ten"),
        ("vcache ls --filter 'used>30d' --quiet", "keys of what was not used for a month"),
    ),
    "inspect": (
        ("vcache inspect 3f9a0c", "an entry by the beginning of its key"),
        ("vcache inspect photos/beach.jpg -s store", "the entries of a picture"),
        (
            "vcache inspect --why-miss photos/beach.jpg -m models/siglip",
            "why the server misses it: which part of its key differs",
        ),
        (
            "vcache inspect --picture seen.png photos/beach.jpg -m models/siglip",
            "what the model sees of it",
        ),
    ),
    "report": (
        ("vcache report", "what the last run did"),
        ("vcache report --out report.html --out failed.txt", "a page, and what to warm again"),
        ("vcache report --gate 'failed=0' --gate 'hit>=95%'", "exit code 5 where it does not hold"),
    ),
    "verify": (
        ("vcache verify", "every byte of every entry"),
        ("vcache verify --repair", "move what is damaged aside; a warm makes it anew"),
        ("vcache verify --subset 10% --max-duration 10m", "a part of it, each night"),
    ),
    "prune": (
        ("vcache prune --max-size 20GiB --dry-run", "what would go"),
        ("vcache prune --unused-for 90d --yes", "without a question"),
        ("vcache prune --not-in photos", "entries of pictures that are gone"),
    ),
    "export": (
        ("vcache export warmed.tar -s store", "all entries"),
        ("vcache export - | ssh host vcache import -", "to another machine"),
    ),
    "import": (("vcache import warmed.tar -s store", "what is there already stays"),),
    "push": (("vcache push s3://bucket/vcache -s store", "what the bucket lacks"),),
    "pull": (
        ("vcache pull s3://bucket/vcache -s store", "everything"),
        ("vcache pull s3://bucket/vcache -s store --for photos", "entries of these pictures"),
    ),
    "merge": (("vcache merge part1 part2 part3 -s whole", "after `warm --shard 1/3` and so on"),),
    "key": (("vcache key photos -m models/siglip", "changes when a picture or the model does"),),
    "replay": (
        ("vcache replay photos --server http://127.0.0.1:8080 -m NAME", "each picture once"),
        (
            "vcache replay log.jsonl --server http://127.0.0.1:8080 -m NAME --again --measure 20",
            "requests of a log, after a restart, and what it was good for",
        ),
    ),
    "serve-mlx-vlm": (
        ("vcache serve-mlx-vlm -m models/gemma -s store -- --port 8080", "on this machine alone"),
    ),
    "doctor": (
        ("vcache doctor", "this machine, and the store of the platform's cache folder"),
        ("vcache doctor ~/.omlx/cache/vision_features", "a server's own store"),
    ),
    "config": (
        ("vcache config", "what holds here, and why"),
        ("vcache config --preset photos", "what holds with a preset"),
    ),
    "schema": (
        ("vcache schema", "names of all documents"),
        ("vcache schema warm", "of what `vcache warm --json` prints"),
    ),
    "plugins": (
        ("vcache plugins", "everything that is installed"),
        ("vcache plugins --encoders", "which models can be warmed here"),
    ),
}
"""By command: a line that works, and what it is for."""
