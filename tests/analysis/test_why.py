"""Why two numbers differ: the steps add up exactly, and each is what it says, against closed forms and real data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import refbench
from oracle.runs import Plan, make
from refbench import Failure, Score
from refbench.analysis.why.runs import why, why_protocols
from refbench.analysis.why.steps import ScoredNumber, Why, explain
from refbench.benchmarks import benchmark
from refbench.benchmarks.multibanana.cases import CRITERIA
from refbench.case import AnyCase, Request
from refbench.cli.why import why_command
from refbench.engine import evaluate
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.tables.scoring import rescore
from refbench.tables.table import columns_of
from support.five_criteria import FIVE
from support.judge_server import JudgeServer
from support.multibanana import every_task, write_dataset

METRICS = ("IF", "VC", "VQ")
SYSTEM = ("m", "j")


def case(name: str, instruction: str = "") -> AnyCase:
    return AnyCase(
        id=name,
        request=Request(instruction=instruction),
        groups={"category": "Stylization", "dimension": "Surreal Fantasy"},
        cluster=name,
        details=None,
    )


def of(
    values: Mapping[str, float | None], outputs: Mapping[str, str] | None = None, *, name: str = "x", instruction: str = "", protocol: str = "corrected"
) -> ScoredNumber:  # fmt: skip
    """An account of CREval cases with one value for all three metrics; None is a failure."""
    cases = [case(one, instruction) for one in values]
    scores = [
        Score(case=one, model="m", judge="j", metric=metric, protocol=protocol, value=value, failure=Failure(kind="refused") if value is None else None)
        for one, value in values.items()
        for metric in METRICS
    ]  # fmt: skip
    hashes = {one: {0: sha} for one, sha in (outputs or {}).items()}
    aggregate = benchmark("creval").scoring.protocols[protocol].aggregate
    return ScoredNumber(name, *SYSTEM, protocol, aggregate, cases, columns_of(scores, cases), hashes)


def deltas(found: Why) -> dict[str, float]:
    return {"+".join(step.causes): step.delta for step in found.steps}


def adds_up(found: Why) -> bool:
    return sum(round(step.delta * 1e9) for step in found.steps) == round(found.second_value * 1e9) - round(found.first_value * 1e9)  # fmt: skip


def test_outputs_that_changed_are_told_from_verdicts_that_changed() -> None:
    same = {"a": "1", "b": "2", "c": "3", "d": "4"}
    first = of({"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}, same)
    second = of({"a": 0.9, "b": 0.5, "c": 0.3, "d": 0.5}, {**same, "c": "other"}, name="y")
    found = explain(first, second)
    assert deltas(found) == {"same_output": pytest.approx(100 * 0.4 / 4), "other_output": pytest.approx(-100 * 0.2 / 4)}
    assert adds_up(found)
    assert [(mover.case, mover.output) for mover in found.movers] == [("a", "same"), ("c", "other")]
    by_cause = {step.causes[0]: (step.n, step.of) for step in found.steps}
    assert by_cause == {"same_output": (1, 3), "other_output": (1, 1)}


def test_further_outputs_of_one_side_are_no_other_outputs() -> None:
    first = replace(of({"a": 0.5, "b": 0.5, "c": 0.5}), outputs={"a": {0: "1"}, "b": {0: "2"}, "c": {0: "3"}})
    there = {"a": {0: "1", 1: "4"}, "b": {0: "other", 1: "5"}, "c": {1: "3"}}
    second = replace(of({"a": 0.9, "b": 0.9, "c": 0.9}, name="y"), outputs=there)
    found = explain(first, second)
    by_cause = {step.causes[0]: (step.n, step.of) for step in found.steps}
    assert by_cause == {"some_outputs": (1, 1), "other_output": (2, 2)}
    assert "1 of 1 cases with the same outputs as far as both have them" in found.sentence


def test_steps_add_up_as_they_are_printed() -> None:
    """A third each of 1: 0.33 thrice is not 1.00; and what rounds to nothing has no sign."""
    first = of({"a": 0.5, "b": 0.5, "c": 0.5}, {"a": "1", "b": "2"})
    second = of({"a": 0.51, "b": 0.51, "c": 0.51}, {"a": "1", "b": "other"}, name="y")
    found = explain(first, second)
    assert sorted(found.printed) == ["+0.33", "+0.33", "+0.34"]
    assert "a difference of +1.00: " in found.sentence
    assert all(f"{delta} from" in found.sentence for delta in found.printed)
    assert found.signed(-0.0001) == "+0.00"


def test_the_difference_is_rounded_from_its_own_value_as_compare_rounds_it() -> None:
    """50.004 and 50.017 are printed as 50.00 and 50.02; they are 0.01 apart, not 0.02."""
    outputs = {"a": "1", "b": "2"}
    found = explain(of({"a": 0.50004, "b": 0.50004}, outputs), of({"a": 0.50017, "b": 0.50017}, outputs, name="y"))
    assert (found.number(found.first_value), found.number(found.second_value)) == ("50.00", "50.02")
    assert found.printed == [found.signed(found.difference)] == ["+0.01"]
    assert "a difference of +0.01: +0.01 from" in found.sentence


def test_seeds_and_repeats_that_differ_are_said_and_no_judge_gives_a_measurement(tmp_path: Path) -> None:
    plan = Plan("multiref", luck=4, n_cases=6, models=1, judges=2)
    runs = [
        make(replace(plan, seeds=n, repeats=n), tmp_path / name).run.path for n, name in ((1, "once"), (2, "twice"))
    ]
    counts = f"bear ({runs[0]}) 1, bear ({runs[1]}) 2"
    by_judge = why(*map(str, runs), metric="IF")
    assert [one.judge for one in by_judge] == ["mild", "strict"]
    for one in by_judge:
        assert {f"seeds: {counts}", f"repeats: {counts}"} <= {*one.differences}
    (measured,) = why(*map(str, runs), metric="aesthetics")
    assert measured.judge is None
    assert f"seeds: {counts}" in measured.differences
    assert not [line for line in measured.differences if line.startswith(("repeats", "how judge"))]


def test_cases_that_one_side_lacks_are_a_step_of_their_own() -> None:
    first = of({"a": 0.2, "b": 0.4, "only": 0.9})
    second = of({"a": 0.2, "b": 0.4, "new": 0.0, "newer": 0.0})
    found = explain(first, second)
    assert found.first_value == pytest.approx(50)
    assert deltas(found)["only_first"] == pytest.approx(30 - 50)
    assert deltas(found)["only_second"] == pytest.approx(15 - 30)
    assert adds_up(found)
    assert found.n_shared == 2


def test_failures_on_either_side_are_a_step_of_their_own() -> None:
    first = of({"a": 0.2, "b": None, "c": 0.6})
    second = of({"a": 0.2, "b": 0.8, "c": None})
    found = explain(first, second)
    assert deltas(found) == {"failures": pytest.approx(50 - 40)}, (
        "20 and 60 against 20 and 80; only the first is in both"
    )
    assert adds_up(found)


def test_an_imputed_failure_is_still_a_failure() -> None:
    found = explain(of({"a": 0.4, "b": None}, protocol="paper"), of({"a": 0.4, "b": 0.8}, protocol="paper"))
    assert found.first_value == pytest.approx(20), "the released script counts the failed one as 0"
    assert list(deltas(found)) == ["failures"]
    assert adds_up(found)


def test_a_case_whose_content_changed_is_not_the_same_case() -> None:
    found = explain(of({"a": 0.2, "b": 0.4}), of({"a": 0.2, "b": 0.4}, instruction="other"))
    assert found.n_shared == 0
    assert any("same id but other content" in line for line in found.differences)


def test_without_shared_cases_the_sentence_says_so() -> None:
    found = explain(of({"a": 0.2}), of({"b": 0.4}))
    assert adds_up(found)
    assert "they share no cases" in found.sentence


def test_equal_numbers_have_nothing_to_explain() -> None:
    found = explain(of({"a": 0.2, "b": 0.6}), of({"a": 0.2, "b": 0.6}))
    assert found.difference == 0
    assert found.sentence.endswith("there is no difference to explain.")
    assert not found.movers


@pytest.mark.parametrize("seed", range(12))
def test_steps_add_up_whatever_the_aggregate(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Macro averages over tasks of which some lose all their cases, with failures of every part."""
    rng = np.random.default_rng(seed)
    root = tmp_path_factory.mktemp("data")
    cases = list(refbench.load("multibanana", write_dataset(root, every_task(2)[:14])).cases)
    aggregate = benchmark("multibanana").scoring.protocols["corrected"].aggregate

    def side(name: str) -> ScoredNumber:
        chosen = [one for one in cases if rng.random() < 0.7] or cases[:1]
        scores = []
        for one in chosen:
            for criterion in CRITERIA:
                failed = rng.random() < 0.15
                value = None if failed else float(rng.integers(1, 11))
                failure = Failure(kind="unparsable") if failed else None
                scores.append(Score(case=one.id, model="m", judge="j", metric=criterion, protocol="corrected", value=value, failure=failure))  # fmt: skip
        hashes = {one.id: {0: str(rng.integers(2))} for one in chosen if rng.random() < 0.8}
        return ScoredNumber(name, *SYSTEM, "corrected", aggregate, chosen, columns_of(scores, chosen), hashes)

    found = explain(side("x"), side("y"))
    assert adds_up(found)
    assert len(found.steps) >= 3


