"""Figures: every number in them is the table's, what has no number or too little of one is drawn as that, names are told
apart, and the same model looks the same everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from refbench.benchmarks import benchmark
from refbench.cli.describe import describe_command
from refbench.cli.figure import figure_command
from refbench.record import RefBenchError
from refbench.report.figures import FigureOptions, available, figure, names
from refbench.report.figures.chart import value_of
from refbench.report.figures.palette import COLOURS, DARK, short_names, style_of, styles_of
from refbench.report.figures.svg import isolated, shown, wrapped
from refbench.report.site.figures import THEME, themed
from refbench.tables.result import Result
from refbench.tables.scoring import released_result
from refbench.tables.table import Estimate, ranked
from support.colours import CONTRAST, DISTANCE, contrast, distances, model_colours
from support.made_results import NEARLY_NONE, NONE, made_result
from support.made_results import names as model_names
from support.site_fixture import ASSETS

Make = Callable[[str, int], Result]
PAPERS = ("multibanana", "multiref", "icebench", "ideabench")


@pytest.fixture(scope="module")
def creval() -> Result:
    return released_result("creval", draws=40)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Make:
    kept: dict[tuple[str, int], Result] = {}

    def of(name: str, count: int) -> Result:
        if (name, count) not in kept:
            root = tmp_path_factory.mktemp(f"{name}{count}")
            kept[name, count] = made_result(
                name, root, model_names(count), judges=("one", "two") if name == "multiref" else ("one",)
            )
        return kept[name, count]

    return of


def marks(svg: str) -> list[dict[str, str]]:
    """The attributes of every number that is drawn."""
    root = ElementTree.fromstring(svg)
    return [element.attrib for element in root.iter() if element.attrib.get("class") == "value"]


def test_every_number_of_a_figure_is_the_tables_to_the_last_digit(creval: Result) -> None:
    drawn = marks(figure("categories", creval).svg)
    assert len(drawn) == 8 * 3 * 4
    for mark in drawn:
        where = {"level": "category", "category": mark["data-category"]}
        (row,) = (r for r in creval.rows(model=mark["data-series"], metric=mark["data-panel"]) if r.slice == where)
        assert float(mark["data-value"]) == row.value
        assert row.ci95 is not None
        assert (float(mark["data-low"]), float(mark["data-high"])) == row.ci95


@pytest.mark.parametrize("name", PAPERS)
def test_every_figure_of_a_paper_is_drawn_with_numbers(made: Make, name: str) -> None:
    result = made(name, 3)
    declared = [one.name for one in benchmark(name).reporting.figures]
    assert declared
    resampled = ["gaps", "references", "agreement"] if name == "multiref" else []  # slow, and the same for all
    for what in (*declared, "models", "heatmap", "radar", "distribution", *resampled):
        one = figure(what, result)
        assert any("data-value" in mark for mark in marks(one.svg)), what
        assert len(list(one.numbers())) == sum(len(p.series) * len(p.categories) for p in one.chart.panels)


def test_the_two_generators_of_references_are_kept_apart_with_intervals_of_99_percent(made: Make) -> None:
    chart = figure("by-source", made("multibanana", 3)).chart
    assert [panel.categories for panel in chart.panels] == [("real", "generated"), ("gpt_image_1", "nano_banana")]
    declared = next(one for one in benchmark("multibanana").reporting.figures if one.name == "by-source")
    assert declared.interval == 99


def test_what_failed_is_a_cross_with_its_reason_and_what_is_too_little_is_hollow(made: Make) -> None:
    result = made("multibanana", 7)
    lost, rare = model_names(7)[NONE], model_names(7)[NEARLY_NONE]
    drawn = {mark["data-series"]: mark for mark in marks(figure("groups", result).svg)}
    assert "data-value" not in drawn[lost]
    assert re.fullmatch(r"all \d+ failed", drawn[lost]["data-why"])
    chart = figure("models", result, options=FigureOptions(models=(rare,))).chart
    assert [value.few for value in chart.panels[0].values] == [True]
    assert "too few to be ranked" in figure("models", result).svg


def test_a_number_is_hollow_exactly_where_tables_do_not_rank_it(made: Make) -> None:
    result = made("multibanana", 7)
    rows = result.rows(level="overall", metric="total", judge="one")
    without = {place.row.model for place in ranked(rows, ()) if place.rank is None and place.row.value is not None}
    chart = figure("models", result, options=FigureOptions(judge="one")).chart
    panel = chart.panels[0]
    assert {name for name, value in zip(panel.categories, panel.values, strict=True) if value.few} == without


def test_an_estimate_is_dashed_and_said_to_be_one(creval: Result) -> None:
    row = creval.rows(level="overall", metric="avg")[0]
    estimate = Estimate.model_construct(n_judged=90, n_all=904, n_failed=0)
    value = value_of(row.model_copy(update={"estimate": estimate, "sampled": True}))
    assert value.estimated and "estimated from 90 of 904 calls" in value.about
    chart = figure("models", creval).chart
    drawn = replace(chart, panels=tuple(
        replace(p, series=tuple(replace(s, values=tuple(replace(v, estimated=True) for v in s.values)) for s in p.series))
        for p in chart.panels
    ))  # fmt: skip
    from refbench.report.figures.drawing import draw

    assert draw(drawn).count("stroke-dasharray") == draw(chart).count("stroke-dasharray") + 8
    assert "≈" in draw(replace(drawn, kind="heatmap"))


def test_where_nothing_is_scored_the_figure_says_so_and_why(made: Make) -> None:
    only = FigureOptions(models=(model_names(7)[NONE],))
    for name in ("models", "groups", "radar", "distribution"):
        svg = figure(name, made("multibanana", 7), options=only).svg
        assert "Nothing is scored" in svg
        assert re.search(r"all \d+ failed|no rows", svg), name


def test_a_model_has_one_colour_and_mark_in_all_figures_whichever_models_are_drawn(creval: Result) -> None:
    style = styles_of([row.model for row in creval.table.rows])["gpt-image-1"]
    for name, options in (
        ("categories", None),
        ("dimensions", None),
        ("models", FigureOptions(models=("gpt-image-1",))),
    ):
        for panel in figure(name, creval, options=options).chart.panels:
            found = [series.style for series in panel.series if series.name == "gpt-image-1"] or list(panel.marks)
            assert style in found
    looks = [(one.colour, one.shape) for one in map(style_of, range(48))]
    assert len(set(looks)) == 48
    assert all(one[0] != other[0] and one[1] != other[1] for one, other in pairwise(looks))
    assert "diamond" not in {shape for _, shape in looks}, "it is a mean, or a published number"


@pytest.mark.parametrize("scheme", [0, 1])
def test_colours_are_those_of_the_pages_and_told_apart_by_every_kind_of_sight(scheme: int) -> None:
    ground, colours = model_colours(scheme)
    ours = (COLOURS, DARK)[scheme]
    assert list(ours) == colours
    assert min(distances(ours)) > DISTANCE
    assert min(contrast(colour, ground) for colour in ours) >= CONTRAST


def test_on_a_page_every_colour_but_those_of_tables_follows_the_theme(creval: Result) -> None:
    drawn = figure("models", creval)
    web = themed(drawn.svg)
    assert set(re.findall(r'="(#[0-9a-f]{6})"', web)) == set()
    assert re.sub(r"var\(--\w+, (#\w+)\)", r"\1", web) == drawn.svg
    page = dict(re.findall(r"--(\w+): light-dark\(#\w{6}, (#\w{6})\)", (ASSETS / "theme.css").read_text("utf-8")))
    assert {name: page.get(name) for name, _ in THEME.values()} == dict(THEME.values())


def test_names_are_cut_where_they_are_alike_and_stay_where_they_differ() -> None:
    checkpoints = [f"checkpoints/flux-multiref-lora/run_11/step-{n:06d}.safetensors" for n in (500, 1000)]
    others = [f"outputs/qwen/really-long-folder-name-of-somebody/epoch-{n}-final" for n in (1, 2)]
    short = short_names(["mine", *checkpoints, *others], 150)
    assert short["mine"] == "mine"
    assert len(set(short.values())) == 5
    for name, part in zip((*checkpoints, *others), ("000500", "001000", "-1", "-2"), strict=True):
        assert part in short[name], short


def test_a_name_from_right_to_left_turns_nothing_beside_it_and_is_never_parted() -> None:
    name = isolated("نموذج الصور")
    assert shown(f"{name} 3 of 7") == f"{name} 3 of 7"
    assert any(name in one for one in wrapped(f"Failed: somebody 12; {name} 3 of 7; and others", 150, 10))
    assert "\u2068" not in shown("\u2068never closed") and "\u202e" not in shown("\u202eturned")


def test_agents_have_a_line_over_their_steps_by_criterion_and_by_group(tmp_path: Path) -> None:
    steps = [f"{agent}.{step}" for agent in ("ipr", "sra") for step in ("step1", "step2", "result")]
    result = made_result("multibanana", tmp_path, steps)
    for by, panels in ((None, 6), ("group", 6)):
        chart = figure("steps", result, options=FigureOptions(by=by)).chart
        assert len(chart.panels) == panels
        assert chart.panels[0].categories == ("step 1", "step 2", "result")
        assert [series.name for series in chart.panels[0].series] == ["ipr", "sra"]
        assert len({series.style.colour for series in chart.panels[0].series}) == 2


def test_the_sweep_of_weights_passes_through_the_tables_number(creval: Result) -> None:
    for panel in figure("weights", creval).chart.panels:
        own = next(n for n, name in enumerate(panel.categories) if "(own)" in name)
        for series in panel.series:
            assert series.values[own].value == pytest.approx(
                creval.value(model=series.name, metric="avg", level="overall")
            )


def test_figures_of_a_dataset_count_every_case(tmp_path: Path, made: Make, capsys: pytest.CaptureFixture[str]) -> None:
    from support.multibanana import every_task, write_dataset

    write_dataset(tmp_path / "data", every_task(1))
    assert (
        describe_command("multibanana", data=tmp_path / "data", figures=tmp_path / "out", format="csv", json=True) == 0
    )
    cases = json.loads(capsys.readouterr().out)["cases"]
    for name in ("words", "tasks", "pictures"):
        rows = [line.split(",") for line in (tmp_path / f"out/{name}.csv").read_text().splitlines()[1:]]
        first = [row for row in rows if row[:2] == rows[0][:2]]
        assert sum(float(row[3]) for row in first) == cases, name


@pytest.mark.parametrize(
    ("suffix", "begins"), [("svg", b"<svg"), ("csv", b"panel,"), ("pdf", b"%PDF"), ("png", b"\x89PNG")]
)
def test_a_figure_is_written_in_each_format_and_the_same_bytes_twice(
    creval: Result, tmp_path: Path, suffix: str, begins: bytes
) -> None:
    if suffix in ("pdf", "png"):
        pytest.importorskip("typst")
    drawn = figure("models", creval)
    first, second = (drawn.save(tmp_path / f"{n}.{suffix}").read_bytes() for n in (1, 2))
    assert first.startswith(begins) and first == second


def test_the_command_lists_draws_one_and_draws_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from support.brief_runs import evaluated

    run = evaluated(tmp_path, {"red": (0.9, 0.8, 0), "pale": (0.5, 0.6, 1)}, cases=6)
    assert figure_command("list", run, json=True) == 0
    known: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert "gaps" in known
    figure_command("all", run, out=tmp_path / "all", json=True)
    said = json.loads(capsys.readouterr().out)
    assert {one["name"] for one in said["figures"]} | said["not_drawn"].keys() == known.keys()
    assert all(Path(one["out"]).read_text().startswith("<svg") for one in said["figures"])
    with pytest.raises(RefBenchError, match="there is no figure nothing"):
        figure_command("nothing", run, out=tmp_path / "x.svg")
    with pytest.raises(RefBenchError, match=r"\.svg, \.pdf, \.png or \.csv"):
        figure_command("models", run, out=tmp_path / "x.jpg")


OUTSIDE = """() => {
  const page = document.querySelector('svg').getBoundingClientRect();
  const texts = [...document.querySelectorAll('svg text')].map((t) => [t, t.getBoundingClientRect()]);
  const found = texts.filter(([, b]) => b.left < page.left - 0.5 || b.right > page.right + 0.5 || b.bottom > page.bottom + 0.5);
  const level = texts.filter(([t]) => !(t.getAttribute('transform') || '').includes('rotate'));
  for (let i = 0; i < level.length; i++) for (let j = i + 1; j < level.length; j++) {
    const [a, b] = [level[i][1], level[j][1]];
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    if (across > 1.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3.5) found.push(level[i], level[j]);
  }
  return found.map(([t]) => t.textContent);
}"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [760, 420])
def test_no_words_leave_the_page_or_lie_on_each_other(creval: Result, made: Make, width: int) -> None:
    from support.site_browser import start_browser

    results = [creval, *(made(name, count) for name in PAPERS for count in (1, 3, 8)), made("multibanana", 40)]
    driver, browser = start_browser()
    try:
        page = browser.new_page()
        for result in results:
            found, _ = available(result, options=FigureOptions(width=width))
            for name, drawn in found.items():
                page.set_content(drawn.svg)
                assert page.evaluate(OUTSIDE) == [], (result.bench.name, len(result.seeds), name)
    finally:
        browser.close()
        driver.stop()


def test_the_figures_that_are_named_are_those_that_can_be_asked_for(creval: Result) -> None:
    with pytest.raises(RefBenchError, match="there are dimensions, categories, models"):
        figure("pie", creval)
    assert all(names(creval).values())


def test_gaps_of_one_judge_are_claimed_in_the_family_of_all_judges(tmp_path: Path) -> None:
    """What `compare` cannot resolve over all pairs, no figure resolves over a part of them."""
    result = made_result("multibanana", tmp_path, model_names(3), judges=("one", "two"))
    pairs = result.compare(by_slice=False).pairs
    assert {pair.family for pair in pairs} == {6}
    chart = figure("gaps", result, options=FigureOptions(judge="one")).chart
    assert "Holm over 6 pairs" in chart.subtitle
    drawn = [one.leads for panel in chart.panels for row in panel.series for one in row.values]
    assert sorted(drawn) == sorted(pair.resolved for pair in pairs if pair.judge == "one")
