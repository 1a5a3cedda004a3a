"""Splitting money before it is spent: the best design is the best, costs what it says, and its command line runs it."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refbench
from refbench.analysis.precision.designs import GapNoise, corrected_error
from refbench.benchmarks import benchmark
from refbench.engine import evaluate
from refbench.engine.designs import People, Spending, Spent, _chosen, _noise, says, split
from refbench.engine.options import RunOptions
from refbench.engine.plan import earlier_scores
from refbench.evidence import Evidence, Purpose
from refbench.record import RefBenchError
from refbench.runs import Run
from support.checkout import METRICS, plain_items, reply_text, write_checkout, write_outputs
from support.judge_server import JudgeServer, dice

Refbench = Callable[..., tuple[int, str, str]]
PRICED = "j=openai:gpt-4o?base_url=http://127.0.0.1:9/v1&price=2,10"
N = 36


@pytest.fixture
def work(tmp_path: Path) -> Path:
    items = plain_items(N)
    write_checkout(tmp_path / "creval", items)
    for model in ("A", "B"):
        write_outputs(tmp_path / model, items)
        for path in sorted((tmp_path / model).glob("*.png")):
            path.with_stem(f"{path.stem}_s0").write_bytes(path.read_bytes())
    return tmp_path


def pilot(work: Path, name: str, seeds: int, *, of_case: float = 0.0) -> Path:
    """A run of two models, whose answers vary by picture, and by so much by the case's luck with a model."""
    rng = np.random.default_rng(2)
    run = Run.create(work / name, "creval", refbench.load("creval", work / "creval").cases)
    with run.writer() as writer:
        for item, model in product(plain_items(N), ("A", "B")):
            luck = 0.5 + of_case * rng.choice([-1, 1])
            for seed, metric in product(range(seeds), METRICS):
                answers = [(question, "Yes" if rng.random() < luck else "No") for question, *_ in item.of(metric)]
                purpose = Purpose(case=item.stem, model=model, judge="j", part=metric, seed=seed)
                request = {"of": [item.stem, model, metric, seed]}
                writer.add(Evidence(kind="chat", request=request, reply=reply_text(answers)), purpose)
    return run.path


def luck(name: str, text: str) -> str:
    """Replies that differ by the name of a model."""
    asked = re.findall(r"^(Q\d+): ", text, re.MULTILINE)
    return reply_text([(question, "Yes" if dice(text + question, name) < 0.7 else "No") for question in asked])


def spending(work: Path, **given: Any) -> Spending:
    asked = {
        "gap": None,
        "pilot": None,
        "people": None,
        **{k: given.pop(k) for k in ("gap", "pilot", "people") if k in given},
    }
    models = [f"{name}=folder:{work / name}/{{id}}_s{{seed}}.png" for name in ("A", "B")]
    options = RunOptions.of(
        {"benchmark": "creval", "data": work / "creval", "models": models, "judges": [PRICED], **given}
    )
    return asyncio.run(split(options, ["A", "B"], **asked))


def test_money_goes_to_seeds_where_only_they_differ_and_to_cases_where_these_do(work: Path) -> None:
    noisy = spending(work, pilot=pilot(work, "noisy", 2), budget="9usd")
    assert noisy.designs[0].seeds > 1
    assert noisy.designs[0].cases == N
    fixed = spending(work, pilot=pilot(work, "fixed", 2, of_case=0.45), budget="0.6usd")
    assert fixed.designs[0].seeds == 1


def test_the_cheapest_design_that_finds_the_gap_is_chosen_within_the_budget(work: Path) -> None:
    run = pilot(work, "earlier", 2)
    found = spending(work, pilot=run, gap=20.0, budget="9usd")
    best = found.designs[0]
    assert found.within
    assert best.detectable is not None
    assert best.detectable <= 20
    assert found.least_usd == best.cost_usd < best.cap_usd <= 9, "with what a run sets aside"
    more = spending(work, pilot=run, gap=20.0, budget=f"{best.cap_usd * 0.9:.4f}usd")
    assert not more.within
    assert all(one.cap_usd <= best.cap_usd * 0.9 for one in more.designs if "over budget" not in one.label)
    assert more.least_usd == best.cost_usd
    never = spending(work, pilot=run, gap=0.01, budget="900usd")
    assert (never.within, never.least_usd) == (False, None)


