"""What is odd in a copy of ICE-Bench; anomalies.toml says what each kind does to cases and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from refbench.benchmarks.icebench.cases import DATA, ICECase, picture, read_items, task_of
from refbench.benchmarks.icebench.tasks import N_CASES, TASKS
from refbench.benchmarks.kit.anomalies import Oddity, anomaly_kinds, list_anomalies, picture_facts, picture_oddities
from refbench.benchmarks.kit.definition import Anomaly, Dataset
from refbench.case import Picture
from refbench.failure import Failure
from refbench.pictures import PictureFacts, read_pixels

_FEWEST, _MOST = 50, 500
"""Cases of a task in the paper."""

KINDS = anomaly_kinds(__package__)


def anomalies(dataset: Dataset) -> list[Anomaly]:
    """Every oddity: of the lines, of the whole, then of each case; all pictures are opened, masks decoded."""
    release = [*read_items(dataset.root).oddities, *_of_the_whole(dataset)]
    return list_anomalies(dataset, release, lambda case: [*_of_entry(case), *_of_pictures(dataset, case)])


def _of_the_whole(dataset: Dataset) -> Iterator[Oddity]:
    if len(dataset.cases) != N_CASES:
        yield "other_count", DATA, f"{len(dataset.cases):,} items, the release has {N_CASES:,}"
    counts = Counter(case.groups["task"] for case in dataset.cases)
    for name, task in TASKS.items():
        if not counts[name]:
            yield "missing_task", name, f"no item has the Task {task.code!r}"
        elif not _FEWEST <= counts[name] <= _MOST:
            yield "unusual_task_size", name, f"{counts[name]} items"


def _of_entry(case: ICECase) -> Iterator[Oddity]:
    task, details = task_of(case), case.details
    if not case.request.instruction:
        yield "empty_instruction", "", ""
    if not details.target_caption and "clip_cap" in task.parts:
        yield "empty_caption", "TargetCaption", ""
    if task.kind == "Editing" and picture(case, "source") is None:
        yield "no_source", "", task.name
    references = [shown for shown in case.request.pictures if shown.role == "reference"]
    if task.reference and not references:
        yield "no_reference", "", task.name
    if details.region_based != (picture(case, "mask") is not None):
        yield "no_mask" if details.region_based else "unmarked_mask", "", ""
    if len(references) > 1:
        yield "more_references", "", f"{len(references)} references"


def _of_pictures(dataset: Dataset, case: ICECase) -> Iterator[Oddity]:
    by_name = {}
    for shown in case.request.pictures:
        facts = by_name[shown.name] = picture_facts(dataset, shown)
        # Masks, edges and photographs without colour are greyscale by right.
        yield from picture_oddities(shown.name, facts, KINDS, part=shown.role, modes=("RGB", "L"))
    source, mask = picture(case, "source"), picture(case, "mask")
    if mask is None or isinstance(of_mask := by_name[mask.name], Failure):
        return
    of_source = by_name[source.name] if source is not None else None
    if isinstance(of_source, PictureFacts):
        sizes = (of_mask.width, of_mask.height), (of_source.width, of_source.height)
        if sizes[0] != sizes[1]:
            yield "mask_size", "mask", "mask {}x{}, source {}x{}".format(*sizes[0], *sizes[1])
    if _is_full(dataset, mask):
        yield "full_mask", "mask", mask.name


def _is_full(dataset: Dataset, mask: Picture) -> bool:
    pixels = read_pixels(dataset.path(mask))
    return not isinstance(pixels, Failure) and bool((pixels > 128).all())
