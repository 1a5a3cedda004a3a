"""Faults that released evaluation scripts share, each tried on every benchmark that is shipped: a mark that is drawn, a
gain by refusing, a restart that counts twice, a prompt that nobody is ever asked with."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refbench.benchmarks import Benchmark, benchmark
from refbench.benchmarks.kit.definition import Asked, Dataset, Material
from refbench.benchmarks.registry import SHIPPED
from refbench.case import AnyCase
from refbench.chat import ChatText
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare, store_in
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.score import Score
from refbench.tables.scorer import score_evidence
from refbench.tables.table import tabulate
from support.public import picture, put
from support.small_data import WRITERS

COUNTS_FAILURES = ("failure_rate",)
"""Measures that say how often a judge gave no answer: they have one where it gave none."""
DatasetOf = Callable[[str], Dataset]
UNREADABLE = (
    "Both pictures are lovely.",
    "{ this is no object }",
    '{"remark": "a key that nobody asked for"}',
    "[]",
    "I'm sorry, I can't help with that.",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DatasetOf:
    root = tmp_path_factory.mktemp("data")
    found: dict[str, Dataset] = {}

    def load(name: str) -> Dataset:
        if name not in WRITERS:
            pytest.skip(f"nothing writes data of {name}: add it to WRITERS in tests/support/small_data.py")
        if name not in found:
            WRITERS[name](root / name)
            found[name] = benchmark(name).data.load(root / name, None)
        return found[name]

    return load


def judged_parts(bench: Benchmark) -> list[str]:
    return [part for part in bench.asking.parts if part != "derived" and part not in bench.asking.measured]


def evidence(bench: Benchmark, cases: Sequence[AnyCase], reply: str) -> list[tuple[Purpose, Evidence]]:
    """The same reply to everything that a judge is asked."""
    return [
        (
            Purpose(case=case.id, model="A", judge="J", part=part),
            Evidence(kind="chat", request={"case": case.id, "part": part}, reply=reply),
        )
        for case in cases
        for part in judged_parts(bench)
    ]


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("reply", UNREADABLE)
def test_no_mark_is_drawn_where_a_reply_cannot_be_read(name: str, reply: str, data: DatasetOf) -> None:
    """Releases draw a number, take the first digit they come across, or the best that there is."""
    bench, cases = benchmark(name), data(name).cases[:6]
    readings: list[Any] = []
    for seed in range(3):
        random.seed(seed)
        np.random.seed(seed)
        readings.append(score_evidence(bench, cases, evidence(bench, cases, reply), list(bench.scoring.protocols)))
    assert readings[0] == readings[1] == readings[2]
    given = [score for score in readings[0] if score.protocol == "corrected" and score.value is not None]
    assert [score for score in given if score.metric not in COUNTS_FAILURES] == []


@pytest.mark.parametrize("name", SHIPPED)
def test_a_reply_of_blanks_is_read_in_one_go(name: str, data: DatasetOf) -> None:
    """A regular expression that gives back what it took would not come to an end here."""
    bench, cases = benchmark(name), data(name).cases[:1]
    for beginning in ("Final Score:", '{"consistency_score":', "consistency score"):
        reply = beginning + " " * 50_000
        score_evidence(bench, cases, evidence(bench, cases, reply), [*bench.scoring.protocols])


@pytest.mark.parametrize("name", SHIPPED)
def test_who_refuses_the_hard_half_gains_nothing(name: str, data: DatasetOf) -> None:
    """Half of the cases are hard: whoever answers all gets the worst mark there. Who refuses them has those failures
    in the table; counted as outcomes they bring nothing, and left out they are seen."""
    bench, cases = benchmark(name), data(name).cases
    for protocol in bench.scoring.protocols.values():
        aggregate = protocol.aggregate
        low, high = aggregate.ends("low"), aggregate.ends("high")
        parts = list(dict.fromkeys(part for measure in aggregate.measures for part in measure.parts))
        low, high = ({part: ends.get(part, other) for part in parts} for ends, other in ((low, -1e6), (high, 1e6)))
        scores = []
        for number, case in enumerate(cases):
            away = bench.asking.not_applicable(case)
            for part in parts:
                place = {"case": case.id, "metric": part, "protocol": protocol.name, "judge": "J"}
                best, worst = (low, high) if part in bench.scoring.lower else (high, low)
                hard = number % 2 == 1
                for model in ("answers", "refuses"):
                    state: dict[str, Any] = {"value": (worst if hard else best)[part]}
                    if part in away:
                        state = {"not_applicable": away[part]}
                    elif hard and model == "refuses":
                        state = {"failure": Failure(kind="refused", by_model=True)}
                    scores.append(Score(model=model, **place, **state))
        counted = tabulate(protocol.name, aggregate.counting_refusals(bench.scoring.lower), scores, cases, draws=0)
        value = {(row.model, row.metric, *row.slice.items()): row.value for row in counted}
        compared = 0
        for (model, metric, *where), own in value.items():
            other = value["answers", metric, *where]
            if model == "refuses" and own is not None and other is not None:
                gain = other - own if metric in bench.scoring.lower else own - other
                assert gain <= 1e-9, (metric, where)
                compared += 1
        assert compared
        plain = tabulate(protocol.name, aggregate, scores, cases, draws=0)
        refusing = [row for row in plain if row.model == "refuses" and row.slice["level"] == "overall"]
        assert any(row.failures.get("refused") for row in refusing)
        assert all(row.n_scored + row.failures.get("refused", 0) == row.n_expected for row in refusing)


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_recorded_twice_counts_once(name: str, data: DatasetOf) -> None:
    """Releases append to their files, and a restart doubles rows."""
    bench, cases = benchmark(name), data(name).cases[:6]
    once = evidence(bench, cases, '{"score": [3, 3]}\nScore: 3\n[3, 3]\nFinal Score: 3')
    protocols = list(bench.scoring.protocols)
    assert score_evidence(bench, cases, [*once, *once], protocols) == score_evidence(bench, cases, once, protocols)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_prompt_that_is_shipped_is_sent_for_some_case(name: str, data: DatasetOf, tmp_path: Path) -> None:
    """A name or a flag that slips leaves a prompt unreachable, and its cases are judged by another one."""
    bench = benchmark(name)
    folder = resources.files(f"refbench.benchmarks.{name}").joinpath("rubric")
    if not folder.is_dir() or bench.asking.judging is None:
        pytest.skip(f"{name} ships no prompts")
    said = "\n".join(text_of(asked) for asked in requests(bench, data(name), tmp_path))
    for file in folder.iterdir():
        for line in file.read_text("utf-8").strip().splitlines():
            pieces = [piece for piece in re.split(r"\{\w+\}", line) if len(piece.strip()) > 12]
            assert all(piece.strip() in said for piece in pieces[:1]), f"{file.name} is never sent: {line}"


def text_of(asked: Asked) -> str:
    texts = [part.text for part in asked.request.parts if isinstance(part, ChatText)]
    return "\n".join([asked.request.system or "", *(asked.request.opening or ()), *texts])


def requests(bench: Benchmark, dataset: Dataset, store: Path) -> list[Asked]:
    """All that a judge would be asked in every combination of settings that has choices of its own."""
    assert bench.asking.judging is not None
    settings = bench.asking.chosen({}, bench.title)
    ways = [settings]
    for setting in bench.asking.settings:
        ways += [{**settings, setting.name: choice} for choice in setting.choices[1:] if setting.name != "prompts"]
    found = []
    output = shown(put(store / "output.png", picture(99)), store)
    for chosen in ways:
        judging = bench.asking.judging(dataset.root, chosen)
        for case in dataset.cases:
            inputs = [shown(dataset.path(picture), store) for picture in case.request.pictures]
            targets = [shown(dataset.path(picture), store) for picture in case.targets]
            # What comes with the data is whole; a model may give fewer pictures than it was asked for.
            for count in {case.request.n_pictures if bench.data.outputs else 1, case.request.n_pictures}:
                material = Material(tuple(inputs), (output,) * count, tuple(targets), model="A")
                if judging.compose is not None:
                    material = judging.compose(case, material, store_in(store))
                found += judging.ask(case, material)
    return found


def shown(path: Path, store: Path) -> SentPicture:
    sent = prepare(path, PicturePolicy(), store_in(store))
    assert isinstance(sent, SentPicture), sent
    return sent
