"""Benchmarks in one small file, from data to the table: the example, and two designs that ask for more."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from refbench.benchmarks import benchmark
from refbench.benchmarks.kit import Benchmark, Call, Material, Measured, Total
from refbench.benchmarks.kit import benchmark as declared
from refbench.case import Case, Picture, Request
from refbench.chat import ChatRequest, ChatText
from refbench.chat.pictures import SentPicture
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.tables.result import Result
from refbench.tables.scorer import score_evidence
from refbench.tables.scoring import result_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/edits.py"
FILES = Path(__file__).resolve().parents[1] / "support/one_file"


def sent(letter: str) -> SentPicture:
    """A picture that is only its hash: requests name pictures by nothing else."""
    return cast("SentPicture", SimpleNamespace(sha256=letter * 64))


def asked(bench: Benchmark, data: Path, number: int) -> dict[str, ChatRequest]:
    assert bench.asking.judging is not None
    case = bench.data.load(data, None).cases[number]
    return {a.part: a.request for a in bench.asking.judging(data, {}).ask(case, Material((sent("a"),), (sent("b"),)))}


def table(bench: Benchmark, data: Path, replies: dict[str, dict[str, str]]) -> Result:
    cases = bench.data.load(data, None).cases
    evidence = [
        (
            Purpose(case=case, model="A", judge="J", part=part),
            Evidence(kind="chat", request={"case": case, "part": part}, reply=reply),
        )
        for case, parts in replies.items()
        for part, reply in parts.items()
    ]
    return result_of(bench, cases, score_evidence(bench, cases, evidence, ["corrected"]), draws=0)


def test_the_example_is_under_forty_lines_and_makes_a_table(tmp_path: Path) -> None:
    assert EXAMPLE.read_text().count("\n") < 40
    rows = [{"id": f"a{n}", "instruction": "do", "source": "a.png", "task": "ab"[n % 2]} for n in range(3)]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    replies = {f"a{n}": {"edit": f'{{"score": {pair}}}'} for n, pair in enumerate(([9, 4], [4, 4], [4, 9]))}
    result = table(benchmark(str(EXAMPLE)), tmp_path, replies)
    assert result.value(metric="total", level="overall") == pytest.approx((6 + 4) / 2), "the mean over tasks"


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[Benchmark, Path]:
    rows = [
        {"key": f"k{n}", "instruction": f"Turn {n} blue", "task_type": "color", "instruction_language": "en"}
        for n in range(3)
    ]
    (tmp_path / "instructions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return benchmark(str(FILES / "pairs.py")), tmp_path


def test_pairs_shows_the_source_to_the_first_call_only(pairs: tuple[Benchmark, Path]) -> None:
    requests = asked(*pairs, 0)
    assert [p.sha256[0] for p in requests["SC"].pictures] == ["a", "b"]
    assert [p.sha256[0] for p in requests["PQ"].pictures] == ["b"]
    assert "Turn 0 blue" in requests["SC"].model_dump_json()
    assert "Turn 0 blue" not in requests["PQ"].model_dump_json()


def test_pairs_is_the_mean_of_geometric_means_of_minima(pairs: tuple[Benchmark, Path]) -> None:
    def marks(success: float, kept: float, natural: float, clean: float) -> dict[str, str]:
        return {
            "SC": json.dumps({"edit_success": success, "preservation": kept}),
            "PQ": json.dumps({"naturalness": natural, "no_artifacts": clean}),
        }

    result = table(*pairs, {"k0": marks(4, 8, 9, 10), "k1": marks(9, 10, 9, 9), "k2": {**marks(9, 9, 9, 9), "PQ": "?"}})
    (total,) = result.rows(metric="total", level="overall")
    assert (total.value, total.n_scored, dict(total.failures)) == (7.5, 2, {"unparsable": 1})
    assert result.value(metric="SC", level="task") == pytest.approx((4 + 9 + 9) / 3)
    assert total.bounds == pytest.approx(((6 + 9 + 0) / 3, (6 + 9 + 90**0.5) / 3))


ANSWER = "the candle has burnt down to a puddle"


@pytest.fixture
def rise(tmp_path: Path) -> tuple[Benchmark, Path]:
    rows = [
        {
            "index": f"t{n}",
            "category": "temporal",
            "instruction": "Show it three hours later",
            "answer": ANSWER,
            "image": f"images/t{n}.png",
            "consistency_free": n == 1,
        }
        for n in range(2)
    ]
    (tmp_path / "items.json").write_text(json.dumps(rows))
    return benchmark(str(FILES / "rise.py")), tmp_path


def test_the_answer_reaches_the_judge_and_never_the_model(rise: tuple[Benchmark, Path]) -> None:
    bench, data = rise
    for case in bench.data.load(data, None).cases:
        assert ANSWER in case.model_dump_json()
        assert "puddle" not in case.request.model_dump_json()
        assert "consistency_free" not in case.request.model_dump_json()
        assert case.targets == ()
    texts = {part: "".join(p.text for p in r.parts if isinstance(p, ChatText)) for part, r in asked(*rise, 0).items()}
    assert [part for part, text in texts.items() if ANSWER in text] == ["reasoning"]


def test_what_does_not_apply_is_not_asked_and_lowers_what_is_expected(rise: tuple[Benchmark, Path]) -> None:
    assert list(asked(*rise, 0)) == ["reasoning", "consistency", "plausibility"]
    assert list(asked(*rise, 1)) == ["reasoning", "plausibility"]
    replies = {
        "t0": {"reasoning": '{"reasoning": 5}', "consistency": '{"consistency": 1}', "plausibility": '{"plausibility": 3}'},
        "t1": {"reasoning": '{"reasoning": 5}', "plausibility": '{"plausibility": 1}'},
    }  # fmt: skip
    result = table(*rise, replies)
    (consistency,) = result.rows(metric="consistency", level="overall")
    assert (consistency.value, consistency.n_expected, consistency.n_scored) == (1.0, 1, 1)
    (total,) = result.rows(metric="total", level="overall")
    first, second = (4 * 5 + 3 * 1 + 3 * 3) / 10, (4 * 5 + 3 * 1) / 7
    assert total.value == pytest.approx((first + second) / 2)
    assert (total.n_expected, total.n_scored) == (2, 2)
    assert [s.not_applicable for s in result.scores if s.not_applicable] == ["the whole picture should change"]


def test_a_failed_axis_is_not_taken_for_one_that_does_not_apply(rise: tuple[Benchmark, Path]) -> None:
    replies = {
        "t0": {"reasoning": '{"reasoning": 5}', "consistency": "?", "plausibility": '{"plausibility": 3}'},
        "t1": {"reasoning": '{"reasoning": 5}', "plausibility": '{"plausibility": 5}'},
    }
    (total,) = table(*rise, replies).rows(metric="total", level="overall")
    assert (total.value, total.n_scored, dict(total.failures)) == (5.0, 1, {"unparsable": 1})


def test_a_value_outside_its_declared_range_is_a_failure(pairs: tuple[Benchmark, Path]) -> None:
    _, data = pairs
    wild = declared(
        name="wild",
        load=lambda root: benchmark(str(FILES / "pairs.py")).data.load(root, None).cases,
        judge=[Call("all", {"mark": (0, 10)}, lambda case, material: [], lambda case, reply: {"mark": 99})],
    )
    result = table(wild, data, {"k0": {"all": "x"}, "k1": {"all": "x"}, "k2": {"all": "x"}})
    assert {s.failure.kind for s in result.scores if isinstance(s.failure, Failure)} == {"out_of_range"}


def two(total: Total | None = None, lower: tuple[str, ...] | None = ("distance",)) -> Benchmark:
    """A judge that marks how good a picture is and how far from the source, in cases of pairs."""
    marks = {"quality": (0, 10), "distance": (0, 1)}
    return declared(
        name="two",
        load=lambda root: benchmark(str(FILES / "pairs.py")).data.load(root, None).cases,
        judge=[Call("all", marks, lambda case, material: [], lambda case, reply: json.loads(reply))],
        total=total,
        lower=lower,
    )


def test_a_total_over_unlike_directions_is_refused_unless_its_author_says_how(pairs: tuple[Benchmark, Path]) -> None:
    with pytest.raises(RefBenchError, match="of distance less is better"):
        two(Total("mean", range=(0, 1)))
    turned = two(Total("mean", range=(0, 1), turn_lower=True))
    assert turned.scoring.lower == {"distance"}
    replies = {name: {"all": '{"quality": 8, "distance": 0.1}'} for name in ("k0", "k1", "k2")}
    assert table(turned, pairs[1], replies).value(metric="total", level="overall") == pytest.approx((0.8 + 0.9) / 2)


def test_a_total_with_measures_turned_round_has_true_bounds(pairs: tuple[Benchmark, Path]) -> None:
    """The case that failed would have had between quality 0 at distance 1 and quality 10 at distance 0."""
    turned = two(Total("mean", range=(0, 1), turn_lower=True))
    replies = {name: {"all": '{"quality": 8, "distance": 0.1}'} for name in ("k0", "k1")}
    (row,) = table(turned, pairs[1], replies | {"k2": {"all": "{}"}}).rows(metric="total", level="overall")
    assert row.bounds == pytest.approx((2 * 0.85 / 3, (2 * 0.85 + 1) / 3))
    (distance,) = table(turned, pairs[1], replies | {"k2": {"all": "{}"}}).rows(metric="distance", level="overall")
    assert distance.bounds == pytest.approx((0.2 / 3, 1.2 / 3))
    whole = table(turned, pairs[1], {name: {"all": '{"quality": 10, "distance": 0}'} for name in ("k0", "k1", "k2")})
    drawn = result_of(turned, whole.cases, whole.scores, draws=40)
    (best,) = drawn.rows(metric="total", level="overall")
    assert best.ci95 is not None and best.ci95[0] < best.ci95[1] == 1, "an interval of scores with two ends"


def test_a_total_over_distances_is_a_distance() -> None:
    assert two(Total("mean", over=("distance",))).scoring.lower == {"distance", "total"}
    assert two(Total("mean", over=("quality",))).scoring.lower == {"distance"}


def test_measures_and_totals_name_what_is_there() -> None:
    with pytest.raises(RefBenchError, match="lower names 'distnce', but there are quality, distance"):
        two(lower=("distnce",))
    with pytest.raises(RefBenchError, match="over of the total: no 'look'; there are quality, distance"):
        two(Total("mean", over=("look",)))


def measuring(**more: Any) -> Benchmark:
    source = Picture(name="a.png", role="source")
    made: dict[str, Any] = {"measure": lambda case: [Measured("far", "lpips", {"source": source})], **more}
    case = Case(id="a", request=Request(instruction="", pictures=(source,)), cluster="a", details={})
    return declared(name="far", load=lambda root: [case], **made)


def test_a_measured_part_takes_range_and_direction_from_its_metric(tmp_path: Path) -> None:
    bench = measuring(measured={"far": "lpips"})
    (far,) = bench.scoring.protocols["corrected"].aggregate.measures
    assert (far.low, far.high, bench.scoring.lower) == (0, None, {"far"})
    assert bench.data.load(tmp_path, None).cases
    with pytest.raises(RefBenchError, match=r"measured\['far'\]: no metric is called 'lpisp': did you mean lpips"):
        measuring(measured={"far": "lpisp"})
    with pytest.raises(RefBenchError, match="far has no finite range"):
        measuring(measured={"far": "lpips"}, total=Total("mean", range=(0, 1)))


def test_the_author_of_a_benchmark_may_overrule_a_metrics_direction(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match="of which lower is better"):
        measuring(measured={"far": (0, 1)}).data.load(tmp_path, None)
    assert measuring(measured={"far": (0, 1)}, lower=("far",)).data.load(tmp_path, None).cases
    overruled = measuring(measured={"far": "lpips"}, lower=())
    assert (overruled.scoring.lower, len(overruled.data.load(tmp_path, None).cases)) == (frozenset(), 1)
