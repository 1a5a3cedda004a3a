"""Work in rounds: items made a block at a time, each to its end, until enough stand or nothing is left to try.

A block follows from what became of the earlier ones, so the same replies give the same items, however often the work
was stopped.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from refbench.builders import BuildReport
from refbench.builders.kit import DroppedItems, Review
from refbench.builders.kit.card import Card, write_card
from refbench.builders.kit.folder import offer_review
from refbench.builders.kit.settings import Settings
from refbench.failure import Failure

BLOCK = 32
Planned = TypeVar("Planned")
Made = TypeVar("Made")
Told = TypeVar("Told")


@dataclass
class Worked(Generic[Made]):
    """What the work came to."""

    items: list[Made] = field(default_factory=list)
    begun: int = 0
    unfinished: int = 0
    stopped: Literal["", "budget", "unreachable"] = ""
    why: str = ""
    """What the last one met that is unfinished."""

    def count(self, told: Sequence[object]) -> None:
        """Money that is spent and an endpoint that is dead end the work; a single call that fails does not."""
        failed = [one for one in told if isinstance(one, Failure) and one.transient]
        self.unfinished += len(failed)
        self.why = str(failed[-1])[:200] if failed else self.why
        if any(one.kind == "budget" for one in failed):
            self.stopped = "budget"
        elif 2 * len(failed) > len(told):
            self.stopped = "unreachable"


async def work(
    waiting: Sequence[Planned],
    wanted: int,
    make: Callable[[Planned], Coroutine[Any, Any, Made | Failure]],
    *,
    most: int,
    admit: Callable[[Made, Sequence[Made]], bool] = lambda item, others: True,
    show: Callable[[str], None] = lambda line: None,
) -> Worked[Made]:
    """Make `wanted` items of what waits, in its order, `most` at a time.

    A transient failure of `make` is for the next run to finish, and its place is kept; any other was dropped and put
    down. `admit` says, in order, whether an item may stand beside the earlier ones.
    """
    worked: Worked[Made] = Worked()
    at = 0
    while at < len(waiting) and not worked.stopped:
        places = wanted - len(worked.items) - worked.unfinished
        if places <= 0:
            break
        block = waiting[at : at + min(BLOCK, places)]
        at += len(block)
        worked.begun += len(block)
        told = await together([make(one) for one in block], most)
        for one in told:
            if not isinstance(one, Failure) and admit(one, worked.items):
                worked.items.append(one)
        worked.count(told)
        show(f"{len(worked.items)} of {wanted} items made, {at} of {len(waiting)} looked at")
    return worked


async def together(asked: Sequence[Coroutine[Any, Any, Told]], most: int) -> list[Told]:
    """The answers in their order, `most` at a time; the first error of a user's making ends all."""
    room = asyncio.Semaphore(most)

    async def one(coroutine: Coroutine[Any, Any, Told]) -> Told:
        async with room:
            return await coroutine

    tasks = [asyncio.ensure_future(one(coroutine)) for coroutine in asked]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for coroutine in asked:
            coroutine.close()  # those that never had room
        raise


# What every build hands over beside its dataset: the card, what was dropped, the file to decide in, and the report.

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