def test_released_figures_and_their_replies_differ_by_the_cases_alone(creval_mini: Path, tmp_path: Path) -> None:
    """123 of 904 items, scored anew from the replies: the same scores, so all of the difference is the other items."""
    run = tmp_path / "run"
    rescore("creval", data=creval_mini, replies=creval_mini / "answer_gpt", out=run, models=["Bagel"], draws=0)
    (found,) = why(str(run), "creval:Bagel")
    assert adds_up(found)
    parts = deltas(found)
    assert parts["only_second"] == pytest.approx(found.difference, abs=1e-3)
    assert not found.movers
    assert any("released 904" in line for line in found.differences)


def test_from_paper_to_corrected_the_steps_and_the_fixes_agree(creval_mini: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    models = ["Bagel", "Flux1-Kontext-dev"]
    result = rescore("creval", data=creval_mini, replies=creval_mini / "answer_gpt", models=models, out=run, draws=0)
    found = why_protocols(str(run))
    assert len(found) == 2
    for one in found:
        model = one.first.split(" (")[0]
        paper, corrected = (
            result.value(model=model, metric="avg", protocol=p, level="overall") for p in ("paper", "corrected")
        )
        assert (one.first_value, one.second_value) == (paper, corrected)
        assert adds_up(one)
        assert sum(fix.delta for fix in one.fixes) == pytest.approx(one.difference, abs=1e-8), (
            "two ways, one difference"
        )


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Two runs of the same cases: one picture was made anew, and the judge of the second is kinder."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    rng = np.random.default_rng(0)
    lines = []
    for folder in ("out", "out2"):
        (tmp_path / folder).mkdir()
    (tmp_path / "ref.png").write_bytes(encode(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)))
    for n in range(5):
        picture = encode(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8))
        other = encode(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8))
        (tmp_path / f"out/c{n}.png").write_bytes(picture)
        (tmp_path / f"out2/c{n}.png").write_bytes(other if n == 0 else picture)
        lines.append(
            json.dumps({"id": f"c{n}", "instruction": "Paint.", "references": [{"path": "ref.png", "role": "style"}]})
        )
    (tmp_path / "cases.jsonl").write_text("\n".join(lines))
    for run, outputs, mark in (("x", "out", 4), ("y", "out2", 6)):
        reply = json.dumps(dict.fromkeys(FIVE, mark))
        with JudgeServer(reply=lambda text, reply=reply: reply) as server:
            evaluate(
                str(tmp_path / "cases.jsonl"),
                models=[f"A=folder:{tmp_path / outputs}"],
                judges=[f"j=openai:gpt-4o?base_url={server.url}/v1"],
                out=tmp_path / run,
                rubric="five_criteria",
            )
    return tmp_path / "x", tmp_path / "y"


