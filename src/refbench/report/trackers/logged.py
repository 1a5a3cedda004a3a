"""What is logged of a result, whichever tracker it goes to: numbers, tables, the worst pictures, how they came about.

A number that is not there is not logged, and its failures are: no tracker is ever told a zero in its place.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refbench import __version__
from refbench.engine.thumbnails import thumbnail
from refbench.record import Record, RefBenchError, content_key, counted
from refbench.report.formats import table_rows, to_markdown
from refbench.report.leaderboard import leaderboards
from refbench.runs import Run
from refbench.tables.result import Result
from refbench.tables.table import Row

_UNSAFE = re.compile(r"[^\w.\-]+")
_LONGEST_PART = 60
"""Characters of a model's, judge's or metric's name in a key: trackers refuse keys of more than 250."""
_SIDE = 512
_WORDS = 400
"""Characters of each judge's reply in a picture's caption."""
_MOST_FAILURES = 1000
_FILE = re.compile(r"[^\w.+-]+")


class Wanted(Record):
    """What is to be logged of a run, and as what."""

    name: str = ""
    """What the tracker calls it; by default the run directory's name."""
    models: tuple[str, ...] = ()
    """Only these; by default all."""
    worst: int = 4
    """Pictures of each model."""
    series: str = ""
    """Checkpoints of one model: keys have this name in place of the model's."""
    step: int | None = None
    """Which checkpoint of the series it is."""


@dataclass(frozen=True)
class LoggedTable:
    """Columns and rows of texts, numbers and None."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> LoggedTable:
        columns = tuple(dict.fromkeys(name for row in rows for name in row))
        return cls(columns, tuple(tuple(row.get(name) for name in columns) for row in rows))


@dataclass(frozen=True)
class LoggedPicture:
    """One of a model's worst pictures, small, with its score and the judges' words."""

    key: str
    jpeg: bytes
    caption: str


@dataclass(frozen=True)
class Logged:
    """Everything a tracker is given."""

    name: str
    id: str
    """Of these numbers: the same result has the same one, whenever and wherever it is logged."""
    config: Mapping[str, Any]
    numbers: Mapping[str, float]
    tables: Mapping[str, LoggedTable]
    pictures: tuple[LoggedPicture, ...]
    summary: str
    """The leaderboard in Markdown, with its remarks."""
    series: str = ""
    step: int | None = None

    @property
    def run_id(self) -> str:
        """Of the tracker's run: that of the numbers, or of the series that they are a step of."""
        return content_key(["series", self.config["benchmark"], self.series])[:16] if self.series else self.id

    @property
    def file_name(self) -> str:
        """The name as a file or folder can have it."""
        return _FILE.sub("_", self.name).lstrip(".") or "run"


def logged_of(result: Result, run: Run, wanted: Wanted | None = None) -> Logged:
    """What is logged of a run and its result."""
    wanted = wanted or Wanted()
    models = _models(result, wanted)
    names = _names(result, models, wanted.series)
    name = wanted.series or wanted.name or run.path.resolve().name
    about = [name, result.table.benchmark, result.table.fingerprint, result.table.digest, *models, wanted.step]
    failures = [row for row in result.failures() if row["model"] in models]
    rows = [row for row in table_rows(result) if row["model"] in models]
    board = next(iter(leaderboards(result)), None)
    headings, lines = (board.headings, board.rows) if board is not None else ([], [])
    config = _config(result, run, models)
    if len(failures) > _MOST_FAILURES:
        config["failures left out of the table"] = len(failures) - _MOST_FAILURES
    return Logged(
        name=name,
        id=content_key(about)[:16],
        config=config,
        numbers=dict(_numbers(result, models, names)),
        tables={
            "leaderboard": LoggedTable(tuple(headings), tuple(map(tuple, lines))),
            "scores": LoggedTable.of(rows),
            "failures": LoggedTable.of(failures[:_MOST_FAILURES]),
        },
        pictures=tuple(_pictures(result, run, models, names, wanted.worst)),
        summary="\n\n".join([to_markdown(result), *(f"- {note}" for note in result.notes)]),
        series=wanted.series,
        step=wanted.step,
    )


def _models(result: Result, wanted: Wanted) -> list[str]:
    there = list(dict.fromkeys(row.model for row in result.table.rows))
    if stranger := next((model for model in wanted.models if model not in there), None):
        raise RefBenchError(f"--model {stranger}: the models are {', '.join(there)}")
    models = [model for model in there if model in wanted.models or not wanted.models]
    if bool(wanted.series) != (wanted.step is not None):
        raise RefBenchError("--series NAME and --step N belong together: a checkpoint is one step of a series")
    if wanted.series and len(models) > 1:
        raise RefBenchError(f"--series is of one model: choose it with --model, of {', '.join(models)}")
    return models


