"""The figures of the pages: every number is one of the table, every mark leads to its cases, and a drawing can do nothing
but draw.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refbench.benchmarks import benchmark, names
from refbench.benchmarks.kit.bibliography import arxiv_address, bibtex_of
from refbench.cli.figure import figure_command
from refbench.report.figures.palette import COLOURS, DARK, MARKS
from support.shown_numbers import site_chunk
from support.site_browser import Site
from support.site_figures import GROUPS, MARKUP, Figures
from support.site_fixture import ASSETS, creval_site, put, write_fixture


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Figures]:
    root = tmp_path_factory.mktemp("drawn")
    return root, write_fixture(root, 24)


@pytest.fixture
def site(browser: Any, made: tuple[Path, Figures]) -> Iterator[Site]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    yield Site(*made, context.new_page())
    context.close()


def test_a_mark_says_its_number_and_leads_to_its_cases(site: Site) -> None:
    page = site.open("figures")
    mark = page.locator("g.value").nth(4)
    mark.hover()
    value = float(str(mark.get_attribute("data-value")))
    assert str(page.text_content(".tip")).startswith(f"beta<b>, {GROUPS[1]}: total {value:.2f} [{value - 0.4:.2f}, ")
    mark.click()
    page.wait_for_selector("main[data-page=cases]")
    assert site.listed() == [
        i for i, group in zip(site.figures.ids, site.figures.groups, strict=True) if group == GROUPS[1]
    ]
    page.go_back()
    page.wait_for_selector("main[data-page=figures]")
    page.click("summary:has-text('The numbers')")
    page.wait_for_selector(".drawn td.num a")
    shown = page.locator(".drawn td.num a").all_text_contents()
    drawn = [
        float(one) for one in page.evaluate("[...document.querySelectorAll('g.value')].map(one => one.dataset.value)")
    ]
    assert shown == [f"{value:.2f}" for value in drawn]
    assert "nothing is known of it" in str(page.text_content("main")), "why the others are not drawn"
    assert site.complaints == []


def test_a_figure_is_taken_along_as_drawing_picture_and_numbers(site: Site) -> None:
    page = site.open("figures")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    kept = site_chunk(site.root, "b0/figures/0", as_text=False)["figures"][0]
    page.click("button[aria-label='Copy heatmap as SVG']")
    site.until("document.getElementById('said').textContent === 'Copied heatmap as SVG'")
    on_paper = re.sub(r"var\(--\w+, (#\w+)\)", r"\1", kept["svg"])
    assert page.evaluate("navigator.clipboard.readText()") == on_paper and "var(" not in on_paper
    page.click("button[aria-label='Copy heatmap as CSV']")
    site.until("document.getElementById('said').textContent === 'Copied heatmap as CSV'")
    table = str(page.evaluate("navigator.clipboard.readText()")).split("\n")
    assert table[0] == "panel,series,category,value,low,high,why,about" and len(table) == 1 + len(kept["rows"])
    assert table[1].split(",")[3] == str(kept["rows"][0]["value"])
    page.click("button[aria-label='Copy heatmap as PNG']")
    site.until("/^(Copied heatmap as PNG|Saved heatmap.png)$/.test(document.getElementById('said').textContent)")
    assert site.complaints == []


def test_a_drawing_can_do_nothing_but_draw(browser: Any, tmp_path: Path) -> None:
    figures = write_fixture(tmp_path, 12)
    chunk = site_chunk(tmp_path, "b0/figures/0", as_text=False)
    bad = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" onload="document.title=\'broken\'"><script>1</script>'
        '<foreignObject><b>x</b></foreignObject><a href="https://example.org"><text>x</text></a><image href="x.png"/>'
        '<rect width="9" height="9" style="fill:red" onclick="1" fill="url(https://example.org/#a)"/></svg>'
    )
    chunk["figures"][0] |= {"svg": bad}
    put(tmp_path, "b0/figures/0", chunk)
    context = browser.new_context()
    page = Site(tmp_path, figures, context.new_page()).open("figures")
    assert page.evaluate("[...document.querySelectorAll('.sheet-frame svg *')].map(one => one.localName)") == ["rect"]
    assert page.evaluate("[...document.querySelector('.sheet-frame rect').attributes].map(one => one.name)") == [
        "width",
        "height",
    ]
    assert page.locator(".sheet-frame svg").get_attribute("onload") is None and page.title() != "broken"
    context.close()


def test_pages_have_every_mark_that_a_model_can_have() -> None:
    marks = (ASSETS / "charts.js").read_text("utf-8").split("const MARKS = {")[1].split("};")[0]
    assert tuple(re.findall(r"(\w+): \(\) =>", marks)) == MARKS


def test_a_figure_follows_the_page_into_the_dark(browser: Any, made: tuple[Path, Figures]) -> None:
    root, figures = made
    for scheme, ground, colour in (("light", "rgb(255, 255, 255)", COLOURS[0]), ("dark", "rgb(27, 29, 33)", DARK[0])):
        context = browser.new_context(color_scheme=scheme, viewport={"width": 1440, "height": 900})
        page = Site(root, figures, context.new_page()).open("figures")
        fill = "getComputedStyle(document.querySelector('.sheet-frame svg > {}')).fill"
        assert page.evaluate(fill.format("rect")) == ground
        drawn = page.evaluate(
            "[...document.querySelectorAll('.sheet-frame svg circle')].map(one => getComputedStyle(one).fill)"
        )
        wanted = tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
        assert f"rgb{wanted}" in drawn
        context.close()


def test_columns_of_the_matrix_bear_the_letters_of_their_models(browser: Any, tmp_path: Path) -> None:
    figures = write_fixture(tmp_path, 12)
    head = site_chunk(tmp_path, "site", as_text=False)
    for model, place in zip(head["boards"][0]["models"], (2, 0, 1), strict=True):
        model |= {"place": place, "letter": "ABC"[place]}
    put(tmp_path, "site", head)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = Site(tmp_path, figures, context.new_page()).open("compare")
    letters = "[...document.querySelectorAll('.matrix {} .letter')].map(one => one.textContent)"
    assert page.evaluate(letters.format("tbody th")) == page.evaluate(letters.format("thead"))
    pairs = page.locator(".pairs .of-pair").all_text_contents()
    assert [re.findall("[ABC](?=alpha|beta|gamma)", pair) for pair in pairs] == [["A", "B"], ["A", "C"], ["B", "C"]]
    context.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    return creval_site(
        tmp_path_factory.mktemp("figures"), ("alpha", '"><script>', "نموذج الصور"), url="https://example.org/x"
    )


def test_a_model_has_one_colour_mark_and_letter_on_the_pages_and_in_files(
    written: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site, _ = written
    models = site_chunk(site, "site", as_text=False)["boards"][0]["models"]
    assert len({(one["colour"], one["mark"]) for one in models}) == len(models) == 3
    assert [one["letter"] for one in sorted(models, key=lambda one: one["place"])] == ["A", "B", "C"]
    assert figure_command("all", site.parent / "run", out=tmp_path / "drawn") == 0
    compared = 0
    for shown in site_chunk(site, "b0/figures/0", as_text=False)["figures"]:
        keys = re.findall(r'class="key">(.*)</g>', re.sub(r"var\(--\w+, (#\w+)\)", r"\1", shown["svg"]))
        assert keys == re.findall(r'class="key">(.*)</g>', (tmp_path / f"drawn/{shown['name']}.svg").read_text("utf-8"))
        for colour in re.findall(r"var\(--m(\d), (#\w+)\)", shown["svg"]):
            assert colour in {(str(one["colour"]), COLOURS[one["colour"]]) for one in models}
            compared += 1
    assert compared > 20


def test_every_number_of_the_figures_is_the_one_of_the_table(browser: Any, written: tuple[Path, Any]) -> None:
    folder, result = written
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    site = Site(folder, None, context.new_page())  # type: ignore[arg-type]
    by_slice = {
        (row.model, row.slice.get(row.slice["level"], "overall"), row.metric): row.value
        for row in result.rows(protocol="corrected")
    }
    seen = 0
    for figure in ("models", "heatmap", "dimensions", "categories"):
        page = site.open(f"figures?figure={figure}")
        for mark in page.evaluate("[...document.querySelectorAll('g.value')].map(one => ({ ...one.dataset }))"):
            if figure == "models":
                expected = by_slice[mark["category"], "overall", mark["series"]]
            else:
                expected = by_slice[mark["series"], mark["category"], mark["panel"]]
            assert float(mark["value"]) == expected, mark
            seen += 1
    assert seen >= 3 + 3 * 9 + 3 * 9 * 3 and site.complaints == []
    context.close()


def test_a_link_to_the_site_shows_a_card_and_says_what_was_found(written: tuple[Path, Any]) -> None:
    from PIL import Image

    folder, result = written
    with Image.open(folder / "card.png") as card:
        assert card.size == (1200, 630) and card.format == "PNG"
    page = (folder / "index.html").read_text("utf-8")
    tags = dict(re.findall(r'<meta property="(og:[\w:]+)" content="([^"]*)">', page))
    best = max(result.rows(protocol="corrected", metric="avg", level="overall"), key=lambda row: row.value)
    assert (
        tags["og:image"] == "https://example.org/x/card.png" and tags["og:title"] == "CREval, evaluated with RefBench"
    )
    assert f"avg {best.value:.2f}" in tags["og:description"] and "18 cases" in tags["og:description"]
    assert "<script>" not in page
    text = (folder / "README.md").read_text("utf-8")
    assert result.table.fingerprint in text and "https://arxiv.org/abs/2603.26174" in text
    assert "## Licences" in text and "Apache-2.0" in text and "from ChonghuinanWang/CREval" in text


def test_the_paper_can_be_cited_from_the_page(browser: Any, written: tuple[Path, Any]) -> None:
    context = browser.new_context()
    site = Site(written[0], None, context.new_page())  # type: ignore[arg-type]
    page = site.open("methods")
    assert page.locator("main a[href='https://arxiv.org/abs/2603.26174']").count() == 1
    assert str(page.text_content("pre.verbatim")).startswith("@misc{wang2026creval,")
    context.close()


def test_every_shipped_benchmark_has_an_entry_of_its_paper() -> None:
    for name in names():
        paper = benchmark(name).paper
        assert not arxiv_address(paper) or (
            arxiv_address(paper) in bibtex_of(paper) and bibtex_of(paper).count("@") == 1
        ), name
    assert bibtex_of(MARKUP) == arxiv_address(MARKUP) == ""


def test_links_leave_the_pages_only_for_papers(site: Site) -> None:
    page = site.open("overview")
    given = [
        "https://arxiv.org/abs/2603.26174",
        "https://arxiv.org.example.org/abs/2603.26174",
        "javascript:alert(1)",
        "//example.org",
    ]
    links = page.evaluate("all => all.map(href => refbench.h('a', { href }).getAttribute('href'))", given)
    assert links == [given[0], "#", "#", "#"]
