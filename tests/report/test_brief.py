"""The sheet for the person who decides: one A4 page in a real browser, and claims that the scores bear out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.cli.view import view_command
from refbench.engine import evaluate
from refbench.failure import Failure
from refbench.judges.panel import mean_of_judges
from refbench.pictures import decode
from refbench.record import RefBenchError
from refbench.report.brief import words
from refbench.report.brief.findings import Lead, Verdict, Verdicts, traits, verdicts
from refbench.report.brief.page import brief_sheet, environment, write_brief
from refbench.report.brief.pictures import chosen_pictures
from refbench.report.brief.view import View, open_view, parts_of, parts_with_room
from refbench.report.brief.words import clipped
from refbench.report.site.boards import Board, open_boards
from refbench.report.site.overview import board_head
from refbench.report.site.pages import write_site
from refbench.report.site.pictures import PictureStore
from refbench.tables.scoring import result_of
from refbench.tables.table import names_of, summaries
from support.brief_runs import NASTY_MODEL, Onlooker, crowd, evaluated
from support.campaigns import slow
from support.shown_numbers import brief_numbers, brief_texts, site_chunk, site_numbers
from support.site_browser import Site

DRAWS = 200


@pytest.fixture(autouse=True)
def _no_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of the same mean but with different gifts, and one that is worse than both and misses cases."""
    models = {"ruby": (0.8, 0.4, 0), "jade": (0.4, 0.8, 0), "slate": (0.15, 0.15, 4)}
    return evaluated(tmp_path_factory.mktemp("three"), models)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As much as a sheet with pictures must hold: more models than it shows, and a clear order in every part."""
    models = {f"a-model-with-a-very-long-name-{k:02d}": (0.05 + 0.08 * k, 0.5, k % 3) for k in range(11)}
    return evaluated(tmp_path_factory.mktemp("full"), models, cases=24, red=True)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated(tmp_path_factory.mktemp("alone"), {"alone": (0.7, 0.3, 1)}, cases=12)


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which every column of the table has something to say, and no model has a short name."""
    root = tmp_path_factory.mktemp("timed")
    run = evaluated(
        root, {"a-model-with-a-very-long-name-v2": (0.6, 0.4, 1), "one-that-hardly-paints-v10": (0.4, 0.4, 9)}, cases=12
    )
    with Onlooker() as server:
        judges = [f"eye=openai:gpt-4o?base_url={server.url}/v1"]
        models = ["a-baseline-with-a-very-long-name=baseline:copy"]
        evaluate(str(root / "cases.jsonl"), models=models, judges=judges, out=run, rubric="five_criteria")
    return run


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crowd(tmp_path_factory.mktemp("released"), 11)


@pytest.fixture
def board(three: Path) -> Iterator[Board]:
    (found,) = open_boards([three], draws=DRAWS)
    yield found
    found.close()


@pytest.fixture
def store() -> Iterator[PictureStore]:
    found = PictureStore("thumbs")
    yield found
    found.close()


