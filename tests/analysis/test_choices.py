"""The gap under every choice: each number is the one that the ordinary commands give, counted once, with what was left
out said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import refbench
from refbench.analysis.compare.choices import Robustness, all_choices
from refbench.analysis.compare.draws import Resampling
from refbench.analysis.compare.runs import compare
from refbench.failure import Failure
from refbench.output import Output
from refbench.record import RefBenchError
from refbench.runs import Run
from refbench.tables.scoring import score_run
from support.checkout import plain_items, write_checkout, write_replies

Refbench = Callable[..., tuple[int, str, str]]
DRAWS = 200


def of(found: Robustness, **wanted: str) -> list[float]:
    """The gaps of the combinations with these choices, those with the same numbers as another included."""
    return [
        one.gap
        for one in found.combinations
        for choices in (one.choices, *one.same)
        if all(choices[name] == option for name, option in wanted.items())
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models and two judges."""
    checkout = write_checkout(tmp_path_factory.mktemp("choices") / "creval", plain_items(27), pictures=False)
    out = checkout.parent / "run"
    for model in ("alpha", "beta"):
        write_replies(checkout / "answer_gpt", model, plain_items(27))
        write_replies(checkout / "answer_other", model, plain_items(27), seed=5)
    for folder, judge in (("answer_gpt", "gpt-4o"), ("answer_other", "other")):
        refbench.rescore("creval", data=checkout, replies=checkout / folder, judge=judge, out=out, draws=0)
    return out


def test_each_gap_is_the_one_of_the_ordinary_comparison(run: Path) -> None:
    found = all_choices([f"{run}:alpha", f"{run}:beta"], resampling=Resampling(DRAWS))
    for protocol, judge in (("paper", "gpt-4o"), ("corrected", "other")):
        (pair,) = compare([run], protocol=protocol, judge=judge, draws=DRAWS).pairs
        (gap,) = of(found, protocol=protocol, judge=judge, weights="own", subset="whole")
        assert gap == pair.gap
        assert any(one.gap == gap and one.ci95 == pair.ci95 for one in found.combinations)
    rows = score_run(run, draws=0)
    alike = [
        np.mean([
            rows.value(model=model, judge="other", protocol="corrected", level="overall", metric=metric) or 0
            for metric in ("IF", "VC", "VQ")
        ])
        for model in ("alpha", "beta")
    ]  # fmt: skip
    (gap,) = of(found, protocol="corrected", judge="other", weights="criteria alike", subset="whole")
    assert gap == pytest.approx(alike[0] - alike[1])


@pytest.mark.slow
def test_the_mean_of_the_judges_lies_between_them(run: Path) -> None:
    found = all_choices([f"{run}:alpha", f"{run}:beta"], protocol="corrected", resampling=Resampling(DRAWS))
    where = {"weights": "own", "subset": "whole"}
    (mean,), (one,), (other,) = (of(found, judge=judge, **where) for judge in ("mean", "gpt-4o", "other"))
    assert mean == pytest.approx((one + other) / 2)


def test_a_category_that_is_left_out_is_in_no_number(run: Path) -> None:
    found = all_choices(
        [f"{run}:alpha", f"{run}:beta"], judge="other", protocol="corrected", leave_out="category",
        resampling=Resampling(DRAWS),
    )  # fmt: skip
    chosen = {one.choices["subset"]: one for one in found.combinations if one.choices["weights"] == "own"}
    parts = {name: one for name, one in chosen.items() if name.startswith("without")}
    assert len(parts) == 3
    assert {one.n_cases for one in parts.values()} == {18}
    # Each case is in two of the three.
    assert np.mean([one.gap for one in parts.values()]) == pytest.approx(chosen["whole"].gap)
    with pytest.raises(RefBenchError, match="--leave-out nothing: the levels are category, dimension"):
        all_choices([f"{run}:alpha", f"{run}:beta"], leave_out="nothing", resampling=Resampling(DRAWS))


