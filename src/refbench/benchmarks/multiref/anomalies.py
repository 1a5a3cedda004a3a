"""What is odd in a copy of MultiRef-Bench; anomalies.toml says what each kind does to cases and scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from refbench.benchmarks.kit.anomalies import Oddity, anomaly_kinds, list_anomalies, picture_facts, picture_oddities
from refbench.benchmarks.kit.definition import Anomaly, Dataset
from refbench.benchmarks.multiref.cases import (
    CAPTION_MARK,
    MAPS,
    SPLITS,
    SUBSETS,
    UNKNOWN,
    WORDS,
    MultiRefCase,
    Reference,
    read_release,
)
from refbench.failure import Failure
from refbench.pictures import PictureFacts

KINDS = anomaly_kinds(__package__)

_ANY_SIZE = frozenset({"sketch"})
"""Kept at about 256 pixels, whatever the size of the original."""


def anomalies(dataset: Dataset) -> list[Anomaly]:
    """Every oddity: of files and entries, then of each case; all pictures are opened."""
    elsewhere = set(SPLITS) - {SUBSETS[dataset.subset]} if dataset.subset else set()
    release = [oddity for oddity in read_release(dataset.root).oddities if oddity[1].partition("/")[0] not in elsewhere]

    def of_case(case: MultiRefCase) -> Iterator[Oddity]:
        others = [r.official for r in case.details.references if r.official is not None]
        pictures = (*case.request.pictures, *others, *case.targets)
        facts = {picture.name: picture_facts(dataset, picture) for picture in pictures}
        yield from _words(case)
        yield from _references(case, facts)
        for name, of_picture in facts.items():
            yield from picture_oddities(name, of_picture, KINDS)

    return list_anomalies(dataset, release, of_case)


Facts = Mapping[str, PictureFacts | Failure]


def _words(case: MultiRefCase) -> Iterator[Oddity]:
    """What prompt, tokens and category have to say about each other."""
    details = case.details
    for token in details.tokens:
        if f"<{token}>" not in details.structured:
            yield "token_not_in_prompt", token, f"no <{token}>"
    if not case.targets:
        yield "missing_target", "", "the entry names none"
    if details.split == "real-world":
        if case.groups["category"] == UNKNOWN:
            yield "unknown_category", "", ""
        if not 2 <= len(case.request.pictures) <= 6:
            yield "picture_count", "", f"{len(case.request.pictures)} pictures"
        return
    for reference in details.of_type("caption"):
        if reference.caption and reference.caption not in details.structured:
            yield "caption_not_in_prompt", "caption", reference.caption[:80]
    if not details.enhanced:
        yield "missing_enhanced", "", ""
    elif changed := _changed(case, details.enhanced[0]):
        yield "changed_enhanced", "", changed


def _changed(case: MultiRefCase, enhanced: str) -> str:
    """What an enhanced prompt lost of the structured one: tokens, or the caption, which were to stay."""
    for token in case.details.tokens:
        if f"<{token}>" in case.details.structured and f"<{token}>" not in enhanced:
            return f"no <{token}>"
    _, mark, caption = case.details.structured.rpartition(CAPTION_MARK)
    return "another caption" if mark and caption.strip() not in enhanced else ""


def _references(case: MultiRefCase, facts: Facts) -> Iterator[Oddity]:
    original = facts.get(case.targets[0].name) if case.targets else None
    for reference in case.details.references:
        kind = reference.type
        if not reference.usable:
            yield "missing_reference", kind, f"no {WORDS[kind]} is named"
        if reference.official is not None and reference.picture is not None:
            yield "unseen_reference", kind, f"shown {reference.picture.name}, scored {reference.official.name}"
        if kind == "bbox" and reference.picture is not None and reference.box is None:
            yield "drawn_box", kind, reference.picture.name
        if kind in MAPS and reference.picture is not None:
            yield from _map(reference, facts[reference.picture.name], original)
    for kind in case.details.types:
        if (count := len(case.details.of_type(kind))) > 1:
            yield "several_instances", kind, f"{count} were shown"


def _map(
    reference: Reference, facts: PictureFacts | Failure, original: PictureFacts | Failure | None
) -> Iterator[Oddity]:
    assert reference.picture is not None
    if isinstance(facts, Failure):
        return
    if facts.format == "jpeg":
        yield "jpeg_map", reference.type, reference.picture.name
    if isinstance(original, PictureFacts) and reference.type not in _ANY_SIZE:
        sizes = (facts.width, facts.height), (original.width, original.height)
        if sizes[0] != sizes[1]:
            yield "other_size", reference.type, "{}x{}, the original {}x{}".format(*sizes[0], *sizes[1])
