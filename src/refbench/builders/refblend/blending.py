"""Pools: the other pictures of the same subject or style, as candidates by number, without a list for every picture."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.kit.review import Review
from refbench.builders.refblend.instructions import Templates, compose
from refbench.builders.refblend.plan import Offer, Plan, Planned
from refbench.builders.refblend.references import Candidate, References, Thresholds
from refbench.builders.refblend.rewriting import fault, persona_for, rewrite
from refbench.builders.refblend.rules import Rules
from refbench.builders.refblend.samples import Finished, Sample
from refbench.builders.refblend.screening import LOWEST, REVIEWED, marks_of, too_low
from refbench.builders.refblend.sources import SourcePicture
from refbench.builders.refblend.split import Side, alike
from refbench.builders.refblend.types import Type
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.record import RefBenchError


class Pools:
    """Built from picture to group; a picture is no candidate for itself. The order of the input does not matter."""

    def __init__(self, groups: Mapping[str, str]) -> None:
        self._group = dict(groups)
        found: dict[str, list[str]] = defaultdict(list)
        for picture in sorted(self._group):
            found[self._group[picture]].append(picture)
        self._members = dict(found)

    def count(self, picture: str) -> int:
        """How many candidates the picture has; 0 for one without a group."""
        return len(self._members[self._group[picture]]) - 1 if picture in self._group else 0

    def candidate(self, picture: str, number: int) -> str:
        """The candidate with this number, from 0."""
        members = self._members[self._group[picture]]
        if not 0 <= number < len(members) - 1:
            raise IndexError(f"{picture} has {len(members) - 1} candidates, there is no number {number}")
        return members[number + (number >= bisect_left(members, picture))]


# From pictures with references to finished samples: plan, words, judge, review, rewriting, each sample on its own.

_AT_ONCE = 256
_EDITABLE = ("instruction", "caption", "enhanced")


@dataclass(frozen=True)
class Material:
    """The pictures of a build by the names of their files, and what each of them offers."""

    pictures: Mapping[str, SourcePicture]
    side: Mapping[str, Side]
    captions: Mapping[str, str]
    references: References
    thresholds: Thresholds
    pools: Mapping[Type, Pools]
    """Other pictures of the same subject or style."""

    @classmethod
    def of(
        cls,
        pictures: Sequence[SourcePicture],
        side: Mapping[str, Side] | None,
        captions: Mapping[str, str],
        references: References,
        thresholds: Thresholds,
        types: Sequence[Type],
    ) -> Material:
        """`side` is None before there are any: all pictures may then be references of all others."""
        side = side if side is not None else {picture.sha256: "train" for picture in pictures}
        by_file = {picture.file: picture for picture in pictures}
        pools: dict[Type, Pools] = {
            kind: _pools(pictures, side, kind) for kind in ("subject", "style") if kind in types
        }
        return cls(by_file, side, captions, references, thresholds, pools)

    def offer(self, picture: SourcePicture, dropped: DroppedItems) -> Offer:
        """How many candidates the picture has of each type; what it cannot offer goes on record."""
        found = self.references.candidates(picture, self.thresholds, dropped)
        counts: dict[Type, int] = {kind: len(candidates) for kind, candidates in found.items()}
        if picture.sha256 in self.captions:
            counts["caption"] = 1
        for kind, pool in self.pools.items():
            if pool.count(picture.file):
                counts[kind] = pool.count(picture.file)
        return Offer(picture.file, counts)

    def candidates(self, picture: SourcePicture) -> dict[Type, tuple[Candidate, ...]]:
        return self.references.candidates(picture, self.thresholds)

    def other(self, picture: SourcePicture, kind: Type, number: int) -> str:
        """The file of another picture that is this one's reference."""
        return self.pools[kind].candidate(picture.file, number)


def _pools(pictures: Sequence[SourcePicture], side: Mapping[str, Side], kind: Type) -> Pools:
    """The pictures of a group on one side of the split. Of near-duplicates in a group the first alone takes part: as a
    reference, the others would give the answer away."""
    groups: dict[str, str] = {}
    seen: set[tuple[str, int]] = set()
    for picture, look in zip(pictures, alike(pictures), strict=True):
        group = getattr(picture, kind)
        if group is None:
            continue
        name = f"{side[picture.sha256]}\0{group}"
        if (name, look) not in seen:
            seen.add((name, look))
            groups[picture.file] = name
    return Pools(groups)


