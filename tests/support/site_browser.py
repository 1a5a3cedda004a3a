"""A browser on a written site: opens addresses, reads the list of cases, and keeps what a page complained about."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.site_figures import Figures

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
PAGES = ("overview", "cases", "compare", "figures", "failures", "agreement", "methods")
_PATIENCE_S = 300


def start_browser() -> Any:
    """Playwright's driver and Chromium, both to be closed by the caller; skips where either is absent."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the pages are tested with Playwright")
    if CHROMIUM is None:
        pytest.skip("the pages are tested in Chromium, which is not installed")
    driver = sync_api.sync_playwright().start()
    return driver, driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)


class Site:
    """A written site, a page of the browser on it, and everything that the page complained about."""

    def __init__(self, root: Path, figures: Figures, page: Any) -> None:
        self.root, self.figures, self.page = root, figures, page
        page.set_default_timeout(_PATIENCE_S * 1000)
        self.complaints: list[str] = []
        page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, address: str) -> Any:
        """A deep link: the page is loaded anew."""
        self.page.goto("about:blank")
        self.page.goto(f"file://{quote(str(self.root))}/index.html#/b0/{address}")
        self.page.wait_for_selector(f"main[data-page={address.split('?')[0].split('/')[0]}]")
        return self.page

    def case(self, ident: str, state: str = "") -> Any:
        return self.open(f"case/{quote(ident, safe='')}{state}")

    def until(self, condition: str, given: Any = None) -> None:
        """Waits for an expression to hold. Playwright's own waiting evaluates text, which the page's policy forbids."""
        end = time.monotonic() + _PATIENCE_S
        while not self.page.evaluate(condition, given):
            assert time.monotonic() < end, f"{condition} never held"
            self.page.wait_for_timeout(20)

    def listed(self) -> list[str]:
        """Ids of the rows that are drawn, from the top."""
        found = self.page.evaluate(
            "[...document.querySelectorAll('.case-rows li')].sort((a, b) => a.dataset.place - b.dataset.place)"
            ".map(row => row.querySelector('.id').textContent)"
        )
        return [str(one) for one in found]

    def tally(self) -> str:
        return str(self.page.text_content("#tally"))


def walk(page: Any, boards: int) -> None:
    """From the front door: every tab by a click, and the same way back and forth."""
    page.wait_for_selector("main[data-page=overview]")
    front = page.url
    for name in (*PAGES[1:], PAGES[0]):
        page.click(f"#tab-{name}")
        page.wait_for_selector(f"main[data-page={name}]")
        page.wait_for_selector(f"#tab-{name}[aria-current=page]")
    for name in (*PAGES[:0:-1], PAGES[0]):
        page.go_back()
        page.wait_for_selector(f"main[data-page={name}]")
    assert page.url == front
    for name in PAGES[1:]:
        page.go_forward()
        page.wait_for_selector(f"main[data-page={name}]")
    if boards > 1:
        title = page.locator("#board option").nth(1).text_content()
        page.select_option("#board", index=1)
        page.wait_for_selector("main[data-page=methods]")
        page.click("#tab-cases")
        page.wait_for_selector("main[data-page=cases]")
        assert page.locator("#board option:checked").text_content() == title
