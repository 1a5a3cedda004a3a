"""A build from its settings to its report: who is asked, what people decided, work in rounds, and what is handed over.

A block of work follows from what became of the earlier ones, so the same replies give the same items, however often the
build was stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from refbench.builders import BuildReport
from refbench.builders.kit.card import Card, write_card
from refbench.builders.kit.dropped import DroppedItems, Subject
from refbench.builders.kit.folder import claim
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.kit.replies import Prompts, reason_of
from refbench.builders.kit.review import Decision, Review, offer_review
from refbench.builders.kit.settings import SPLITS, BuildSettings
from refbench.calls.transport import Transport, check_options
from refbench.chat import ChatRequest
from refbench.chat.vlm import VLM, make_vlm
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.specs import Spec, family_of

BLOCK = 32
"""Items that are worked on before it is looked at what became of them."""
_SHOWN = 5
"""Items in the card, and names in a note."""
_LONGEST_DETAIL = 500
"""Characters of a failure that dropped.jsonl keeps."""

Settings = TypeVar("Settings", bound=BuildSettings)
Kind = TypeVar("Kind")
Item = TypeVar("Item")
Told = TypeVar("Told")
Options = ParamSpec("Options")
Show: TypeAlias = Callable[[str], None]


class Plan(Protocol):
    """What waits to become an item."""

    @property
    def subject(self) -> Subject: ...


Planned = TypeVar("Planned", bound=Plan)


@dataclass(frozen=True)
class Builder:
    """What a builder says of itself: its command, which also marks a folder as its own, and the benchmark as which
    `refbench check` knows its datasets."""

    name: str
    benchmark: str
    prompts: Prompts
    roles: Mapping[str, str]
    """The roles besides the writer's, each with the role whose VLM has it too where none is named."""
    stages: tuple[str, ...]
    """What an item goes through, in the order in which dropped.jsonl lists them."""
    tokens: Mapping[str, int]
    """Most that a reply may have, by the first word of what it is about; `?max_tokens=` in a spec overrides it."""
    places: tuple[str, ...]
    """What it writes below --out."""
    optional: frozenset[str] = frozenset()
    """Roles that nobody has where "none" is named."""