def test_a_design_that_costs_more_but_sets_less_aside_is_within_the_budget() -> None:
    def design(cost: float, cap: float, detectable: float, cases: int, seeds: int = 1) -> Spent:
        return Spent(
            cases=cases, clusters=cases, seeds=seeds, judges=("j",), repeats=1, by_people=0, calls=0, pictures=0,
            marks=0, marks_usd=0, cost_usd=cost, cap_usd=cap, detectable=detectable,
        )  # fmt: skip

    def chosen(budget: float) -> Spending:
        tried = [design(10, 12, 0.95, 100, 3), design(10.5, 10.9, 0.9, 200), design(5, 5.2, 2.0, 90)]
        blank = Spending(
            benchmark="creval", decide=("A", "B"), family=1, measure="avg", source="", budget_usd=budget, gap=1,
            all_cases=900, designs=(), within=None, least_usd=None, remarks=(), assumptions=(),
        )  # fmt: skip
        return _chosen(tried, blank)

    found = chosen(11)
    assert found.within
    assert found.designs[0].cost_usd == 10.5
    assert says(found).startswith("A gap of 1 takes about 10.50 usd")
    short = chosen(10)
    assert not short.within
    assert (short.least_usd, short.least_budget_usd) == (10, 10.9)
    assert "cannot be told within this budget (it takes one of about 10.90 usd" in says(short)


@pytest.mark.slow
def test_what_a_pilot_cannot_tell_is_not_varied_and_said(work: Path) -> None:
    found = spending(work, pilot=pilot(work, "one", 1), budget="9usd")
    assert {one.seeds for one in found.designs} == {1}
    assert any("what more seeds and repeats would change is not known" in line for line in found.remarks)
    shipped = spending(work, budget="9usd")  # of other models
    assert shipped.source.startswith("the released item scores")
    assert any("lack some of A, B" in line for line in shipped.remarks)


@pytest.mark.slow
def test_the_error_that_is_expected_of_more_seeds_is_the_one_that_comes(work: Path) -> None:
    two, five = (
        _noise(earlier, ["A", "B"], 1, False)[0]
        for seeds in (2, 5)
        if (earlier := earlier_scores(benchmark("creval"), pilot(work, f"seeds{seeds}", seeds, of_case=0.2)))
    )
    assert five.error < 0.9 * two.error
    assert two.error_with(N, 5, 1, 1) == pytest.approx(five.error, rel=0.15)
    assert five.error_with(N, 2, 1, 1) == pytest.approx(two.error, rel=0.15)


def test_peoples_marks_correct_the_judge_as_a_simulation_says() -> None:
    rng = np.random.default_rng(3)
    agreement, n, marked = 0.8, 400, 100
    estimates = []
    for _ in range(2000):
        judge = rng.normal(0, 1, n)
        people = agreement * judge + (1 - agreement**2) ** 0.5 * rng.normal(0, 1, n)
        by_people, slope = people[:marked], agreement
        estimates.append(by_people.mean() - slope * judge[:marked].mean() + slope * judge.mean())
    assert np.std(estimates) == pytest.approx(corrected_error(1 / n**0.5, n, marked, agreement), rel=0.05)


@pytest.mark.slow
def test_marks_of_people_cost_and_widen_what_is_found(work: Path) -> None:
    run = pilot(work, "earlier", 2)
    judge, both = (spending(work, pilot=run, budget="9usd", people=p) for p in (None, People(0.05, 0.7)))
    assert both.designs[0].marks == 2 * both.designs[0].by_people > 0
    assert (both.designs[0].detectable or 0) > (judge.designs[0].detectable or 0)
    assert all(one.cost_usd <= 9 for one in both.designs if "over budget" not in one.label)