@pytest.mark.slow
def test_the_same_numbers_count_once_and_the_sentence_counts_what_is_there(run: Path) -> None:
    found = all_choices([f"{run}:alpha", f"{run}:beta"], resampling=Resampling(DRAWS))
    # Well-formed replies read alike under both protocols, but for the weights of VC's questions.
    assert found.n_tried == sum(1 + len(one.same) for one in found.combinations)
    numbers = [(one.gap, one.ci95, one.n_cases, one.bounds, one.resolved) for one in found.combinations]
    assert len(set(numbers)) == len(numbers)
    # paper874 leaves out none of these cases, or none of them is among its own.
    assert not [one for one in found.combinations if one.choices["subset"] == "paper874"]
    positive = sum(one.gap > 0 for one in found.combinations)
    assert found.better == positive
    assert f"in {positive} of {len(found.combinations)} choices" in found.sentence
    assert found.better + found.worse <= len(found.combinations)
    assert any(line.startswith("paper with failures as the worst value") for line in found.left_out)
    assert not of(found, protocol="paper", failures="as worst")


@pytest.mark.slow
def test_released_scores_have_one_protocol_and_their_subset() -> None:
    found = all_choices(["creval:Flux1-Kontext-Pro", "creval:Flux1-Kontext-dev"], resampling=Resampling(DRAWS))
    assert {one.choices["protocol"] for one in found.combinations} == {"paper"}
    (part,) = [o for o in found.combinations if o.choices["subset"] == "paper874" and o.choices["weights"] == "own"]
    assert part.n_cases == 874
    assert any("released figures are of that one alone" in line for line in found.left_out)


@pytest.mark.slow
def test_the_command_prints_within_eighty_columns_and_draws(
    run: Path, run_cli: Refbench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ("compare", f"{run}:alpha", f"{run}:beta", "--all-choices", "--draws", DRAWS)
    code, said, _ = run_cli(*words, "--figure", tmp_path / "choices.svg")
    assert code == 0
    curve = said.partition("To paste")[0].splitlines()
    told = json.loads(run_cli(*words, "--json")[1])
    assert told["sentence"] in said
    assert all(len(line) <= 80 for line in curve if not line.startswith(("left out", "not the same")))
    drawn = (tmp_path / "choices.svg").read_text()
    assert drawn.startswith("<svg")
    assert drawn.count('r="4"') == len(told["combinations"])


@pytest.mark.parametrize("wrong", [["--by", "category"], ["--against", "alpha"], ["--refusals", "worst"]])
def test_what_would_mean_nothing_is_refused(run: Path, run_cli: Refbench, wrong: list[str]) -> None:
    assert run_cli("compare", f"{run}:alpha", f"{run}:beta", "--all-choices", *wrong)[0] == 2


def test_choices_are_about_two_models_and_leaving_out_is_about_choices(run: Path, run_cli: Refbench) -> None:
    assert run_cli("compare", f"{run}:alpha", f"{run}:beta", "--leave-out", "category")[0] == 2
    code, _, said = run_cli("compare", f"{run}:alpha", "--all-choices")
    assert code == 2
    assert "is about two models" in said


def test_a_models_own_refusals_are_counted_both_ways_but_not_under_paper(checkout: Path) -> None:
    out, items = checkout.parent / "refusing", plain_items(27)
    for item in items[:3]:
        for metric in ("IF", "VC", "VQ"):
            (checkout / "answer_gpt" / metric / "alpha" / f"{item.stem}.txt").unlink()
    refbench.rescore("creval", data=checkout, replies=checkout / "answer_gpt", out=out, draws=0)
    with Run.open(out).writer() as writer:
        for item in items[:3]:
            writer.add_output(Output(case=item.stem, model="alpha", failure=Failure(kind="refused")))
    found = all_choices([f"{out}:alpha", f"{out}:beta"], resampling=Resampling(DRAWS))
    where = {"protocol": "corrected", "weights": "own", "subset": "whole"}
    for refusals, option in (("conditional", "left out"), ("worst", "as worst")):
        (pair,) = compare([out], protocol="corrected", refusals=refusals, draws=DRAWS).pairs
        assert of(found, **where, failures=option) == [pair.gap]
    assert of(found, **where, failures="as worst") < of(found, **where, failures="left out")
    assert of(found, protocol="paper", failures="by protocol")
    assert not of(found, protocol="paper", failures="as worst")
