"""What every build hands over beside its dataset: the card, what was dropped, the file to decide in, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from refbench.builders import BuildReport
from refbench.builders.folder import offer_review
from refbench.builders.rounds import Worked
from refbench.builders.settings import Settings
from refbench.workshop import DroppedItems, Review
from refbench.workshop.card import Card, write_card

_SHOWN = 5
"""Items in the card, and names in a note."""
Item = TypeVar("Item")


def hand_over(
    out: Path,
    benchmark: str,
    settings: Settings,
    card: Card,
    worked: Worked[Any],
    splits: Mapping[str, int],
    dropped: DroppedItems,
    review: Review,
    to_review: Iterable[Mapping[str, Any]],
    *,
    copies: int,
    asked: int,
    cost: float | None,
) -> BuildReport:
    """Write all but the dataset, and say how the build went. `splits` has the items of each, `copies` is the number of
    pictures that had to be encoded again; what all builders have to say of these is added to the notes of the card."""
    notes = [*card.notes, *_notes(settings, worked, splits, review, copies)]
    data = tuple(str(out / split) for split, number in splits.items() if number)
    using = [f"refbench check {benchmark} --data {split or '.'}" for split, number in splits.items() if number]
    write_card(replace(card, notes=notes, using=using), dropped, out, settings.pictures)
    dropped.write(out / "dropped.jsonl")
    offer_review(out / "review.jsonl", to_review)
    return BuildReport(
        benchmark=benchmark,
        out=str(out),
        data=data,
        wanted=settings.wanted,
        made=len(worked.items),
        begun=worked.begun,
        unfinished=worked.unfinished,
        dropped=dropped.counts(),
        counts=card.counts,
        missing=card.missing,
        notes=tuple(notes),
        asked=asked,
        cost_usd=cost,
        stopped=worked.stopped,
    )


def spread(items: Sequence[Item], kind: Callable[[Item], str]) -> list[Item]:
    """A few items to show, one of each kind before the second of any."""
    rank: Counter[str] = Counter()
    ranked: list[tuple[int, Item]] = []
    for item in items:
        ranked.append((rank[kind(item)], item))
        rank[kind(item)] += 1
    return [item for _, item in sorted(ranked, key=lambda one: one[0])][:_SHOWN]


def _notes(
    settings: Settings, worked: Worked[Any], splits: Mapping[str, int], review: Review, copies: int
) -> list[str]:
    notes: list[str] = []
    if copies:
        notes.append(
            f"{copies} pictures were re-encoded as plain RGB (palette, alpha, rotation tag, profile or another format)."
        )
    if worked.unfinished:
        why = f" (the last: {worked.why})" if worked.why else ""
        notes.append(f"{worked.unfinished} are unfinished for want of replies{why}: the next run goes on with them.")
    if worked.items and (empty := [split for split, number in splits.items() if not number]):
        share = f"--test-share {settings.test_share:g}"
        notes.append(f"{share} leaves nothing in {' and '.join(empty)}: give more, or another share or seed.")
    if strangers := review.strangers():
        shown = ", ".join(strangers[:_SHOWN])
        notes.append(f"the review decides about {len(strangers)} that this build does not have: {shown}.")
    if others := review.outdated():
        notes.append(
            f"the review of {', '.join(others[:_SHOWN])} ({len(others)} in all) was made of another text than this "
            'build has, and does not count: decide again; what you change yourself goes below "edit".'
        )
    notes.append("the licence of pictures and texts is not known to RefBench: state it before you share them.")
    return notes