@dataclass
class Blending:
    """Makes the samples of a plan. VLMs are asked where there are any; `reviewed` gathers the lines for people."""

    material: Material
    rules: Rules
    templates: Templates
    seed: int
    dropped: DroppedItems
    work: Path
    review: Review
    interviews: Interviews | None = None
    judge: VLM | None = None
    rewriter: VLM | None = None
    personas: tuple[str, ...] = ()
    reviewed: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, Failure] = field(default_factory=dict)
    """Pictures of which a VLM could not be asked, by hash."""

    async def samples(self, plan: Plan, progress: Callable[[int], None] = lambda done: None) -> AsyncIterator[Finished]:
        """The samples that are kept, in the order of the plan whoever answers first."""
        rest, done = iter(plan), 0
        while batch := list(islice(rest, _AT_ONCE)):
            for finished in await asyncio.gather(*(self._sample(planned) for planned in batch)):
                if finished is not None:
                    yield finished
            done += len(batch)
            progress(done)

    async def _sample(self, planned: Planned) -> Finished | None:
        picture = self.material.pictures[planned.picture]
        drawn = self.material.candidates(picture)
        composed = self._composed(planned, picture, None)
        if isinstance(composed, Failure):
            self.dropped.add("instructions", "sample", planned.id, composed.kind, composed.detail, picture.name)
            return None
        decision = self.review.of(planned.id)
        edits = decision.edit if decision is not None and decision.decision == "edit" else {}
        edit = {key: str(edits[key]) for key in _EDITABLE if edits.get(key)}
        if decision is not None and decision.decision == "reject":
            self.dropped.add("review", "sample", planned.id, "rejected", decision.comment, picture.name)
            return None
        if decision is not None and decision.decision == "edit":
            composed = self._edited(planned, picture, composed, edit)
        marks, why = await self._marks(composed, picture, drawn)
        accepted = decision is not None
        if why and not accepted:
            self.dropped.add("judge", "sample", planned.id, *why, picture.name)
            self._list(composed, picture, marks, why[0])
            return None
        if edit.get("enhanced"):
            composed = composed.model_copy(update={"enhanced": (edit["enhanced"],), "rewriting": "rewritten"})
        elif self.rewriter is not None and self.interviews is not None:
            persona = persona_for(self.personas, composed.id, self.seed)
            composed = await rewrite(self.interviews, self.rewriter, composed, persona)
            if (why_kept := composed.why_kept) is not None:
                self.dropped.add("rewriting", "text", planned.id, why_kept.kind, why_kept.detail, picture.name)
                if why_kept.transient:  # nobody answered: the next build asks again
                    self.failed[picture.sha256] = why_kept
        self._list(composed, picture, marks, "")
        made = {kind: of_type[0].extractor for kind, of_type in drawn.items() if kind in composed.types}
        needed = "needed" if set(composed.types) & REVIEWED else ""
        return Finished(
            sample=composed,
            split=self.material.side[picture.sha256],
            source=picture.name,
            licence=picture.licence,
            extractors=dict(sorted(made.items())),
            boxes=tuple(
                box
                for given in composed.of_type("bbox")
                if (box := drawn["bbox"][given.instance].drawn.box) is not None
            ),
            marks=marks,
            review=decision.decision if decision is not None else needed,
            files={
                given.path: drawn[given.type][given.instance].path.relative_to(self.work).as_posix()
                for given in composed.references
                if given.type in drawn
            },
        )

    def _composed(self, planned: Planned, picture: SourcePicture, caption: str | None) -> Sample | Failure:
        def path_of(kind: Type, number: int) -> str:
            if kind in ("subject", "style"):
                return self.material.other(picture, kind, number)
            return f"images/{kind}/{picture.id}{f'-{number}' if number else ''}.png"

        said = caption or self.material.captions.get(picture.sha256)
        return compose(planned, self.rules, self.templates, path_of, said, seed=self.seed)

    def _edited(self, planned: Planned, picture: SourcePicture, composed: Sample, edit: Mapping[str, str]) -> Sample:
        """The sample with what a reviewer wrote, which must ask for the same references."""
        if not edit:
            raise RefBenchError(f"the review edits {planned.id}, but gives none of {', '.join(_EDITABLE)}")
        if edit.get("caption") and "caption" in composed.types:
            again = self._composed(planned, picture, edit["caption"])
            if isinstance(again, Failure):
                raise RefBenchError(f"the review's caption for {planned.id} cannot be used: {again.detail}")
            composed = again
        for key in ("instruction", "enhanced"):
            wrong = fault(composed.instruction, edit[key], "") if edit.get(key) else ""
            if wrong:
                raise RefBenchError(f"the review's {key} for {planned.id} asks for something else: {wrong}")
        return composed.model_copy(update={"instruction": edit["instruction"]}) if edit.get("instruction") else composed

    async def _marks(
        self, sample: Sample, picture: SourcePicture, drawn: Mapping[Type, tuple[Candidate, ...]]
    ) -> tuple[dict[str, int], tuple[str, str] | None]:
        """The judge's marks for all references, and why the sample cannot be kept."""
        if self.judge is None or self.interviews is None:
            return {}, None
        marks: dict[str, int] = {}
        for given in sample.references:
            shown: Path | str
            if given.type == "caption":
                shown = sample.caption or ""
            elif given.type in drawn:
                shown = drawn[given.type][given.instance].path
            else:
                shown = Path(self.material.pictures[given.path].path)
            about = f"{picture.id} {given.type}"
            found = await marks_of(self.interviews, self.judge, about, given.type, Path(picture.path), shown)
            if isinstance(found, Failure):
                self.failed[picture.sha256] = found
                return marks, (f"not judged: {found.kind}", found.detail)
            # Of several references of a type the lowest mark counts: one bad one spoils the sample.
            marks |= {axis: min(mark, marks.get(axis, mark)) for axis, mark in found.items()}
        low = too_low(marks)
        return marks, (f"{low.rpartition(' ')[0]} below {LOWEST}", low) if low else None

    def _list(self, sample: Sample, picture: SourcePicture, marks: Mapping[str, int], why: str) -> None:
        """A line of the review file."""
        self.reviewed.append(
            {
                "id": sample.id,
                "picture": picture.name,
                "types": sample.types,
                "instruction": sample.instruction,
                "enhanced": sample.enhanced[0] if sample.enhanced else "",
                "caption": sample.caption or "",
                "marks": marks,
                "dropped": why,
                "needs_review": bool(set(sample.types) & REVIEWED),
            }
        )
