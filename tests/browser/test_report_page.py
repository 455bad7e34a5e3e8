"""The HTML report as a browser shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import HOSTILE, Open

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

LOOKS = [(width, scheme) for width in (390, 1440) for scheme in ("light", "dark")]
looks = pytest.mark.parametrize(("width", "scheme"), LOOKS)


def column(table: Locator, name: str) -> list[float]:
    """The numbers that a column is sorted by, from top to bottom; unknown ones come last."""
    found: list[str] = table.evaluate(
        """(table, name) => {
            const heads = [...table.tHead.rows[0].cells];
            const at = heads.findIndex((head) => head.textContent === name);
            return [...table.tBodies[0].rows].map((row) => row.cells[at].dataset.v);
        }""",
        name,
    )
    known = [value for value in found if value]
    assert found == [*known, *[""] * (len(found) - len(known))]
    return [float(value) for value in known]


def sort_of(table: Locator, name: str) -> str | None:
    found: str | None = table.locator("th", has_text=name).first.get_attribute("aria-sort")
    return found


def slowest(page: Page) -> Locator:
    return page.locator("#slowest table")


@looks
def test_it_says_nothing_to_the_console_and_loads_nothing(
    open_page: Open, width: int, scheme: str
) -> None:
    opened = open_page(width, scheme=scheme)
    opened.page.wait_for_load_state("networkidle")
    assert opened.said == []
    assert opened.loaded == []


def test_every_picture_loads(open_page: Open) -> None:
    images = open_page().page.locator("img")
    widths: list[int] = images.evaluate_all("(all) => all.map((each) => each.naturalWidth)")
    assert len(widths) >= 6
    assert all(width > 0 for width in widths)
    names: list[str] = images.evaluate_all("(all) => all.map((each) => each.alt)")
    assert all(names)


def test_a_hostile_name_is_text(open_page: Open) -> None:
    opened = open_page()
    text = opened.page.locator("#failures").inner_text()
    for name in HOSTILE:
        assert name.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e") in text
    assert opened.page.locator("img[src=x], svg[onload], section script").count() == 0
    assert "pwned" not in opened.page.title()
    assert opened.said == []


def test_a_table_sorts_by_click(open_page: Open) -> None:
    table = slowest(open_page(new=True).page)
    button = table.get_by_role("button", name="decode")
    assert sort_of(table, "decode") == "none"
    button.click()
    assert sort_of(table, "decode") == "ascending"
    ascending = column(table, "decode")
    assert len(ascending) > 3
    assert ascending == sorted(ascending)
    button.click()
    assert sort_of(table, "decode") == "descending"
    assert column(table, "decode") == sorted(ascending, reverse=True)
    table.get_by_role("button", name="all").click()
    assert (sort_of(table, "decode"), sort_of(table, "all")) == ("none", "ascending")


def test_a_table_sorts_by_keyboard_and_tells_so(open_page: Open) -> None:
    page = open_page(new=True).page
    table = slowest(page)
    table.get_by_role("button", name="source").focus()
    page.keyboard.press("Tab")
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == "all"
    for key, order in (("Enter", "ascending"), ("Space", "descending")):
        page.keyboard.press(key)
        assert sort_of(table, "all") == order
        assert page.get_by_role("status").inner_text() == f"sorted by all, {order}"
        assert page.evaluate("document.activeElement.textContent") == focused
    values = column(table, "all")
    assert values == sorted(values, reverse=True)


def test_every_heading_that_sorts_can_be_reached_and_seen(open_page: Open) -> None:
    page = open_page(new=True).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    wanted = page.locator("thead button").count()
    reached = 0
    for _ in range(200):
        page.keyboard.press("Tab")
        state: list[str] = page.evaluate(
            "((at) => [at.tagName, getComputedStyle(at).outlineStyle])(document.activeElement)"
        )
        if state[0] == "BODY":
            break
        assert state[1] != "none", state
        reached += state[0] == "BUTTON"
    assert reached == wanted > 20


@looks
def test_nothing_is_wider_than_the_window(open_page: Open, width: int, scheme: str) -> None:
    page = open_page(width, scheme=scheme).page
    assert page.evaluate("document.documentElement.scrollWidth") == width
    beyond = page.evaluate(
        """(width) => [...document.querySelectorAll("main *, header *, footer *")]
            .filter((each) => !each.closest(".scroll > *"))
            .filter((each) => each.getBoundingClientRect().right > width + 0.5)
            .map((each) => each.outerHTML.slice(0, 80))""",
        width,
    )
    assert beyond == []


def test_failures_are_cards_on_a_phone_and_rows_on_a_desk(open_page: Open) -> None:
    narrow = open_page(390).page.locator("#failures tbody tr").first
    wide = open_page(1440).page.locator("#failures tbody tr").first
    assert narrow.evaluate("(row) => getComputedStyle(row).display") == "grid"
    assert wide.evaluate("(row) => getComputedStyle(row).display") == "table-row"
    assert narrow.evaluate("(row) => row.closest('.scroll').scrollWidth") <= 390


@pytest.mark.parametrize(("scheme", "is_light"), [("light", True), ("dark", False)])
def test_it_follows_the_scheme_of_the_system(
    open_page: Open,
    scheme: str,
    is_light: bool,  # noqa: FBT001  a table
) -> None:
    page = open_page(scheme=scheme).page
    ground: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) for part in ground[4:-1].split(","))
    assert (min(red, green, blue) > 230) is is_light
    assert (max(red, green, blue) < 40) is not is_light


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_axe_finds_nothing(open_page: Open, width: int, scheme: str) -> None:
    """WCAG 2 A and AA, contrast included, and what axe calls best practice."""
    results = Axe().run(open_page(width, scheme=scheme).page)
    assert results.violations_count == 0, results.generate_report()


def test_without_a_script_it_is_read_as_it_is(open_page: Open) -> None:
    page = open_page(script=False).page
    assert page.locator("#failures tbody tr").count() == 3 + len(HOSTILE)
    assert page.locator("thead button").count() == 0
    assert page.get_by_role("columnheader", name="why").first.is_visible()


def test_the_sections_are_landmarks_that_the_links_lead_to(open_page: Open) -> None:
    page = open_page().page
    links = page.get_by_role("navigation").get_by_role("link").all()
    assert len(links) >= 8
    for link in links:
        target = page.locator(str(link.get_attribute("href")))
        assert target.get_by_role("heading").first.is_visible()
    assert page.get_by_role("main").count() == 1
    assert page.locator("h1").count() == 1
