"""How sure a ranking and a number are: ranks, components of a real run, and the command that prints them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

import refbench
from refbench.analysis.agree.runs import agree
from refbench.analysis.precision.conditional import conditional
from refbench.analysis.precision.variance import OneMore, Variance, pooled, ranking, variances
from refbench.analysis.precision.weights import own_weights
from refbench.benchmarks import benchmark, kit
from refbench.benchmarks.creval.table import released_scores
from refbench.benchmarks.kit.definition import Condition
from refbench.case import AnyCase, Request
from refbench.cli.precision import precision_command
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.report.leaderboard import leaderboard
from refbench.runs import Run
from refbench.score import Score
from refbench.tables.result import Result
from refbench.tables.scoring import result_of, run_draws, score_run
from refbench.tables.table import DRAWS, case_values, columns_of
from support.campaigns import slow
from support.checkout import METRICS, plain_items, reply_text, write_checkout


@pytest.fixture(scope="module")
def creval() -> Result:
    cases, scores = released_scores("paper874")
    return result_of(benchmark("creval"), cases, scores, draws=0)


@pytest.fixture(scope="module")
def drawn_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, two judges, two seeds and three repeats on 12 items, one repeat missing and one unreadable."""
    work = tmp_path_factory.mktemp("drawn")
    items = plain_items(12)
    root = write_checkout(work / "creval", items, pictures=False)
    run = Run.create(work / "run", "creval", refbench.load("creval", root).cases)
    rng = np.random.default_rng(3)
    ease = {item.stem: rng.random() for item in items}
    with run.writer() as writer:
        for item in items:
            for model, bonus in (("alpha", 0.1), ("beta", 0.0)):
                for seed in (0, 1):
                    right = np.clip(ease[item.stem] + bonus + rng.normal(0, 0.2), 0, 1)
                    for judge in ("first", "second"):
                        for repeat in range(3):
                            for metric in METRICS:
                                place = (item.stem, model, judge, metric, seed, repeat)
                                if place == ("item_000.0", "alpha", "first", "IF", 0, 2):
                                    continue
                                answers = [
                                    (question, "Yes" if rng.random() < right else "No")
                                    for question, *_ in item.of(metric)
                                ]
                                broken = place == ("item_001.1", "beta", "second", "VC", 1, 0)
                                purpose = Purpose(
                                    case=item.stem, model=model, judge=judge, part=metric, seed=seed, repeat=repeat
                                )
                                reply = "I would rather not." if broken else reply_text(answers)
                                act = Evidence(kind="chat", request={"place": list(map(str, place))}, reply=reply)
                                writer.add(act, purpose)
    return run.path


def test_models_are_ranked_as_on_the_leaderboard(creval: Result) -> None:
    found = ranking(creval, "paper", "gpt-4o")
    lines = leaderboard(creval, {"level": "overall"})
    assert [rank.model for rank in found] == [line.model for line in lines]
    assert [rank.value for rank in found] == [line.main.value for line in lines]
    assert [rank.rank for rank in found] == list(range(1, 9))
    assert sum(rank.best or 0 for rank in found) == pytest.approx(1, abs=1e-5)


def rank_intervals(result: Result, protocol: str, judge: str) -> dict[str, tuple[int, int]]:
    """The ranks that each model could hold, without those that have none."""
    return {rank.model: rank.rank95 for rank in ranking(result, protocol, judge) if rank.rank95 is not None}


def test_models_whose_gap_cannot_be_resolved_share_ranks(creval: Result) -> None:
    """The two FLUX models differ by 0.19 with an interval about zero; Seedream leads by 3.6."""
    found = rank_intervals(creval, "paper", "gpt-4o")
    assert found["Flux1-Kontext-dev"] == found["Flux1-Kontext-Pro"] == (4, 5)
    assert found["seedream4-0"] == (1, 1)
    assert all(low <= high for low, high in found.values())


def test_one_case_says_nothing_about_the_order(creval: Result) -> None:
    one = creval.cases[:1]
    found = ranking(
        result_of(creval.bench, one, [s for s in creval.scores if s.case == one[0].id], draws=0), "paper", "gpt-4o"
    )
    assert len(found) == 8
    assert {(rank.rank95, rank.best) for rank in found} == {(None, None)}


