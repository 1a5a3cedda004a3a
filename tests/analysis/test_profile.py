"""Several benchmarks side by side: one scale, more is better, and a model that is missing is a gap."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import refbench
from refbench.analysis.profile import _abilities, _View, profile
from refbench.record import RefBenchError
from refbench.tables.scoring import score_run
from support.checkout import plain_items, reply_text, write_checkout, write_replies

Refbench = Callable[..., tuple[int, str, str]]


def run_of(root: Path, name: str, models: tuple[str, ...], *, seed: int = 0) -> Path:
    """A run of its own checkout."""
    items = plain_items(18)
    data = write_checkout(root / f"data-{name}", items, pictures=False)
    for model in models:
        write_replies(data / "answer_gpt", model, items, seed=seed)
    refbench.rescore("creval", data=data, replies=data / "answer_gpt", out=root / name, draws=0)
    return root / name


def test_numbers_are_above_the_common_models_in_deviations_of_single_outputs(tmp_path: Path) -> None:
    one = run_of(tmp_path, "one", ("alpha", "beta", "gamma"))
    two = run_of(tmp_path, "two", ("alpha", "beta"), seed=4)
    found = profile([str(one), str(two)], draws=200)
    assert set(found.centre) == {"alpha", "beta"}
    for ability in found.abilities:
        assert ability.unit is not None
        values = {model: standing.value or 0.0 for model, standing in ability.standings.items()}
        centre = (values["alpha"] + values["beta"]) / 2
        for model in ("alpha", "beta"):
            standing = ability.standings[model]
            assert standing.standard == pytest.approx((values[model] - centre) / ability.unit)
            assert standing.ci95 is not None
            assert standing.ci95[0] < (standing.standard or 0.0) < standing.ci95[1]
    missing = [a.standings["gamma"] for a in found.abilities if a.source == "CREval (two)"]
    assert {(s.standard, s.value, s.why) for s in missing} == {(None, None, "not in this benchmark")}
    assert any("CREval (two) has no gamma: a gap, not a zero" in note for note in found.notes)


def test_the_unit_is_the_spread_of_single_outputs_and_pairs_are_those_of_compare(tmp_path: Path) -> None:
    run = run_of(tmp_path, "one", ("alpha", "beta", "gamma"))
    found = profile([str(run)], draws=200)
    result = score_run(run, draws=0)
    protocol = result.table.rows[0].protocol
    for ability in found.abilities:
        if not ability.headline:
            marks: dict[str, list[float]] = {}
            for item in result.items():
                if item["metric"] == ability.measure and item["protocol"] == protocol:
                    marks.setdefault(item["model"], []).append(100 * item["score"])
            assert ability.unit == pytest.approx(np.mean([np.var(one, ddof=1) for one in marks.values()]) ** 0.5)
            compared = result.compare(metric=ability.measure, draws=200, by_slice=False)
            assert ability.resolved == sum(pair.resolved for pair in compared.pairs)
            assert ability.pairs == 3


def test_where_less_is_better_the_scale_is_turned(tmp_path: Path) -> None:
    result = score_run(run_of(tmp_path, "one", ("alpha", "beta")), draws=0)
    lower = replace(result.bench.scoring, lower=frozenset({"avg"}))
    protocol, own = result.table.rows[0].protocol, {model: model for model in result.seeds}
    plain, turned = (
        _abilities(_View("x", one, protocol, "gpt-4o", own), list(own), list(own), (100, 1))[-1].ability
        for one in (result, replace(result, bench=replace(result.bench, scoring=lower)))
    )
    for model in own:
        assert plain.standings[model].standard == pytest.approx(-(turned.standings[model].standard or 0.0))
    assert turned.lower_is_better


def test_names_are_matched_as_told_and_clashes_refused(tmp_path: Path) -> None:
    one, two = run_of(tmp_path, "one", ("alpha", "beta")), run_of(tmp_path, "two", ("alpha", "b2"), seed=4)
    found = profile([str(one), str(two)], same={"b2": "beta"}, draws=200)
    assert set(found.models) == {"alpha", "beta"}
    assert not found.notes
    with pytest.raises(RefBenchError, match="has both"):
        profile([str(one), str(two)], same={"beta": "alpha"}, draws=200)
    with pytest.raises(RefBenchError, match="there is no model nobody"):
        profile([str(one)], same={"nobody": "alpha"}, draws=200)
    with pytest.raises(RefBenchError, match="given twice"):
        profile([str(one), str(one)], draws=200)


def test_two_benchmarks_agree_where_their_marks_do(tmp_path: Path) -> None:
    one = run_of(tmp_path, "one", ("alpha", "beta", "gamma"))
    data, items = tmp_path / "data-two", plain_items(18)
    write_checkout(data, items, pictures=False)
    for metric in ("IF", "VC", "VQ"):
        for model in ("alpha", "beta", "gamma", "delta"):
            place = data / "answer_gpt" / metric / model
            place.mkdir(parents=True)
            for item in items:
                theirs = tmp_path / f"data-one/answer_gpt/{metric}/{model}/{item.stem}.txt"
                no = reply_text([(qid, "No") for qid, *_ in item.of(metric)])
                (place / f"{item.stem}.txt").write_text(theirs.read_text() if theirs.exists() else no)
    refbench.rescore("creval", data=data, replies=data / "answer_gpt", out=tmp_path / "two", draws=0)
    same = profile([str(one), str(tmp_path / "two")], draws=200)
    (agreement,) = same.agreements
    assert (agreement.tau, len(agreement.models), agreement.reversed) == (pytest.approx(1), 3, ())


@pytest.mark.slow
def test_the_command_prints_csv_json_and_text(tmp_path: Path, run_cli: Refbench) -> None:
    one, two = run_of(tmp_path, "one", ("alpha", "beta")), run_of(tmp_path, "two", ("alpha", "b2"), seed=4)
    words = ("profile", one, two, "--same", "beta=b2", "--draws", 200)
    code, said, _ = run_cli(*words)
    assert code == 0
    assert "Which abilities tell the models apart" in said
    told = json.loads(run_cli(*words, "--json")[1])
    assert set(told["models"]) == {"alpha", "beta"}
    rows = list(csv.DictReader(io.StringIO(run_cli(*words, "--csv")[1])))
    assert len(rows) == 2 * 2 * 4
    assert run_cli(*words, "--csv", "--json")[0] == 2
    assert run_cli("profile", one, "--same", "beta")[0] == 2


def test_a_pair_that_both_resolve_the_other_way_round_is_named(tmp_path: Path) -> None:
    items = plain_items(18)
    runs = []
    for name, better in (("one", "alpha"), ("two", "beta")):
        data = write_checkout(tmp_path / f"data-{name}", items, pictures=False)
        for number, model in enumerate(("alpha", "beta")):
            write_replies(data / "answer_gpt", model, items, seed=number)
            for item in items if model != better else []:
                no = reply_text([(qid, "No") for qid, *_ in item.of("IF")])
                (data / f"answer_gpt/IF/{model}/{item.stem}.txt").write_text(no)
        runs.append(str(tmp_path / name))
        refbench.rescore("creval", data=data, replies=data / "answer_gpt", out=tmp_path / name, draws=0)
    (agreement,) = profile(runs, draws=200).agreements
    assert agreement.reversed == ("alpha above beta in CREval (one), below in CREval (two)",)
