"""Where items are from: the outputs of a run, the lines of a review, the references that RefBlend made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from refbench.analysis.humans.sampling import Place, read_list
from refbench.benchmarks.multiref.cases import path_keys
from refbench.builders.audit.make import picture_root
from refbench.case import AnyCase, Picture
from refbench.output import Output
from refbench.record import RefBenchError, counted
from refbench.runs import Run
from refbench.runs.run import fair_order
from refbench.studies.design import Screen
from refbench.studies.items import Item, ItemOutput, ItemPicture, Question
from refbench.studies.review import lines_of
from refbench.tables.scoring import benchmark_of
from refbench.text.files import file_bytes, json_file, json_lines


class Found(NamedTuple):
    """Items, and what there is to say about those that could not be made."""

    items: list[Item]
    notes: list[str]


class RunOutputs:
    """The outputs of a run that can be shown, by case and model, with the pictures that they were made from."""

    def __init__(self, run: Run, models: Sequence[str] = (), data: Path | None = None) -> None:
        self.run, self.bench = run, benchmark_of(run)
        self.cases = fair_order(run.cases(self.bench.data.case_type))
        self._root = picture_root(run, data)
        self._hashes: dict[str, str] = {}
        final = [output for output in run.outputs() if output.step is None]
        there = sorted({output.model for output in final})
        if unknown := next((model for model in models if model not in there), None):
            raise RefBenchError(f"--model {unknown}: the run has {', '.join(there) or 'no outputs'}")
        self.models = [model for model in there if not models or model in models]
        self.failed = sum(output.failure is not None for output in final if output.model in self.models)
        self.outputs: dict[tuple[str, str, int], Output] = {
            (output.case, output.model, output.seed): output
            for output in sorted(final, key=lambda one: -one.seed)
            if output.pictures and output.model in self.models
        }
        self.first = {(case, model): output for (case, model, _), output in self.outputs.items()}
        """The output of the lowest seed."""

    def inputs(self, case: AnyCase) -> tuple[ItemPicture, ...]:
        return tuple(self._picture(picture) for picture in case.request.pictures)

    def targets(self, case: AnyCase) -> tuple[ItemPicture, ...]:
        return tuple(self._picture(picture) for picture in case.targets)

    def output(self, output: Output) -> ItemOutput:
        pictures = tuple(
            ItemPicture(
                role="output", file=_name(self.run.blobs.path(stored.sha256, stored.format)), sha256=stored.sha256
            )
            for stored in output.pictures
        )
        return ItemOutput(model=output.model, seed=output.seed, pictures=pictures, content=output.content)

    def _picture(self, picture: Picture) -> ItemPicture:
        if self._root is None:
            raise RefBenchError("the pictures of the run's cases are not where they were: give --data")
        return picture_of(self._root / picture.name, picture.role, self._hashes)


def picture_of(path: Path, role: str, known: dict[str, str] | None = None) -> ItemPicture:
    """A picture as it lies there now."""
    name = _name(path)
    hashes = {} if known is None else known
    if name not in hashes:
        hashes[name] = hashlib.sha256(file_bytes(path, "the study cannot show it")).hexdigest()
    return ItemPicture(role=role, file=name, sha256=hashes[name])


def _name(path: Path) -> str:
    name = str(path.absolute())
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise RefBenchError(f"{name!r} has a name that is no text: rename it") from error
    return name


# --- a run --------------------------------------------------------------------------------------------------------


def items_of_run(outputs: RunOutputs, screen: Screen, n: int, sample: Path | None = None) -> Found:
    """Items about a run's outputs: its cases in the fair order, all models on each; or the outputs on the list that
    `refbench sample` has drawn, each with the chance that it had."""
    makers = {"rate": _rated, "set": _sets, "questions": _questioned, "pair": _pairs}
    if screen not in makers:
        raise RefBenchError(f"--screen {screen}: a run's outputs are shown by {', '.join(makers)}")
    notes = []
    if sample is not None:
        if screen != "rate":
            raise RefBenchError("--sample draws single outputs: they are shown by --screen rate")
        items = _drawn(outputs, sample)
    else:
        items = list(makers[screen](outputs))[:n]
    if not items:
        asked = "no case has questions for people" if screen == "questions" else "there is nothing to show of it"
        raise RefBenchError(f"{outputs.run.path}: {asked}")
    if outputs.failed:
        notes.append(f"{counted(outputs.failed, 'output')} failed and cannot be shown")
    if sample is None and len(items) < n:
        notes.append(f"the run has {counted(len(items), 'item')} for this screen, {n} were asked for")
    return Found(items, notes)


def _plain(outputs: RunOutputs, case: AnyCase, screen: Screen, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "case": case.id,
        "stratum": case.stratum,
        "screen": screen,
        "instruction": case.request.instruction,
        "inputs": outputs.inputs(case),
    }


def _rated(outputs: RunOutputs) -> Iterable[Item]:
    for case in outputs.cases:
        for model in outputs.models:
            if (case.id, model) in outputs.first:
                made = outputs.output(outputs.first[case.id, model])
                yield Item(**_plain(outputs, case, "rate", f"{case.id} / {model}"), outputs=(made,))


def _drawn(outputs: RunOutputs, sample: Path) -> list[Item]:
    drawn = read_list(sample, "--sample")
    if drawn is None:
        raise RefBenchError(f"--sample {sample}: it is no list that refbench sample has written")
    cases = {case.id: case for case in outputs.cases}
    items = []
    for place, chance in drawn.chances.items():
        found = _at(outputs, place)
        if found is None or place.case not in cases:
            raise RefBenchError(f"--sample {sample}: the run has no output of {place.model} for {place.case}")
        plain = _plain(outputs, cases[place.case], "rate", f"{place.case} / {place.model} / {found.seed}")
        items.append(Item(**plain, outputs=(outputs.output(found),), probability=chance.probability))
    return items


def _at(outputs: RunOutputs, place: Place) -> Output | None:
    if place.seed is None:
        return outputs.first.get((place.case, place.model))
    return outputs.outputs.get((place.case, place.model, place.seed))


def _sets(outputs: RunOutputs) -> Iterable[Item]:
    for case in outputs.cases:
        there = [outputs.first[case.id, model] for model in outputs.models if (case.id, model) in outputs.first]
        if there:
            yield Item(**_plain(outputs, case, "set", case.id), outputs=tuple(map(outputs.output, there)))


def _pairs(outputs: RunOutputs) -> Iterable[Item]:
    """Round robin: every pair of models equally often, case by case."""
    if len(outputs.models) < 2:
        raise RefBenchError("--screen pair: the run has outputs of one model only")
    pairs = list(combinations(outputs.models, 2))
    rounds = [(case, pairs[(k + r) % len(pairs)]) for r in range(len(pairs)) for k, case in enumerate(outputs.cases)]
    for case, pair in rounds:
        there = [outputs.first[case.id, model] for model in pair if (case.id, model) in outputs.first]
        if len(there) == 2:
            name = f"{case.id} / {' / '.join(pair)}"
            yield Item(**_plain(outputs, case, "pair", name), outputs=tuple(map(outputs.output, there)))


def _questioned(outputs: RunOutputs) -> Iterable[Item]:
    for case in outputs.cases:
        questions = questions_of(case)
        for model in outputs.models if questions else ():
            if (case.id, model) in outputs.first:
                made = outputs.output(outputs.first[case.id, model])
                plain = _plain(outputs, case, "questions", f"{case.id} / {model}")
                yield Item(**plain, outputs=(made,), questions=questions)


_GATES = ((), (), (0, 1), (0, 1), (0, 1, 2, 3), (0, 1, 2, 3))
"""IDEA-Bench's: a no in the first two closes the others, a no in the next two the last two."""


