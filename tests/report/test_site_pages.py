"""The pages of `refbench view` in a real browser, from the file system: what they show is what the chunks hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from support.campaigns import slow
from support.shown_numbers import site_chunk
from support.site_browser import PAGES, Site, walk
from support.site_figures import GROUPS, JUDGES, MARKUP, MODELS, Figures
from support.site_fixture import ASSETS, put, write_fixture

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


def test_no_page_complains_and_none_leaves_the_folder(site: Site) -> None:
    asked: list[str] = []
    site.page.on("request", lambda request: asked.append(request.url))
    case = f"case/{quote(site.figures.ids[0], safe='')}"
    for address in (*PAGES, case, f"{case}?zoom=ref-0&with=out-1-0-f-0&mode=slide", "overview?protocol=paper&judge=1"):
        site.open(address)
        site.page.wait_for_timeout(150)
    assert site.complaints == []
    assert all(url.startswith(("file:", "about:")) for url in asked)


def test_the_policy_of_the_page_forbids_inline_scripts_and_foreign_addresses() -> None:
    page = (ASSETS / "index.html").read_text()
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    scripts = "".join(path.read_text() for path in ASSETS.glob("*.js"))
    assert not any(
        word in scripts for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
    )


@pytest.mark.slow
def test_texts_with_markup_stay_text_everywhere(site: Site) -> None:
    case = quote(site.figures.ids[0], safe="")
    for address in (*PAGES, f"case/{case}"):
        page = site.open(address)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        page.wait_for_timeout(100)
        assert "broken" not in page.title()
        assert page.evaluate("document.querySelectorAll('main b, main i, main u, main script, img[src=x]').length") == 0
    words = site.page.locator("pre.verbatim").first.text_content()
    assert words == f"{MARKUP} about {site.figures.ids[0]}"


def test_the_leaderboard_has_values_intervals_coverage_and_published_rows(site: Site) -> None:
    page = site.open("overview")
    means = {MODELS[m]: float(np.nanmean(site.figures.values[0][m])) for m in range(3)}
    best = sorted(means, key=lambda name: -means[name])
    own = page.locator(".leaderboard tr.own")
    assert [own.nth(i).locator(".name a").text_content() for i in range(3)] == best
    assert [own.nth(i).locator(".main").text_content() for i in range(3)] == [f"{means[name]:.2f}" for name in best]
    scored = int((~np.isnan(site.figures.values[0][MODELS.index(best[0])])).sum())
    assert own.first.locator(".coverage .figures").text_content() == f"{scored}/{N_CASES}"
    assert f"{N_CASES - scored} refused" in str(own.first.locator(".coverage .kinds").text_content())
    assert own.first.locator("svg .whisker").count() == 1


def test_published_figures_stand_beside_ours_only_where_they_are_the_same_measurement(site: Site) -> None:
    page = site.open("overview")
    printed = page.locator(".leaderboard tr.published")
    heading = "Published, with protocol paper: not the same measurement"
    assert page.locator(".leaderboard tr.group").all_text_contents() == [heading]
    assert printed.count() == 2
    assert page.locator(".leaderboard tr.own .paper:not(:empty)").count() == 0
    page = site.open("overview?protocol=paper")
    assert page.locator(".leaderboard tr.group").all_text_contents() == ["Published, measured in the same way"]
    assert printed.count() == 1
    assert "Printed & <b>bold</b>" in str(printed.text_content())
    assert "arXiv 0000.00000, Table 7" in str(printed.text_content())
    assert printed.locator("svg path.published").count() == 1
    assert printed.locator("svg circle").count() == 0
    assert "4.75" in str(page.locator(".leaderboard tr.own", has_text="alpha").locator(".paper").text_content())
    page = site.open("overview?protocol=paper&judge=1")
    assert page.locator(".leaderboard tr.group").all_text_contents() == [
        "Published, with judge first judge: not the same measurement"
    ]


@pytest.mark.slow
def test_every_page_with_numbers_names_judge_wording_and_protocol(site: Site) -> None:
    case = f"case/{quote(site.figures.ids[0], safe='')}"
    for address in ("overview", "cases", "compare", "failures", case):
        said = str(site.open(f"{address}?judge=1&protocol=paper").text_content(".measured"))
        assert "judge second judge, own wording · protocol paper" in said, address


def test_the_headline_says_the_share_of_resamples_that_was_computed(site: Site) -> None:
    said = str(site.open("overview").text_content(".headline"))
    assert (
        "It comes first in 63 % of resamples of the cases; ranks 1 to 2 fit the data: the lead is not settled." in said
    )
    scripts = (ASSETS / "leaderboard.js").read_text()
    assert "keeps first place" not in scripts


def test_a_model_without_a_rank_stands_below_the_ranked_ones_with_its_count(browser: Any, tmp_path: Path) -> None:
    figures = write_fixture(tmp_path, 10)
    board = site_chunk(tmp_path, "b0/board", as_text=False)
    for row in board["rows"]:
        if row["model"] == 1:
            said = "not ranked: only 1 of 904 scored"
            row |= {"value": 9.9, "rank": None, "unranked": said, "n_scored": 1, "n_expected": 904}
    put(tmp_path, "b0/board", board)
    site = Site(tmp_path, figures, browser.new_context().new_page())
    page = site.open("overview")
    last = page.locator(".leaderboard tr.own").last
    assert last.locator(".name a").text_content() == MODELS[1]
    assert last.locator(".place").text_content() == "–"
    assert "not ranked: only 1 of 904 scored" in str(last.text_content())
    assert "Not ranked" in page.locator(".leaderboard tr.group").all_text_contents()
    assert MODELS[1] not in str(page.text_content(".headline"))
    page.context.close()


@pytest.mark.slow
def test_numbers_are_rounded_as_the_tables_in_python_are(site: Site) -> None:
    values = [7.125, 7.135, 0.375, 2.5, 3.5, 0.0625, 2.675, 1.005, -7.125, -0.001, 1e-9, 100.0]
    page = site.open("overview")
    for digits in (0, 1, 2, 3, 4):
        said = page.evaluate(f"(all) => all.map((v) => refbench.format.number(v, {digits}))", values)
        expected = [f"{value:.{digits}f}" for value in values]
        plain = [text.replace("-", "") if float(text) == 0 else text.replace("-", "−") for text in expected]
        assert said == plain


@pytest.mark.slow
def test_cases_that_lack_a_tag_are_not_shown_under_its_name(site: Site) -> None:
    page = site.open("overview")
    names = page.evaluate(
        "['yes', 'no'].map((has) => refbench.format.sliceName({ level: 'tag', tag: 'two subjects', has }))"
    )
    assert names == ["two subjects", "without two subjects"]
    above = page.evaluate("refbench.format.sliceAbove({ level: 'tag', tag: 'two subjects', has: 'no' })")
    assert above == ""


@pytest.mark.slow
def test_protocol_judge_measure_and_level_are_in_the_address(site: Site) -> None:
    page = site.open("overview")
    for choice in ("judge-1", "measure-parts", "level-n_refs"):
        page.click(f"#choose-{choice}")
        page.wait_for_selector(f"#choose-{choice}[aria-current]")
    assert "judge=1" in page.url
    assert "measure=parts" in page.url
    mean = float(np.nanmean(site.figures.values[1][0])) - 1
    assert page.locator("tr.own", has_text="alpha").locator(".main").text_content() == f"{mean:.2f}"
    assert page.locator(".panel").count() == 4
    page.go_back()
    page.wait_for_selector("#choose-level-place[aria-current]")
    assert page.locator(".panel").count() == len(GROUPS)


@pytest.mark.slow
def test_pairs_say_whether_they_are_resolved_and_link_to_the_cases_that_make_them(site: Site) -> None:
    page = site.open("compare?pair=0-2")
    assert (
        page.locator(".pair blockquote p").text_content() == f"The gap of {MODELS[0]} and {MODELS[2]}, in a sentence."
    )
    assert [page.locator(".pairs .verdict").nth(i).text_content() for i in range(3)] == [
        "○ cannot resolve",
        "▲ ahead",
        "○ cannot resolve",
    ]
    page.click(".pair a")
    page.wait_for_selector("main[data-page=cases]")
    assert "filter=loss&model=2&against=0" in page.url


@pytest.mark.slow
def test_a_phone_needs_no_sideways_scrolling(browser: Any, written: tuple[Path, Figures]) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    site = Site(*written, context.new_page())
    case = f"case/{quote(site.figures.ids[0], safe='')}"
    for address in (*PAGES, case, f"{case}?zoom=ref-0&with=out-1-0-f-0&mode=slide", "cases?filter=failures&model=1"):
        page = site.open(address)
        page.wait_for_timeout(50)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, address
        assert page.evaluate("document.querySelector('dialog')?.scrollWidth ?? 0") <= 390, address
    page = site.open(case)
    assert page.locator("article.model:visible").count() == 1
    page.click("#at-2")
    page.wait_for_selector("#column-2.current")
    assert page.locator("article.model:visible").count() == 1
    context.close()


@pytest.mark.slow
def test_text_has_enough_contrast_in_both_schemes(browser: Any, written: tuple[Path, Figures]) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(viewport={"width": 1280, "height": 1000}, color_scheme=scheme)
        site = Site(*written, context.new_page())
        for address in (*PAGES, f"case/{quote(site.figures.ids[4], safe='')}"):
            page = site.open(address)
            page.wait_for_timeout(200)
            assert page.evaluate(LOW_CONTRAST) == [], f"{address}, {scheme}"
        context.close()


@pytest.mark.slow
def test_pictures_have_texts_and_fields_have_names(site: Site) -> None:
    for address in (*PAGES, f"case/{quote(site.figures.ids[0], safe='')}"):
        page = site.open(address)
        assert page.evaluate("[...document.images].filter(one => !one.hasAttribute('alt')).length") == 0
        nameless = (
            "[...document.querySelectorAll('input, select, textarea')]"
            ".filter(one => !one.labels?.length && !one.getAttribute('aria-label')).map(one => one.id)"
        )
        assert page.evaluate(nameless) == []
        assert page.evaluate("[...document.querySelectorAll('svg.row')].every(one => one.getAttribute('aria-label'))")


def test_a_missing_chunk_is_named(browser: Any, tmp_path: Path) -> None:
    figures = write_fixture(tmp_path / "torn", 5)
    (tmp_path / "torn/data/b0/board.js").unlink()
    context = browser.new_context()
    site = Site(tmp_path / "torn", figures, context.new_page())
    page = site.open("overview")
    assert "data/b0/board.js could not be read" in str(page.text_content("main"))
    context.close()


def test_judges_are_named_in_the_heading(site: Site) -> None:
    assert f"judged by {' and '.join(JUDGES)}" in str(site.open("overview").text_content("#top"))


@pytest.mark.slow
def test_the_mean_of_the_judges_is_not_called_a_judge(browser: Any, tmp_path: Path) -> None:
    figures = write_fixture(tmp_path, 12)
    head = site_chunk(tmp_path, "site", as_text=False)
    head["boards"][0] |= {"judges": [*JUDGES, "mean"], "judge_titles": [*JUDGES, f"mean of {', '.join(JUDGES)}"]}
    put(tmp_path, "site", head)
    site = Site(tmp_path, figures, browser.new_page(viewport={"width": 390, "height": 800}))
    said = f"{JUDGES[0]} and {JUDGES[1]}, mean of both"
    assert f"judged by {said}" in str(site.open("overview").text_content("#top"))
    assert said in str(site.open("methods").text_content("main"))
    clipped = (
        "() => [...document.querySelectorAll('.segments')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert site.open("overview").evaluate(clipped) == 0, "every choice of a switch is in sight on a phone"


@pytest.mark.slow
def test_causes_of_failures_are_of_the_protocol_that_is_chosen_and_name_judge_and_seed(
    browser: Any, tmp_path: Path
) -> None:
    figures = write_fixture(tmp_path, 12)
    chunk = site_chunk(tmp_path, "b0/failures", as_text=False)
    said = {"cause": "this one", "detail": "Traceback (most recent call last):\nthis one", "n": 12}
    one = {**chunk["causes"][0], "judge": 0, "seed": 7, "metrics": ["total", "parts"], **said}
    chunk |= {"causes": [one, {**one, "protocol": "paper", "cause": "the other"}], "n_causes": 2}
    put(tmp_path, "b0/failures", chunk)
    site = Site(tmp_path, figures, browser.new_page())
    page = site.open("failures")
    assert page.locator(".cause details").get_attribute("open") is None, "tracebacks are folded"
    text = str(page.text_content(".causes"))
    assert "this one" in text and "the other" not in text
    assert JUDGES[0] in text and "seed 7" in text and "total, parts" in text and text.startswith("12")
    assert "the other" in str(site.open("failures?protocol=paper").text_content(".causes"))


@pytest.mark.slow
def test_answers_say_of_which_seed_they_are_and_others_can_be_chosen(browser: Any, tmp_path: Path) -> None:
    figures = write_fixture(tmp_path, 12)
    chunk = site_chunk(tmp_path, "b0/cases/0", as_text=False)
    for case in chunk["cases"]:
        case["scores"] += [
            {**score, "seed": 1, "answers": ["Other"] * len(score["answers"])} for score in case["scores"]
        ]
    put(tmp_path, "b0/cases/0", chunk)
    site = Site(tmp_path, figures, browser.new_page())
    ident = chunk["cases"][0]["id"]
    assert "Answers about the picture of seed 0." in str(site.case(ident).text_content("main"))
    assert "Answers about the picture of seed 1." in str(site.case(ident, "?seed=1").text_content("main"))


@pytest.mark.parametrize("boards", [slow(("b0",)), slow(("b0", "b1")), slow(("cases",)), slow(("overview", "cases"))])
def test_from_the_front_door_every_tab_opens_at_the_first_click(
    browser: Any, tmp_path: Path, boards: tuple[str, ...]
) -> None:
    site = Site(tmp_path, write_fixture(tmp_path, 5, boards=boards), browser.new_context().new_page())
    for address in ("", "#", "#/", "#/nowhere", "#/nowhere/else"):
        site.page.goto("about:blank")
        site.page.goto(f"file://{quote(str(tmp_path))}/index.html{address}")
        walk(site.page, len(boards))
    assert site.complaints == []
    site.page.context.close()


def test_an_address_that_leaves_the_board_out_is_a_page_of_the_first_one(browser: Any, tmp_path: Path) -> None:
    site = Site(tmp_path, write_fixture(tmp_path, 5, boards=("b0", "b1")), browser.new_context().new_page())
    site.page.goto(f"file://{quote(str(tmp_path))}/index.html#/compare?judge=1")
    site.page.wait_for_selector("main[data-page=compare]")
    assert site.page.url.endswith("#/b0/compare?judge=1")
    site.page.context.close()


LOW_CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const text = getComputedStyle(at).backgroundColor;
      const [r, g, b, a = 1] = parse(text);
      if (text.startsWith('rgb') && a === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.textContent.trim());
    const box = node.getBoundingClientRect();
    if (!own || box.width < 2 || node.closest('svg, .offscreen, [hidden], #said, .skip, .off, noscript, option')) continue;
    const [one, other] = [light(parse(getComputedStyle(node).color)), light(behind(node))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    if (ratio < 4.5) found.push(`${node.tagName}.${node.className}: ${ratio.toFixed(2)}`);
  }
  return [...new Set(found)].slice(0, 5);
}"""
