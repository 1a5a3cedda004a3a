"""The case browser and a case in a real browser: filters, order, keys, notes and pictures against the figures behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from support.site_browser import Site
from support.site_figures import GROUPS, KINDS, MARKUP, Figures, instruction
from support.site_fixture import write_fixture

N_CASES = 60


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Figures]:
    root = tmp_path_factory.mktemp("a site with spaces")
    return root, write_fixture(root, N_CASES)


@pytest.fixture
def site(browser: Any, written: tuple[Path, Figures]) -> Iterator[Site]:
    context = browser.new_context(viewport={"width": 1280, "height": 6000})
    yield Site(*written, context.new_page())
    context.close()


def test_failures_of_a_model_with_a_word_are_the_right_cases(site: Site) -> None:
    site.open("cases?filter=failures&model=1&q=paint")
    f = site.figures
    expected = [f.ids[i] for i in range(N_CASES) if f.failed[0][1][i] and "Paint" in instruction(i)]
    assert expected
    assert site.listed() == expected
    site.open(f"cases?filter=failures&model=2&kind={KINDS[0]}&judge=1")
    assert site.listed() == [f.ids[i] for i in range(N_CASES) if f.failed[1][2][i] == KINDS[0]]


def test_disagreement_and_loss_are_sorted_by_how_much(site: Site) -> None:
    f = site.figures
    values = f.values[0]
    there = ~np.isnan(values)
    apart = np.where(there, values, -np.inf).max(axis=0) - np.where(there, values, np.inf).min(axis=0)
    between = np.nan_to_num(np.abs(f.values[0] - f.values[1]), nan=-1).max(axis=0)
    for address, figure, least in (
        ("cases?filter=models", apart, 2.5),
        ("cases?filter=judges", between, 2.5),
        ("cases?filter=loss&model=2&against=0", values[0] - values[2], 1e-9),
    ):
        site.open(address)
        chosen = [i for i in range(N_CASES) if np.round(figure[i], 9) >= least]
        assert site.listed() == [f.ids[i] for i in sorted(chosen, key=lambda i: (-figure[i], i))], address
        assert site.tally() == f"{len(chosen)} of {N_CASES} cases"


def test_groups_flags_references_and_order_narrow_the_list(site: Site) -> None:
    f = site.figures
    site.open(f"cases?g.place={quote(GROUPS[2])}&refs=3")
    assert site.listed() == [f.ids[i] for i in range(N_CASES) if f.groups[i] == GROUPS[2] and f.references[i] == 3]
    site.open("cases?filter=near_source&model=0")
    assert site.listed() == [f.ids[i] for i in range(N_CASES) if f.flags[0, i]]
    site.open("cases?sort=worst&model=0")
    marks = np.where(np.isnan(f.values[0][0]), np.inf, f.values[0][0])
    assert site.listed()[:10] == [f.ids[i] for i in sorted(range(N_CASES), key=lambda i: (marks[i], i))[:10]]


def test_a_case_shows_its_scores_answers_steps_and_failures(site: Site) -> None:
    f = site.figures
    place = next(i for i in range(N_CASES) if i % 9 == 4 and all(f.failed[0][m][i] is None for m in range(3)))
    page = site.case(f.ids[place], "?models=0,1")
    assert page.locator("article.model").count() == 2
    first, second = page.locator("#column-0"), page.locator("#column-1")
    assert "No picture: refused" in str(first.locator(".failure").first.text_content())
    assert MARKUP in str(first.locator(".failure code").first.text_content())
    assert second.locator(".strip li").count() == 3
    assert second.locator(".total strong").text_content() == f"{f.values[0][1][place]:.2f}"
    rows = page.locator("table.questions tbody tr:not(.group)")
    assert [str(rows.nth(i).locator("td").last.text_content()).strip() for i in range(2)] == [
        "✓ Yes as expected",
        "✗ Yes not as expected",
    ]
    assert "counts only if the cat is there" in str(rows.nth(1).text_content())


def test_keys_walk_the_filtered_list_star_flip_and_search(site: Site) -> None:
    f = site.figures
    chosen = [f.ids[i] for i in range(N_CASES) if f.flags[1, i]]
    page = site.case(chosen[0], "?filter=near_source&model=1")
    page.keyboard.press("j")
    site.until("id => document.querySelector('h1.id').textContent === id", chosen[1])
    page.keyboard.press("k")
    site.until("id => document.querySelector('h1.id').textContent === id", chosen[0])
    page.keyboard.press("s")
    assert page.get_attribute("#star", "aria-pressed") == "true"
    page.keyboard.press("f")
    page.wait_for_selector("dialog.viewer[open]")
    before = page.text_content(".caption")
    page.keyboard.press("f")
    assert page.text_content(".caption") != before
    assert "mode=flip" in page.url
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.viewer", state="detached")
    page.keyboard.press("?")
    page.wait_for_selector("dialog.help[open]")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.wait_for_selector("main[data-page=cases]")
    page.keyboard.press("/")
    page.keyboard.type("mat")
    site.until("location.hash.includes('q=mat')")
    assert site.listed() == [f.ids[i] for i in range(N_CASES) if "mat" in instruction(i)]


def test_annotations_survive_a_reload_and_come_out_as_a_file(site: Site, tmp_path: Path) -> None:
    ident = site.figures.ids[10]
    page = site.case(ident)
    page.click("#star")
    page.fill("#tags", "odd, <b>bold</b>")
    page.fill("#comment", MARKUP)
    site.until("JSON.stringify(localStorage).includes('onerror')")
    site.open("cases?filter=starred")
    assert site.listed() == [ident]
    with page.expect_download() as waiting:
        page.click("#export")
    waiting.value.save_as(tmp_path / "out.json")
    saved = json.loads((tmp_path / "out.json").read_text())["annotations"]
    wanted = {"board": "b0", "case": ident, "star": True, "tags": ["odd", "<b>bold</b>"], "comment": MARKUP}
    assert saved == [wanted]
    page.evaluate("localStorage.clear()")
    site.open("cases?filter=starred")
    assert site.listed() == []
    page.set_input_files("input[type=file]", tmp_path / "out.json")
    site.until("document.querySelectorAll('.case-rows li').length === 1")
    assert site.listed() == [ident]


def test_two_pictures_are_divided_by_a_slider_that_the_zoom_respects(site: Site) -> None:
    page = site.case(site.figures.ids[1], "?zoom=ref-0&with=out-1-0-f-0&mode=slide")
    page.wait_for_selector("dialog.viewer[open]")
    clip = "getComputedStyle(document.querySelector('.stage .over')).clipPath"
    assert page.evaluate(clip) == "inset(0px 0px 0px 50%)"
    page.evaluate("const s = document.querySelector('.divider'); s.value = 75; s.dispatchEvent(new Event('input'))")
    assert page.evaluate(clip) == "inset(0px 0px 0px 75%)"
    page.keyboard.press("+")
    assert page.evaluate(clip) == f"inset(0px 0px 0px {50 + 25 / 1.5:.4f}%)"


@pytest.mark.slow
def test_ten_thousand_cases_draw_only_the_rows_in_sight(browser: Any, tmp_path: Path) -> None:
    figures = write_fixture(tmp_path / "large", 10_000, 5, whole=False)
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    site = Site(tmp_path / "large", figures, context.new_page())
    asked: list[str] = []
    site.page.on("request", lambda request: asked.append(request.url))
    page = site.open("overview")
    first = [path for url in asked if url.startswith("file:") and (path := url.split("/large/")[1].split("#")[0])]
    assert not any("index/" in path or "cases/" in path for path in first)
    assert sum((tmp_path / "large" / path).stat().st_size for path in first) < 1_000_000
    page.click("#tab-cases")
    page.wait_for_selector("main[data-page=cases]")
    assert site.tally() == "10,000 cases"
    assert page.locator(".case-rows li").count() < 40
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    site.until("id => [...document.querySelectorAll('.id')].some(one => one.textContent === id)", figures.ids[-1])
    assert page.locator(".case-rows li").count() < 40
    page.fill("#search", figures.ids[9999][5:])
    site.until("document.querySelectorAll('.case-rows li').length === 1")
    assert site.listed() == [figures.ids[9999]]
    page.wait_for_selector(".thumb img")
    assert sum("/cases/" in url for url in asked) < 12
    page.click(".case-link")
    page.wait_for_selector("main[data-page=case]")
    assert page.text_content("h1.id") == figures.ids[9999]
    assert site.complaints == []
    context.close()
