"""What each case tells about the models, which cases tell nothing, and what dropping those does to ranks."""

from __future__ import annotations

import csv
import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from refbench.analysis.copies import CopyCheck, CopyFlag
from refbench.analysis.items import AGAINST, CEILING, ItemReport, discrimination, item_report, least_telling
from refbench.benchmarks import benchmark
from refbench.benchmarks.creval.table import released_scores
from refbench.case import AnyCase
from refbench.cli.items import items_command
from refbench.evidence import Evidence, Purpose
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.score import Score
from refbench.stats import Array
from refbench.tables.result import Result
from refbench.tables.scoring import load, result_of
from support.checkout import METRICS, plain_items, reply_text, write_checkout


@lru_cache(maxsize=1)
def released_cases() -> list[AnyCase]:
    return released_scores()[0]


def made(values: Array) -> Result:
    """Models x cases, the same in every metric, as a benchmark's result."""
    cases = released_cases()[: values.shape[1]]
    scores = [
        Score(case=case.id, model=f"m{m:02d}", metric=metric, protocol="paper", judge="j", value=float(values[m, i]))
        for m in range(len(values))
        for i, case in enumerate(cases)
        for metric in METRICS
    ]
    return result_of(benchmark("creval"), cases, scores, draws=0)


def reported(values: Array, **given: object) -> ItemReport:
    return item_report(made(values), "paper", **given)  # type: ignore[arg-type]


def marks(models: int, cases: int, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    ability, ease = np.linspace(0.3, 0.7, models)[:, None], rng.uniform(-0.2, 0.2, cases)
    return np.clip(ability + ease + rng.normal(0, 0.05, (models, cases)), 0.02, 0.98)


def test_discrimination_is_the_correlation_with_the_mean_of_the_other_cases() -> None:
    values = marks(9, 30)
    values[2, 4] = np.nan
    by_hand = []
    for i in range(30):
        there = np.isfinite(values[:, i])
        others = np.array([np.nanmean(np.delete(row, i)) for row in values])
        by_hand.append(np.corrcoef(values[there, i], others[there])[0, 1])
    assert discrimination(values) == pytest.approx(by_hand)


def test_four_models_are_too_few_and_equal_marks_say_nothing() -> None:
    assert np.isnan(discrimination(marks(4, 10))).all()
    values = marks(8, 10)
    values[:, 3] = 0.5
    assert np.isnan(discrimination(values)[3]) and np.isfinite(discrimination(values)[4])


def test_of_eight_models_a_correlation_below_seven_tenths_is_chance() -> None:
    assert least_telling(8) == pytest.approx(0.7067, abs=1e-4)  # as printed in tables of r
    rng = np.random.default_rng(2)
    r = [np.corrcoef(rng.normal(size=8), rng.normal(size=8))[0, 1] for _ in range(2000)]
    assert np.mean(np.abs(r) > least_telling(8)) == pytest.approx(0.05, abs=0.015)


def test_cases_that_tell_nothing_and_cases_that_point_the_wrong_way_are_found() -> None:
    values = marks(12, 60)
    values[:, 7] = 1.0
    values[:, 9] = values[::-1, 9]
    found = reported(values)
    cases = [case.id for case in made(values).cases]
    assert {one.case: one.reasons for one in found.doubtful} == {cases[7]: (CEILING,), cases[9]: (AGAINST,)}
    assert found.n_dropped == 2
    (avg,) = [one for one in found.measures if one.measure == "avg"]
    assert (avg.at_ceiling, avg.at_floor) == (1, 0) and avg.discrimination and avg.discrimination > 0.9


def test_dropping_cases_changes_ranks_and_says_what_chance_would() -> None:
    """The second model leads by one case alone, in which the others have it the other way round."""
    values = np.tile(np.linspace(0.3, 0.69, 14)[:, None], (1, 20))
    values += np.random.default_rng(3).normal(0, 0.001, values.shape)
    values[:, 5] = np.linspace(1.0, 0.0, 14)
    found = reported(values)
    assert found.n_dropped == 1 and found.swapped is not None and found.as_many_at_random is not None
    leader = found.standings[0]
    assert leader.rank_without == leader.rank_apart == 1
    assert sorted(one.rank for one in found.standings) == list(range(1, 15))
    kept = np.delete(values, 5, axis=1).mean(axis=1)
    assert [one.without for one in found.standings] == pytest.approx(
        [100 * kept[int(one.model[1:])] for one in found.standings], rel=0.01
    )


def test_one_model_has_no_ranks_and_that_is_said() -> None:
    found = reported(marks(1, 12))
    assert found.swapped is None and found.doubtful == () and found.notes[0].startswith("one model:")
    assert all(item.discrimination is None and item.spread is None for item in found.items)


def test_copies_by_most_models_are_a_reason() -> None:
    values = marks(5, 10)
    case = made(values).cases[2].id
    flags = tuple(
        CopyFlag(flag="near_source", against="a.png", distance=0.01, case=case, model=f"m{m:02d}", seed=0)
        for m in range(3)
    )
    found = reported(values, copies=CopyCheck(flags=flags, not_checked=(), checked={}))
    assert [(one.case, one.reasons) for one in found.doubtful] == [(case, ("copies of the input by 3 of 5 models",))]


def test_an_unknown_judge_is_refused() -> None:
    with pytest.raises(RefBenchError, match="--judge k: the judges are j"):
        reported(marks(2, 5), judge="k")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six models on eight items; every model is answered as wanted in question Q1, none in Q2."""
    work = tmp_path_factory.mktemp("items")
    items = plain_items(8)
    root = write_checkout(work / "creval", items, pictures=False)
    opened = Run.create(work / "run", "creval", load("creval", root).cases)
    rng = np.random.default_rng(3)
    with opened.writer() as writer:
        for item in items:
            for model in range(6):
                for metric in METRICS:
                    yes = [True, False, *(rng.random(3) < 0.2 + 0.1 * model)]
                    answers = [(q, "Yes" if y else "No") for (q, *_), y in zip(item.of(metric), yes, strict=True)]
                    place = Purpose(case=item.stem, model=f"m{model}", judge="j", part=metric)
                    act = Evidence(kind="chat", request={"p": [item.stem, model, metric]}, reply=reply_text(answers))
                    writer.add(act, place)
    return opened.path


def test_questions_that_all_or_no_models_are_answered_as_wanted_are_counted(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = tmp_path / "people.csv"
    with people.open("w", newline="") as file:
        rows = [(item.stem, f"m{m}", 3 + m % 3 + i % 2) for i, item in enumerate(plain_items(8)) for m in range(6)]
        csv.writer(file).writerows([("case", "model", "score"), *rows])
    assert items_command(run, humans=people, json=True) == 0
    told = json.loads(capsys.readouterr().out)
    for one in told["measures"]:
        if one["measure"] != "avg":
            assert one["n_questions"] == 40
            assert one["questions_at_ceiling"] >= 8 and one["questions_at_floor"] >= 8
    first = [item for item in told["items"] if item["question"] == 1]
    assert {item["at"] for item in first} == {"ceiling"} and "Is part 1 of" in first[0]["text"]
    assert all(item["people"] is not None for item in told["items"] if item["measure"] == "avg")
    assert items_command(run, csv=True) == 0
    lines = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert len(lines) == len(told["items"])
    assert items_command(run) == 0
    printed = capsys.readouterr().out
    assert "6 models: the discrimination of a single case is chance below 0.81" in printed
    assert "there is nothing to drop" in printed