@pytest.mark.parametrize("names", [["full"], slow(["alone"]), slow(["three", "released"]), slow(["timed"])])
def test_every_board_is_exactly_one_a4_page_with_nothing_cut_off(
    names: list[str], tmp_path: Path, browser: Any, request: pytest.FixtureRequest
) -> None:
    out = tmp_path / "brief.html"
    write_brief([request.getfixturevalue(name) for name in names], out, draws=DRAWS)
    page = browser.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda said: complaints.append(said.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda one: asked.append(one.url.split(":")[0]))
    page.goto(f"file://{out}")
    printed = page.pdf(prefer_css_page_size=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == len(names)
    boxes = re.findall(rb"/MediaBox\s*\[0 0 ([\d.]+) ([\d.]+)\]", printed)
    assert {(round(float(w)), round(float(h))) for w, h in boxes} == {(595, 842)}  # A4 in points
    sheets = page.query_selector_all(".sheet")
    sizes = [
        sheet.evaluate("s => [s.scrollHeight - s.clientHeight, s.scrollWidth - s.clientWidth]") for sheet in sheets
    ]
    assert sizes == [[0, 0]] * len(names)
    beyond = "t => t.getBoundingClientRect().right - t.closest('.sheet').querySelector('header').getBoundingClientRect().right"
    assert all(table.evaluate(beyond) < 1 for table in page.query_selector_all(".sheet table"))
    widest = "c => { c.textContent = '+0.2504 (+0.2148 to +0.2888)'; return c.scrollWidth <= c.clientWidth; }"
    assert all(cell.evaluate(widest) for cell in page.query_selector_all(".choices .clear td:last-child"))
    pictures = page.query_selector_all(".outputs img")
    heights = [picture.bounding_box()["height"] for picture in pictures]
    assert all(height > 75 for height in heights)  # two centimetres
    assert all(picture.evaluate("i => i.naturalWidth > 0") for picture in pictures)
    assert complaints == []
    assert set(asked) <= {"file", "data"}
    page.close()


def test_names_and_instructions_with_markup_stay_text(
    three: Path, released: Path, tmp_path: Path, browser: Any
) -> None:
    write_brief([three, released], tmp_path / "x.html", draws=DRAWS)
    text = (tmp_path / "x.html").read_text()
    assert "<script" not in text and "<b onclick" not in text and "<img src=x" not in text and "\u202e" not in text
    page = browser.new_page()
    page.goto(f"file://{tmp_path / 'x.html'}")
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in page.inner_text(".asked")
    assert clipped(NASTY_MODEL, 30) in page.inner_text(".scores >> nth=1")
    assert page.query_selector_all("script") == []
    page.close()


def test_the_best_and_those_who_cannot_be_told_from_it(board: Board) -> None:
    view = open_view(board)
    found = verdicts(view, parts_with_room(parts_of(view), 8, 5))
    assert found.overall is not None
    assert {found.overall.first, *found.overall.rivals} == {"ruby", "jade"}
    by_part = {one.part.title: one for one in found.parts}
    assert (by_part["instruction_alignment"].first, by_part["instruction_alignment"].rivals) == ("ruby", ())
    assert (by_part["reference_consistency"].first, by_part["reference_consistency"].rivals) == ("jade", ())
    # Two of the twelve pictures of people are missing from slate: had they been perfect, its gap would be open.
    assert {by_part["people"].first, *by_part["people"].rivals} == {"ruby", "jade", "slate"}
    assert len(by_part["visual_quality"].rivals) == 2  # the dice of the case are the same for all
    assert found.n_of_parts == 2 * len(found.parts)


def test_the_overall_verdict_is_that_of_compare(board: Board) -> None:
    found = verdicts(open_view(board), []).overall
    assert found is not None
    pairs = board.result.compare(draws=DRAWS).pairs
    for lead in found.leads:
        pair = next(p for p in pairs if {p.first, p.second} == {found.first, lead.second})
        assert pair.gap is not None and lead.gap == pytest.approx(abs(pair.gap) if lead.clear else lead.gap)
        assert lead.clear == pair.resolved
        cases = lead.wins, lead.ties, lead.losses
        assert sorted(cases) == sorted((pair.wins, pair.ties, pair.losses)) and sum(cases) == pair.n_cases


def test_values_of_parts_are_those_of_the_table(board: Board) -> None:
    view = open_view(board)
    seen = 0
    parts = parts_of(view)
    ones = np.ones((1, len(view.cases)))
    points = summaries(view.aggregate, view.filled, ones, [part.slice for part in parts])
    for n, part in enumerate(parts):
        of_part = points[n, part.measure][:, 0]
        values = dict(zip((model for model, _ in view.columns.systems), of_part, strict=True))
        assert {place.row.model: place.row.value for place in view.places(part)} == pytest.approx(values)
        for row in board.result.table.rows:
            if dict(row.slice) == part.slice.label and row.metric == part.measure:
                assert values[row.model] == pytest.approx(row.value)
                seen += 1
    assert seen == 3 * (3 + 5)  # three kinds and five criteria, of three models


def test_where_less_is_better_the_lowest_is_the_best(board: Board) -> None:
    bench = replace(board.bench, scoring=replace(board.bench.scoring, lower=frozenset({"total"})))
    found = verdicts(open_view(replace(board, result=replace(board.result, bench=bench))), []).overall
    assert found is not None
    assert found.first == "slate" and found.settled
    assert all(lead.gap is not None and lead.gap > 0 and lead.wins > lead.losses for lead in found.leads)


def test_strengths_are_where_a_model_is_above_the_others_and_more_so_than_overall(board: Board) -> None:
    view = open_view(board)
    found = traits(view, parts_of(view))
    said = {(trait.model, trait.part.title, trait.distance > 0) for trait in found.found}
    assert said == {
        ("ruby", "instruction_alignment", True),
        ("ruby", "reference_consistency", False),
        ("jade", "reference_consistency", True),
        ("jade", "instruction_alignment", False),
        ("slate", "instruction_alignment", False),
        ("slate", "reference_consistency", False),
    }
    trait = next(t for t in found.of("ruby") if t.distance > 0)
    marks: dict[str, list[float]] = {}
    for score in board.result.scores:
        if score.metric == "instruction_alignment" and score.value is not None:
            marks.setdefault(score.model, []).append(score.value)
    means = {model: float(np.mean(values)) for model, values in marks.items()}
    assert trait.distance == pytest.approx(means["ruby"] - (means["jade"] + means["slate"]) / 2)


@pytest.mark.slow
def test_a_best_model_is_seldom_left_out_and_gifts_are_seldom_made_up(board: Board) -> None:
    """Scores dealt out anew to the models, case by case: each is then as good as the best at everything."""
    view = open_view(replace(board, draws=100))
    rng = np.random.default_rng(11)
    models = [model for model, _ in view.columns.systems]
    parts = parts_with_room(parts_of(view), 8, 5)
    wrong = {"left out": 0, "clearly the best": 0, "gifts": 0}
    for _ in range(30):
        deals = {case.id: dict(zip(models, rng.permutation(models), strict=True)) for case in view.cases}
        dealt = tuple(s.model_copy(update={"model": str(deals[s.case][s.model])}) for s in view.result.scores)
        null = replace(view, result=replace(view.result, scores=dealt))
        said = verdicts(null, parts).parts
        wrong["left out"] += any("ruby" not in (one.first, *one.rivals) for one in said)
        wrong["clearly the best"] += any(one.settled for one in said)
        wrong["gifts"] += bool(traits(null, parts).found)
    # Of 30 at 5 %, more than 5 come in 1 of 300.
    assert max(wrong.values()) <= 5, wrong


def test_pictures_are_the_typical_case_and_the_two_largest_gaps(board: Board, store: PictureStore) -> None:
    weights = {"instruction_alignment": 3, "reference_consistency": 3}
    totals: dict[str, dict[str, float]] = {}
    for score in board.result.scores:
        if score.value is not None:
            of_model = totals.setdefault(score.model, {})
            of_model[score.case] = of_model.get(score.case, 0.0) + weights.get(score.metric, 1) * score.value / 9
    view = open_view(board)
    first, second = (row.model for row in view.ranked[:2])
    scenes = chosen_pictures(view, store).scenes
    assert [len(scene.shown) for scene in scenes] == [2, 2, 2]
    typical, lead, loss = (scene.case.id for scene in scenes)
    apart = {case: totals[first][case] - totals[second][case] for case in totals[first]}
    assert apart[lead] == pytest.approx(max(apart.values()))
    assert apart[loss] == pytest.approx(min(apart.values()))
    means = sorted((totals[first][case] + totals[second][case]) / 2 for case in totals[first])
    assert (totals[first][typical] + totals[second][typical]) / 2 == pytest.approx(means[(len(means) - 1) // 2])
    for scene in scenes:
        for shown in scene.shown:
            assert shown.value == pytest.approx(totals[shown.model][scene.case.id])
            assert shown.jpeg is not None and not isinstance(decode(shown.jpeg), Failure)


def test_a_model_that_is_never_ahead_is_shown_where_it_is_least_behind(board: Board, store: PictureStore) -> None:
    first, second = (row.model for row in open_view(board).ranked[:2])
    lowered = tuple(
        s if s.model != second or s.value is None else s.model_copy(update={"value": s.value - 20})
        for s in board.result.scores
    )
    view = open_view(replace(board, result=replace(board.result, scores=lowered)))
    scenes = chosen_pictures(view, store).scenes
    assert [scene.why for scene in scenes] == ["Typical", f"{first} furthest ahead", f"{second} least behind"]
    assert len({scene.case.id for scene in scenes}) == 3


def test_a_part_that_is_called_by_a_number_says_of_what(board: Board) -> None:
    cases = [c.model_copy(update={"groups": {"subjects": str(1 + n % 2)}}) for n, c in enumerate(board.cases)]
    numbered = result_of(board.bench, cases, list(board.result.scores), draws=0)
    titles = {part.title for part in parts_of(open_view(replace(board, result=numbered)))}
    assert {"subjects 1", "subjects 2"} <= titles


def test_a_single_model_shows_six_pictures_from_worst_to_best(alone: Path, store: PictureStore) -> None:
    (found,) = open_boards([alone], draws=DRAWS)
    scenes = chosen_pictures(open_view(found), store).scenes
    values = [scene.shown[0].value for scene in scenes]
    assert len(values) == 6 and values == sorted(values)
    found.close()


def test_the_sheet_says_who_failed_what_it_rests_on_and_what_it_leaves_out(
    three: Path, released: Path, tmp_path: Path
) -> None:
    text = write_brief([three], tmp_path / "a.html", draws=DRAWS).path.read_text()
    (board,) = open_boards([three], draws=DRAWS)
    board.close()
    assert f"<code>{board.result.table.fingerprint}</code>" in text
    assert "slate 4 (no picture)" in text and "32 of 36" in text
    assert "opinion of one judge, the model eye (rubric five_criteria; weights unverified: eye), not of people" in text
    assert "Chosen by rule, not by eye" in text
    text = write_brief([released], tmp_path / "b.html", draws=DRAWS).path.read_text()
    assert "The runs hold no pictures that the models made" in text
    assert "Not known for these runs: refusals, seconds a picture, $ a picture." in text
    assert "1 model more in the full table." in text


def test_the_command_writes_where_it_is_told_and_the_same_bytes_twice(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert view_command(three, brief=True) == 0
    assert "1 A4 page to print. Open" in capsys.readouterr().out
    before = (tmp_path / "brief.html").read_bytes()
    assert view_command(three, brief=True, out=tmp_path / "new folder") == 0
    assert (tmp_path / "new folder/brief.html").read_bytes() == before
    assert view_command(three, brief=True) == 0  # over an earlier one
    (tmp_path / "mine.html").write_text("<p>mine</p>")
    with pytest.raises(RefBenchError, match=r"mine\.html is there and was not written by --brief"):
        view_command(three, brief=True, out=tmp_path / "mine.html")
    assert (tmp_path / "mine.html").read_text() == "<p>mine</p>"
    (tmp_path / "notes.txt").touch()
    with pytest.raises(RefBenchError, match=r"notes\.txt is a file: give a directory"):
        view_command(three, brief=True, out=tmp_path / "notes.txt")


def test_templates_escape_everything_that_is_not_markup() -> None:
    page = environment().from_string(
        "{% macro i(x) %}<i>{{ x }}</i>{% endmacro %}<p title=\"{{ '\"' }}\">{{ x }}{{ i('&') }}</p>"
    )
    assert page.render(x="<b>") == '<p title="&#34;">&lt;b&gt;<i>&amp;</i></p>'
    assert page.render(x="a\u202eb\x00c") == '<p title="&#34;">abc<i>&amp;</i></p>'
    assert clipped("a-long-name-v2", 10) == "a-long…-v2"


def shortened(board: Board, kept: int, model: str = "ruby") -> Board:
    """The board with a model's scores refused but for a few cases."""
    few = {case.id for case in board.cases[:kept]}
    gone = {"value": None, "failure": Failure(kind="refused")}
    scores = [
        s.model_copy(update=gone) if s.model == model and s.value is not None and s.case not in few else s
        for s in board.result.scores
    ]
    return replace(board, result=result_of(board.bench, board.cases, scores, draws=DRAWS))


def test_a_model_with_few_scores_is_not_chosen_and_its_count_is_said(board: Board) -> None:
    best = next(row.model for row in open_view(board).rows)
    view = open_view(shortened(board, 3, best))
    assert [place.rank for place in view.order] == [1, 2, None]
    assert view.order[-1].row.model == best
    said = verdicts(view, parts_with_room(parts_of(view), 8, 5))
    assert all(best not in (one.first, *one.rivals) for one in (said.overall, *said.parts) if one is not None)
    assert f"{best} is not ranked: only 3 of 36 scored." in words.failures(view)
    assert best not in view.ranks


def lead_over(other: str, **facts: Any) -> Lead:
    return Lead(first="ruby", second=other, judge="eye", second_judge="eye", n_cases=30, **facts)


def test_a_first_that_is_behind_on_the_shared_cases_is_said_so(board: Board) -> None:
    lead = lead_over("jade", gap=-0.08, ci95=(-0.3, 0.1), wins=9, ties=1, losses=20)
    view = open_view(board)
    verdict = Verdict(view.overall, "ruby", 5.0, (lead,))
    text = " ".join(words.confidence(view, Verdicts(verdict, (), 1, 0)))
    assert (
        "ruby has the best score over the cases it has; on the 30 that jade has as well it is 0.08 points behind"
        in text
    )
    assert "Case by case it is better in 9, level in 1 and worse in 20." in text
    assert "ahead of the next" not in text
    sure = lead.model_copy(update={"ci95": (-0.2, -0.01), "p_adjusted": 0.01})
    clear = replace(verdict, leads=(sure,))
    assert words.headline(view, clear) == (
        "No single best: ruby comes first, but jade is ahead of it on the cases that both have"
    )


def test_a_lead_that_failures_could_undo_is_not_called_luck(board: Board) -> None:
    failed = {"undone": True, "bounds": (-0.4, 1.1), "bounds_ci95": (-0.5, 1.2)}
    lead = lead_over("slate", gap=0.5, ci95=(0.3, 0.7), p_adjusted=0.01, wins=20, ties=1, losses=9, **failed)
    view = open_view(board)
    verdict = Verdict(view.overall, "ruby", 5.0, (lead,))
    assert words.headline(view, verdict) == "ruby comes first, but what failed could undo its lead over slate"
    text = " ".join(words.confidence(view, Verdicts(verdict, (), 1, 0)))
    assert "ahead fits the data, but what failed could have scored so that nothing is left of it." in text
    assert "luck" not in text and "redrawn" not in text
    together = lead.model_copy(update={"bounds": (0.1, 1.6), "bounds_ci95": (-0.27, 1.99)})
    verdict = Verdict(view.overall, "ruby", 5.0, (together,))
    text = " ".join(words.confidence(view, Verdicts(verdict, (), 1, 0)))
    assert "but with what failed and chance together anything from 0.27 behind to 1.99 ahead does." in text
    assert words.headline(view, verdict) == (
        "ruby comes first, but what failed and chance together could undo its lead over slate"
    )
    chance = lead_over("jade", gap=0.5, ci95=(-0.1, 0.4))
    assert words.headline(view, Verdict(view.overall, "ruby", 5.0, (chance, lead))) == (
        "No model stands out: ruby comes first, but its lead over jade may be chance, and what failed could undo that "
        "over slate"
    )


def test_a_lead_in_a_measure_of_which_less_is_better_is_called_ahead(board: Board) -> None:
    bench = replace(board.bench, scoring=replace(board.bench.scoring, lower=frozenset({"total"})))
    view = open_view(replace(board, result=replace(board.result, bench=bench)))
    text = " ".join(words.confidence(view, verdicts(view, [])))
    assert re.match(
        r"slate is [\d.]+ points ahead of the next, (ruby|jade); anything from .* ahead fits the data", text
    )


def test_pictures_that_are_there_are_not_denied(board: Board, store: PictureStore) -> None:
    gone = {"value": None, "failure": Failure(kind="refused")}
    scores = [s.model_copy(update=gone) for s in board.result.scores]
    none = replace(board, result=result_of(board.bench, board.cases, scores, draws=0))
    view = open_view(none)
    assert words.headline(view, verdicts(view, []).overall) == "No model has a score yet"
    rule = chosen_pictures(view, store).rule
    assert rule == (
        "None is shown: the 104 outputs with pictures in the runs are of jade, ruby, slate, and no model of these is ranked."
    )


def test_site_and_brief_show_the_same_numbers_of_the_same_judge(three: Path, tmp_path: Path) -> None:
    write_site([three], tmp_path / "site", draws=DRAWS)
    found = brief_numbers(write_brief([three], tmp_path / "x.html", draws=DRAWS).path)
    site = site_numbers(tmp_path / "site")
    head = site_chunk(tmp_path / "site", "site")["boards"][0]
    assert {key[1] for key in found} == {head["judges"][int(head["judge"]["corrected"])]} == {"eye"}
    assert len(found) == 3
    for key, shown in found.items():
        there = site[key]
        assert shown.text == f"{float(there.text or ''):.2f}"
        assert shown.interval == tuple(f"{float(end):.2f}" for end in there.interval or ())
        assert (shown.scored, shown.expected) == (there.scored, there.expected)
    said = " ".join(brief_texts(tmp_path / "x.html"))
    assert "judge eye" in said and "rubric five_criteria" in said and "protocol corrected" in said


def test_what_the_site_shows_is_the_table(three: Path, tmp_path: Path) -> None:
    write_site([three], tmp_path / "site", draws=DRAWS)
    (board,) = open_boards([three], draws=DRAWS)
    board.close()
    site = site_numbers(tmp_path / "site")
    for row in board.result.table.rows:
        shown = site[row.model, row.judge, row.protocol, row.metric, tuple(sorted(row.slice.items()))]
        assert shown.text == (None if row.value is None else json.dumps(row.value))
        assert shown.interval == (row.ci95 and tuple(json.dumps(end) for end in row.ci95))
        assert shown.bounds == (row.bounds and tuple(json.dumps(end) for end in row.bounds))
        assert [shown.expected, shown.scored, shown.not_asked] == [
            str(n) for n in (row.n_expected, row.n_scored, row.n_not_asked)
        ]
        assert dict(shown.failures) == {kind: str(n) for kind, n in row.failures.items()}


def test_the_mean_of_the_judges_comes_first_where_it_is_the_number_of_the_benchmark(board: Board) -> None:
    other = [
        s.model_copy(update={"judge": "another", "value": None if s.value is None else s.value / 2})
        for s in board.result.scores
    ]
    both = [*board.result.scores, *other]
    apart = replace(board, result=result_of(board.bench, board.cases, both, draws=0))
    assert (apart.judge_for("corrected"), open_view(apart).judge) == ("another", "another")
    bench = replace(board.bench, scoring=replace(board.bench.scoring, judges_mean=True))
    panel = replace(board, result=result_of(bench, board.cases, [*both, *mean_of_judges(both)], draws=0))
    assert open_view(panel).judge == "mean"
    head = board_head(panel)
    assert head["judges"][head["judge"]["corrected"]] == "mean"
    assert head["judge_titles"][head["judge"]["corrected"]] == "mean of another, eye"


def test_cases_without_a_tag_are_called_so() -> None:
    assert names_of({"level": "tag", "tag": "text", "has": "no"}) == ["without text"]
    assert names_of({"level": "tag", "tag": "text", "has": "yes"}) == ["text"]
    assert names_of({"level": "dimension", "category": "a", "dimension": "b"}) == ["a", "b"]


def test_pages_give_the_true_reason_why_a_pair_is_not_resolved(tmp_path: Path, browser: Any) -> None:
    """Far ahead on the cases that both have, and a third of its own are gone."""
    run = evaluated(tmp_path / "w", {"ruby": (0.7, 0.5, 12), "jade": (0.5, 0.5, 0)}, red=True)
    write_site([run], tmp_path / "site", draws=DRAWS)
    (pair,) = site_chunk(tmp_path / "site", "b0/compare", as_text=False)["pairs"]
    assert pair["p_adjusted"] < 0.05 and not pair["resolved"]
    assert pair["undone"] == "what failed"
    site = Site(tmp_path / "site", None, browser.new_page())
    site.open("overview")
    site.page.wait_for_selector(".headline >> text=What failed could undo its lead over jade.")
    page = site.open("compare")
    assert "○ what failed could undo it" in str(page.text_content("table.pairs"))
    assert "cannot tell" not in str(page.text_content("main"))
    assert site.complaints == []


def lacking(board: Board, models: str, failures: dict[str, Failure], refusals: str = "conditional") -> View:
    """The board with failures of models in place of their scores of some cases."""
    scores = [
        s.model_copy(update={"value": None, "failure": failures[s.case]})
        if s.model in models and s.case in failures
        else s
        for s in board.result.scores
    ]
    result = result_of(board.bench, board.cases, scores, draws=0, refusals=refusals)
    return open_view(replace(board, result=result))


def test_a_sheet_tells_the_models_own_failures_from_those_of_judges_and_cases(board: Board) -> None:
    own, judge = Failure(kind="refused", by_model=True), Failure(kind="refused")
    lost = Failure(kind="unreadable_picture", detail="4.png: No such file or directory")
    view = lacking(board, "ruby", {"case00": own, "case01": own, "case02": judge, "case04": lost, "case05": lost})
    text = " ".join(words.failures(view))
    assert "ruby 5 (2 a picture of the case is missing or broken, 2 declined, 1 declined by the judge)" in text
    assert "Had the failed ones of ruby all been worst" in text or view.ranked[0].model != "ruby"


def test_bounds_on_a_sheet_are_about_failures_that_have_no_value(board: Board) -> None:
    own, judge = Failure(kind="refused", by_model=True), Failure(kind="refused")
    view = lacking(board, "ruby jade", {"case00": own}, "worst")
    text = " ".join(words.failures(view))
    assert "Counted as the worst value: " in text and "ruby 1" in text
    assert "all been worst, or all best" not in text
    view = lacking(board, "ruby jade", {"case00": own, "case01": judge}, "worst")
    text = " ".join(words.failures(view))
    assert f"Had the other failed ones of {view.ranked[0].model} all been worst, or all best" in text


def test_the_case_in_which_a_model_is_furthest_ahead_is_shown_as_that_also_where_it_is_the_middle_one(
    board: Board, store: PictureStore
) -> None:
    view = open_view(board)
    first, second = (row.model for row in view.ranked[:2])
    kept = [case.id for case in view.cases[:5]]
    leads = dict(zip(kept, (9, 7, 5, 3, 1), strict=True))
    means = dict(zip(kept, (5.0, 4.4, 4.8, 5.2, 5.6), strict=True))
    scores = []
    for s in board.result.scores:
        if s.case in kept and s.model in (first, second):
            way = 0.5 if s.model == first else -0.5
            scores.append(s.model_copy(update={"value": means[s.case] + way * leads[s.case], "failure": None}))
    cases = tuple(case for case in board.cases if case.id in kept)
    scenes = chosen_pictures(
        open_view(replace(board, result=result_of(board.bench, cases, scores, draws=0))), store
    ).scenes
    said = {scene.why: scene.case.id for scene in scenes}
    assert said[f"{first} furthest ahead"] == kept[0], "in the middle by its mean, and 9 ahead"
    assert said[f"{second} least behind"] == kept[4]
    assert len(set(said.values())) == 3


def test_models_that_are_level_are_called_level(board: Board) -> None:
    view = open_view(board)
    lead = lead_over("jade", gap=-1e-12, ci95=(-0.3, 0.3), ties=30)
    said = " ".join(words.confidence(view, Verdicts(Verdict(view.overall, "ruby", 5.0, (lead,)), (), 1, 0)))
    assert said.startswith("ruby and the next, jade, are level on the 30 cases both have; ")


def test_a_run_that_has_just_begun_is_not_judged_by(board: Board, tmp_path: Path) -> None:
    scores = [
        s if s.case == "case00" else s.model_copy(update={"value": None, "failure": None, "not_asked": True})
        for s in board.result.scores
        if s.model != "slate"
    ]
    begun = replace(board, result=result_of(board.bench, board.cases, scores, draws=0))
    text = re.sub(r"<[^>]*>", " ", brief_sheet(begun, PictureStore("thumbs")))
    assert "all 0 figures" not in text
    assert "of the 1 cases" not in text
    assert "cannot tell" not in text
