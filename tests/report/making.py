"""Runs made of lines, without a run: what the tests of the report share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vcache_cli.report import Report, make_report
from vcache_cli.store.run_file import run_at

__all__ = ["document", "line", "report_of", "write_run"]

RUN_ID = "20260102T030405Z-0a1b2c3d"
EARLIER_ID = "20260101T030405Z-0a1b2c3d"


def line(source: str, status: str = "stored", **more: Any) -> dict[str, Any]:  # noqa: ANN401  a line's fields
    """One line of a run file."""
    value: dict[str, Any] = {
        "source": source,
        "status": status,
        "bytes": {"read": 10, "written": 20 if status == "stored" else 0},
        "seconds": {"digest": 0.001, "decode": 0.02},
    }
    if status in {"stored", "present", "copy"}:
        value |= {"kind": "image", "key": f"{sum(source.encode()):064x}"}
    if status == "failed":
        value["error"] = {"stage": "decode", "kind": "truncated", "message": "cut short"}
    if status == "skipped":
        value["error"] = {"stage": "digest", "kind": "video", "message": "no videos here"}
    return value | more


def write_run(
    folder: Path, lines: list[dict[str, Any]], *, run_id: str = RUN_ID, ended: bool = True
) -> Path:
    """A run file of `lines`, with a summary where it ended."""
    path = folder / f"{run_id}.jsonl"
    tail = []
    if ended:
        summary = {
            "cwd": str(folder),
            "model": "tiny-siglip",
            "stage": "features",
            "target": "native",
            "recipe": "a" * 64,
            "seconds": {"total": 0.5, "discover": 0.002},
            "interrupted": False,
        }
        tail = [{"summary": summary}]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in [*lines, *tail]))
    return path


def report_of(folder: Path, lines: list[dict[str, Any]], **more: Any) -> Report:  # noqa: ANN401  see `make_report`
    """The report of a run of `lines`, without a store."""
    run = run_at(write_run(folder, lines))
    assert run is not None
    return make_report(run, **more)


def document(report: Report) -> dict[str, Any]:
    """The document of a report, as the command makes it."""
    from vcache_cli.cli.documents import envelope

    return envelope("report", report.as_json())