def test_noise_that_is_shared_out_adds_up() -> None:
    noise = GapNoise(
        first="A", second="B", error=0.5, clusters=100, worth=100, judges=1, seeds=1, repeats=1, case_by_judge=4.0,
        seed=5.0, seed_by_judge=1.0, repeat=2.0, fixed=(),
    )  # fmt: skip
    assert noise.of_case(1, 1, 1) == 12
    assert noise.error_with(100, 1, 1, 1) == pytest.approx(0.5)
    assert noise.error_with(400, 1, 1, 1) == pytest.approx(0.25)
    assert noise.error_with(100, 2, 1, 1) == pytest.approx((0.25 - 0.04) ** 0.5)
    assert noise.error_with(100, 1, 2, 1) == pytest.approx((0.25 - 0.035) ** 0.5)


@pytest.mark.slow
def test_the_command_line_of_the_best_design_runs_it_for_what_was_planned(tmp_path: Path, run_cli: Refbench) -> None:
    items = plain_items(N)
    write_checkout(tmp_path / "creval", items)
    models = [f"{name}=folder:{write_outputs(tmp_path / name, items)}" for name in ("A", "B")]
    with JudgeServer() as server:
        judge = f"j=openai:gpt-4o?base_url={server.url}/v1&price=2,10"
        for name, model in zip("AB", models, strict=True):
            server.reply = partial(luck, name)
            evaluate("creval", data=tmp_path / "creval", models=model, judges=judge, out=tmp_path / "pilot", limit=18)
        words = ["creval", "--data", tmp_path / "creval", "--judge", judge, "--pilot", tmp_path / "pilot"]
        words += [word for model in models for word in ("--model", model)]
        asked = ["plan", *words, "--decide", "A", "B", "--budget", "0.5usd", "--out", tmp_path / "run"]
        before = len(server.requests)
        code, said, why = run_cli(*asked, "--json")
        assert why == ""
        told = json.loads(said)
        assert (code, len(server.requests)) == (0, before), "a plan sends nothing"
        assert run_cli(*asked)[1].strip().endswith(told["command"])
        best = told["designs"][0]
        assert best["cases"] < N
        code = run_cli(*shlex.split(told["command"])[1:])[0]
        assert code == 0, "not stopped by the budget"
        assert len(server.requests) - before == best["calls"]
    spent = Run.open(tmp_path / "run").spent_usd()
    assert spent == pytest.approx(best["cost_usd"], rel=0.35)


def test_what_makes_no_sense_is_refused(work: Path, run_cli: Refbench) -> None:
    run = pilot(work, "earlier", 1)
    one = work / "one.txt"
    one.write_text(f"{plain_items(N)[0].stem}\n")
    for wrong, why in (
        ({"budget": None}, "--decide needs --budget, --gap or both"),
        ({"gap": -1.0, "budget": "1usd"}, "--gap -1"),
        ({"budget": "0.000001usd"}, "covers no design"),
        ({"gap": 1.0, "budget": None, "ids": one}, "no design can be made of 1 case:"),
        ({"budget": "1usd", "people": People(1.0, 1.5)}, "--human-agreement"),
    ):
        with pytest.raises(RefBenchError, match=why):
            spending(work, pilot=run, **wrong)
    words = ("plan", "creval", "--data", work / "creval", "--model", f"A=folder:{work / 'A'}", "--judge", PRICED)
    assert "--decide needs at least two models" in run_cli(*words, "--decide", "A", "--budget", "1usd")[2]
    assert "--decide Z: the models are A" in run_cli(*words, "--decide", "Z", "A", "--budget", "1usd")[2]
    assert run_cli(*words, "--gap", 1)[0] == 2