def questions_of(case: AnyCase) -> tuple[Question, ...]:
    """The case's questions for people, else those that its judge is asked."""
    details = case.details
    if human := getattr(details, "human", ()):
        gates = _GATES if len(human) == len(_GATES) else ((),) * len(human)
        return tuple(
            Question(text=one.text, no=one.zero, yes=one.one, needs=needs)
            for one, needs in zip(human, gates, strict=True)
        )
    asked = getattr(details, "questions", ())
    flat = [one for of_metric in asked.values() for one in of_metric] if isinstance(asked, Mapping) else list(asked)
    return tuple(Question(text=one if isinstance(one, str) else one.text) for one in flat)


# --- a review -----------------------------------------------------------------------------------------------------

_NOT_EDITABLE = frozenset({"id", "decision", "comment", "edit", "seen"})


def items_of_review(path: Path, pictures: Path | None) -> Found:
    """One item for each line of a builder's review.jsonl; pictures that a line names are looked for in a folder."""
    items, lost = [], 0
    for number, row in json_lines(path, "give the review.jsonl that a build has written"):
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise RefBenchError(f"{path}, line {number} has no id: give the review.jsonl that a build has written")
        named = [name for value in row.values() for name in (value if isinstance(value, list) else [value])]
        shown: list[ItemPicture] = []
        if pictures is not None:
            names = dict.fromkeys(name for name in named if isinstance(name, str))
            shown = [picture_of(pictures / name, "reference") for name in names if _inside(pictures, name)]
        lost += pictures is not None and not shown
        items.append(
            Item(
                id=row["id"],
                case=row["id"],
                screen="review",
                instruction=str(row.get("instruction") or ""),
                inputs=tuple(shown),
                row={key: value for key, value in row.items() if key not in ("decision", "edit", "comment")},
                editable=known.editable
                if (known := lines_of(row))
                else tuple(k for k in row if k not in _NOT_EDITABLE),
            )
        )
    notes = [f"{lost} lines name no picture that is in {pictures}"] if lost else []
    return Found(items, notes)


