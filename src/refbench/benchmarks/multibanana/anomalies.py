"""What is odd in a copy of MultiBanana, kind by kind, with what it does to cases and scores."""

from __future__ import annotations

from collections.abc import Iterator

from refbench.benchmarks.kit.anomalies import (
    Oddity,
    common_kinds,
    instruction_oddities,
    list_anomalies,
    picture_facts,
    picture_oddities,
)
from refbench.benchmarks.kit.dataset import Anomaly, Dataset
from refbench.benchmarks.multibanana.cases import MultiBananaCase, read_sources, read_tags, scan

KINDS = {
    "unknown_directory": "ignored: its name is no task",
    "empty_task": "no case comes from it; its group and overall are means over the other tasks",
    "missing_task": "its group and overall are means over the tasks that are there",
    "missing_prompt": "the set is left out: it has references but no instruction",
    "missing_references": "the set is left out: it has an instruction but no reference",
    "late_references": "the set is left out: its references do not begin at index 0, where probing starts",
    "reference_gap": "references behind the gap are not seen, by the official scripts either",
    "other_reference_count": "the set counts by the references it has, not by its directory's number",
    "duplicate_reference": "one index with two extensions: the first in probing order is taken",
    "unprobed_picture": "not seen: upper-case or unknown extension, or a padded index",
    "undecodable_name": "ignored: the file's name is not UTF-8",
    "empty_prompt": "the case stays, but the model is told nothing",
    "undecodable_prompt": "the instruction is not UTF-8: the wrong bytes are replaced",
    "missing_tags": "the directory has no types.json: its sets count neither with nor without a tag",
    "unreadable_tags": "types.json cannot be read: its sets count neither with nor without a tag",
    "unknown_tag": "ignored: the label is none of domain, scale, rare, ling, font",
    "stray_tag": "ignored: types.json names a set that is not there",
    "missing_sources": "no from_where.csv: the source of every set is unknown",
    "unreadable_sources": "from_where.csv cannot be understood: the source of every set is unknown",
    "unread_source": "a row of from_where.csv cannot be understood: the source of its set is unknown",
    "unlisted_reference": "from_where.csv does not name the reference: the source of its set is unknown",
    "missing_picture": "the reference is gone or a dead link: cannot be judged anew",
    "unreadable_picture": "the reference cannot be read: cannot be judged anew",
    "wrong_extension": "harmless: the format is taken from the bytes, not declared JPEG as the official script does",
    **common_kinds("unusual_pixels", "rotated_picture", "animated_picture", "colour_profile"),
}


def anomalies(dataset: Dataset) -> list[Anomaly]:
    """Every oddity: of the layout, of tags and sources, then of each case; all pictures are opened."""
    listed = read_sources(dataset.picture_root).known

    def of_case(case: MultiBananaCase) -> Iterator[Oddity]:
        yield from instruction_oddities(case, "prompt")
        for index, picture in enumerate(case.request.pictures):
            if listed and case.details.sources[index] is None:
                yield "unlisted_reference", str(index), picture.name
            yield from picture_oddities(picture.name, picture_facts(dataset, picture), KINDS, part=str(index))

    return list_anomalies(dataset, _release_oddities(dataset), of_case)


def _release_oddities(dataset: Dataset) -> Iterator[Oddity]:
    """From the files once more: sets that were left out have no case that could carry their oddity."""
    layout = scan(dataset.picture_root)
    yield from layout.oddities
    for folder in layout.folders:
        yield from folder.oddities
        if folder.sets:
            yield from read_tags(dataset.picture_root, folder).oddities
    yield from read_sources(dataset.picture_root).oddities
