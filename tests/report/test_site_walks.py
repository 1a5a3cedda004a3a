"""The pages as people use them: tabs, links, keys and the way back, on three widths and with one to forty models; every
number on them against the table; what they say to readers who do not see them; and that nothing moves under a finger.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support.axe import axe_source, serious
from support.campaigns import slow
from support.shown_numbers import site_chunk
from support.site_browser import PAGES, Site
from support.site_figures import JUDGES, Figures, instruction
from support.site_fixture import creval_site, put, write_fixture

HEIGHT = {1440: 900, 800: 1000, 390: 844}
N_CASES = 60


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Path, Figures]]:
    root = tmp_path_factory.mktemp("walks")
    return {n: (root / str(n), write_fixture(root / str(n), N_CASES, n)) for n in (1, 3, 9, 40)}


def opened(browser: Any, made: tuple[Path, Figures], width: int, **options: Any) -> Site:
    context = browser.new_context(viewport={"width": width, "height": HEIGHT[width]}, **options)
    return Site(*made, context.new_page())


def front(site: Site) -> Any:
    site.page.goto(f"file://{quote(str(site.root))}/index.html")
    site.page.wait_for_selector("main[data-page=overview]")
    return site.page


SHAPES = [(n, width) for n in (1, 3, 9, 40) for width in (1440, 800, 390)]


@pytest.mark.parametrize(
    ("n_models", "width"), [shape if shape == (9, 390) else slow(*shape) for shape in SHAPES], ids=str
)
def test_every_tab_and_every_kind_of_link_opens_and_the_way_back_leads_home(
    browser: Any, sites: dict[int, tuple[Path, Figures]], n_models: int, width: int
) -> None:
    site = opened(browser, sites[n_models], width)
    page = front(site)
    for name in PAGES:
        page.click(f"#tab-{name}")
        page.wait_for_selector(f"main[data-page={name}]")
        inside = "(() => { const box = document.querySelector('.tabs [aria-current]').getBoundingClientRect(); return box.left >= 0 && box.right <= innerWidth; })()"
        assert page.evaluate(inside), f"the tab {name} is in sight"
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        here = page.url
        for target in page.evaluate(KINDS_OF_LINKS):
            page.evaluate('target => document.querySelector(`main a[href="${CSS.escape(target)}"]`).click()', target)
            site.until("target => location.hash === target", target)
            page.wait_for_selector("main[data-page] > .page")
            assert "cannot be shown" not in str(page.text_content("main")), target
            assert page.evaluate("document.documentElement.scrollWidth") <= width, target
            page.go_back()
            site.until("url => location.href === url", here)
    assert site.complaints == []
    page.context.close()


KINDS_OF_LINKS = """() => {
  const kinds = new Map();
  for (const link of document.querySelectorAll('main a[href^="#"]')) {
    const [path, query = ''] = link.getAttribute('href').split('?');
    const kind = [path.split('/')[2], ...[...new URLSearchParams(query)].map(([name, value]) => (name === 'filter' ? value : name)).sort()].join(' ');
    if (!kinds.has(kind) && link.getAttribute('href') !== location.hash) kinds.set(kind, link.getAttribute('href'));
  }
  return [...kinds.values()];
}"""


@pytest.mark.parametrize(("n_models", "width"), [(3, 390), slow(3, 1440), slow(40, 390), slow(40, 1440)], ids=str)
def test_nothing_moves_while_a_page_is_being_read(
    browser: Any, sites: dict[int, tuple[Path, Figures]], n_models: int, width: int
) -> None:
    site = opened(browser, sites[n_models], width)
    site.page.add_init_script(
        "window.shifted = 0; new PerformanceObserver(list => list.getEntries().forEach(one => { if (!one.hadRecentInput) "
        "window.shifted += one.value; })).observe({ type: 'layout-shift', buffered: true });"
    )
    for address in (*PAGES, f"case/{quote(site.figures.ids[1], safe='')}"):
        page = site.open(address)
        page.wait_for_timeout(250)
        assert page.evaluate("window.shifted") < 0.05, address
    page.context.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return axe_source(tmp_path_factory.mktemp("axe"))


@pytest.mark.slow
@pytest.mark.parametrize(("n_models", "width"), [(3, 1440), (9, 390)], ids=str)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    browser: Any, sites: dict[int, tuple[Path, Figures]], axe: str, n_models: int, width: int, scheme: str
) -> None:
    site = opened(browser, sites[n_models], width, color_scheme=scheme)
    case = f"case/{quote(site.figures.ids[4], safe='')}"
    for address in (*PAGES, case, f"{case}?zoom=ref-0&mode=all"):
        page = site.open(address)
        assert serious(page, axe) == [], f"{address}, {scheme}, {width}"
    page.context.close()


def test_the_keyboard_reaches_everything_and_shows_where_it_is(
    browser: Any, sites: dict[int, tuple[Path, Figures]]
) -> None:
    site = opened(browser, sites[3], 1440)
    page = front(site)
    seen = []
    for _ in range(25):
        page.keyboard.press("Tab")
        name, outlined = page.evaluate(
            "(() => { const at = document.activeElement; return [at.getAttribute('aria-label') || at.textContent.trim() || at.id, "
            "getComputedStyle(at).outlineStyle !== 'none']; })()"
        )
        assert name and outlined, f"{name!r} after {seen}"
        seen.append(name)
    assert seen[0] == "Skip to the page" and "Cases" in seen and "corrected" in seen
    page.focus("#tab-cases")
    page.keyboard.press("Enter")
    page.wait_for_selector("main[data-page=cases]")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_selector("main[data-page=case]")
    assert page.text_content("h1.id") == site.figures.ids[1]
    page.go_back()
    page.wait_for_selector("main[data-page=cases]")
    page.context.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The site of a run of CREval's own kind, and its table."""
    return creval_site(tmp_path_factory.mktemp("numbers"), ("alpha", "beta", "gamma"))


