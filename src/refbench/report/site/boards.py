"""Boards: runs of the same cases brought together, so that all their models stand side by side."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from refbench.benchmarks import Benchmark
from refbench.case import AnyCase
from refbench.judges.panel import MEAN
from refbench.output import Output
from refbench.record import RefBenchError, content_key
from refbench.report.site.replies import Replies
from refbench.result import Result
from refbench.runs import Run
from refbench.score import Score
from refbench.scoring import benchmark_of, result_of, run_result
from refbench.table import DRAWS, SEED


@dataclass(frozen=True)
class BoardModel:
    """A model of a board. Its name is the one it has in its run, with the run's where two would be called alike."""

    name: str
    run: int
    of_run: str


@dataclass(frozen=True)
class Board:
    """One benchmark with its cases, and all models of all runs on them; numbers of models and judges are places in
    `models` and `judges`."""

    id: str
    runs: tuple[Run, ...]
    run_names: tuple[str, ...]
    replies: tuple[Replies, ...]
    outputs: tuple[tuple[Output, ...], ...]
    """Of each run."""
    models: tuple[BoardModel, ...]
    result: Result
    wordings: tuple[str | None, ...]
    """In whose words the judges of each run were asked; None without a judge."""
    picture_root: Path | None = None
    """Where the pictures of the cases lie; None where that is not known."""

    @property
    def bench(self) -> Benchmark:
        return self.result.bench

    @property
    def cases(self) -> tuple[AnyCase, ...]:
        return self.result.cases

    @cached_property
    def inputs(self) -> dict[str, set[str]]:
        """The hashes that the runs recorded of each picture of the cases when they opened it, by name."""
        found: dict[str, set[str]] = {}
        for run in self.runs:
            for name, sha256 in run.inputs().items():
                found.setdefault(name, set()).add(sha256)
        return found

    @cached_property
    def judges(self) -> tuple[str | None, ...]:
        names = {score.judge for score in self.result.scores}
        return (*sorted(name for name in names if name is not None), *([None] if None in names else []))

    @cached_property
    def protocols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(score.protocol for score in self.result.scores))

    def judge_for(self, protocol: str) -> str | None:
        """Whose numbers are shown unless another judge is chosen: the mean of the judges where that is the benchmark's
        own number, else the judge who has scored most models, the first of equals."""
        rows = self.result.rows(protocol=protocol, metric=self.result.summary(protocol), level="overall")

        def weight(judge: str | None) -> tuple[bool, int, bool]:
            models = sum(row.judge == judge and row.value is not None for row in rows)
            return bool(models) and self.bench.judges_mean and judge == MEAN, models, judge is not None

        return max(self.judges, key=weight)

    def judge_title(self, judge: str | None) -> str | None:
        """A judge in words: of the mean, whose it is; None for measurements without a judge."""
        if judge == MEAN and self.bench.judges_mean:
            return f"mean of {', '.join(name for name in self.judges if name not in (MEAN, None))}"
        return judge

    @property
    def wording(self) -> str | None:
        """In whose words judges were asked, run by run where that is not the same; None without a judge."""
        if len(set(self.wordings)) == 1:
            return self.wordings[0]
        return "; ".join(
            f"{said or 'no judge'} in {run}" for said, run in zip(self.wordings, self.run_names, strict=True)
        )

    @cached_property
    def model_numbers(self) -> dict[str, int]:
        return {model.name: number for number, model in enumerate(self.models)}

    @cached_property
    def numbers_by_run(self) -> dict[tuple[int, str], int]:
        return {(model.run, model.of_run): number for number, model in enumerate(self.models)}

    @cached_property
    def judge_numbers(self) -> dict[str | None, int]:
        return {judge: number for number, judge in enumerate(self.judges)}

    @cached_property
    def outputs_by_case(self) -> dict[str, list[tuple[int, Output]]]:
        """The outputs for each case with the number of their model, models in order, steps before what they led to."""
        found: dict[str, list[tuple[int, Output]]] = {}
        for number, outputs in enumerate(self.outputs):
            for output in outputs:
                model = self.numbers_by_run.get((number, output.model))
                if model is not None:
                    found.setdefault(output.case, []).append((model, output))
        for of_case in found.values():
            of_case.sort(key=lambda place: (place[0], place[1].seed, _step(place[1])))
        return found

    @cached_property
    def scores_by_case(self) -> dict[str, list[Score]]:
        found: dict[str, list[Score]] = {}
        for score in self.result.scores:
            found.setdefault(score.case, []).append(score)
        return found

    def close(self) -> None:
        for replies in self.replies:
            replies.close()


def _step(output: Output) -> float:
    return float("inf") if output.step is None else output.step


def open_boards(
    paths: Sequence[Path],
    *,
    protocol: str = "both",
    refusals: str = "conditional",
    draws: int = DRAWS,
    seed: int = SEED,
) -> list[Board]:
    """One board for each set of cases among the runs, in the order of the runs."""
    runs = [Run.open(path) for path in paths]
    if not runs:
        raise RefBenchError("give at least one run directory to look at")
    names = _names(runs)
    together: dict[tuple[str, ...], list[int]] = {}
    for number, run in enumerate(runs):
        together.setdefault(_cases_of(run), []).append(number)
    with contextlib.ExitStack() as opened:  # what was opened before something is found wrong is closed again
        boards = []
        for place, members in enumerate(together.values()):
            of_board = [runs[n] for n in members]
            replies = [opened.enter_context(contextlib.closing(Replies(run))) for run in of_board]
            called = [names[n] for n in members]
            boards.append(_board(f"b{place}", of_board, called, replies, protocol, refusals, draws, seed))
        opened.pop_all()
    return boards


