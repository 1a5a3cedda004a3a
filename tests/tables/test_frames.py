"""A result in Python and in notebooks: short to print, columns for data frames, the worst cases of a model."""

from __future__ import annotations

import doctest
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import orjson
import pytest

import refbench
from refbench import Failure, RefBenchError, Score
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.pictures import encode
from refbench.tables import frames, result
from refbench.tables.frames import columns
from refbench.tables.scoring import result_of

MODELS = ("Bagel", "OmniGen2")


@pytest.fixture(scope="module")
def made() -> result.Result:
    cases, scores = released_scores("paper874")
    few = cases[::60]
    wanted = {case.id for case in few}
    mine = [score for score in scores if score.model in MODELS and score.case in wanted]
    lost: Score = mine[0]
    mine[0] = lost.model_copy(update={"value": None, "failure": Failure(kind="refused", detail="no <b>")})
    return result_of(benchmark("creval"), few, mine, draws=40)


def test_a_result_is_printed_in_a_line_that_says_what_it_is_about_and_who_leads(made: result.Result) -> None:
    best = max(made.rows(level="overall", metric="avg"), key=lambda row: row.value or 0)
    assert len(repr(made)) < 300
    assert repr(made).startswith(f"<CREval: {len(made.cases)} cases, 2 models; judge gpt-4o; ")
    assert f"best {best.model} with avg {best.value:.4g}" in repr(made)


def test_a_notebook_shows_the_leaderboard_with_intervals_and_all_text_escaped(made: result.Result) -> None:
    rows = tuple(row.model_copy(update={"model": f"<script>{row.model}"}) for row in made.table.rows)
    page = replace(made, table=made.table.model_copy(update={"rows": rows}))._repr_html_()
    tags: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.append(tag)

    Reader().feed(page)
    assert "script" not in tags
    assert tags.count("tr") == 1 + len(MODELS)
    for row in made.rows(level="overall", metric="avg", protocol="paper"):
        assert row.ci95 is not None
        assert f"<td>{row.value:.2f}</td><td>{row.ci95[0]:.2f} to {row.ci95[1]:.2f}</td>" in page


def test_columns_have_every_item_with_total_task_seed_judge_and_failure(made: result.Result) -> None:
    long, items = columns(made), list(made.items())
    assert {len(column) for column in long.values()} == {len(items)}
    assert {"case", "task", "model", "judge", "protocol", "seed", "metric", "score", "failure", "total"} <= set(long)
    assert long["score"] == [item["score"] for item in items]
    assert long["failure"].count("refused") == 1
    wide = columns(made, wide=True)
    metrics = dict.fromkeys(long["metric"])
    assert len(wide["case"]) * len(metrics) == len(items)
    assert wide["failure"].count("refused") == 1
    pairs = zip(wide["case"], wide["model"], wide["VC"], strict=True)
    assert {(case, model): value for case, model, value in pairs} == {
        (item["case"], item["model"]): item["score"] for item in items if item["metric"] == "VC"
    }


def test_data_frames_have_the_columns_or_say_what_to_install(made: result.Result) -> None:
    for name, to_frame in (("pandas", made.to_pandas), ("polars", made.to_polars)):
        try:
            __import__(name)
        except ImportError:
            with pytest.raises(RefBenchError, match=re.escape(f"pip install 'refbench[{name}]'")):
                to_frame()
            continue
        for wide in (False, True):
            frame = to_frame(wide=wide)
            wanted = columns(made, wide=wide)
            assert list(frame.columns) == list(wanted)
            assert len(frame) == len(wanted["case"])
            assert frame["score" if not wide else "VC"].sum() == pytest.approx(
                sum(value for value in wanted["score" if not wide else "VC"] if value is not None)
            )


def test_a_figure_of_a_result_shows_its_numbers_and_is_written_as_named(made: result.Result, tmp_path: Path) -> None:
    (row,) = made.rows(level="overall", metric="avg", protocol="paper", model="Bagel")
    drawn = made.plot("models", measure="avg", protocol="paper")
    assert row.value in [one["value"] for one in drawn.numbers()]
    assert drawn._repr_svg_().startswith("<svg") and drawn.save(tmp_path / "m.svg").read_text() == drawn.svg
    for wrong, words in (
        ({"name": "modles"}, "no figure modles"),
        ({"colour": "red"}, r"plot\(colour=\): there are by"),
    ):
        with pytest.raises(RefBenchError, match=words):
            made.plot(**wrong)


def test_the_worst_cases_of_a_model_are_those_with_the_least_total(made: result.Result) -> None:
    cases = made["Bagel"].cases
    totals = {item["case"]: item["total"] for item in made.items() if item["model"] == "Bagel" and item["total"]}
    worst = cases.worst(3)
    assert [one.total for one in worst] == pytest.approx(sorted(totals.values())[:3])
    assert all(totals[one.case] == pytest.approx(one.total) for one in cases)
    lower = replace(made, bench=replace(made.bench, scoring=replace(made.bench.scoring, lower=frozenset({"avg"}))))
    assert lower["Bagel"].cases.worst(1)[0].total == pytest.approx(max(totals.values()))
    with pytest.raises(RefBenchError, match="there is no model B: the models are Bagel, OmniGen2"):
        made["B"]


def test_an_evaluation_shows_its_worst_pictures_small_and_bounded(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_bytes(b"\n".join(orjson.dumps({"id": f"<i>{i}", "instruction": "paint"}) for i in range(6)))

    def model(request: object, seed: int) -> bytes:
        return encode(np.random.default_rng(seed).integers(0, 255, (500, 700, 3), dtype=np.uint8))

    done = refbench.evaluate(cases, models={"A<b>": model}, metrics="colorfulness", out=tmp_path / "run")
    page = done._repr_html_()
    assert page.count("<img ") == 4
    assert "A<b>" not in page
    assert "<i>" not in page
    assert len(page) < 500_000
    assert repr(done) == repr(done.result)


def test_the_examples_in_the_docstrings_run() -> None:
    for module in (result, frames):
        found = doctest.testmod(module)
        assert found.failed == 0
    assert doctest.testmod(result).attempted >= 3
