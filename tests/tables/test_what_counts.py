"""What counts: each seed, what nobody has asked for yet, refusals, whole pictures; from evidence to the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refbench import Failure
from refbench.benchmarks.kit import Benchmark, Call, Total, benchmark
from refbench.case import AnyCase, Case, Request
from refbench.evidence import Evidence, Purpose
from refbench.output import Output, StoredPicture
from refbench.tables.result import Result
from refbench.tables.scorer import RunFacts, score_evidence
from refbench.tables.scoring import result_of
from refbench.tables.table import Row, columns_of, ends_of

CASES: list[AnyCase] = [
    Case(id=f"c{n}", request=Request(instruction="paint"), cluster=f"c{n}", details={}) for n in range(4)
]
PICTURE = StoredPicture(sha256="0" * 64, format="png", width=1, height=1)
Said = tuple[float, float] | str | Failure | None
"""Two marks, a reply that is none, a failed call, or nothing asked."""


def pair(rule: Any = "geometric_mean", *, lower: frozenset[str] = frozenset()) -> Benchmark:
    def read(case: AnyCase, reply: str) -> Mapping[str, Any]:
        marks = reply.split()
        if len(marks) != 2:
            return {}
        return {"follows": float(marks[0]), "looks": float(marks[1])}

    verdict = Call("verdict", {"follows": (0, 10), "looks": (0, 10)}, lambda case, material: [], read)
    made = benchmark(name="pair", load=lambda root: CASES, judge=[verdict], total=Total(rule))
    return replace(made, scoring=replace(made.scoring, lower=lower))


def result(
    bench: Benchmark,
    said: Mapping[tuple[str, int], Said],
    outputs: Sequence[Output] = (),
    *,
    seeds: int = 1,
    refusals: str = "conditional",
    cases: Sequence[AnyCase] = CASES,
) -> Result:
    evidence = []
    for (case, seed), reply in said.items():
        if reply is None:
            continue
        text = " ".join(map(str, reply)) if isinstance(reply, tuple) else reply
        state = {"failure": text} if isinstance(text, Failure) else {"reply": text}
        act = Evidence(kind="chat", request={"model": "j", "case": case, "seed": seed}, **state)
        evidence.append((Purpose(case=case, model="m", judge="j", part="verdict", seed=seed), act))
    counts = refusals == "worst,unsupported"
    facts = RunFacts([("m", "j")], outputs, live=True, seeds={"m": seeds}, unsupported_counts=counts)
    scores = score_evidence(bench, cases, evidence, ["corrected"], facts)
    return result_of(bench, cases, scores, draws=0, refusals=refusals)


def row(found: Result, metric: str = "total") -> Row:
    (one,) = found.rows(metric=metric, level="overall")
    return one


def refused(case: str, kind: Any = "refused") -> Output:
    return Output(case=case, model="m", failure=Failure(kind=kind))


def test_a_total_is_taken_of_each_picture_before_seeds_are_averaged() -> None:
    """Each picture scores 0 under a geometric mean, whatever the seeds' mean marks are."""
    said: dict[tuple[str, int], Said] = {
        (case.id, seed): (10, 0) if seed else (0, 10) for case in CASES for seed in (0, 1)
    }
    found = result(pair(), said, seeds=2)
    assert row(found).value == 0.0
    assert row(found, "follows").value == 5.0


def test_a_lost_seed_is_counted_and_bounded_and_the_case_is_scored_on_what_is_left() -> None:
    said: dict[tuple[str, int], Said] = {(case.id, seed): (10, 10) for case in CASES for seed in range(3)}
    said["c0", 0] = said["c0", 1] = Failure(kind="refused")
    said["c0", 2] = (4, 4)
    found = row(result(pair("mean"), said, seeds=3))
    assert (found.n_cases, found.n_seeds, found.n_expected, found.n_scored) == (4, 3, 12, 10)
    assert found.failures == {"refused": 2}
    assert found.value == (4 + 30) / 4
    assert found.bounds == pytest.approx(((4 / 3 + 30) / 4, (24 / 3 + 30) / 4))


def test_a_seed_that_was_asked_for_and_never_came_is_not_asked_yet() -> None:
    said: dict[tuple[str, int], Said] = {(case.id, 0): (6, 6) for case in CASES}
    found = row(result(pair("mean"), said, seeds=2))
    assert (found.value, found.n_expected, found.n_scored, found.n_not_asked, found.failures) == (6.0, 8, 4, 4, {})
    assert found.bounds == (6.0, 6.0)