def test_two_runs_are_told_apart_by_their_pictures(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    first, second = map(str, runs)
    assert why_command(first, second, json=True) == 0
    (said,) = json.loads(capsys.readouterr().out)["why"]
    parts = {step["causes"][0]: step for step in said["steps"]}
    assert parts["same_output"]["delta"] == pytest.approx(2 * 4 / 5)
    assert parts["other_output"]["delta"] == pytest.approx(2 * 1 / 5)
    assert why_command(first, second) == 0
    shown = capsys.readouterr().out
    assert "4 of 4 cases with the same output and another score" in shown
    assert "1 of 1 cases with another output and another score" in shown
    assert "a difference of +2.00" in shown


def test_mistakes_are_said_in_a_sentence(runs: tuple[Path, Path]) -> None:
    first, second = map(str, runs)
    for words, options, said in (
        ((first,), {}, "or one run and --protocols"),
        ((first, second), {"protocols": True}, "or one run and --protocols"),
        ((first, first), {}, "are the same"),
        ((first, second), {"metric": "beauty"}, "--metric beauty: there are"),
        ((f"{first}:B", second), {}, "there is no model B"),
        ((first, "creval:Bagel"), {}, "same benchmark"),
        ((first,), {"protocols": True}, "one protocol only"),
    ):
        with pytest.raises(RefBenchError, match=said):
            why_command(*words, **options)  # type: ignore[arg-type]


def test_models_without_a_common_name_need_naming() -> None:
    from refbench.analysis.compare.runs import ScoreSource
    from refbench.analysis.why.runs import _models

    def side(*models: str) -> ScoreSource:
        return ScoreSource("r", benchmark("creval"), "paper", (), (), models, {})

    assert _models(("creval", side("A", "B")), ("creval", side("B", "C"))) == [("B", "B")]
    assert _models(("creval", side("A")), ("creval", side("C"))) == [("A", "C")]
    with pytest.raises(RefBenchError, match="name one of each"):
        _models(("creval", side("A", "B")), ("creval", side("C")))