def _names(result: Result, models: Sequence[str], series: str) -> dict[tuple[str, str], str]:
    """What models, judges and metrics are called in keys, by kind and name: without signs that a tracker refuses, and
    told apart where they would then be alike."""
    rows = result.table.rows
    there = {
        "model": list(models),
        "judge": list(dict.fromkeys(row.judge or "none" for row in rows)),
        "metric": list(dict.fromkeys(_metric(row) for row in rows)),
    }
    names: dict[tuple[str, str], str] = {}
    for kind, of_kind in there.items():
        plain = {name: _UNSAFE.sub("_", name).strip(".")[:_LONGEST_PART] or "_" for name in of_kind}
        for name, short in plain.items():
            alike = sum(other == short for other in plain.values()) > 1
            names[kind, name] = f"{short}_{content_key(name)[:4]}" if alike else short
    if series:
        names["model", models[0]] = _UNSAFE.sub("_", series).strip(".")[:_LONGEST_PART] or "_"
    return names


def _metric(row: Row) -> str:
    return f"{row.metric} (estimated)" if row.sampled else row.metric


def _numbers(
    result: Result, models: Sequence[str], names: Mapping[tuple[str, str], str]
) -> Iterator[tuple[str, float]]:
    """The overall rows: what has no value has its counts and failures and nothing else."""
    for row in result.rows(level="overall"):
        if row.model not in models:
            continue
        judge, metric = names["judge", row.judge or "none"], names["metric", _metric(row)]
        base = f"{names['model', row.model]}/{judge}/{row.protocol}/{metric}"
        known = {"value": row.value, **_ends("ci95", row.ci95), **_ends("bounds", row.bounds)}
        yield from ((f"{base}/{what}", number) for what, number in known.items() if number is not None)
        yield f"{base}/n_scored", row.n_scored
        yield f"{base}/n_expected", row.n_expected
        yield f"{base}/n_failed", sum(row.failures.values())
        if row.n_expected:
            yield f"{base}/coverage", row.n_scored / row.n_expected
        for kind, count in sorted(row.failures.items()):
            yield f"{base}/failed_{kind}", count


def _ends(name: str, pair: tuple[float, float] | None) -> dict[str, float]:
    return {} if pair is None else {f"{name}_low": pair[0], f"{name}_high": pair[1]}


def _config(result: Result, run: Run, models: Sequence[str]) -> dict[str, Any]:
    parts = result.table.parts
    return {
        "refbench": __version__,
        "run": run.path.resolve().name,  # no path: trackers are shared, and it names the user's folders
        "benchmark": result.table.benchmark,
        "title": result.bench.title,
        "subset": result.table.parts.get("subset"),
        "cases": len(result.cases),
        "models": list(models),
        "judges": dict(parts.get("asked", {})),
        "measured": dict(parts.get("measured", {})),
        "settings": dict(parts.get("settings", {})),
        "protocols": dict(parts.get("protocols", {})),
        "refusals": result.refusals,
        "wording": result.wording,
        "measured_by": result.measured_by(),
        "fingerprint": result.table.fingerprint,
        "digest": result.table.digest,
        "notes": list(result.notes),
    }


def _pictures(
    result: Result, run: Run, models: Sequence[str], names: Mapping[tuple[str, str], str], worst: int
) -> Iterator[LoggedPicture]:
    """The worst cases of each model, under the first protocol of the table."""
    if worst < 1:
        return
    chosen = {model: result[model].cases.worst(worst) for model in models}
    places = {(one.case, model) for model, cases in chosen.items() for one in cases}
    # The first seed's picture stands for the case, as in notebooks and sheets of pictures.
    outputs = {
        (output.case, output.model): output
        for output in sorted(run.outputs(), key=lambda output: -output.seed)
        if output.pictures and output.step is None and (output.case, output.model) in places
    }
    words = _words(run, {(case, model, output.seed) for (case, model), output in outputs.items()})
    instructions = {case.id: case.request.instruction for case in result.cases}
    measure = result.summary(result.table.rows[0].protocol) if result.table.rows else ""
    for model, cases in chosen.items():
        for place, one in enumerate(cases, 1):
            output = outputs.get((one.case, model))
            if output is None:
                continue
            path = run.blobs.path(output.pictures[0].sha256, output.pictures[0].format)
            if path.exists():
                run.blobs.checked(path)  # an edited picture is refused, as everywhere
            jpeg = thumbnail(path, _SIDE)
            if jpeg is None:
                continue
            n_seeds = result.seeds.get(model, 1)
            seeds = f" (seed {output.seed} of {counted(n_seeds, 'seed')})" if n_seeds > 1 else ""
            lines = [f"{one.case}: {measure} {one.total:.4g}{seeds}", instructions[one.case]]
            lines += words.get((one.case, model, output.seed), [])
            yield LoggedPicture(f"worst/{names['model', model]}/{place:02d}", jpeg, "\n".join(lines))


def _words(run: Run, places: set[tuple[str, str, int]]) -> dict[tuple[str, str, int], list[str]]:
    """What each judge said of these pictures, each reply cut to a line."""
    said: dict[tuple[str, str, int], list[str]] = defaultdict(list)
    for purpose, act in run.evidence():
        place = purpose.case, purpose.model, purpose.seed
        if place not in places or act.kind != "chat":
            continue
        text = " ".join((act.reply if act.reply is not None else str(act.failure)).split())
        cut = text if len(text) <= _WORDS else f"{text[:_WORDS]} ..."
        said[place].append(f"{purpose.judge}, {purpose.part}: {cut}")
    return {place: sorted(lines) for place, lines in said.items()}
