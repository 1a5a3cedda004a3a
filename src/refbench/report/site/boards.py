"""Boards: runs of the same cases brought together, so that all their models stand side by side; with what pages need
of them beside their table: judges' replies, where the pictures lie, and rows by number of references and by tag.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import orjson
from numpy.typing import NDArray

from refbench.analysis.attribution.read import attributions, seen_by
from refbench.analysis.audit.card import with_cards
from refbench.analysis.audit.marks import CLEAN
from refbench.analysis.compare import Comparison
from refbench.benchmarks import Benchmark
from refbench.builders.audit.read import is_audit
from refbench.case import AnyCase
from refbench.evidence import PEOPLE, Evidence
from refbench.judges.panel import MEAN
from refbench.output import Output
from refbench.record import RefBenchError, content_key, counted
from refbench.report.figures.palette import Style, styles_of
from refbench.runs import Run
from refbench.runs.ledger import ledger_error
from refbench.score import Score
from refbench.tables.result import Result
from refbench.tables.scoring import Origin, Tabling, benchmark_of, derived_of, result_of, run_result
from refbench.tables.table import DRAWS, SEED, Row, Slice, ranked, tabulate

MOST_ROWS = 2500
"""Rows that a first view can hold: about 250 bytes each, and all of it is to stay under 1 MB."""
REFERENCES, TAG = "n_refs", "tag"
"""Levels of rows by number of references and by tag."""
_AT_ONCE = 500
_PURPOSE = ("model", "judge", "part", "protocol", "seed", "repeat")
_MOST_WORDS = 400
"""Characters of the judges' words that a case can be searched by; the rest of 600 is for what it is about."""