def _cases_of(run: Run) -> tuple[str, ...]:
    """What runs on one board have in common. Cases of one's own under another rubric have other measures."""
    kept = [run.kept(name) for name in ("rubric.md", "benchmark.py") if run.keeps(name)]
    return run.info.benchmark, run.info.cases, *kept


def _names(runs: Sequence[Run]) -> list[str]:
    """Names of the run directories, with as many folders above as tell them apart."""
    paths = [run.path.resolve() for run in runs]
    if len(set(paths)) < len(paths):
        twice = next(path for path, count in Counter(paths).items() if count > 1)
        raise RefBenchError(f"{twice} is given twice: give each run once")
    depth = 1
    names = [path.name for path in paths]
    while len(set(names)) < len(names):
        depth += 1
        names = ["/".join(path.parts[-depth:]) for path in paths]
    return names


def _board(
    board: str,
    runs: list[Run],
    names: list[str],
    replies: list[Replies],
    protocol: str,
    refusals: str,
    draws: int,
    seed: int,
) -> Board:
    bench = benchmark_of(runs[0])
    outputs = [run.outputs() for run in runs]
    results = [
        run_result(
            run,
            bench,
            run.cases(bench.case_type),
            protocol=protocol,
            draws=draws if len(runs) == 1 else 0,
            seed=seed,
            refusals=refusals,
            # What was painted and not judged yet is shown too: every score of it is missing, and says so.
            systems=[(name, None) for name in sorted({o.model for o in made} - said.models)],
        )
        for run, said, made in zip(runs, replies, outputs, strict=True)
    ]
    models = _models(results, names)
    found = results[0] if len(runs) == 1 else _joined(bench, runs, names, results, models, draws, seed)
    return Board(
        id=board,
        runs=tuple(runs),
        run_names=tuple(names),
        replies=tuple(replies),
        outputs=tuple(map(tuple, outputs)),
        models=tuple(models),
        result=found,
        wordings=tuple(result.wording for result in results),
    )


def _models(results: Sequence[Result], names: Sequence[str]) -> list[BoardModel]:
    of_runs = [sorted({score.model for score in result.scores}) for result in results]
    counts = Counter(name for models in of_runs for name in models)
    return [
        BoardModel(name if counts[name] == 1 else f"{name} ({names[number]})", number, name)
        for number, models in enumerate(of_runs)
        for name in models
    ]


def _joined(
    bench: Benchmark,
    runs: Sequence[Run],
    names: Sequence[str],
    results: Sequence[Result],
    models: Sequence[BoardModel],
    draws: int,
    seed: int,
) -> Result:
    """One result of several runs, under a fingerprint of what is true of all of them."""
    here = {case.id for result in results for case in result.cases}
    cases = [case for case in runs[0].cases(bench.case_type) if case.id in here]
    called = {(model.run, model.of_run): model.name for model in models}
    scores: list[Score] = []
    changes: list[dict[str, Any]] = []
    notes = _differences([result.table.parts for result in results], names)
    for number, result in enumerate(results):
        whole = [*result.scores, *_unasked(result, cases)]
        scores += [score.model_copy(update={"model": called[number, score.model]}) for score in whole]
        changes += [{**change, "model": called[number, change["model"]]} for change in result.changes]
        notes += [f"{names[number]}: {note}" for note in result.notes]
    parts = [result.table.parts for result in results]
    return result_of(
        bench,
        cases,
        scores,
        subset=runs[0].info.subset,
        draws=draws,
        seed=seed,
        changes=changes,
        notes=notes,
        settings=_of_all(parts, "settings", names),
        judges=_of_all(parts, "asked", names),
        measured={name: how for part in parts for name, how in part.get("measured", {}).items()},
        refusals=results[0].refusals,
        seeds={model.name: results[model.run].seeds[model.of_run] for model in models},
    )


def _unasked(result: Result, cases: Sequence[AnyCase]) -> list[Score]:
    """Scores of the cases that this run has not been asked for, and another one has."""
    there = {case.id for case in result.cases}
    absent = [case.id for case in cases if case.id not in there]
    first = result.cases[0].id
    return [
        Score(
            case=case, model=s.model, judge=s.judge, metric=s.metric, protocol=s.protocol, seed=s.seed, not_asked=True
        )
        for s in result.scores
        if s.case == first
        for case in absent
    ]


def _differences(parts: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """What the runs do not have in common, and a reader must know before comparing their models."""
    found = []
    for key in sorted({key for part in parts for key in part["settings"]}):
        values = [part["settings"].get(key) for part in parts]
        if len(set(values)) > 1:
            said = ", ".join(f"{value or 'not said'} in {name}" for name, value in zip(names, values, strict=True))
            found.append(f"the runs were not judged alike: {key} is {said}")
    for judge in sorted({judge for part in parts for judge in part["asked"]}):
        asked = {content_key(part["asked"][judge]) for part in parts if judge in part["asked"]}
        if len(asked) > 1:
            found.append(f"the runs have different judges of the name {judge}: other models or parameters")
    return found


def _of_all(parts: Sequence[Mapping[str, Any]], key: str, names: Sequence[str]) -> dict[str, Any]:
    """What the runs say under a key of their fingerprints; what they do not agree on, with the name of the run."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part[key]):
        said = {run: part[key][name] for run, part in zip(names, parts, strict=True) if name in part[key]}
        alike = len({content_key(value) for value in said.values()}) == 1
        found |= {name: next(iter(said.values()))} if alike else {f"{name} in {run}": v for run, v in said.items()}
    return found


def with_pictures(board: Board, root: Path | None) -> Board:
    """The board with the directory in which its cases' pictures lie."""
    return replace(board, picture_root=root)
