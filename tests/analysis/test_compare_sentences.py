"""No sentence to paste says anything that its record does not, and none contradicts itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from refbench import Failure, Score
from refbench.analysis.compare import Comparison, Pair, Systems, compare_columns
from refbench.benchmarks.kit import Call, benchmark
from refbench.case import AnyCase, Request
from refbench.failure import FailureKind
from refbench.tables.table import Aggregate, columns_of
from support.campaigns import searched
from support.sentences import contradictions, parse


def aggregate(low: float | None = 0.0, high: float | None = 10.0) -> Aggregate:
    made = benchmark(
        name="tiny",
        load=lambda root: [],
        judge=[Call("j", {"x": (0, 10), "y": (0, 10)}, lambda case, material: [], lambda case, reply: {})],
        total="mean",
    )
    found = next(iter(made.scoring.protocols.values())).aggregate
    if low is None or high is None:
        from dataclasses import replace

        found = replace(found, measures=tuple(replace(m, low=low, high=high) for m in found.measures))
    return found


STATES: tuple[FailureKind | None, ...] = ("refused", "unparsable", "timeout", None)
"""None: not asked yet."""


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    """Up to four models by up to two judges and their mean, with failures of all kinds, seeds, clusters, both
    directions, bounded or not."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, n_models, n_seeds = draw(st.integers(2, 40)), draw(st.integers(2, 4)), draw(st.integers(1, 2))
    judges = draw(st.sampled_from([["j"], ["j", "k"], ["j", "k", "mean"]]))
    broken = draw(st.sampled_from([0.0, 0.0, 0.05, 0.3, 1.0]))
    shift, noise = draw(st.sampled_from([0.0, 0.3, 3.0])), draw(st.sampled_from([0.0, 0.5, 3.0]))
    per_cluster = draw(st.integers(1, 3))
    models = [f"m{i}" for i in range(n_models)]
    cases = [
        AnyCase(id=str(i), request=Request(instruction=""), cluster=str(i // per_cluster), details=None)
        for i in range(n)
    ]
    scores = []
    for m, model in enumerate(models):
        for case in cases:
            level = rng.uniform(2, 6)
            for judge in judges:
                for seed in range(n_seeds):
                    state = STATES[rng.integers(4)] if rng.random() < broken * (m == 0) + broken / 4 else ""
                    for metric in ("x", "y"):
                        value = float(np.clip(np.round(level + m * shift + noise * rng.normal(), 1), 0, 10))
                        place = {"case": case.id, "model": model, "judge": judge, "metric": metric, "protocol": "p"}
                        if state == "":
                            scores.append(Score(**place, seed=seed, value=value))
                        elif state is None:
                            scores.append(Score(**place, seed=seed, not_asked=True))
                        else:
                            failure = Failure(kind=state, by_model=state == "refused")
                            scores.append(Score(**place, seed=seed, failure=failure))
    refusals = draw(st.sampled_from(["conditional", "worst"]))
    lower = draw(st.sampled_from([(), ("x", "total"), ("total", "x", "y")]))
    metric = draw(st.sampled_from([None, "x"]))
    ends = (None, None) if draw(st.booleans()) and draw(st.booleans()) else (0.0, 10.0)
    made = aggregate(*ends)
    systems = Systems(
        made.counting_refusals(lower) if refusals == "worst" else made,
        columns_of(scores, cases),
        cases,
        benchmark="b",
        title="B",
        protocol="p",
        seeds=dict.fromkeys(models, n_seeds),
        lower=lower,
        measured=("x",) if draw(st.booleans()) else (),
        mean_of_judges="mean",
        refusals=refusals,
    )
    return compare_columns(systems, metric=metric, draws=100)


def as_shown(value: float, digits: int) -> float:
    return float(f"{value:.{digits}f}")


def check(pair: Pair, found: Comparison) -> None:
    said = parse(pair.sentence)
    assert contradictions(said) == []
    assert (said.first, said.second, said.on) == (pair.first, pair.second, f"B {found.metric}")
    assert said.lower == found.lower_is_better
    if pair.gap is None:
        assert said.state == "incomparable"
        return
    assert pair.p_adjusted is not None
    assert said.state == ("resolved" if pair.resolved else "unresolved")
    assert said.gap == as_shown(pair.gap, found.digits)
    assert said.interval == (pair.ci95 and tuple(as_shown(end, found.digits) for end in pair.ci95))
    if said.p_below:
        assert pair.p_adjusted <= (said.p or 0) * (1 + 1e-9)
    else:
        assert said.p == pytest.approx(pair.p_adjusted, rel=0.05)
    assert (said.family, said.of_single_judges) == (pair.family, pair.supplementary and pair.family > 1)
    assert (said.n_cases, said.n_clusters, said.seeds) == (pair.n_cases, pair.n_clusters, pair.seeds)
    assert said.judges == ((pair.judge,) if pair.judge else ())
    assert (said.n_left_out, said.left_out) == (sum(pair.left_out.values()), dict(pair.left_out))
    assert (said.n_lost, said.n_imputed) == (sum(pair.lost), sum(pair.imputed))
    assert said.bounds == (pair.bounds and tuple(as_shown(end, found.digits) for end in pair.bounds))
    assert said.unbounded == (pair.bounds is None and pair.n_failed > 0)
    assert said.refusals == found.refusals
    assert said.symmetric == pair.symmetric
    if said.together is not None:
        assert pair.bounds_ci95 is not None
        assert said.together == tuple(as_shown(end, found.digits) for end in pair.bounds_ci95)
    assert said.hopeless == (pair.hopeless is not None)
    if said.detectable is not None:
        assert pair.detectable is not None
        assert pair.detectable * (1 - 1e-9) <= said.detectable <= 1.1 * pair.detectable
    if pair.effect is not None:
        assert pair.effect * pair.gap >= 0


@searched(12, 60, comparisons())
def test_every_sentence_says_what_its_record_says_and_never_contradicts_itself(found: Comparison) -> None:
    for pair in found.pairs:
        check(pair, found)
        assert pair.wins + pair.ties + pair.losses <= pair.n_cases
        if pair.resolved and pair.ci95:
            assert not pair.ci95[0] <= 0 <= pair.ci95[1]
        if pair.bounds and pair.gap is not None and not any(pair.lost):
            assert pair.bounds[0] <= pair.bounds[1]
    assert found.family == sum(pair.gap is not None and not pair.supplementary for pair in found.pairs)
