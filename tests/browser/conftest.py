"""A report of a real run, with names that mean harm, in a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.patience import PATIENCE_SECONDS
from vcache_cli.cli.app import run

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ON_A_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
HOSTILE = (
    "<img src=x onerror=alert(1)>.jpg",
    "</script><script>document.title='pwned'<!--.jpg",
    "'\"><svg onload=alert(2)>.jpg",
    "javascript:alert(3).jpg",
    "long-" + "name" * 50 + ".jpg",
    "clear\x1b[2J\u202egpj.jpg",
)


def chromium() -> str:
    """The browser of this machine."""
    found = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES)]
    if ON_A_MAC.exists():
        found.append(str(ON_A_MAC))
    path = next(filter(None, found), None)
    assert path, "no Chromium here; `make browser` says how to get one"
    return path


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a second run over the samples, with broken files, beside the first one."""
    folder = tmp_path_factory.mktemp("report")
    corpus, store, page = folder / "media", folder / "store", folder / "report.html"
    shutil.copytree(ROOT / "samples/media", corpus)
    model = ["--model", str(ROOT / "samples/tiny-siglip"), "--store", str(store), "-q"]
    assert run(["warm", str(corpus), *model]) == 0
    shutil.copytree(ROOT / "samples/bad", corpus / "bad")
    half = (corpus / "hills.jpg").read_bytes()[:5000]
    for number, name in enumerate(HOSTILE):
        for path in hostile_paths(corpus / "bad", name):
            path.write_bytes(half + bytes([number]))
    assert run(["warm", str(corpus), *model]) == 3
    gates = ["--gate", "hit>=95%", "--gate", "size<=1GiB"]
    assert run(["report", str(store), "--compare", "previous", "--out", str(page), *gates]) == 5
    return page


def hostile_paths(folder: Path, name: str) -> Iterator[Path]:
    """Where a file of that name can lie: a slash makes folders."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    yield path


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, once for all tests."""
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=options, timeout=1000 * PATIENCE_SECONDS
        )
        yield browser
        browser.close()


class Opened:
    """The page in a window, and what it did that it should not."""

    def __init__(self, page: Page, file: Path) -> None:
        self.page = page
        self.said: list[str] = []
        self.requested: list[str] = []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("dialog", lambda dialog: self.said.append(dialog.message) or dialog.dismiss())  # type: ignore[func-returns-value]
        page.on("request", lambda request: self.requested.append(request.url))
        page.goto(file.as_uri())

    @property
    def loaded(self) -> list[str]:
        """What was asked for beside the file itself and the pictures in it."""
        return [url for url in self.requested[1:] if not url.startswith("data:")]


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def open_page(browser: Browser, report: Path) -> Iterator[Open]:
    """Opens the report in a window of a size and a scheme: a new one, or one opened before."""
    windows: dict[tuple[object, ...], Opened] = {}
    contexts = []

    def open_page(
        width: int = 1440, *, scheme: str = "light", script: bool = True, new: bool = False
    ) -> Opened:
        look = (width, scheme, script)
        if look in windows and not new:
            return windows[look]
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=script,
        )
        context.set_default_timeout(1000 * PATIENCE_SECONDS)
        contexts.append(context)
        context.set_offline(offline=True)
        windows[look] = Opened(context.new_page(), report)
        return windows[look]

    yield open_page
    for context in contexts:
        context.close()