def minus(text: str) -> str:
    return text.replace("−", "-").replace(",", "")


def test_every_number_of_the_overview_is_the_one_of_the_table(browser: Any, written: tuple[Path, Any]) -> None:
    folder, result = written
    head = site_chunk(folder, "site", as_text=False)["boards"][0]
    site = Site(folder, None, browser.new_context(viewport={"width": 1440, "height": 4000}).new_page())  # type: ignore[arg-type]
    for protocol, measures in head["measures"].items():
        for measure in measures:
            page = site.open(f"overview?protocol={protocol}&measure={quote(measure['name'])}&published=no")
            rows = {row.model: row for row in result.rows(protocol=protocol, metric=measure["name"], level="overall")}
            shown = page.locator(".leaderboard tr.own")
            assert shown.count() == len(rows) == 3
            for at in range(3):
                line = shown.nth(at)
                row = rows[str(line.locator(".name a").text_content())]
                digits = measure["digits"]
                assert minus(str(line.locator(".main").text_content())) == f"{row.value:.{digits}f}"
                interval = re.findall(r"-?[\d.]+", minus(str(line.locator(".interval").text_content())))
                assert interval[:2] == [f"{end:.{digits}f}" for end in row.ci95]
                assert line.locator(".coverage .figures").text_content() == f"{row.n_scored}/{row.n_expected}"
    for level in [level for level in head["levels"] if level != "overall"]:
        page = site.open(f"overview?level={level}")
        summary = next(m for m in head["measures"]["corrected"] if m["name"] == head["summary"]["corrected"])
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        cells = page.evaluate(
            "[...document.querySelectorAll('details .frame tbody td > span')].map(one => one.firstChild.textContent)"
        )
        of_level = result.rows(protocol="corrected", metric=summary["name"], level=level)
        if of_level:  # those by number of references and by tag are the pages' own
            assert sorted(map(minus, cells)) == sorted(f"{row.value:.{summary['digits']}f}" for row in of_level)
    assert site.complaints == []
    page.context.close()


def test_every_number_of_the_cases_is_the_cases_own_score(browser: Any, written: tuple[Path, Any]) -> None:
    folder, result = written
    head = site_chunk(folder, "site", as_text=False)["boards"][0]
    site = Site(folder, None, browser.new_context(viewport={"width": 1440, "height": 4000}).new_page())  # type: ignore[arg-type]
    page = site.open("cases")
    scores = {(s.model, s.case, s.metric): s.value for s in result.scores if s.protocol == "corrected"}
    order = [str(one) for one in page.locator(".rows-head .full").all_text_contents()]
    assert order == [m["name"] for m in sorted(head["models"], key=lambda model: model["place"])]
    digits = next(m["digits"] for m in head["measures"]["corrected"] if m["name"] == "avg")
    for row in page.locator(".case-rows li").all():
        case = str(row.locator(".id").text_content())
        for model, shown in zip(order, row.locator(".value").all_text_contents(), strict=True):
            parts = [scores[model, case, metric] for metric in ("IF", "VC", "VQ")]
            expected = (
                "✕" if None in parts else f"{100 * (0.4 * parts[0] + 0.4 * parts[1] + 0.2 * parts[2]):.{digits}f}"
            )
            assert shown == expected, (case, model)
    page.locator(".case-rows a").first.click()
    page.wait_for_selector("main[data-page=case]")
    case = str(page.text_content("h1.id"))
    for model, column in zip(order, page.locator("article.model").all(), strict=True):
        names, values = (column.locator(f".scores {tag}").all_text_contents() for tag in ("dt", "dd"))
        of_case = {name: scores[model, case, name] for name in ("IF", "VC", "VQ")}
        assert dict(zip(names, values, strict=True)) == {
            name: f"{100 * value:.{digits}f}" for name, value in of_case.items()
        }, "in per cent, as the total above them"
    page.context.close()


