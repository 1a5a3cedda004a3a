"""The files that the released judge scripts write (`<task_dir>/<NNN>_<judge>_judge.txt`) as evidence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from refbench.benchmarks.kit.dataset import Dataset
from refbench.benchmarks.kit.definition import ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, only_model, place_in, reply_in
from refbench.benchmarks.multibanana.cases import PART, task_of
from refbench.evidence import Evidence, Purpose
from refbench.record import RefBenchError, clean_text

_SUFFIX = "_judge.txt"

File = tuple[str, str]
"""Task directory and number of the set."""


def import_replies(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
    """Find the files of one judge. They do not name the model: it is `models`' only name, else the folder's."""
    model = only_model(models, folder.resolve().name, "MultiBanana's judge files of one folder are")
    place, by_judge = _find(folder)
    if judge is None and len(by_judge) > 1:
        raise RefBenchError(f"{place} holds files of the judges {', '.join(sorted(by_judge))}: choose one by --judge")
    chosen = judge if judge is not None else next(iter(by_judge))
    if chosen not in by_judge:
        raise RefBenchError(f"--judge {chosen}: {place} has files of {', '.join(sorted(by_judge))} only")
    known: dict[File, str] = {}
    for case in dataset.cases:
        known[case.details.task_dir, case.details.number] = case.id
    for case in dataset.cases:  # a folder of replies may spell `3_obj` where the data has `3_object`
        known.setdefault((case.groups["task"], case.details.number), case.id)
    matched: dict[str, Path] = {}
    unknown = []
    for (directory, number), path in by_judge[chosen].items():
        task = task_of(directory)
        case_id = known.get((directory, number)) or known.get((task.name if task else directory, number))
        if case_id is None or case_id in matched:
            unknown.append(clean_text(f"{directory}/{path.name}"))
        else:
            matched[case_id] = path
    if not matched:
        raise RefBenchError(f"none of the replies in {place} is for a set of {dataset.root}: is --data the right one?")

    def replies() -> Iterator[tuple[Purpose, Evidence]]:
        for case_id, path in matched.items():
            purpose = Purpose(case=case_id, model=model, judge=chosen, part=PART)
            yield imported_reply("multibanana", purpose, reply_in(path), place_in(place, path))

    return ImportedReplies(judge=chosen, models=(model,), replies=replies, unknown=tuple(unknown))


def _find(folder: Path) -> tuple[Path, dict[str, dict[File, Path]]]:
    """The judge files of each judge, in the folder or in `data` inside it."""
    if not folder.is_dir():
        raise RefBenchError(f"{folder} is not there: give --replies a folder with task directories inside")
    for place in (folder, folder / "data"):
        if found := _judge_files(place):
            return place, found
    raise RefBenchError(f"{folder} holds no judge files such as 3_back/006_gpt{_SUFFIX}: give --replies their folder")


def _judge_files(place: Path) -> dict[str, dict[File, Path]]:
    found: dict[str, dict[File, Path]] = {}
    try:
        directories = [name for name in sorted(os.listdir(place)) if task_of(name) and (place / name).is_dir()]
        for directory in directories:
            for name in sorted(os.listdir(place / directory)):
                number, _, judge = name.removesuffix(_SUFFIX).partition("_")
                if name.endswith(_SUFFIX) and number and judge:
                    found.setdefault(clean_text(judge), {})[directory, number] = place / directory / name
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise RefBenchError(f"{place} cannot be read: {error.strerror}") from error
    return found
