"""From pictures with references to finished samples: words, judge, review, rewriting, each sample on its own."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from refbench.builders.filter_judge.gate import Gate
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.kit.review import Review
from refbench.builders.refblend.instructions import Templates, compose
from refbench.builders.refblend.plan import Offer, PlannedSample, SamplePlan
from refbench.builders.refblend.references import Candidate, References, Thresholds
from refbench.builders.refblend.rewriting import fault, persona_for, rewrite
from refbench.builders.refblend.samples import Finished, Sample
from refbench.builders.refblend.screening import LOWEST, REVIEWED, marks_about, marks_of, too_low
from refbench.builders.refblend.settings import Settings
from refbench.builders.refblend.sources import LabelledPicture
from refbench.builders.refblend.split import Side, lookalike_groups
from refbench.builders.refblend.types import Type
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.record import RefBenchError

_AT_ONCE = 256
_EDITABLE = ("instruction", "caption", "enhanced")


class Pools:
    """The other pictures of the same group, as candidates by number, without a list for every picture.

    Built from picture to group. A picture is never its own candidate; the order of the input does not matter.
    """

    def __init__(self, groups: Mapping[str, str]) -> None:
        self._group = dict(groups)
        members: dict[str, list[str]] = defaultdict(list)
        for picture in sorted(self._group):
            members[self._group[picture]].append(picture)
        self._members = dict(members)

    def count(self, picture: str) -> int:
        """How many candidates the picture has; 0 for one without a group."""
        return len(self._members[self._group[picture]]) - 1 if picture in self._group else 0

    def candidate(self, picture: str, number: int) -> str:
        """The candidate with this number, from 0."""
        members = self._members[self._group[picture]]
        if not 0 <= number < len(members) - 1:
            raise IndexError(f"{picture} has {len(members) - 1} candidates, there is no number {number}")
        return members[number + (number >= bisect_left(members, picture))]


def pools_of(pictures: Sequence[LabelledPicture], side: Mapping[str, Side], types: Sequence[Type]) -> dict[Type, Pools]:
    """The pictures of one subject or style on one side of the split; on no side in particular where none is named.

    Of near-duplicates in a group the first alone takes part: as a reference, the others would give the answer away.
    """
    pools: dict[Type, Pools] = {}
    for kind in ("subject", "style"):
        groups: dict[str, str] = {}
        seen: set[tuple[str, int]] = set()
        for picture, look in zip(pictures, lookalike_groups(pictures), strict=True):
            if (group := getattr(picture, kind)) is None:
                continue
            name = f"{side.get(picture.sha256)}\0{group}"
            if (name, look) not in seen:
                seen.add((name, look))
                groups[picture.file] = name
        if kind in types:
            pools[kind] = Pools(groups)
    return pools


def offers(own: Mapping[str, Mapping[Type, int]], pools: Mapping[Type, Pools]) -> list[Offer]:
    """What each picture offers: references of its own, by type, and the other pictures of its groups."""
    return [
        Offer(file, {**{kind: pool.count(file) for kind, pool in pools.items() if pool.count(file)}, **counts})
        for file, counts in own.items()
    ]


@dataclass(frozen=True)
class BlendMaterial:
    """The pictures of a build by the names of their files, and what each of them offers."""

    pictures: Mapping[str, LabelledPicture]
    side: Mapping[str, Side]
    captions: Mapping[str, str]
    references: References
    thresholds: Thresholds
    pools: Mapping[Type, Pools]
    """Other pictures of the same subject or style."""


@dataclass
class Blending:
    """Makes the samples of a plan. VLMs are asked where there are any; `reviewed` gathers the lines for people."""

    settings: Settings
    material: BlendMaterial
    templates: Templates
    personas: tuple[str, ...]
    review: Review
    dropped: DroppedItems
    interviews: Interviews | None
    vlms: Mapping[str, VLM]
    gate: Gate | None = None
    """Which marks of the judge keep and which drop, where it was calibrated."""
    reviewed: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, Failure] = field(default_factory=dict)
    """Pictures that a VLM could not be asked about, by hash."""

    async def samples(self, plan: SamplePlan, progress: Callable[[int], None]) -> AsyncIterator[Finished]:
        """The samples that are kept, in the order of the plan whoever answers first."""
        rest, done = iter(plan), 0
        while batch := list(islice(rest, _AT_ONCE)):
            for finished in await asyncio.gather(*(self._sample(planned) for planned in batch)):
                if finished is not None:
                    yield finished
            done += len(batch)
            progress(done)

    async def _sample(self, planned: PlannedSample) -> Finished | None:
        picture = self.material.pictures[planned.picture]
        drawn = self.material.references.candidates(picture, self.material.thresholds)
        sample = self._composed(planned, picture, None)
        if isinstance(sample, Failure):
            self.dropped.add("instructions", "sample", planned.id, sample.kind, sample.detail, picture.name)
            return None
        decision, edit = self.review.of(planned.id), {}
        if decision is not None and decision.decision == "reject":
            self.dropped.add("review", "sample", planned.id, "rejected", decision.comment, picture.name)
            return None
        if decision is not None and decision.decision == "edit":
            edit = {key: str(decision.edit[key]) for key in _EDITABLE if decision.edit.get(key)}
            sample = self._edited(planned, picture, sample, edit)
        marks, why, unsure = await self._marks(sample, picture, drawn)
        if why and decision is None:
            self.dropped.add("judge", "sample", planned.id, *why, picture.name)
            self._list(sample, picture, marks, why[0], unsure)
            return None
        if edit.get("enhanced"):
            sample = sample.model_copy(update={"enhanced": (edit["enhanced"],), "rewriting": "rewritten"})
        else:
            sample = await self._rewritten(sample, picture)
        self._list(sample, picture, marks, "", unsure)
        needed = "needed" if unsure else ""
        review = decision.decision if decision is not None else needed
        return self._finished(sample, picture, drawn, marks, review)

    def _composed(self, planned: PlannedSample, picture: LabelledPicture, caption: str | None) -> Sample | Failure:
        def path_of(kind: Type, number: int) -> str:
            if kind in ("subject", "style") and kind not in dict(picture.given):
                return self.material.pools[kind].candidate(picture.file, number)
            return f"images/{kind}/{picture.id}{f'-{number}' if number else ''}.png"

        caption = caption or self.material.captions.get(picture.sha256)
        rules, seed = self.settings.rule_book, self.settings.seed
        return compose(planned, rules, self.templates, path_of, caption, seed=seed)

    def _edited(
        self, planned: PlannedSample, picture: LabelledPicture, sample: Sample, edit: Mapping[str, str]
    ) -> Sample:
        """The sample with what a reviewer wrote, which must ask for the same references."""
        if not edit:
            raise RefBenchError(f"the review edits {planned.id}, but gives none of {', '.join(_EDITABLE)}")
        if edit.get("caption") and "caption" in sample.types:
            again = self._composed(planned, picture, edit["caption"])
            if isinstance(again, Failure):
                raise RefBenchError(f"the review's caption for {planned.id} cannot be used: {again.detail}")
            sample = again
        for key in ("instruction", "enhanced"):
            wrong = fault(sample.instruction, edit[key], "") if edit.get(key) else ""
            if wrong:
                raise RefBenchError(f"the review's {key} for {planned.id} asks for something else: {wrong}")
        return sample.model_copy(update={"instruction": edit["instruction"]}) if edit.get("instruction") else sample

    async def _marks(
        self, sample: Sample, picture: LabelledPicture, drawn: Mapping[Type, tuple[Candidate, ...]]
    ) -> tuple[dict[str, int], tuple[str, str] | None, bool]:
        """The judge's marks for all references, why the sample cannot be kept, and whether people are to decide."""
        unsure = bool(set(sample.types) & REVIEWED) and self.gate is None
        if "judge" not in self.vlms or self.interviews is None:
            return {a: m for kind in sample.types for a, m in marks_about(kind, picture.marks).items()}, None, unsure
        marks: dict[str, int] = {}
        wrong: tuple[str, str] | None = None
        for given in sample.references:
            shown: Path | str
            if given.type == "caption":
                shown = sample.caption or ""
            elif given.type in drawn:
                shown = drawn[given.type][given.instance].path
            else:
                shown = Path(self.material.pictures[given.path].path)
            about = f"{picture.id} {given.type}"
            told = await marks_of(self.interviews, self.vlms["judge"], about, given.type, Path(picture.path), shown)
            if isinstance(told, Failure):
                self.failed[picture.sha256] = told
                return marks, (f"not judged: {told.kind}", told.detail), unsure
            if self.gate is not None:
                verdict = self.gate.decide(given.type, told)
                unsure |= verdict == "people"
                if verdict == "drop" and wrong is None:
                    cut, lowest = self.gate.cuts[given.type].drop, min(told.items(), key=lambda mark: mark[1])
                    wrong = (f"{lowest[0]} at most {cut:g}", f"{lowest[0]} {lowest[1]}")
            # Of several references of a type the lowest mark counts: one bad one spoils the sample.
            marks |= {axis: min(mark, marks.get(axis, mark)) for axis, mark in told.items()}
        if self.gate is None and (low := too_low(marks)):
            wrong = (f"{low.rpartition(' ')[0]} below {LOWEST}", low)
        return marks, wrong, unsure

    async def _rewritten(self, sample: Sample, picture: LabelledPicture) -> Sample:
        if "rewriter" not in self.vlms or self.interviews is None:
            return sample
        persona = persona_for(self.personas, sample.id, self.settings.seed)
        sample = await rewrite(self.interviews, self.vlms["rewriter"], sample, persona)
        if (why_kept := sample.why_kept) is not None:
            self.dropped.add("rewriting", "text", sample.id, why_kept.kind, why_kept.detail, picture.name)
            if why_kept.transient:  # nobody answered: the next build asks again
                self.failed[picture.sha256] = why_kept
        return sample

    def _finished(
        self,
        sample: Sample,
        picture: LabelledPicture,
        drawn: Mapping[Type, tuple[Candidate, ...]],
        marks: Mapping[str, int],
        review: str,
    ) -> Finished:
        made = {given.path: drawn[given.type][given.instance] for given in sample.references if given.type in drawn}
        return Finished(
            sample=sample,
            split=self.material.side[picture.sha256],
            source=picture.name,
            licence=picture.licence,
            extractors={
                kind: drawn[kind][0].extractor
                for kind in sorted(drawn)
                if kind in sample.types and drawn[kind][0].extractor != "given"  # by whom, the source does not say
            },
            boxes=tuple(
                box for given in sample.of_type("bbox") if (box := drawn["bbox"][given.instance].drawn.box) is not None
            ),
            marks=marks,
            review=review,
            files={path: one.path.relative_to(self.settings.work).as_posix() for path, one in made.items()},
        )

    def _list(self, sample: Sample, picture: LabelledPicture, marks: Mapping[str, int], why: str, unsure: bool) -> None:
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
                "needs_review": unsure,
            }
        )