def test_a_report_has_the_fingerprint_of_the_table(drawn_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = score_run(drawn_run, draws=DRAWS).table
    assert score_run(drawn_run, draws=0).table.fingerprint == table.fingerprint
    assert score_run(drawn_run, draws=100).table.fingerprint != table.fingerprint
    precision_command(drawn_run)
    assert table.fingerprint in capsys.readouterr().out


def test_a_model_without_a_value_has_no_rank(creval: Result) -> None:
    none = [
        s.model_copy(update={"value": None, "failure": Failure(kind="timeout"), "protocol": "corrected"})
        if s.model == "Bagel"
        else s.model_copy(update={"protocol": "corrected"})
        for s in creval.scores
    ]
    found = rank_intervals(result_of(creval.bench, creval.cases, none, draws=0), "corrected", "gpt-4o")
    assert "Bagel" not in found
    assert max(high for _, high in found.values()) == 7


def equal_models(creval: Result, seed: int, *, models: int, asked: int, refused: float = 0.0) -> Result:
    """Models whose marks of 100 items are dealt from one pool, so that nothing differs; all were asked for the first so
    many of them, and the first model refused the worst of its own."""
    rng = np.random.default_rng(seed)
    cases = [c.model_copy(update={"stratum": ""}) for c in creval.cases[:100]]
    names = sorted({s.model for s in creval.scores})[:models]
    scores = []
    for number, name in enumerate(names):
        marks = rng.beta(2, 2, len(cases))
        worst = marks <= np.quantile(marks[:asked], refused) if refused and not number else marks < 0
        for i, case in enumerate(cases):
            for metric in METRICS:
                state: dict[str, object] = {"value": float(marks[i])}
                if i >= asked:
                    state = {"not_asked": True}
                elif worst[i]:
                    state = {"failure": Failure(kind="refused", by_model=True)}
                scores.append(
                    Score(case=case.id, model=name, judge="j", metric=metric, protocol="corrected", **state)  # type: ignore[arg-type]
                )
    return result_of(creval.bench, cases, scores, draws=0)


def test_a_model_that_refuses_what_it_does_badly_gains_no_rank(creval: Result) -> None:
    for seed in range(4):
        result = equal_models(creval, seed, models=2, asked=100, refused=0.2)
        assert set(rank_intervals(result, "corrected", "j").values()) == {(1, 2)}


def test_ranks_are_as_open_as_the_cases_that_were_asked_for_leave_them(creval: Result) -> None:
    """Four cases of a hundred: no test of so few can tell models apart."""
    for seed in range(8):
        found = rank_intervals(equal_models(creval, seed, models=3, asked=4), "corrected", "j")
        assert set(found.values()) <= {(1, 3)}


def test_ranks_claim_what_compare_resolves(creval: Result) -> None:
    found = ranking(creval, "paper", "gpt-4o", draws=200)
    pairs = creval.compare(protocol="paper", judges=["gpt-4o"], draws=200, by_slice=False).pairs
    for rank in found:
        resolved = [p for p in pairs if p.resolved and p.gap is not None and rank.model in (p.first, p.second)]
        behind = sum((p.gap > 0) == (p.second == rank.model) for p in resolved if p.gap is not None)
        assert rank.rank95 == (1 + behind, len(found) - (len(resolved) - behind))


def test_the_means_of_the_draws_are_the_scores(drawn_run: Path) -> None:
    """Repeats are averaged within a seed: from the single draws one gets the scores of each seed again."""
    drawn: defaultdict[tuple[object, ...], list[float]] = defaultdict(list)
    count = 0
    for score in run_draws(drawn_run, protocol="both"):
        count += 1
        if score.value is not None:
            drawn[score.protocol, score.model, score.judge, score.case, score.metric, score.seed].append(score.value)
    assert count == 2 * 2 * 2 * 2 * 3 * 12 * 3  # protocols, models, judges, seeds, repeats, cases, metrics
    result = score_run(drawn_run, draws=0)
    for score in result.scores:
        place = score.protocol, score.model, score.judge, score.case, score.metric, score.seed
        assert score.value == pytest.approx(fmean(drawn[place]))


def test_what_is_missing_in_one_repeat_is_said_of_that_repeat(drawn_run: Path) -> None:
    states = {
        (s.case, s.model, s.judge, s.metric, s.seed, s.repeat): s.failure and s.failure.kind
        for s in run_draws(drawn_run, protocol="corrected")
        if s.value is None
    }
    assert states == {
        ("item_000.0", "alpha", "first", "IF", 0, 2): None,  # not asked yet
        ("item_001.1", "beta", "second", "VC", 1, 0): "unparsable",
    }


def test_all_sources_are_told_apart_in_a_run_that_has_two_of_each(drawn_run: Path) -> None:
    result = score_run(drawn_run, protocol="corrected", draws=0)
    found = variances(result, run_draws(drawn_run, protocol="corrected"), "corrected")
    assert [(v.model, v.n_judges, v.n_seeds, v.n_repeats) for v in found] == [("alpha", 2, 2, 3), ("beta", 2, 2, 3)]
    for one in found:
        assert not one.merged
        assert sum(one.share.values()) == pytest.approx(1)
        # The judges flip the same coins, so what they add is the noise of asking again, and little else.
        assert one.share["repeat"] > one.share["seed_by_judge"]
        errors = {more.of: more.error for more in one.one_more}
        assert one.error is not None
        assert set(errors) == {"seed", "judge", "repeat", "100 cases"}
        assert all(error is not None and error <= one.error for error in errors.values())
        assert errors["100 cases"] == pytest.approx(one.error * (12 / 112) ** 0.5)
    shares, models = pooled(found) or ({}, 0)
    assert models == 2
    assert shares["case"] == pytest.approx(fmean(one.share["case"] for one in found))


def simulated(creval: Result, seeds: int) -> tuple[Result, list[Score]]:
    """Every metric of an item has the same mark: 0.5 plus a case's part (sd 0.10) and a picture's (sd 0.15)."""
    rng = np.random.default_rng(8)
    drawn = [
        Score(case=case.id, model="m", judge="j", metric=metric, protocol="corrected", seed=seed, value=value)
        for case in creval.cases
        for part in [rng.normal(0, 0.10)]
        for seed in range(seeds)
        for value in [0.5 + part + rng.normal(0, 0.15)]
        for metric in METRICS
    ]
    by_case: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for score in drawn:
        by_case[score.case, score.metric].append(score.value or 0)
    means = [
        Score(case=c, model="m", judge="j", metric=m, protocol="corrected", value=fmean(v))
        for (c, m), v in by_case.items()
    ]
    return result_of(creval.bench, creval.cases, means, draws=0), drawn


def test_known_components_come_out_in_the_units_of_the_table(creval: Result) -> None:
    result, drawn = simulated(creval, seeds=2)
    (found,) = variances(result, drawn, "corrected")
    assert found.variance["case"] == pytest.approx(100, rel=0.15)  # (100 * 0.10) ** 2
    assert found.variance["seed"] == pytest.approx(225, rel=0.15)
    assert found.error == pytest.approx(((100 + 225 / 2) / 874) ** 0.5, rel=0.08)


def test_what_one_more_seed_was_said_to_buy_it_buys(creval: Result) -> None:
    before, drawn = simulated(creval, seeds=2)
    (found,) = variances(before, drawn, "corrected")
    promised = next(more.error for more in found.one_more if more.of == "seed")
    after, drawn = simulated(creval, seeds=3)
    (then,) = variances(after, drawn, "corrected")
    assert promised == pytest.approx(then.error, rel=0.08)
    assert (
        next(more.why for more in found.one_more if more.of == "repeat") == "a run with at least two repeats can tell"
    )


def clustered(creval: Result, seeds: int, rng_seed: int = 8) -> tuple[Result, list[Score]]:
    """Two models on clusters of eight cases: their gap varies by cluster (sd 0.2) and by picture (sd 0.15)."""
    rng = np.random.default_rng(rng_seed)
    cases = [c.model_copy(update={"cluster": str(i // 8), "stratum": ""}) for i, c in enumerate(creval.cases)]
    level = rng.normal(0, 0.2, len(cases))
    drawn = [
        Score(case=case.id, model=model, judge="j", metric=metric, protocol="corrected", seed=seed, value=value)
        for i, case in enumerate(cases)
        for model, part in (("a", 0.6 + level[i // 8]), ("b", 0.4))
        for seed in range(seeds)
        for value in [part + rng.normal(0, 0.15)]
        for metric in METRICS
    ]
    return result_of(creval.bench, cases, drawn, draws=0), drawn


def test_what_one_more_seed_buys_is_about_the_gap_and_leaves_what_a_cluster_shares(creval: Result) -> None:
    """Clusters make the error and seeds do little: scaling the error by the seeds' share promised a third of it."""
    found = {one.model: one for one in variances(*clustered(creval, seeds=1 + 1), "corrected")}
    assert (found["a"].versus, found["b"].versus) == ("b", "a")
    n, clusters = 874, np.ceil(874 / 8)
    for one in found.values():
        expected = 400 / clusters + 2 * 225 / 2 / n
        assert one.error == pytest.approx(expected**0.5, rel=0.15)
        promised = next(more.error for more in one.one_more if more.of == "seed")
        assert promised is not None
        assert one.error is not None
        assert one.error**2 - promised**2 == pytest.approx(2 * 225 * (1 / 2 - 1 / 3) / n, rel=0.1)


def test_a_gap_has_one_error_whichever_model_has_fewer_cases(creval: Result) -> None:
    """B has 40 cases of A's 200: what A adds to the error shrinks as 200 cases become 300."""
    rng = np.random.default_rng(5)
    cases = [c.model_copy(update={"cluster": c.id, "stratum": ""}) for c in creval.cases[:200]]
    drawn = [
        Score(case=case.id, model=model, judge="j", metric=metric, protocol="corrected", seed=seed, **state)
        for i, case in enumerate(cases)
        for model, level in (("a", 0.6), ("b", 0.4))
        for seed in range(2)
        for value in [level + rng.normal(0, 0.1)]
        for metric in METRICS
        for state in [{"value": value} if model == "a" or i < 40 else {"failure": Failure(kind="refused")}]
    ]
    found = variances(result_of(creval.bench, cases, drawn, draws=0), drawn, "corrected")
    assert [(one.model, one.versus) for one in found] == [("a", "b"), ("b", "a")]
    there, back = found
    assert there.error == pytest.approx(back.error)
    assert [more.error for more in there.one_more] == pytest.approx([more.error for more in back.one_more])
    of_a, of_b = 100**2 * 0.1**2 / 2 / 200, 100**2 * 0.1**2 / 2 / 40
    more = {more.of: more.error for more in there.one_more}
    assert there.error == pytest.approx((of_a + of_b) ** 0.5, rel=0.3)
    assert more["100 cases"] == pytest.approx((of_a * 200 / 300 + of_b * 40 / 140) ** 0.5, rel=0.3)
    assert more["seed"] == pytest.approx(there.error * (2 / 3) ** 0.5, rel=0.2)


def test_a_condition_selects_the_cases_and_nothing_else(creval: Result) -> None:
    """CREval's overall is the mean over items, so the conditional one can be computed in a line."""
    found = {
        row.model: row
        for row in conditional(creval, Condition("VC", "IF", 80), protocol="paper", judge="gpt-4o", draws=400)
    }
    marks = {(s.model, s.metric, s.case): s.value or 0 for s in creval.scores}
    follows = {m: [c.id for c in creval.cases if marks[m, "IF", c.id] >= 0.8] for m in found}
    for model, row in found.items():
        assert row.n == len(follows[model])
        assert row.value == pytest.approx(100 * fmean(marks[model, "VC", case] for case in follows[model]))
        assert row.unconditional == creval.value(model=model, metric="VC", level="overall", protocol="paper")
        assert row.ci95 is not None
        assert row.ci95[0] < (row.value or 0) < row.ci95[1]
        assert row.n_shared == len(set.intersection(*(set(ids) for ids in follows.values())))


def test_a_condition_that_nothing_meets_gives_no_number(creval: Result) -> None:
    found = conditional(creval, Condition("VC", "IF", 101), protocol="paper", judge="gpt-4o", draws=50)
    assert {(row.value, row.ci95, row.n) for row in found} == {(None, None, 0)}
    with pytest.raises(RefBenchError, match="has no measure XY"):
        conditional(creval, Condition("XY", "IF", 1), protocol="paper", judge="gpt-4o")


def test_the_command_says_it_all(drawn_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert precision_command(drawn_run, weights=["1:1:1"], given=["VQ:IF:50"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for words in (
        "Ranks in avg by first",
        "Failures by second",
        "The weights of avg are 4:4:2",
        "VQ where IF is at least 50 by first",
        "Mean over 2 of 2 models",
        "+1 seed +1 judge +1 repeat +100 cases",
        "Not checked: the run holds no outputs.",
    ):
        assert words in said
    assert "nan" not in said.lower()


def test_the_command_prints_one_json_object(drawn_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert precision_command(drawn_run, judge="first", protocol="paper", json=True) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["protocol"], report["measure"], [j["judge"] for j in report["judges"]]) == (
        "paper",
        "avg",
        ["first"],
    )
    assert {rank["model"] for rank in report["judges"][0]["ranking"]} == {"alpha", "beta"}
    assert {one["n_judges"] for one in report["variances"]} == {1}
    assert report["variances"][0]["one_more"][0]["of"] == "seed"


@pytest.mark.parametrize(
    "lines",
    [
        slow(["case,model,metric,rater,score", *(f"item_{i:03}.0,{m},avg,ann,{i % 5}" for i in range(9) for m in ("alpha", "beta"))]),
        slow(["case,model,metric,ann,bo", *(f"item_{i:03}.0,{m},avg,{i % 5},3" for i in range(9) for m in ("alpha", "beta"))]),
        ["case,model,rater,IF,VC,VQ", *(f"item_{i:03}.0,{m},ann,{i % 5},3,2" for i in range(9) for m in ("alpha", "beta"))],
    ],
)  # fmt: skip
def test_people_are_read_from_the_csv_that_agree_reads(
    drawn_run: Path, tmp_path: Path, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    people = tmp_path / "people.csv"
    ids = [case.id for case in Run.open(drawn_run).cases(benchmark("creval").data.case_type)]
    text = "\n".join(lines)
    for i in range(9):
        text = text.replace(f"item_{i:03}.0", ids[i])
    people.write_text(text)
    agree(drawn_run, humans=people)
    assert precision_command(drawn_run, humans=people, json=True) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["judges"][0]["weights"]["default"]["human"]["n_items"] == 18


def test_people_who_scored_none_of_the_models_are_refused(drawn_run: Path, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("case,model,score\nitem_000.0,stranger,1\n")
    with pytest.raises(RefBenchError, match="none of its models is in the run"):
        precision_command(drawn_run, humans=people)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"judge": "nobody"}, "--judge nobody: the judges are first, second"),
        ({"weights": ["1:2"]}, "--weights 1:2"),
        ({"given": ["VC>80"]}, "--given VC>80: write MEASURE:CONDITION:AT_LEAST"),
        ({"humans": Path("nowhere.csv")}, "nowhere.csv"),
    ],
)
def test_wrong_usage_is_a_sentence(drawn_run: Path, wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(RefBenchError, match=sentence):
        precision_command(drawn_run, **wrong)  # type: ignore[arg-type]


def bought(**errors: float | None) -> Variance:
    calls = {"seed": 200.0, "judge": 200.0, "repeat": 200.0, "100 cases": 200.0}
    return Variance(
        model="a",
        versus="b",
        measure="avg",
        n_cases=100,
        n_judges=1,
        n_seeds=1,
        n_repeats=1,
        variance={},
        share={},
        merged={},
        negative={},
        remarks=(),
        error=2.0,
        level_error=None,
        one_more=tuple(OneMore(of=of, error=errors.get(of), calls=n) for of, n in calls.items()),
    )


def test_what_to_buy_next_takes_most_variance_for_each_judgement() -> None:
    best = bought(seed=1.5, repeat=1.9, **{"100 cases": 1.6}).best_buy
    assert best is not None
    assert best.of == "seed"
    assert bought(seed=1.5).best_buy is None, "one thing alone cannot be compared with another"
    shares = bought(seed=3**0.5, repeat=3.5**0.5).error_shares
    assert shares == pytest.approx({"seed": 0.5, "repeat": 0.25})


def test_weights_are_read_off_cases_whose_criteria_are_of_the_same_pictures() -> None:
    """A mark that one of two seeds has lost makes a criterion's mean one of other pictures than the total's."""
    bench = kit.benchmark(
        name="tiny",
        load=lambda root: [],
        judge=[kit.Call("j", {"x": (0, 10), "y": (0, 10)}, lambda case, material: [], lambda case, reply: {})],
        total="mean",
    )
    aggregate = next(iter(bench.scoring.protocols.values())).aggregate
    cases = [AnyCase(id=str(i), request=Request(instruction=""), cluster=str(i), details=None) for i in range(6)]
    rng = np.random.default_rng(1)
    scores = []
    for case in cases:
        for seed in (0, 1):
            for metric in ("x", "y"):
                place = {"case": case.id, "model": "m", "judge": "j", "metric": metric, "protocol": "p", "seed": seed}
                lost = (case.id, seed, metric) == ("0", 1, "y")
                known = {"failure": Failure(kind="out_of_range")} if lost else {"value": float(rng.uniform(0, 10))}
                scores.append(Score(**place, **known))
    columns = columns_of(scores, cases)
    read = own_weights(aggregate, columns, case_values(aggregate, columns, cases), ("x", "y"), "total")
    assert read == pytest.approx([0.5, 0.5])
