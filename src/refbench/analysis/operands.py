"""What `compare` is given: `RUN_DIR:MODEL`, `RUN_DIR`, or `BENCHMARK:MODEL` for released figures, read once each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from refbench.benchmarks import Benchmark, benchmark, resolve_data
from refbench.benchmarks.registry import names
from refbench.case import AnyCase
from refbench.record import RefBenchError, content_key
from refbench.runs import Run
from refbench.score import Score
from refbench.scoring import REFUSALS, score_run

RELEASED = "released"
RELEASED_DIGITS = 6
"""Released item scores have so many; beside them the scores of runs are rounded likewise, or rounding makes a gap."""


@dataclass(frozen=True)
class Side:
    """One source of scores and the models wanted of it."""

    name: str
    """The run's directory as it was given, or `released`."""
    bench: Benchmark
    protocol: str
    cases: Sequence[AnyCase]
    scores: Sequence[Score]
    models: tuple[str, ...]
    parts: Mapping[str, Any]
    """What the fingerprint of its table is taken of."""
    seeds: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def released(self) -> bool:
        return self.name == RELEASED

    @property
    def fingerprint(self) -> str | None:
        """As `refbench table` prints it; released figures have none."""
        return None if self.released else content_key(self.parts)[:16]


def load_operands(
    operands: Sequence[str], protocol: str | None, data: Path | None, refusals: str = REFUSALS[0]
) -> list[Side]:
    """The sources in the order given, each with the models wanted. All are of one benchmark."""
    if protocol == "both":
        raise RefBenchError("--protocol both: a comparison is under one protocol, give paper or corrected")
    wanted: dict[str, list[str | None]] = {}
    for word in operands:
        place, model = split_operand(word)
        wanted.setdefault(place, []).append(model)
    benches = {place: _bench_name(place) for place in wanted}
    if len(set(benches.values())) > 1:
        said = ", ".join(f"{place} is {name}" for place, name in benches.items())
        raise RefBenchError(f"only models on the same benchmark can be compared: {said}")
    released = [place for place in wanted if not _is_run(place)]
    if data is not None and not released:
        raise RefBenchError("--data is for released figures: a run has its cases with it, leave --data out")
    sides = [_released(place, wanted[place], protocol, data) for place in released]
    chosen = sides[0].protocol if sides else protocol
    found = {place: _of_run(place, wanted[place], chosen, refusals) for place in wanted if _is_run(place)}
    found |= dict(zip(released, sides, strict=True))
    return [found[place] for place in wanted]


def split_operand(word: str) -> tuple[str, str | None]:
    """Place and model. Directories and models may have colons of their own: the first colon after a run counts."""
    if _is_run(word):
        return _place(word), None
    cuts = [i for i, letter in enumerate(word) if letter == ":"]
    for cut in cuts:
        if _is_run(word[:cut]) and word[cut + 1 :]:
            return _place(word[:cut]), word[cut + 1 :]
    name, _, model = word.partition(":")
    if name in names():
        return name, model or None
    if (Path(name) / "run.json").exists() or not cuts or "/" in name:
        Run.open(Path(name))  # says what the path is instead
    raise RefBenchError(
        f"{word}: give RUN_DIR, RUN_DIR:MODEL, or BENCHMARK:MODEL with a benchmark of {', '.join(names())}"
    )


def _place(word: str) -> str:
    return word.rstrip("/") or word


def _is_run(word: str) -> bool:
    return (Path(word) / "run.json").is_file()


def _bench_name(place: str) -> str:
    return Run.open(Path(place)).info.benchmark if _is_run(place) else place


def _of_run(place: str, models: Sequence[str | None], protocol: str | None, refusals: str) -> Side:
    path = Path(place)
    # Without draws: the intervals of single models are not what is asked, and cost more than all pairs.
    result = score_run(path, protocol=protocol or "both", draws=0, refusals=refusals)
    protocol = protocol or result.table.rows[0].protocol
    scores = [score for score in result.scores if score.protocol == protocol]
    there = list(dict.fromkeys(score.model for score in scores))
    bench = result.bench
    whole = {**result.table.parts, "protocols": {name: dict(p.versions) for name, p in bench.protocols.items()}}
    return Side(
        name=place,
        bench=bench,
        protocol=protocol,
        cases=result.cases,
        scores=scores,
        models=_chosen(place, models, there),
        parts=whole,
        seeds=result.seeds,
        notes=result.notes,
    )


def _released(place: str, models: Sequence[str | None], protocol: str | None, data: Path | None) -> Side:
    bench = benchmark(place)
    if bench.released is None:
        raise RefBenchError(f"{place}: no item scores of {bench.title} were released; give a run directory")
    cases, scores = bench.released(None)
    theirs = scores[0].protocol
    if protocol not in (None, theirs):
        raise RefBenchError(
            f"--protocol {protocol}: the released figures of {bench.title} are of the {theirs} protocol only"
        )
    notes: tuple[str, ...] = ()
    if protocol is None:
        notes = (f"released figures are of the {theirs} protocol, so everything here is compared under it",)
    if data is not None:
        by_id = {case.id: case for case in bench.load(resolve_data(bench, data), None).cases}
        cases = [by_id.get(case.id, case) for case in cases]
    there = list(dict.fromkeys(score.model for score in scores))
    return Side(
        name=RELEASED,
        bench=bench,
        protocol=theirs,
        cases=cases,
        scores=scores,
        models=_chosen(f"{bench.title}'s released figures", models, there),
        parts={"judges": sorted({score.judge for score in scores if score.judge})},
        seeds=dict.fromkeys(there, 1),
        notes=notes,
    )


def _chosen(where: str, wanted: Sequence[str | None], there: Sequence[str]) -> tuple[str, ...]:
    stranger = next((model for model in wanted if model is not None and model not in there), None)
    if stranger is not None:
        raise RefBenchError(f"{where}: there is no model {stranger}; the models are {', '.join(there)}")
    named = [model for model in wanted if model is not None]
    # A run given whole as well as by model stands for all of its models, those named first.
    return tuple(dict.fromkeys([*named, *(there if None in wanted else [])]))