@dataclass
class Work(Generic[Settings, Item]):
    """A build under way: whom it asks, what people decided, what stands, and what was left out."""

    builder: Builder
    settings: Settings
    specs: Mapping[str, Spec | None]
    """The VLM of each role; None where nobody has it."""
    review: Review
    dropped: DroppedItems
    show: Show
    transport: Transport
    interviews: Interviews
    vlms: Mapping[str, VLM]
    pictures: Path
    """What the names of pictures are relative to."""
    unpriced: bool = False
    """Something was paid for whose price is not known."""
    wanted: int = 0
    items: list[Item] = field(default_factory=list)
    offered: dict[str, Item] = field(default_factory=dict)
    """Items that were dropped and that a person may accept or mend."""
    begun: int = 0
    unfinished: int = 0
    stopped: Literal["", "budget", "unreachable"] = ""
    why: str = ""
    """What the last one met that is unfinished."""

    @property
    def at_a_time(self) -> int:
        """Items in the making at once. Under a budget few: where it ends the work, whole items are there."""
        most = self.settings.concurrency
        return most if self.settings.budget is None else max(1, most // 4)

    @property
    def cost(self) -> float | None:
        """All that the build has cost; None where the price of something is not known."""
        known = all(vlm.worst_cost(ChatRequest(parts=()), {}) is not None for vlm in self.vlms.values())
        return self.interviews.budget.spent if known and not self.unpriced else None

    async def ask(
        self,
        role: str,
        about: str,
        part: str,
        said: Sequence[str | Path],
        read: Callable[Concatenate[str, Options], Told | Failure],
        *more: Options.args,
        **options: Options.kwargs,
    ) -> Told | Failure:
        """What `read` makes of the reply of the VLM that has the role, and of what follows here; `about` and `part`
        file the reply."""
        tokens = self.builder.tokens[part.split()[0]]
        return await self.interviews.ask(
            self.vlms[role], about, part, said, lambda reply: read(reply, *more, **options), max_tokens=tokens
        )

    def drop(self, subject: Subject, stage: str, reason: str, detail: str = "") -> Failure:
        """Put down what was left out; returns the failure that says so."""
        self.dropped.add(stage, subject.what, subject.id, reason, detail, picture=subject.picture)
        return Failure(kind="undefined", detail=f"dropped: {reason}")

    def lost(self, subject: Subject, stage: str, why: Failure) -> Failure:
        """Drop what failed for good; a transient failure is for the next run to finish."""
        return why if why.transient else self.drop(subject, stage, reason_of(why), why.detail[:_LONGEST_DETAIL])

    def count(self, told: Sequence[object]) -> None:
        """Money that is spent and an endpoint that is dead end the work; a single call that fails does not."""
        failed = [one for one in told if isinstance(one, Failure) and one.transient]
        self.unfinished += len(failed)
        self.why = str(failed[-1])[:200] if failed else self.why
        if any(one.kind == "budget" for one in failed):
            self.stopped = "budget"
        elif 2 * len(failed) > len(told):
            self.stopped = "unreachable"

    async def plans(self, read: Callable[[Settings, DroppedItems], tuple[list[Planned], Path]]) -> list[Planned]:
        """What the source gives to make items of, all of them wanted unless the settings say how many."""
        planned, self.pictures = await asyncio.to_thread(read, self.settings, self.dropped)
        if not planned:
            first = next(iter(self.dropped))
            raise RefBenchError(
                f"{self.settings.source} holds no {first.what} that can be used; {first.id}: {first.detail}"
            )
        self.wanted = min(self.settings.size or len(planned), len(planned))
        return planned

    async def rounds(
        self,
        waiting: Sequence[Planned],
        make: Callable[[Planned, Decision | None], Coroutine[Any, Any, Item | Failure]],
        admit: Callable[[Item, Sequence[Item]], bool] = lambda item, others: True,
    ) -> None:
        """Make as many items as are wanted of what waits, in its order, each with what a person decided about it.

        A transient failure of `make` keeps its place for the next run; any other was dropped and put down. `admit`
        says, in order, whether an item may stand beside the earlier ones.
        """
        at = 0
        while at < len(waiting) and not self.stopped:
            places = self.wanted - len(self.items) - self.unfinished
            if places <= 0:
                break
            block = waiting[at : at + min(BLOCK, places)]
            at += len(block)
            self.begun += len(block)
            told = await together([self._made(one, make) for one in block], self.at_a_time)
            for one in told:
                if not isinstance(one, Failure) and admit(one, self.items):
                    self.items.append(one)
            self.count(told)
            self.show(f"{len(self.items)} of {self.wanted} items made, {at} of {len(waiting)} looked at")

    async def _made(
        self, planned: Planned, make: Callable[[Planned, Decision | None], Coroutine[Any, Any, Item | Failure]]
    ) -> Item | Failure:
        decision = self.review.of(planned.subject.id)
        if decision is not None and decision.rejected:
            return self.drop(planned.subject, "review", "rejected")
        return await make(planned, decision)

    def not_covered(self, kinds: Mapping[Kind, str], kind: Callable[[Item], Kind | None], why: str) -> dict[str, str]:
        """The kinds of which there is no item, by their names, and `why` in a finished build."""
        there = {kind(item) for item in self.items}
        why = "the build was not finished" if self.unfinished else why
        return {name: why for one, name in kinds.items() if one not in there}

    def by_split(self, split_of: Callable[[Item], str]) -> dict[str, list[Item]]:
        """The items of each split that the settings ask for."""
        return {split: [one for one in self.items if split_of(one) == split] for split in self.settings.splits}

    def described(self, *worded: Any) -> dict[str, str]:
        """The settings for the card; addresses and keys of endpoints are nobody's business. `worded` is what prompts
        are filled with."""
        found = {role: f"{spec.kind}:{spec.what}" if spec else "none" for role, spec in self.specs.items()}
        found |= {"size": str(self.wanted), "seed": str(self.settings.seed)}
        found["prompts"] = self.builder.prompts.key(*worded)
        share = self.settings.test_share
        return found if share is None else {**found, "test share": f"{share:g}"}

    def kinship(self, alike: str) -> list[str]:
        """What is to be said where writer and checker are one model (`alike`, with its name for {model}), or kin."""
        writer, checker = self.specs["writer"], self.specs["checker"]
        if writer is None or checker is None:
            return []
        if writer.what == checker.what:
            return [alike.format(model=writer.what)]
        family = family_of(writer.what)
        same = family == family_of(checker.what) != "unknown"
        return [f"writer and checker are of one family ({family})."] if same else []


@contextlib.asynccontextmanager
async def started(builder: Builder, settings: Settings, show: Show | None) -> AsyncIterator[Work[Settings, Any]]:
    """The work of a build in its folder. A VLM that has several roles is there once: local weights fill a device."""
    settings.check()
    check_options(settings.concurrency, settings.timeout)
    specs = _specs(builder, settings)
    review = Review.read(settings.review)
    claim(settings.out, settings.source, builder.name, builder.places)
    async with (
        Transport(concurrency=settings.concurrency, timeout=settings.timeout) as transport,
        Interviews(settings.work_folder, transport, budget=settings.budget, retry=settings.retry) as interviews,
    ):
        by_spec = {spec.key: make_vlm(spec, transport) for spec in specs.values() if spec is not None}
        vlms = {role: by_spec[spec.key] for role, spec in specs.items() if spec is not None}
        dropped = DroppedItems(builder.stages)
        shown = show or (lambda line: None)
        try:
            yield Work(builder, settings, specs, review, dropped, shown, transport, interviews, vlms, settings.source)
        finally:
            for vlm in by_spec.values():
                await vlm.close()


def _specs(builder: Builder, settings: BuildSettings) -> dict[str, Spec | None]:
    specs: dict[str, Spec | None] = {"writer": Spec.parse(settings.writer, "--writer")}
    for role, default in builder.roles.items():
        text = getattr(settings, role)
        if text == "none" and role in builder.optional:
            specs[role] = None
        else:
            specs[role] = Spec.parse(text, f"--{role}") if text else specs[default]
    return specs


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


def finish(
    work: Work[Any, Any],
    card: Card,
    splits: Mapping[str, Sequence[Any]],
    to_review: Iterable[Mapping[str, Any]],
    copies: int,
) -> BuildReport:
    """Write all but the dataset, and say how the build went. `splits` has the items of each, `copies` is the number of
    pictures that had to be encoded again; what all builders have to say of these is added to the notes of the card."""
    out, benchmark = work.settings.out, work.builder.benchmark
    notes = [*card.notes, *_notes(work, splits, copies)]
    filled = [split for split, members in splits.items() if members]
    using = [f"refbench check {benchmark} --data {split or '.'}" for split in filled]
    write_card(replace(card, notes=notes, using=using), work.dropped, out, work.pictures)
    work.dropped.write(out / "dropped.jsonl")
    offer_review(out / "review.jsonl", to_review)
    return BuildReport(
        benchmark=benchmark,
        out=str(out),
        data=tuple(str(out / split) for split in filled),
        wanted=work.wanted,
        made=len(work.items),
        begun=work.begun,
        unfinished=work.unfinished,
        dropped=work.dropped.counts(),
        counts=card.counts,
        missing=card.missing,
        notes=tuple(notes),
        asked=work.interviews.asked,
        cost_usd=work.cost,
        stopped=work.stopped,
    )


def _notes(work: Work[Any, Any], splits: Mapping[str, Sequence[Any]], copies: int) -> list[str]:
    notes: list[str] = []
    if copies:
        notes.append(
            f"{copies} pictures were re-encoded as plain RGB (palette, alpha, rotation tag, profile or another format)."
        )
    if work.unfinished:
        why = f" (the last: {work.why})" if work.why else ""
        notes.append(f"{work.unfinished} are unfinished for want of replies{why}: the next run goes on with them.")
    if work.items and (empty := [split for split, members in splits.items() if not members]):
        share = f"--test-share {work.settings.test_share:g}"
        notes.append(f"{share} leaves nothing in {' and '.join(empty)}: give more, or another share or seed.")
    if strangers := work.review.strangers():
        shown = ", ".join(strangers[:_SHOWN])
        notes.append(f"the review decides about {len(strangers)} that this build does not have: {shown}.")
    if others := work.review.outdated():
        notes.append(
            f"the review of {', '.join(others[:_SHOWN])} ({len(others)} in all) was made of another text than this "
            'build has, and does not count: decide again; what you change yourself goes below "edit".'
        )
    notes.append("the licence of pictures and texts is not known to RefBench: state it before you share them.")
    return notes


def write_splits(
    out: Path, splits: Mapping[str, Sequence[Item]], write: Callable[[Path, Sequence[Item]], None]
) -> None:
    """Write the items of each split below its folder, and nothing where a build with other splits may have been."""
    for split in ("", *SPLITS):
        write(out / split, splits.get(split, ()))


def counted(things: str, splits: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    """How many of `things` there are, and in each split."""
    return {things: sum(map(len, splits.values()))} | {
        f"{things} in {split}": len(members) for split, members in splits.items() if split
    }


def one_of_each(items: Sequence[Item], kind: Callable[[Item], str]) -> list[Item]:
    """A few items to show, one of each kind before the second of any."""
    rank: Counter[str] = Counter()
    ranked: list[tuple[int, Item]] = []
    for item in items:
        ranked.append((rank[kind(item)], item))
        rank[kind(item)] += 1
    return [item for _, item in sorted(ranked, key=lambda one: one[0])][:_SHOWN]
