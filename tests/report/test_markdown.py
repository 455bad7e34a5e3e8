"""Markdown in which names are names."""

from __future__ import annotations

import html
from pathlib import Path

from tests.report.making import EARLIER_ID, document, line, report_of, write_run
from vcache_cli.report.markdown import markdown
from vcache_cli.store.run_file import run_at

HOSTILE = "a|b`c`<b>*x*_y_[z](javascript:1)@someone\nhttps://e.org www.e.org.png"


def test_a_name_makes_no_cell_no_link_and_no_element(tmp_path: Path) -> None:
    text = markdown(document(report_of(tmp_path, [line(HOSTILE, "failed")])))
    (row,) = [each for each in text.splitlines() if "someone" in each]
    assert row.count("|") == 5
    cell = row.split("|")[1].strip()
    inner = cell.removeprefix("<code>").removesuffix("</code>")
    assert not set("<>`*_[]()@") & set(inner)
    assert "://" not in inner
    assert "www." not in inner
    assert html.unescape(inner) == HOSTILE.replace("\n", "\\n")


def test_the_numbers_come_first_and_the_gates_next(tmp_path: Path) -> None:
    before = run_at(write_run(tmp_path, [line("b.png", "failed")], run_id=EARLIER_ID))
    report = report_of(tmp_path, [line("a.png"), line("b.png", "failed")], before=before)
    gate = {"gate": "hit>=95%", "name": "hit", "met": False, "shown": "0%"}
    text = markdown(document(report) | {"gates": [gate]})
    titles = [each for each in text.splitlines() if each.startswith("#")]
    assert titles[:3] == ["## 1 of 2 items is ready", "### Gates", "### 1 item failed"]
    assert "| <code>hit&gt;=95%</code> | 0% | **not met** |" in text


def test_a_summary_has_room_for_a_huge_run(tmp_path: Path) -> None:
    names = [f"{n:05}{'|' * 2_000}.png" for n in range(1_200)]
    text = markdown(document(report_of(tmp_path, [line(name, "failed") for name in names])))
    assert len(text.encode()) < 1_000_000
    assert "and 1,100 more" in text