def test_what_nobody_has_asked_for_yet_is_no_failure() -> None:
    said: dict[tuple[str, int], Said] = {("c0", 0): (8, 8), ("c1", 0): "no marks here"}
    found = result(pair("mean"), said)
    assert (row(found).n_scored, row(found).n_not_asked, row(found).failures) == (1, 2, {"unparsable": 1})
    assert found.failure_share() == 0.5  # of the two that were asked
    assert {item["case"] for item in found.items() if item.get("not_asked")} == {"c2", "c3"}


def test_a_reply_counts_once_whatever_is_read_from_it_and_a_mean_of_judges_is_no_reply() -> None:
    """Two judges mark two measures of four cases in eight replies, of which one cannot be read."""
    bench = pair("mean")
    asking = replace(bench.asking, measured=frozenset({"l1"}), parts={**bench.asking.parts, "l1": ("l1",)})
    bench = replace(bench, asking=asking, scoring=replace(bench.scoring, judges_mean=True))
    evidence = []
    for case in CASES:
        act = Evidence(kind="measure", request={"metric": "l1", "case": case.id}, reply='{"value": 0.5}')
        evidence.append((Purpose(case=case.id, model="m", judge="", part="l1"), act))
        for judge in ("j1", "j2"):
            said = "no marks here" if (case.id, judge) == ("c0", "j1") else "5 5"
            act = Evidence(kind="chat", request={"model": judge, "case": case.id}, reply=said)
            evidence.append((Purpose(case=case.id, model="m", judge=judge, part="verdict"), act))
    asked = RunFacts(live=True, judges=("j1", "j2"), seeds={"m": 1})
    found = result_of(bench, CASES, score_evidence(bench, CASES, evidence, ["corrected"], asked), draws=0)
    assert found.failed() == ({"unparsable": 1}, 8 + 4)
    assert found.failure_share() == 1 / 12
    fewer = result_of(bench, CASES, score_evidence(bench, CASES, evidence[:-2], ["corrected"], asked), draws=0)
    assert (fewer.waiting(), fewer.pieces_said()) == (2, "replies and measurements")


def test_a_reply_that_is_not_among_imported_ones_is_missing() -> None:
    """Nobody will ask for it: the release is what it is."""
    act = Evidence(kind="chat", request={"imported": "x"}, reply="5 5")
    scores = score_evidence(
        pair("mean"), CASES, [(Purpose(case="c0", model="m", judge="j", part="verdict"), act)], ["corrected"]
    )
    found = row(result_of(pair("mean"), CASES, scores, draws=0))
    assert (found.n_scored, found.n_not_asked, found.failures) == (1, 0, {"missing_reply": 3})


SAID: dict[tuple[str, int], Said] = {("c0", 0): (8, 8), ("c1", 0): (6, 6), ("c2", 0): Failure(kind="refused")}


def test_a_models_refusal_is_left_out_or_the_worst_and_a_judges_only_widens_bounds() -> None:
    outputs = [refused("c3")]
    left_out = row(result(pair("mean"), SAID, outputs))
    assert (left_out.value, left_out.n_scored, left_out.failures) == (7.0, 2, {"refused": 2})
    assert left_out.own_failures == {"refused": 1}
    assert left_out.bounds == ((8 + 6) / 4, (8 + 6 + 10 + 10) / 4)
    worst = row(result(pair("mean"), SAID, outputs, refusals="worst"))
    assert (worst.value, worst.n_imputed, worst.n_scored) == (pytest.approx(14 / 3), 1, 2)
    assert worst.bounds == (14 / 4, 24 / 4)


@pytest.mark.parametrize("refusals", ["conditional", "worst"])
def test_a_scale_ends_where_it_does_however_much_a_model_refuses(refusals: str) -> None:
    """Else no interval could reach a gap between one that refuses nothing and one that refuses nearly all."""
    found = result(pair("mean"), SAID, [refused("c2"), refused("c3")], refusals=refusals)
    aggregate = next(iter(found.bench.scoring.protocols.values())).aggregate
    if refusals == "worst":
        aggregate = aggregate.counting_refusals(())
    columns = columns_of(found.scores, CASES)
    overall = aggregate.overall(CASES)
    low, high = (ends_of(aggregate, columns, overall, side)[0, "total"] for side in ("low", "high"))
    assert (float(low[0, 0]), float(high[0, 0])) == (0.0, 10.0)