def test_tables_are_sorted_narrowed_and_taken_along_as_they_stand(
    browser: Any, sites: dict[int, tuple[Path, Figures]]
) -> None:
    site = opened(browser, sites[3], 1440)
    page = site.open("overview?published=no")
    names = ".leaderboard tr.own .name bdi"
    page.click(".leaderboard th:nth-child(2) button.sort")
    assert page.locator(names).all_text_contents() == ["alpha", "beta<b>", "gamma"]
    page.click(".leaderboard th:nth-child(2) button.sort")
    assert page.locator(names).all_text_contents() == ["gamma", "beta<b>", "alpha"]
    table = "refbench.asText(document.querySelector('.leaderboard'), {!r})"
    markdown = page.evaluate(table.format("Markdown")).split("\n")
    assert "beta<b>" in markdown[3] and markdown[0].startswith("|  | Model | total | 95 % interval |")
    page.click("summary:has-text('Columns')")
    page.uncheck("label:has-text('95 % interval') input")
    assert "interval" not in page.evaluate(table.format("CSV"))
    latex = page.evaluate(table.format("LaTeX"))
    assert latex.startswith("\\begin{tabular}") and "beta$<$b$>$" in latex and "%" not in latex.replace("\\%", "")
    page.context.close()


def test_names_that_begin_alike_are_told_apart_and_those_from_the_right_keep_to_themselves(
    browser: Any, sites: dict[int, tuple[Path, Figures]]
) -> None:
    site = opened(browser, sites[40], 1440)
    page = site.open("overview?published=no")
    shown = page.locator(".leaderboard tr.own .name bdi").all_text_contents()
    assert len(set(shown)) == 40 and max(map(len, shown)) < 24
    assert sum(name.startswith("…step-") for name in shown) == 34
    long = page.locator(".leaderboard tr.own .name a", has_text="…step-000500")
    assert str(long.get_attribute("title")).endswith("/step-000500.safetensors")
    turned = next(name for name in shown if name.startswith("\u2068"))
    assert turned == "\u2068نموذج الصور\u2069"
    page.context.close()


def test_many_models_leave_the_instruction_its_room_and_can_be_chosen(
    browser: Any, sites: dict[int, tuple[Path, Figures]]
) -> None:
    site = opened(browser, sites[40], 1440)
    page = site.open("cases")
    room = "document.querySelector('.case-link .about').getBoundingClientRect().width"
    assert page.evaluate(room) >= 250
    before = page.locator(".case-rows li").first.locator(".cell").nth(20).bounding_box()
    page.evaluate("document.querySelector('.rows-head .cells').scrollLeft = 820")
    there = "x => document.querySelectorAll('.case-rows li:first-child .cell')[20].getBoundingClientRect().x === x"
    site.until(there, before["x"] - 820 if before else None)
    after = page.locator(".case-rows li").first.locator(".cell").nth(20).bounding_box()
    head = page.locator(".rows-head .cell").nth(20).bounding_box()
    assert before and after and head and before["x"] - after["x"] == 820 and abs(head["x"] - after["x"]) < 1
    page.click("#models-summary")
    page.click("#models-menu a:has-text('best 4')")
    site.until("document.querySelectorAll('.rows-head .cell').length === 4")
    assert page.locator(".case-rows li").first.locator(".cell").count() == 4
    page.locator(".case-link").first.click()
    page.wait_for_selector("main[data-page=case]")
    assert page.locator("article.model").count() == 4
    page.context.close()


def test_the_viewer_keeps_its_mode_from_case_to_case_and_compares_no_picture_with_itself(
    browser: Any, sites: dict[int, tuple[Path, Figures]]
) -> None:
    site = opened(browser, sites[9], 1440)
    ids = site.figures.ids
    page = site.case(ids[1], "?zoom=out-0-0-f-0&with=out-2-0-f-0&mode=flip")
    page.wait_for_selector("dialog.viewer[open]")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
        chosen = [page.input_value("#viewer-zoom"), page.input_value("#viewer-with")]
        assert chosen[0] != chosen[1]
    page.click("#viewer-mode-all")
    page.wait_for_selector(".panes figure")
    for case in ids[2:4]:
        page.keyboard.press("j")
        site.until(
            "id => document.querySelector('h1.id')?.textContent === id && document.querySelector('dialog[open] .panes:not([hidden]) figure')",
            case,
        )
    assert page.text_content(".viewer .asked") == instruction(3)
    captions = page.locator(".panes figcaption").all_text_contents()
    value = site.figures.values[0][3][3]
    assert f"delta, seed 0 · total {value:.2f}" in captions or "total ✕" in captions[4]
    page.locator(".panes .pane").nth(1).hover()
    page.mouse.wheel(0, -400)
    moved = page.evaluate("[...document.querySelectorAll('.panes .stage')].map(one => one.style.transform)")
    assert len(set(moved)) == 1 and "scale(1)" not in moved[0] and len(moved) == len(captions)
    page.context.close()


