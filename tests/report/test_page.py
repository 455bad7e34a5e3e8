"""The page: whole in itself, bounded, and text stays text."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.report.making import EARLIER_ID, document, line, report_of, write_run
from vcache_cli.report.markup import escape
from vcache_cli.report.page import html_page
from vcache_cli.report.thumbnails import Thumbnails
from vcache_cli.store.run_file import run_at

HOSTILE = "<img src=x onerror=alert(1)>'\"</script><!--\x1b[2J\u202e.png"
VOID = {"meta", "link", "img", "br", "rect"}


class Outline(HTMLParser):
    """Elements that are open, every attribute, and all text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(folder: Path, *sources: str) -> str:
    lines = [line(source, "failed") for source in sources]
    warning = [{"kind": sources[0], "message": sources[0]}]
    earlier = [line(source) for source in sources]
    before = run_at(write_run(folder, earlier, run_id=EARLIER_ID))
    key = "ab" * 32
    same = [line(each, "present", key=key, warnings=warning) for each in (sources[0], "b")]
    report = report_of(folder, [*lines, *same], before=before)
    return html_page(document(report), Thumbnails(report.folder))


def test_a_hostile_name_is_shown_and_opens_nothing(tmp_path: Path) -> None:
    outline = Outline()
    outline.feed(page_of(tmp_path, HOSTILE))
    outline.close()
    assert outline.open == []
    assert "<img src=x onerror=alert(1)>" in outline.text
    assert "\\x1b[2J\\u202e" in outline.text
    names = {name for _, attributes in outline.seen for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert [tag for tag, _ in outline.seen].count("script") == 1


def test_nothing_is_loaded_from_anywhere(tmp_path: Path) -> None:
    page = page_of(tmp_path, "a.png")
    outline = Outline()
    outline.feed(page)
    links = [
        value or ""
        for _, attributes in outline.seen
        for name, value in attributes.items()
        if name in {"src", "href", "srcset", "action", "poster", "data"}
    ]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert not re.findall(r"https?:|@import|url\(", page)


def test_the_policy_lets_only_this_style_and_this_script_run(tmp_path: Path) -> None:
    page = page_of(tmp_path, "a.png")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        (inner,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, flags=re.DOTALL)
        hashed = base64.b64encode(hashlib.sha256(inner.encode()).digest()).decode()
        assert f"{name} 'sha256-{hashed}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_a_huge_run_makes_a_page_of_bounded_size(tmp_path: Path) -> None:
    page = page_of(tmp_path, *(f"{n:05}{'x' * 200}.png" for n in range(3_000)))
    assert "and 2,000 more; the run file has them all" in page
    assert page.count("<tr") < 1_100
    assert len(page) < 2_000_000


@given(st.text())
def test_escaped_text_holds_no_markup(text: str) -> None:
    escaped = escape(text)
    assert not set("<>\"'") & set(escaped)
    escaped.encode()
