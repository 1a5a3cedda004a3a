"""What is odd in a copy of ICE-Bench, kind by kind, with what it does to cases and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from refbench.benchmarks.icebench.cases import DATA, ICECase, picture, read_items, task_of
from refbench.benchmarks.icebench.tasks import N_CASES, TASKS
from refbench.benchmarks.kit.dataset import Anomaly, Dataset
from refbench.case import Picture
from refbench.failure import Failure
from refbench.pictures import PictureFacts, decode, read_facts

_FEWEST, _MOST = 50, 500
"""Cases of a task in the paper."""

KINDS = {
    "malformed_line": "no case comes from it: the line is not JSON, or a field is missing or of another type",
    "unknown_task": "no case comes from it; the released code would stop at such an item when it sums up",
    "duplicate_id": "the last of the lines counts, as in the released code, which does not say so",
    "other_count": "not the whole release: the numbers are about the items that are there",
    "missing_task": "groups and overall are means over the tasks that are there, and say so",
    "unusual_task_size": "the paper has 50 to 500 items a task: its mean is about other items here",
    "empty_instruction": "the case stays, but the model is told nothing",
    "empty_caption": "clip_cap has nothing to compare with: undefined",
    "no_source": "the task edits a picture and the item has none: what compares with it is undefined",
    "no_reference": "the task needs a reference and the item has none: what compares with it is undefined",
    "no_mask": "marked as region based, but there is no mask: L1 counts the whole picture, the judge sees no mask",
    "unmarked_mask": "there is a mask, though the item is not marked as region based: the mask is used",
    "more_references": "models get all references; only the first is scored, as in the released code",
    "mask_size": "the mask is not of the source's size: undefined in paper, resized in corrected",
    "full_mask": "the mask covers everything: L1 outside of it is undefined",
    "missing_picture": "the picture is not there: what needs it fails",
    "unreadable_picture": "the picture cannot be read: what needs it fails",
    "unusual_pixels": "palette, alpha, 16 bit or CMYK: read as docs/pictures.md says",
    "rotated_picture": "an EXIF rotation is applied in corrected, not in paper",
    "animated_picture": "the first frame counts",
}


def anomalies(dataset: Dataset) -> list[Anomaly]:
    """Every oddity: of the lines, of the whole, then of each case; all pictures are opened, masks decoded."""
    found = [Anomaly(kind=kind, case=place, detail=detail) for kind, place, detail in read_items(dataset.root).oddities]
    found += _of_the_whole(dataset)
    for case in dataset.cases:
        found += _of_case(dataset, case)
    return found


def _of_the_whole(dataset: Dataset) -> Iterator[Anomaly]:
    if len(dataset.cases) != N_CASES:
        yield Anomaly(
            kind="other_count", case=DATA, detail=f"{len(dataset.cases):,} items, the release has {N_CASES:,}"
        )
    counts = Counter(case.groups["task"] for case in dataset.cases)
    for name, task in TASKS.items():
        if not counts[name]:
            yield Anomaly(kind="missing_task", case=name, detail=f"no item has the Task {task.code!r}")
        elif not _FEWEST <= counts[name] <= _MOST:
            yield Anomaly(kind="unusual_task_size", case=name, detail=f"{counts[name]} items")


def _of_case(dataset: Dataset, case: ICECase) -> Iterator[Anomaly]:
    task, details = task_of(case), case.details
    source, mask, reference = picture(case, "source"), picture(case, "mask"), picture(case, "reference")
    if not case.request.instruction:
        yield Anomaly(kind="empty_instruction", case=case.id)
    if not details.target_caption and "clip_cap" in task.parts:
        yield Anomaly(kind="empty_caption", case=case.id, part="TargetCaption")
    if task.kind == "Editing" and source is None:
        yield Anomaly(kind="no_source", case=case.id, detail=task.name)
    if task.reference and reference is None:
        yield Anomaly(kind="no_reference", case=case.id, detail=task.name)
    if details.region_based != (mask is not None):
        yield Anomaly(kind="no_mask" if details.region_based else "unmarked_mask", case=case.id)
    references = [p for p in case.request.pictures if p.role == "reference"]
    if len(references) > 1:
        yield Anomaly(kind="more_references", case=case.id, detail=f"{len(references)} references")
    facts: dict[str, PictureFacts] = {}
    for shown in case.request.pictures:
        said = read_facts(dataset.path(shown))
        if isinstance(said, Failure):
            there = dataset.path(shown).is_file()
            kind = "unreadable_picture" if there else "missing_picture"
            yield Anomaly(kind=kind, case=case.id, part=shown.role, detail=f"{shown.name}: {said.detail}")
        else:
            facts[shown.name] = said
            yield from _of_picture(case, shown, said)
    if mask is not None and mask.name in facts:
        if source is not None and source.name in facts:
            yield from _of_sizes(case, facts[mask.name], facts[source.name])
        if _is_full(dataset, mask):
            yield Anomaly(kind="full_mask", case=case.id, part="mask", detail=mask.name)


def _of_picture(case: ICECase, shown: Picture, facts: PictureFacts) -> Iterator[Anomaly]:
    if facts.mode not in ("RGB", "L"):  # masks, edges and photographs without colour are greyscale by right
        yield Anomaly(kind="unusual_pixels", case=case.id, part=shown.role, detail=f"{shown.name}: {facts.mode}")
    if facts.orientation != 1:
        detail = f"{shown.name}: orientation {facts.orientation}"
        yield Anomaly(kind="rotated_picture", case=case.id, part=shown.role, detail=detail)
    if facts.animated:
        yield Anomaly(kind="animated_picture", case=case.id, part=shown.role, detail=shown.name)


def _of_sizes(case: ICECase, mask: PictureFacts, source: PictureFacts) -> Iterator[Anomaly]:
    if (mask.width, mask.height) != (source.width, source.height):
        sizes = f"mask {mask.width}x{mask.height}, source {source.width}x{source.height}"
        yield Anomaly(kind="mask_size", case=case.id, part="mask", detail=sizes)


def _is_full(dataset: Dataset, mask: Picture) -> bool:
    pixels = decode(dataset.path(mask).read_bytes())
    return not isinstance(pixels, Failure) and bool((pixels > 128).all())