def test_where_nothing_is_scored_the_page_says_what_happened_and_what_to_do(browser: Any, tmp_path: Path) -> None:
    figures = write_fixture(tmp_path, 12)
    board = site_chunk(tmp_path, "b0/board", as_text=False)
    for row in board["rows"]:
        nothing = {"value": None, "ci95": None, "bounds": None, "rank": None, "rank95": None, "first": None}
        row |= {**nothing, "n_scored": 0, "n_not_asked": 2, "failures": {"not_measured": row["n_expected"] - 2}}
    put(tmp_path, "b0/board", board)
    site = opened(browser, (tmp_path, figures), 1440)
    page = site.open("overview")
    said = str(page.text_content(".nothing"))
    assert (
        "Of 36 pictures of 3 models none has total: 60 pictures are there; 6 have not been asked for yet; 30 not measured"
        in said
    )
    assert "the same command again" in said and page.locator(".leaderboard tr.own").count() == 0
    page.context.close()


def test_search_takes_phrases_in_quotes_and_words_to_leave_out(
    browser: Any, sites: dict[int, tuple[Path, Figures]]
) -> None:
    site = opened(browser, (sites[3][0], sites[3][1]), 1440)
    site.page.set_viewport_size({"width": 1440, "height": 6000})
    everyone = [(f_id, instruction(i).lower()) for i, f_id in enumerate(site.figures.ids)]
    for query, wanted in (
        ('"of image 14 on"', [i for i, text in everyone if "of image 14 on" in text]),
        (
            "mat -outdoors",
            [i for n, (i, text) in enumerate(everyone) if "mat" in text and site.figures.groups[n] != "outdoors"],
        ),
        ('"14 image"', []),
    ):
        site.open(f"cases?q={quote(query)}")
        assert site.listed() == wanted, query


def test_the_colours_can_be_switched_and_stay_so(browser: Any, sites: dict[int, tuple[Path, Figures]]) -> None:
    site = opened(browser, sites[1], 1440, color_scheme="light")
    page = front(site)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) == light
    page.click("#theme")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    page.wait_for_selector("main[data-page=overview]")
    assert page.evaluate(ground) == dark
    page.context.close()


def test_a_list_of_cases_prints_its_rows_and_no_empty_sheets(
    browser: Any, sites: dict[int, tuple[Path, Figures]]
) -> None:
    site = opened(browser, sites[3], 1440)
    page = site.open("cases")
    sheets = len(re.findall(rb"/Type /Page\b", page.pdf()))
    assert page.locator(".case-rows li").count() < N_CASES, "on the screen only rows in sight are drawn"
    assert 2 <= sheets <= 8, "sixty rows, eight to sixteen on a sheet"
    page.context.close()


def test_colours_of_models_differ_for_readers_who_do_not_see_all_of_them() -> None:
    from support.colours import CONTRAST, DISTANCE, contrast, distances, model_colours

    for scheme in (0, 1):
        ground, colours = model_colours(scheme)
        assert len(colours) == 8
        assert min(contrast(colour, ground) for colour in colours) >= CONTRAST
        assert min(distances(colours)) >= DISTANCE


@pytest.mark.slow
def test_judges_are_missing_only_where_none_was_asked(browser: Any, tmp_path: Path) -> None:
    figures = write_fixture(tmp_path, 12)
    put(tmp_path, "b0/agreement", {"pairs": [], "components": [], "notes": []})
    site = opened(browser, (tmp_path, figures), 1440)
    assert "No two judges have marked" in str(site.open("agreement").text_content("main"))
    head = site_chunk(tmp_path, "site", as_text=False)
    for judges, said in (([JUDGES[0]], "There is one judge,"), ([None], "No judge was asked,")):
        head["boards"][0] |= {"judges": judges, "judge_titles": judges, "judge": {"corrected": 0, "paper": 0}}
        put(tmp_path, "site", head)
        text = str(site.open("agreement").text_content("main"))
        assert said in text and "`" not in text
    site.page.context.close()