def test_the_worst_of_a_measure_of_which_less_is_better_is_its_upper_end() -> None:
    lower = frozenset({"follows", "looks", "total"})
    assert row(result(pair("mean", lower=lower), SAID, [refused("c3")], refusals="worst")).value == pytest.approx(8.0)


def test_what_a_model_cannot_take_counts_only_when_asked_for() -> None:
    outputs = [refused("c3", "unsupported")]
    for refusals, value, expected in (("conditional", 7, 3), ("worst", 7, 3), ("worst,unsupported", 14 / 3, 4)):
        found = row(result(pair("mean"), SAID, outputs, refusals=refusals))
        assert (found.value, found.n_expected) == (pytest.approx(value), expected), refusals
        assert found.n_expected + found.n_not_applicable == 4


def test_an_endpoint_that_could_not_be_reached_is_not_the_models_failure() -> None:
    found = row(result(pair("mean"), SAID, [refused("c3", "api_error")], refusals="worst"))
    assert (found.value, found.own_failures) == (7.0, {})


def test_how_refusals_count_is_in_the_fingerprint() -> None:
    prints = {result(pair(), SAID, refusals=r).table.fingerprint for r in ("conditional", "worst", "worst,unsupported")}
    assert len(prints) == 3


def test_without_a_worst_value_there_is_none_and_the_row_says_so() -> None:
    bench = pair("mean")
    aggregate = bench.scoring.protocols["corrected"].aggregate
    open_ended = replace(aggregate, measures=tuple(replace(m, low=None, high=None) for m in aggregate.measures))
    protocol = replace(bench.scoring.protocols["corrected"], aggregate=open_ended)
    bench = replace(bench, scoring=replace(bench.scoring, protocols={"corrected": protocol}))
    found = row(result(bench, SAID, [refused("c3")], refusals="worst"))
    assert found.value is None
    assert "no worst value" in (found.remark or "")
    assert row(result(bench, SAID, [refused("c3")])).value == 7.0


def test_a_run_measured_again_half_way_is_no_mixture_of_two_versions() -> None:
    bench = benchmark(
        name="measured", load=lambda root: CASES, measure=lambda case: [], measured={"l1": (0.0, 1.0)}, lower=["l1"]
    )

    def measured(case: str, version: int, value: float) -> tuple[Purpose, Evidence]:
        request = {"metric": "l1", "version": version, "case": case}
        act = Evidence(kind="measure", request=request, reply=f'{{"value": {value}}}')
        return Purpose(case=case, model="m", judge="", part="l1"), act

    old = [measured(case.id, 1, 0.5) for case in CASES]
    scores = score_evidence(bench, CASES, [*old, measured("c0", 2, 0.1)], ["corrected"], RunFacts(live=True))
    found = row(result_of(bench, CASES, scores, draws=0), "l1")
    assert (found.value, found.n_scored, found.n_not_asked) == (0.1, 1, 3)


@given(
    said=st.dictionaries(
        st.tuples(st.sampled_from([case.id for case in CASES]), st.integers(0, 2)),
        st.one_of(
            st.tuples(st.integers(0, 10), st.integers(0, 10)),
            st.just("nothing"),
            st.sampled_from(["refused", "timeout"]).map(lambda kind: Failure(kind=kind)),
        ),
    ),
    gone=st.lists(st.tuples(st.sampled_from([case.id for case in CASES]), st.sampled_from(["refused", "unsupported"]))),
    rule=st.sampled_from(["mean", "geometric_mean", "minimum"]),
    refusals=st.sampled_from(["conditional", "worst", "worst,unsupported"]),
)
def test_every_picture_is_in_exactly_one_state_and_bounds_hold_the_value(
    said: dict[tuple[str, int], Said], gone: list[tuple[str, str]], rule: str, refusals: str
) -> None:
    lost = dict(gone)
    outputs = [refused(case, kind) for case, kind in lost.items()]
    heard = {place: reply for place, reply in said.items() if not (place[0] in lost and place[1] == 0)}
    for one in result(pair(rule), heard, outputs, seeds=3, refusals=refusals).table.rows:
        assert one.n_expected == one.n_scored + sum(one.failures.values()) + one.n_not_asked
        assert one.n_expected + one.n_not_applicable == one.n_cases * one.n_seeds == 12
        assert (one.value is None) == (one.n_scored + one.n_imputed == 0)
        if one.value is not None and one.bounds is not None:
            assert one.bounds[0] - 1e-9 <= one.value <= one.bounds[1] + 1e-9
