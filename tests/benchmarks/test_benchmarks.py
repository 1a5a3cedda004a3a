"""What holds for every benchmark in the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refbench.benchmarks import Benchmark, benchmark, names
from refbench.benchmarks.kit.definition import measured_by
from refbench.case import AnyCase
from refbench.cli.options import Formulas
from refbench.failure import KINDS, Failure
from refbench.metrics import find_metric, home_of
from refbench.score import Score
from support.small_data import WRITERS

MEASURING = [name for name in names() if benchmark(name).asking.measuring is not None]
DERIVING = [name for name in names() if benchmark(name).scoring.derived is not None]
States = dict[str, dict[str, Any]]
CasesOf = Callable[[str], Sequence[AnyCase]]


@pytest.fixture(scope="module")
def cases_of(tmp_path_factory: pytest.TempPathFactory) -> CasesOf:
    """A few cases of each benchmark, as its own loader reads them, by the benchmark's name."""
    root = tmp_path_factory.mktemp("data")
    found: dict[str, Sequence[AnyCase]] = {}

    def cases(name: str) -> Sequence[AnyCase]:
        if name not in WRITERS:
            pytest.skip(f"nothing writes data of {name}: add it to WRITERS, and what it derives and measures is tested")
        if name not in found:
            WRITERS[name](root / name)
            found[name] = benchmark(name).data.load(root / name, None).cases
        return found[name]

    return cases


def test_a_benchmark_that_nothing_writes_data_of_is_named(cases_of: CasesOf) -> None:
    with pytest.raises(pytest.skip.Exception, match="nothing writes data of mine: add it to WRITERS"):
        cases_of("mine")


def test_the_help_of_formulas_names_all_that_there_are() -> None:
    said = " ".join(str(one.help) for one in get_args(Formulas)[1:])
    there = {
        (bench.title, name)
        for bench in map(benchmark, names())
        for protocol in bench.scoring.protocols.values()
        for name in protocol.formulas
    }
    assert len(there) > 1
    assert {one for one in there if f"{one[0]} has `{one[1]}`" not in said} == set()


NOT_ASKED: dict[str, Any] = {"not_asked": True}
FAILURES = st.sampled_from(KINDS).map(lambda kind: {"failure": Failure(kind=kind)})  # type: ignore[arg-type]
VALUES = st.sampled_from([0.0, 1.0, 0.5, 5.0]).map(lambda value: {"value": value})
STATES = st.one_of(VALUES, FAILURES, st.just({"not_applicable": "the model cannot take it"}), st.just(NOT_ASKED))


def score(metric: str, protocol: str, state: dict[str, Any]) -> Score:
    return Score(case="c", model="m", judge="j", metric=metric, protocol=protocol, **state)


def derived_scores(bench: Benchmark, case: AnyCase, protocol: str, states: States) -> dict[str, dict[str, Any]]:
    assert bench.scoring.derived is not None
    scores = {metric: score(metric, protocol, said) for metric, said in states.items()}
    found = {}
    for metric, said in bench.scoring.derived(case, protocol, scores).items():
        assert metric in {m for of_part in bench.asking.parts.values() for m in of_part}
        kind = {Failure: "failure", str: "not_applicable"}.get(type(said), "value")
        found[metric] = NOT_ASKED if said is None else {kind: said}
        score(metric, protocol, found[metric])
    return found


@pytest.mark.parametrize("name", DERIVING)
@given(st.integers(0), st.booleans(), st.tuples(STATES, STATES, STATES), st.lists(st.integers(0, 2), min_size=1))
@settings(max_examples=100, deadline=None)
def test_what_is_derived_from_any_mixture_of_states_is_one_state(
    cases_of: CasesOf,
    name: str,
    which: int,
    paper: bool,
    states: tuple[dict[str, Any], ...],
    turns: list[int],
) -> None:
    bench = benchmark(name)
    metrics = [m for part, of_part in bench.asking.parts.items() if part != "derived" for m in of_part]
    mixture = {metric: states[turns[n % len(turns)]] for n, metric in enumerate(metrics)}
    case = cases_of(name)[which % len(cases_of(name))]
    derived_scores(bench, case, "paper" if paper else "corrected", mixture)


@pytest.mark.parametrize("name", DERIVING)
def test_what_is_derived_of_equal_states_is_in_that_state(name: str, cases_of: CasesOf) -> None:
    """A case that the model cannot take concerns nobody, one that was not asked yet has not failed."""
    bench = benchmark(name)
    metrics = [m for part, of_part in bench.asking.parts.items() if part != "derived" for m in of_part]
    for case in cases_of(name):
        away = bench.asking.not_applicable(case)
        for protocol in bench.scoring.protocols:
            for everywhere in ({"not_applicable": "the model cannot take it"}, NOT_ASKED):
                found = derived_scores(bench, case, protocol, dict.fromkeys(metrics, everywhere))
                assert all(set(said) in (set(everywhere), {"not_applicable"}) for said in found.values()), found
                assert set(found) <= set(away) or set(everywhere) in [set(said) for said in found.values()]


@pytest.mark.parametrize("name", MEASURING)
def test_every_measured_part_has_the_direction_that_its_metric_declares(name: str, cases_of: CasesOf) -> None:
    bench = benchmark(name)
    found = measured_by(bench, cases_of(name))
    assert {part for part, _ in found} <= bench.asking.measured
    for part, metric in found:
        assert (metric.better == "lower") == (part in bench.scoring.lower), f"{part} by {metric.id}"


@pytest.mark.parametrize("name", names())
def test_lower_names_only_what_the_benchmark_has(name: str) -> None:
    bench = benchmark(name)
    scores = {metric for of_part in bench.asking.parts.values() for metric in of_part}
    columns = {measure.name for protocol in bench.scoring.protocols.values() for measure in protocol.aggregate.measures}
    assert bench.scoring.lower <= scores | columns


def test_another_process_learns_where_the_metric_of_a_benchmark_lives() -> None:
    def glow() -> float:
        return 1.0

    shipped = find_metric("ssim")
    assert home_of(shipped) is None
    glow.__module__ = "refbench.benchmarks.mine.benchmark"
    found = home_of(replace(shipped, function=glow))
    assert found is not None and found[0] == "refbench.benchmarks.mine.benchmark"