class Replies:
    """The judges' replies of a run by case, read from the ledgers once and kept in a temporary file.

    Tens of thousands of replies do not fit beside the scores in memory, and pages want a few cases at a time.
    """

    def __init__(self, run: Run) -> None:
        self._lock = threading.Lock()
        # Without a name: SQLite keeps it in the system's temporary folder, and however we end it is gone.
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        # One writer, and nothing worth keeping after a crash.
        for statement in ("PRAGMA journal_mode = OFF", "CREATE TABLE reply (place TEXT, body BLOB)", "BEGIN"):
            self._db.execute(statement)
        self.models: set[str] = set()
        """Models that any evidence speaks of."""
        self.has_repeats = False
        """Whether a judge was asked the same more than once."""
        self.prompts: dict[tuple[str, str, str], str] = {}
        """One request to each judge for each part, as it was sent, by judge, part and protocol."""
        self._words: defaultdict[str, list[str]] = defaultdict(list)
        try:
            self._gather(run)
            self._db.execute("CREATE INDEX by_place ON reply (place)")
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise ledger_error(error, Path(tempfile.gettempdir())) from error

    def of(self, cases: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """The replies about each of the cases, in the order of their recording; of two to the same question (a judge
        that has moved to another address was asked anew) the first, which is the one that is scored."""
        found: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {case: {} for case in cases}
        with self._lock:
            for start in range(0, len(cases), _AT_ONCE):
                some = cases[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                asked = f"SELECT place, body FROM reply WHERE place IN ({marks}) ORDER BY rowid"
                for place, body in self._db.execute(asked, list(some)):
                    reply = orjson.loads(body)
                    found[place].setdefault(tuple(reply[key] for key in _PURPOSE), reply)
        return {case: list(of_case.values()) for case, of_case in found.items()}

    def words(self, case: str) -> str:
        """The beginning of what judges said about a case, for searching."""
        return " ".join(self._words.get(case, ()))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _gather(self, run: Run) -> None:
        for purpose, act in run.evidence():
            self.models.add(purpose.model)
            if act.kind == "measure":
                continue
            self.has_repeats |= purpose.repeat > 0 and purpose.judge != PEOPLE
            self._note_prompt(purpose.judge, purpose.part, purpose.protocol, act)
            reply = {
                **{name: getattr(purpose, name) for name in _PURPOSE},
                "part": "all" if purpose.part == "*" else purpose.part,
                "reply": act.reply,
                "failure": act.failure and act.failure.model_dump(),
            }
            self._db.execute("INSERT INTO reply VALUES (?, ?)", (purpose.case, orjson.dumps(reply)))
            kept = self._words[purpose.case]
            room = _MOST_WORDS - sum(map(len, kept))
            if act.reply and room > 0:
                kept.append(" ".join(act.reply[: 2 * room].split())[:room])

    def _note_prompt(self, judge: str, part: str, protocol: str, act: Evidence) -> None:
        if "parts" not in act.request or part.endswith("+repair"):
            return
        # Calls that differ only in their number (q1#2, IF/3) ask the same.
        place = judge, part.partition("#")[0].partition("/")[0], protocol
        if place not in self.prompts:
            self.prompts[place] = _text_of(act.request)


def _text_of(request: Mapping[str, Any]) -> str:
    """What a judge was sent, in the order of the wire; pictures as a mark."""
    system = [f"[system] {request['system']}"] if request.get("system") else []
    parts = [str(part["text"]) if part.get("type") == "text" else "[picture]" for part in request["parts"]]
    return "\n".join([*system, *parts])


_LOOKED_AT = 20
"""Cases whose pictures are looked for before a directory is believed to be theirs."""


def picture_root(runs: Sequence[Run], bench: Benchmark, cases: Sequence[AnyCase], data: Path | None) -> Path | None:
    """The directory that holds the cases' pictures; None where none of the places has any."""
    for root in _places(runs, bench, data):
        if _holds(root, cases):
            return root
    return None


def _places(runs: Sequence[Run], bench: Benchmark, data: Path | None) -> Iterator[Path]:
    if data is not None:
        yield from _inside(data, bench)
        return
    for run in runs:
        noted = [run.notes("pictures").get(""), run.notes("data").get("")]
        yield from (Path(place) for place in noted if place)
    if base := os.environ.get("REFBENCH_DATA"):
        yield from _inside(Path(base), bench)


def _inside(data: Path, bench: Benchmark) -> Iterator[Path]:
    """The directory itself, a checkout in it or in its folder of the benchmark's name, or what a file of cases says."""
    if not data.exists():
        raise RefBenchError(f"{data} is not there: give --data the directory of the cases' pictures")
    for place in (data / bench.name, data):
        if place.is_file() or (place.is_dir() and bench.data.is_checkout(place)):
            yield bench.data.load(place, None).picture_root
        if place.is_dir():
            yield place


def _holds(root: Path, cases: Sequence[AnyCase]) -> bool:
    """Whether any of the first pictures is there."""
    named = [picture.name for case in cases for picture in (*case.request.pictures, *case.targets)][:_LOOKED_AT]
    return any((root / name).is_file() for name in named)


class BoardModel(NamedTuple):
    """A model of a board. Its name is the one it has in its run, with the run's where two would be called alike."""

    name: str
    run: int
    """The place of its run in `Board.runs`."""
    of_run: str
    """What the run calls it."""


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
    draws: int = DRAWS
    seed: int = SEED
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
    def references(self) -> dict[tuple[int, str, str, int], dict[str, str]]:
        """By run, case, model (as the run calls it) and seed: which references an output uses, by who says so."""
        found: dict[tuple[int, str, str, int], dict[str, str]] = {}
        for number, run in enumerate(self.runs):
            for one in attributions(run.path):
                found.setdefault((number, one.case, one.model, one.seed), {})[seen_by(one)] = one.said()
        return found

    @cached_property
    def audit(self) -> bool:
        """Whether there is an audit of judges among the runs, whose models are clean and changed outputs."""
        return any(is_audit(run) for run in self.runs)

    @property
    def models_said(self) -> str:
        """How many models there are, and how many changes where an audit has them."""
        of_audits = [model.of_run for model in self.models if is_audit(self.runs[model.run])]
        models, changes = len(self.models) - len(of_audits), len({*of_audits} - {CLEAN})
        said = [counted(models, "model")] if models or not of_audits else []
        said += [counted(changes, "change")] if changes else []
        said += ["clean outputs"] if CLEAN in of_audits else []
        return f"{', '.join(said[:-1])} and {said[-1]}" if len(said) > 1 else said[0]

    @cached_property
    def judges(self) -> tuple[str | None, ...]:
        names = {score.judge for score in self.result.scores}
        return (*sorted(name for name in names if name is not None), *([None] if None in names else []))

    @cached_property
    def protocols(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(score.protocol for score in self.result.scores))

    @cached_property
    def summary(self) -> dict[str, str]:
        """By protocol: the measure that the leaderboard is sorted by."""
        return {protocol: self.result.summary(protocol) for protocol in self.protocols}

    @cached_property
    def rows(self) -> list[Row]:
        """All rows there are, those by number of references and by tag too."""
        return all_rows(self, self.draws)

    @property
    def rows_apart(self) -> bool:
        """Whether there are more rows than a first view can hold."""
        return len(self.rows) > MOST_ROWS

    def judge_for(self, protocol: str) -> str | None:
        """Whose numbers are shown unless another judge is chosen: the mean of the judges where that is the benchmark's
        own number, else the judge who has scored most models, the first of equals."""
        rows = self.result.rows(protocol=protocol, metric=self.summary[protocol], level="overall")

        def weight(judge: str | None) -> tuple[bool, int, bool]:
            models = sum(row.judge == judge and row.value is not None for row in rows)
            return bool(models) and self.bench.scoring.judges_mean and judge == MEAN, models, judge is not None

        return max(self.judges, key=weight)

    def judge_title(self, judge: str | None) -> str | None:
        """A judge in words: of the mean, whose it is; None for measurements without a judge."""
        if judge == MEAN and self.bench.scoring.judges_mean:
            return f"mean of {', '.join(name for name in self.judges if name not in (MEAN, None))}"
        return judge

    @property
    def wording(self) -> str | None:
        """In whose words judges were asked, run by run where that is not the same; None without a judge."""
        if len(set(self.wordings)) == 1:
            return self.wordings[0]
        return "; ".join(
            f"{wording or 'no judge'} in {run}" for wording, run in zip(self.wordings, self.run_names, strict=True)
        )

    @cached_property
    def places(self) -> list[int]:
        """For each model its place on the board that the pages begin with; those without a number stand behind."""
        protocol = self.protocols[0]
        judge = self.judge_for(protocol)
        rows = self.result.rows(protocol=protocol, metric=self.summary[protocol], level="overall")
        best = ranked([row for row in rows if row.judge == judge], self.bench.scoring.lower)
        order = [self.model_numbers[place.row.model] for place in best]
        order += [number for number in range(len(self.models)) if number not in order]
        return [order.index(number) for number in range(len(self.models))]

    @cached_property
    def styles(self) -> dict[str, Style]:
        """The colour, mark and letter of each model by its name, on every page and in every figure; letters are in the
        order of the board."""
        names = [model.name for model in self.models]
        return styles_of(names, [name for _, name in sorted(zip(self.places, names, strict=True))])

    @cached_property
    def model_numbers(self) -> dict[str, int]:
        return {model.name: number for number, model in enumerate(self.models)}

    @cached_property
    def numbers_by_run(self) -> dict[tuple[int, str], int]:
        return {(model.run, model.of_run): number for number, model in enumerate(self.models)}

    @cached_property
    def judge_numbers(self) -> dict[str | None, int]:
        return {judge: number for number, judge in enumerate(self.judges)}

    def numbers(self, of: Row | Score) -> dict[str, int]:
        """The numbers of its model and its judge."""
        return {"model": self.model_numbers[of.model], "judge": self.judge_numbers[of.judge]}

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

    @cached_property
    def compared(self) -> dict[tuple[str, str | None], Comparison]:
        """Comparisons of all models that have been made, by protocol and judge: the slowest part of a board."""
        return {}

    def compare(self, protocol: str, judge: str | None) -> Comparison:
        """All pairs of models in the summary measure by a judge, with the slices that make their gaps; made once, as
        `refbench compare RUN` makes them: in one family with the pairs of the other judges."""
        if (protocol, judge) not in self.compared:
            found = self.result.compare(protocol=protocol, draws=self.draws, seed=self.seed)
            for one in (*dict.fromkeys(pair.judge for pair in found.pairs), judge):
                self.compared[protocol, one] = found.by_judge(one)
        return self.compared[protocol, judge]

    def close(self) -> None:
        for replies in self.replies:
            replies.close()


def _step(output: Output) -> float:
    return float("inf") if output.step is None else output.step


class ReadOptions(TypedDict, total=False):
    """How runs are scored for a board, with the defaults of `open_boards`."""

    protocol: str
    refusals: str
    draws: int
    seed: int


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
    names = dict(zip(runs, _names(runs), strict=True))
    together: dict[tuple[str | bytes, ...], list[Run]] = {}
    for run in runs:
        together.setdefault(_cases_of(run), []).append(run)
    boards = []
    with contextlib.ExitStack() as opened:  # what was opened before something is found wrong is closed again
        for number, members in enumerate(together.values()):
            replies = [opened.enter_context(contextlib.closing(Replies(run))) for run in members]
            outputs = [run.outputs() for run in members]
            bench = benchmark_of(members[0])
            results = [
                with_cards(
                    run_result(
                        run,
                        bench,
                        run.cases(bench.data.case_type),
                        Tabling(protocol, draws if len(members) == 1 else 0, seed, refusals),
                        # What was painted and not judged yet is shown too: every score of it is missing, and says so.
                        systems=[(name, None) for name in sorted({o.model for o in made} - of_run.models)],
                        derived=derived_of(run, run.derived),
                    ),
                    run.path,
                )
                for run, of_run, made in zip(members, replies, outputs, strict=True)
            ]
            called = [names[run] for run in members]
            models = _models(results, called)
            board = Board(
                id=f"b{number}",
                runs=tuple(members),
                run_names=tuple(called),
                replies=tuple(replies),
                outputs=tuple(map(tuple, outputs)),
                models=tuple(models),
                result=results[0],
                wordings=tuple(result.words_and_weights for result in results),
                draws=draws,
                seed=seed,
            )
            boards.append(board if len(members) == 1 else replace(board, result=_joined(board, bench, results)))
        opened.pop_all()
    return boards


def _cases_of(run: Run) -> tuple[str | bytes, ...]:
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


def _models(results: Sequence[Result], names: Sequence[str]) -> list[BoardModel]:
    of_runs = [sorted({score.model for score in result.scores}) for result in results]
    counts = Counter(name for models in of_runs for name in models)
    return [
        BoardModel(name if counts[name] == 1 else f"{name} ({names[number]})", number, name)
        for number, models in enumerate(of_runs)
        for name in models
    ]


def _joined(board: Board, bench: Benchmark, results: Sequence[Result]) -> Result:
    """One result of several runs, under a fingerprint of what is true of all of them."""
    here = {case.id for result in results for case in result.cases}
    cases = [case for case in board.runs[0].cases(bench.data.case_type) if case.id in here]
    called = {(model.run, model.of_run): model.name for model in board.models}
    parts = [result.table.parts for result in results]
    scores: list[Score] = []
    changes: list[dict[str, Any]] = []
    notes = _differences(parts, board.run_names)
    for number, result in enumerate(results):
        whole = [*result.scores, *_unasked(result, cases)]
        scores += [score.model_copy(update={"model": called[number, score.model]}) for score in whole]
        changes += [{**change, "model": called[number, change["model"]]} for change in result.changes]
        notes += [f"{board.run_names[number]}: {note}" for note in result.notes]
    made = result_of(
        bench,
        cases,
        scores,
        Origin(
            board.runs[0].info.subset,
            settings=_of_all(parts, "settings", board.run_names),
            judges=_of_all(parts, "asked", board.run_names),
            measured={name: how for part in parts for name, how in part.get("measured", {}).items()},
            seeds={model.name: results[model.run].seeds[model.of_run] for model in board.models},
            changes=changes,
            notes=notes,
        ),
        draws=board.draws,
        seed=board.seed,
        refusals=results[0].refusals,
    )
    return replace(made, cards=tuple(dict.fromkeys(card for result in results for card in result.cards)))


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
            of_runs = ", ".join(f"{value or 'not said'} in {name}" for name, value in zip(names, values, strict=True))
            found.append(f"the runs were not judged alike: {key} is {of_runs}")
    for judge in sorted({judge for part in parts for judge in part["asked"]}):
        asked = {content_key(part["asked"][judge]) for part in parts if judge in part["asked"]}
        if len(asked) > 1:
            found.append(f"the runs have different judges of the name {judge}: other models or parameters")
    return found


def _of_all(parts: Sequence[Mapping[str, Any]], key: str, names: Sequence[str]) -> dict[str, Any]:
    """What the runs say under a key of their fingerprints; what they do not agree on, with the name of the run."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part[key]):
        of_runs = {run: part[key][name] for run, part in zip(names, parts, strict=True) if name in part[key]}
        if len({content_key(value) for value in of_runs.values()}) == 1:
            found[name] = next(iter(of_runs.values()))
        else:
            found |= {f"{name} in {run}": value for run, value in of_runs.items()}
    return found


def all_rows(board: Board, draws: int) -> list[Row]:
    """The rows of the board's table, then those by number of references and by tag where the benchmark does not table
    these itself; without those of measures that concern none of a slice's cases."""
    rows = list(board.result.table.rows)
    levels = {row.slice["level"] for row in rows}
    for protocol in board.protocols:
        aggregate = board.bench.scoring.protocols[protocol].aggregate
        overall = next(where for where in aggregate.slices(board.cases) if where.level == "overall")
        further = further_slices(overall, board.cases, levels)
        if further:
            rows += tabulate(
                protocol,
                replace(aggregate, slices=partial(_given, further)),
                board.result.columns(protocol),
                board.cases,
                draws=draws,
                seed=board.seed,
            )
    return [row for row in rows if row.value is not None or row.n_expected]


def _given(slices: list[Slice], cases: Sequence[AnyCase]) -> list[Slice]:
    return slices


def further_slices(overall: Slice, cases: Sequence[AnyCase], levels: set[str]) -> list[Slice]:
    """The overall slice kept to the cases with so many references, or with a tag; levels of one slice tell nothing."""
    found: list[Slice] = []
    counts = np.array([len(case.request.references) for case in cases])
    numbers = sorted(set(counts.tolist()))
    if REFERENCES not in levels and len(numbers) > 1:
        found += [_within(overall, counts == n, REFERENCES, {REFERENCES: str(n)}) for n in numbers]
    if TAG not in levels:
        for tag in sorted({tag for case in cases for tag in case.tags}):
            members = np.array([tag in case.tags for case in cases], dtype=np.bool_)
            found.append(_within(overall, members, TAG, {TAG: tag}))
    return [where for where in found if where.members.any()]


def _within(where: Slice, members: NDArray[np.bool_], level: str, names: Mapping[str, str]) -> Slice:
    """The slice with all slices that it is averaged over, kept to some cases; what is left without any goes."""
    changes: dict[str, Any] = {"members": where.members & members, "level": level, "names": names}
    for field in fields(where):
        value = getattr(where, field.name)
        if isinstance(value, Slice):
            changes[field.name] = _within(value, members, value.level, value.names)
        elif isinstance(value, tuple) and value and all(isinstance(part, Slice) for part in value):
            kept = (_within(part, members, part.level, part.names) for part in value)
            changes[field.name] = tuple(part for part in kept if part.members.any())
    return replace(where, **changes)
