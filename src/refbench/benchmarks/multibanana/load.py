"""Files to cases: the official MultiBanana layout, read as the official scripts probe it, references from 0.

How many sets there are is told by `describe`, never asserted: the paper's counts and the release may differ.
"""

from __future__ import annotations

from pathlib import Path

from refbench.benchmarks.dataset import Dataset
from refbench.benchmarks.multibanana.details import MultiBananaCase, MultiBananaDetails
from refbench.benchmarks.multibanana.layout import Folder, SetFiles, data_root, scan
from refbench.benchmarks.multibanana.sources import Sources, read_sources, reference_place, source_of
from refbench.benchmarks.multibanana.tags import FolderTags, read_tags
from refbench.case import Picture, Request
from refbench.record import RefBenchError

ROLE = "reference"


def load(root: Path, subset: str | None = None) -> Dataset:
    """Every set that has a prompt and a reference 0, task by task; the others are among the anomalies."""
    if subset is not None:
        raise RefBenchError(f"--subset {subset}: MultiBanana has no subsets")
    place = data_root(root)
    if place is None:
        raise RefBenchError(f"{root} holds no sets: give --data the folder of the task directories (single, add, ...)")
    layout = scan(place)
    sources = read_sources(place)
    cases = []
    for folder in layout.folders:
        tags = read_tags(place, folder)
        cases += [_case(place, folder, files, tags, sources) for files in folder.sets if files.complete]
    if not cases:
        raise RefBenchError(f"{place} holds prompts but no set with a reference 0 (as in 006_0.jpg): copy it again")
    return Dataset(benchmark="multibanana", root=root, picture_root=place, cases=tuple(cases))


def is_checkout(root: Path) -> bool:
    return data_root(root) is not None


def _case(root: Path, folder: Folder, files: SetFiles, tags: FolderTags, sources: Sources) -> MultiBananaCase:
    case_id = f"{folder.name}/{files.number}"
    words = tuple(sources.words.get(reference_place(folder.task.name, file)) for file in files.references)
    return MultiBananaCase(
        id=case_id,
        request=Request(
            instruction=_instruction(root / folder.name / str(files.prompt)),
            pictures=tuple(Picture(name=f"{folder.name}/{file}", role=ROLE) for file in files.references),
        ),
        groups={
            "group": folder.task.group,
            "task": folder.task.name,
            "n_refs": str(len(files.references)),
            "source": source_of(words),
        },
        tags=tags.by_set.get(files.number, ()),
        cluster=case_id,
        stratum=folder.task.name,
        details=MultiBananaDetails(task_dir=folder.name, number=files.number, sources=words, tags_known=tags.known),
    )


def _instruction(path: Path) -> str:
    """The prompt without white space around it; bytes that are no UTF-8 become U+FFFD and an anomaly."""
    try:
        return path.read_bytes().decode("utf-8-sig", "replace").strip()
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: {error.strerror}") from error
