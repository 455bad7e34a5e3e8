"""Files of reports: by ending, whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.report.making import document, line, report_of
from vcache_cli.errors import UsageError
from vcache_cli.report import format_of, write_report


def test_an_ending_without_a_format_names_those_that_have_one() -> None:
    with pytest.raises(UsageError) as caught:
        format_of("report.pdf")
    assert ".html" in caught.value.hint
    assert ".md" in caught.value.hint


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    report = report_of(tmp_path, [line("a.png", "failed")])
    out = tmp_path / "r.json"
    out.write_text("old")
    (tmp_path / "link.json").symlink_to(out)
    written = write_report(str(tmp_path / "link.json"), report, document(report))
    assert written.size_bytes == out.stat().st_size
    assert json.loads(out.read_text()) == document(report)
    assert (tmp_path / "link.json").is_symlink()
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".json", ".jsonl"]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    report = report_of(tmp_path, [line("a.png", "failed")])
    os.mkfifo(tmp_path / "pipe.md")
    reader = os.open(tmp_path / "pipe.md", os.O_RDONLY | os.O_NONBLOCK)
    write_report(str(tmp_path / "pipe.md"), report, document(report))
    assert os.read(reader, 65536).startswith(b"## The one item is not ready")
    os.close(reader)


def test_a_folder_that_is_not_there_is_the_callers_mistake(tmp_path: Path) -> None:
    report = report_of(tmp_path, [line("a.png")])
    for path in (tmp_path / "no/r.md", tmp_path / "folder.md"):
        (tmp_path / "folder.md").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="--out"):
            write_report(str(path), report, document(report))


def test_a_name_with_a_line_break_fits_a_list_by_nul_only(tmp_path: Path) -> None:
    names = ["a\nb.png", "c.png"]
    for name in names:
        (tmp_path / name).touch()
    report = report_of(tmp_path, [line(name, "failed") for name in names])
    out = tmp_path / "failed.txt"
    assert write_report(str(out), report, document(report)).unlisted == 1
    assert out.read_text() == f"{tmp_path}/c.png\n"
    assert write_report(str(out), report, document(report), null=True).unlisted == 0
    assert out.read_text() == f"{tmp_path}/a\nb.png\0{tmp_path}/c.png\0"