_PICTURE = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff"})


def _inside(folder: Path, name: str) -> bool:
    """Whether it is the name of a picture in the folder; a name may not lead out of it."""
    if Path(name).suffix.lower() not in _PICTURE or "\0" in name or len(name) > 4096:
        return False
    path = (folder / name).resolve()
    return path.is_relative_to(folder.resolve()) and path.is_file()


# --- RefBlend -----------------------------------------------------------------------------------------------------


BENCHMARK = "benchmark.json"
"""All samples of a RefBlend dataset."""


def items_of_references(dataset: Path, n: int) -> Found:
    """Each reference of a RefBlend dataset beside its original, one type after another, each reference once."""
    path = dataset / BENCHMARK
    rows = json_file(path, f"give the folder that refbench blend has written, with its {BENCHMARK}")
    by_type: dict[str, dict[str, Item]] = {}
    for row in rows if isinstance(rows, list) else []:
        for item in _references(dataset, row):
            by_type.setdefault(item.stratum, {}).setdefault(item.id, item)
    queues = [list(of_type.values()) for _, of_type in sorted(by_type.items())]
    dealt = [queue[k] for k in range(max(map(len, queues), default=0)) for queue in queues if k < len(queue)]
    if not dealt:
        raise RefBenchError(f"{path} has no references: give the folder that refbench blend has written")
    return Found(dealt[:n], [])


def _references(dataset: Path, row: Mapping[str, Any]) -> Iterable[Item]:
    name = str(row["original_image_path"])
    original = _of_dataset(dataset, name, "original")
    for kind in row["instructions"]["conditions"]:
        keys = ("caption",) if kind == "caption" else path_keys(kind)
        given = next((row["conditions"][key] for key in keys if row["conditions"].get(key)), None)
        plain = {"case": name, "stratum": kind, "screen": "reference"}
        if kind == "caption":
            yield Item(**plain, id=f"{name} / caption", text=str(given or ""), inputs=(original,))
            continue
        for path in given if isinstance(given, list) else [given]:
            reference = _of_dataset(dataset, str(path), "reference")
            yield Item(**plain, id=f"{name} / {kind} / {path}", inputs=(original, reference))


def _of_dataset(dataset: Path, name: str, role: str) -> ItemPicture:
    if not _inside(dataset, name):
        raise RefBenchError(f"{dataset / BENCHMARK} names the picture {name}, which is not in {dataset}")
    return picture_of(dataset / name, role)
