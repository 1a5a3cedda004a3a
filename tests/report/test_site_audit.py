"""The pages of an audit: every number is the report's own, every red cell opens the pictures behind it, and what is not
there is said."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from refbench.analysis.audit.records import NOT_VALIDATED
from refbench.builders.audit.read import audit_marks
from refbench.record import RefBenchError
from refbench.report.brief.page import write_brief
from refbench.report.site.boards import open_boards
from refbench.report.site.pages import write_site
from refbench.report.site.pictures import PictureStore
from refbench.report.site.server import LiveSite
from support.audit_runs import ARABIC, LONG, planted_audit
from support.axe import axe_source, serious
from support.campaigns import slow
from support.shown_numbers import site_chunk
from support.site_browser import Site
from support.site_figures import Figures, figures

RED = ("blind", "moved", "fooled")
KINDS = {"damages": "sees", "nuisances": "shift", "attacks": "rise", "controls": "blind"}
HEIGHT = {1440: 900, 390: 800}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_audit(tmp_path_factory.mktemp("audited"))


@pytest.fixture(scope="module")
def written(audited: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_of(audited, tmp_path_factory.mktemp("written") / "site")


def site_of(audit: Path, out: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFBENCH_CACHE", "off")
        write_site([audit], out, draws=0, pictures="thumbs")
    return out


def shown(audit: Path, run_cli: Any) -> list[dict[str, Any]]:
    """What `refbench audit show` says of every judge."""
    code, out, said = run_cli("audit", "show", audit, "--json")
    assert code == 0, said
    return list(orjson.loads(out)["judges"])


def front_door(browser: Any, root: Path, width: int = 1440, judge: str = LONG) -> Site:
    """From the first page by clicks to the tab of the audit, and to a judge."""
    context = browser.new_context(viewport={"width": width, "height": HEIGHT[width]})
    site = Site(root, NOBODY, context.new_page())
    site.page.goto(f"file://{quote(str(root))}/index.html")
    site.page.wait_for_selector("main[data-page=overview]")
    site.page.click("#tab-audit")
    site.page.wait_for_selector("main[data-page=audit] .audit-matrix")
    if site.page.locator("#choose-judge").count():
        site.page.select_option("#choose-judge", label=judge)
        site.until("name => document.querySelector('.audit .measured').textContent.includes(name)", judge)
    return site


NOBODY: Figures = figures(1, 1)


def cells(told: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(kind, cell) for kind in KINDS for cell in told[kind]]


def is_red(cell: dict[str, Any]) -> bool:
    return cell.get("verdict") in RED or bool(cell.get("guesses"))


def number(value: float, kind: str) -> str:
    """As the pages write it: a true minus, and a sign before what may be either."""
    text = f"{abs(value):.2f}"
    sign = "−" if value < 0 and float(text) else "+" if value > 0 and float(text) and kind != "damages" else ""
    return sign + text


def cell_id(kind: str, cell: dict[str, Any]) -> str:
    return f"[id='cell-{kind}-{cell['number']}-{cell['criterion']}']"


@pytest.mark.parametrize("judge", [slow(LONG), ARABIC], ids=["blind", "believes"])
def test_every_number_of_the_matrix_and_the_card_is_the_reports(
    browser: Any, audited: Path, written: Path, run_cli: Any, judge: str
) -> None:
    told = next(one for one in shown(audited, run_cli) if one["name"] == judge)
    page = front_door(browser, written, judge=judge).page
    assert page.locator(".audit-matrix a.verdict").count() == len(cells(told))
    texts = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.audit-matrix a.verdict')].map(one => [one.id, "
        "{value: one.querySelector('.value')?.textContent ?? '', said: one.textContent, title: one.title}]))"
    )
    for kind, cell in cells(told):
        there = texts[f"cell-{kind}-{cell['number']}-{cell['criterion']}"]
        figure = cell[KINDS[kind]]
        if figure["value"] is None:
            assert there["value"] == "" and figure["why"] in there["said"]
        else:
            assert there["value"] == number(figure["value"], kind), cell
            if figure["ci95"]:
                low, high = (number(end, "damages") for end in figure["ci95"])
                assert f"{low} to {high}" in there["said"]
        for kind_of_failure, n in cell["failures"].items():
            assert f"{n} {kind_of_failure}" in there["said"]
        assert (NOT_VALIDATED in there["title"]) == bool(cell.get("verdict") or cell.get("guesses"))
    rows = page.locator(".audit-card").first.locator("tbody tr").all_text_contents()
    for row, one in zip(rows, told["card"]["criteria"], strict=True):
        assert one["name"].replace("_", " ") in row and one["verdict"] in row
        for figure in (one["sees"], one["drop"], one["sd"], one["identical"], one["auc"]):
            assert (number(figure["value"], "damages") if figure["value"] is not None else figure["why"]) in row
    drawn = page.evaluate("[...document.querySelectorAll('#figure-ladders g.value')].map(one => +one.dataset.value)")
    assert drawn == [rung["drop"]["value"] for row in told["ladders"] for rung in row["rungs"]] != []
    places = page.evaluate(
        "[...document.querySelectorAll('#figure-places g.value')].map(one => one.dataset.value ? +one.dataset.value : null)"
    )
    assert places == [row["sees"]["value"] for row in told["positions"]] != []
    blind = page.evaluate("[...document.querySelectorAll('#figure-without_seeing g.value')].length")
    assert blind == len(told["controls"])
    page.context.close()


@pytest.mark.parametrize(
    ("judge", "width"), [(LONG, 390), slow(LONG, 1440), slow(ARABIC, 390), slow(ARABIC, 1440)], ids=str
)
def test_every_red_cell_opens_the_pictures_behind_it_by_mouse_and_by_keyboard(
    browser: Any, audited: Path, written: Path, run_cli: Any, judge: str, width: int
) -> None:
    told = next(one for one in shown(audited, run_cli) if one["name"] == judge)
    marks: dict[tuple[str, str, str], list[Any]] = {}
    for mark in sorted(audit_marks(audited, judge), key=lambda one: one.repeat):
        said = f"{mark.mark:.0f}" if mark.mark is not None else f"✕ {mark.failure}"
        marks.setdefault((mark.case, mark.variant, mark.criterion), []).append(said)
    site = front_door(browser, written, width, judge)
    page = site.page
    red = [(kind, cell) for kind, cell in cells(told) if is_red(cell)]
    assert page.locator(".audit-matrix a.verdict.bad").count() == len(red) > 9
    assert {kind for kind, _ in red} == ({"damages", "controls"} if judge == LONG else {"nuisances", "attacks"})
    for n, (kind, cell) in enumerate(red):
        button = page.locator(cell_id(kind, cell))
        if n % 2:
            button.click()
        else:
            button.focus()
            page.keyboard.press("Enter")
        page.wait_for_selector("dialog.audit-cell[open] .cell-case")
        assert NOT_VALIDATED in str(page.text_content(".cell-head"))
        found = page.evaluate(
            "[...document.querySelectorAll('.cell-case')].map(one => [one.dataset.case, "
            "one.querySelector('.instruction').textContent, [...one.querySelectorAll('figure')].map(figure => "
            "[figure.dataset.variant, figure.querySelector('.marks b')?.textContent ?? '', "
            "figure.querySelectorAll('.look-closer img').length, figure.querySelectorAll('.verbatim').length])])"
        )
        assert [case for case, *_ in found] == [case for case, _ in cell["worst"]] and len(found) == 5
        for case, instruction, pictures in found:
            assert int(re.findall(r"number (\d+) <b>at once</b>", instruction)[0]) == int(case[:2])
            names = [name for name, *_ in pictures]
            assert names[0] == "clean" and any(name.startswith(f"{cell['number']}:") for name in names[1:])
            for name, said, n_pictures, n_replies in pictures:
                assert said == ", ".join(marks[case, name, cell["criterion"]])
                assert n_pictures == 1 and n_replies == len(marks[case, name, cell["criterion"]])
        page.evaluate("Promise.all([...document.querySelectorAll('.audit-cell img')].map(one => one.decode()))")
        assert page.evaluate("[...document.querySelectorAll('.audit-cell img')].every(one => one.naturalWidth > 0)")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog.audit-cell", state="hidden")
        assert page.evaluate("document.activeElement.id") == cell_id(kind, cell)[5:-2], "the focus comes back"
    assert site.complaints == []
    page.context.close()


def test_a_cell_has_an_address_and_shows_what_stood_in_the_place_of_references(browser: Any, written: Path) -> None:
    site = front_door(browser, written)
    page = site.page
    page.locator(".audit-matrix a[id^='cell-damages-2-']").first.click()
    page.wait_for_selector(".audit-cell[open] .cell-case")
    strip = page.locator(".cell-case").first.locator("figure.changed .strip-of img")
    given = page.locator(".cell-case").first.locator("> .strip-of img")
    assert strip.count() == given.count() == 2
    assert strip.first.get_attribute("src") != given.first.get_attribute("src")
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(".audit-cell[open] .cell-case")
    page.locator(".cell-case a.look-closer").nth(1).click()
    page.wait_for_selector("main[data-page=case]")
    page.wait_for_selector("dialog.viewer[open]")
    page.go_back()
    page.wait_for_selector(".audit-cell[open] .cell-case")
    page.click(".cell-head .leave")
    page.wait_for_selector("dialog.audit-cell", state="hidden")
    page.locator("#figure-ladders g.value").first.click()
    page.wait_for_selector(".audit-cell[open] .cell-case")
    assert "16 blur" in str(page.text_content("#cell-title")), "a mark of a drawing opens its cell too"
    assert site.complaints == []
    page.context.close()


def test_the_words_of_a_judge_stay_text(browser: Any, written: Path) -> None:
    site = front_door(browser, written, judge=ARABIC)
    site.page.locator(".audit-matrix a.verdict.bad").first.click()
    site.page.wait_for_selector(".audit-cell[open] .cell-case")
    assert "<i>at all of it</i>" in str(site.page.locator(".audit-cell .verbatim").last.text_content())
    assert site.page.locator(".audit-cell .verbatim i").count() == 0
    site.page.context.close()


def test_a_refusal_is_shown_as_one(browser: Any, audited: Path, written: Path, run_cli: Any) -> None:
    page = front_door(browser, written, judge=ARABIC).page
    told = next(one for one in shown(audited, run_cli) if one["name"] == ARABIC)
    refused = [cell for _, cell in cells(told) if cell["failures"]]
    assert refused and all(cell["failures"] == {"refused": 1} for cell in refused)
    lost = page.locator(".audit-matrix a.verdict:has(.lost)")
    assert lost.count() == len(refused)
    assert str(lost.first.locator(".lost").text_content()) == "✕ 1 refused"
    page.context.close()


def test_verdicts_are_not_taken_along_as_a_table(browser: Any, written: Path) -> None:
    page = front_door(browser, written).page
    assert page.locator("main .taken .audit-matrix, main .taken .audit-card").count() == 0
    assert NOT_VALIDATED[1:] in str(page.text_content(".callout.unproven"))
    page.context.close()


def test_an_audit_of_one_judge_that_stopped_half_way_says_so(browser: Any, tmp_path: Path, run_cli: Any) -> None:
    audit = planted_audit(tmp_path, (ARABIC,), n_cases=12, shard="1/2")
    (told,) = shown(audit, run_cli)
    page = front_door(browser, site_of(audit, tmp_path / "site"), 390).page
    assert page.locator("#choose-judge").count() == 0
    waiting = told["card"]["n_waiting"]
    assert waiting > 0 and f"not asked about {waiting:,} outputs yet" in str(page.text_content("main"))
    assert page.locator(".audit-matrix a.verdict .value").count() == 0, "six cases give no number"
    assert page.locator(".audit-matrix a.verdict.bad").count() == 0
    assert "fewer than 20 cases" in str(page.locator(".audit-matrix a.verdict").first.text_content())
    page.locator(".audit-matrix a.verdict").first.click()
    page.wait_for_selector(".audit-cell[open] .cell-case")
    assert page.locator(".cell-case").count() == 5
    assert re.search(r"a number takes\d+ more cases", str(page.text_content(".cell-head")))
    page.context.close()


@pytest.mark.slow
def test_without_the_variants_the_page_says_what_it_does_not_know(browser: Any, tmp_path: Path) -> None:
    audit = planted_audit(tmp_path, (LONG,), n_cases=6)
    shutil.rmtree(tmp_path / "variants")
    page = front_door(browser, site_of(audit, tmp_path / "site")).page
    assert "The variants are not where they were" in str(page.text_content("main"))
    page.locator(".audit-matrix a[id^='cell-damages-1-']").first.click()
    page.wait_for_selector(".audit-cell[open] .cell-case figure.changed img")
    page.context.close()


def test_no_page_and_no_card_says_that_a_change_leads(browser: Any, audited: Path, written: Path) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"file://{quote(str(written))}/index.html")
    page.wait_for_selector("main[data-page=overview] .leaderboard")
    assert page.locator(".headline, .looks, .leaderboard .rank:visible").count() == 0
    assert not "".join(page.locator(".leaderboard tbody .place").all_text_contents()).strip()
    assert page.locator(".callout a").get_attribute("href") == "#/b0/audit"
    changes = page.locator(".leaderboard tr.own").count() - 1
    assert f"{changes} changes and clean outputs" in str(page.text_content("#top .facts"))
    head = str(page.get_attribute("meta[name=description]", "content"))
    assert head.startswith("An audit of judges") and "ahead of" not in head and "not settled" not in head
    assert "reference_swapped" not in head + (written / "README.md").read_text()
    with pytest.raises(RefBenchError, match="is an audit of judges"):
        write_brief([audited], written.parent / "brief.html", draws=0)
    context.close()


def test_beside_a_run_the_models_of_an_audit_are_counted_as_changes(audited: Path) -> None:
    own, audit = open_boards([audited.parent / "run", audited], draws=0)
    for replies in (*own.replies, *audit.replies):
        replies.close()
    changes = len(audit.models) - 1
    assert (own.audit, own.models_said) == (False, "1 model")
    assert (audit.audit, audit.models_said) == (True, f"{changes} changes and clean outputs")
    beside = own.models[0]._replace(run=len(audit.runs))
    both = replace(audit, runs=(*audit.runs, *own.runs), models=(*audit.models, beside))
    assert both.audit and both.models_said == f"1 model, {changes} changes and clean outputs"


def test_the_judge_is_called_what_its_user_calls_it(browser: Any, written: Path) -> None:
    page = front_door(browser, written, 390, ARABIC).page
    assert page.text_content(".about-card strong") == ARABIC
    (said,) = [text for text in page.locator(".audit p[dir=auto]").all_text_contents() if "In an audit of" in text]
    assert f"{ARABIC} (support.audit_runs:believes.<locals>.judge)" in said
    assert all(ARABIC in text and "locals" not in text for text in page.locator(".sheet-frame svg").all_text_contents())
    assert page.locator(".sheet-frame svg").count() > 0 and page.locator(".sideways").first.is_visible()
    page.set_viewport_size({"width": 1440, "height": 900})
    assert not page.locator(".sideways").first.is_visible()
    page.context.close()


@pytest.mark.slow
def test_a_judge_that_marked_nothing_has_no_numbers(browser: Any, tmp_path: Path) -> None:
    audit = planted_audit(tmp_path, ("refuses",), n_cases=6)
    page = front_door(browser, site_of(audit, tmp_path / "site")).page
    said = str(page.text_content("main"))
    assert "it gave no marks" in said and "Nothing could be tested" in said
    assert page.locator(".audit-matrix a.verdict .value").count() == 0
    assert "refused" in str(page.locator(".audit-matrix a.verdict").first.text_content())
    page.locator(".audit-matrix a.verdict").first.click()
    page.wait_for_selector(".audit-cell[open] .note")
    assert "No output has marks of both" in str(page.text_content(".audit-cell"))
    page.context.close()


@pytest.mark.slow
def test_a_run_that_is_no_audit_has_no_such_tab(browser: Any, audited: Path, tmp_path: Path) -> None:
    root = site_of(audited.parent / "run", tmp_path / "site")
    assert site_chunk(root, "site", as_text=False)["boards"][0]["audit"] is False
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(f"file://{quote(str(root))}/index.html#/b0/audit")
    page.wait_for_selector("main[data-page=overview]")
    assert page.locator("#tab-audit").count() == 0
    context.close()


def test_live_pages_give_the_same_audit(audited: Path, written: Path) -> None:
    live = LiveSite([audited], draws=0)
    try:
        text = live.chunk("b0/audit").decode()
        told = orjson.loads(text.partition(", ")[2].removesuffix(");\n"))
        kept = site_chunk(written, "b0/audit", as_text=False)
        assert [one["report"] for one in told["judges"]] == [one["report"] for one in kept["judges"]]
        assert isinstance(live.store, PictureStore) and live.store.thumbs
    finally:
        live.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_axe_finds_nothing_serious(
    browser: Any, written: Path, tmp_path_factory: pytest.TempPathFactory, width: int, scheme: str
) -> None:
    source = axe_source(tmp_path_factory.mktemp("axe"))
    site = front_door(browser, written, width, ARABIC)
    site.page.emulate_media(color_scheme=scheme)
    assert serious(site.page, source) == []
    site.page.locator(".audit-matrix a.verdict.bad").first.click()
    site.page.wait_for_selector(".audit-cell[open] .cell-case")
    assert serious(site.page, source) == []
    site.page.context.close()
