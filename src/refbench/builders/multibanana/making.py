"""From a picture to a member of the pool, and from a candidate to a set: asked, checked, reviewed.

What cannot be used is dropped with its reason, and None is given back; what an endpoint or the budget stopped is given
back as the failure it is, for the next run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from refbench.benchmarks.multibanana.cases import TAGS
from refbench.builders.kit import Decision, DroppedItems, Review
from refbench.builders.kit.recorded_chat import Interviews
from refbench.builders.kit.replies import line, reason_of
from refbench.builders.multibanana.classify import (
    Look,
    edited_look,
    look_prompt,
    read_look,
    read_screen,
    screen_prompt,
    tags_of,
)
from refbench.builders.multibanana.filters import Filters, Seen, picture_fault
from refbench.builders.multibanana.pictures import PlainPicture
from refbench.builders.multibanana.tasks import Candidate, Member
from refbench.builders.multibanana.writing import (
    Checked,
    Written,
    check_request,
    instruction_fault,
    read_check,
    read_written,
    write_request,
)
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.record import RefBenchError

_TOKENS = {"screen": 1500, "look": 2000, "instruction": 3000, "check": 2000}
"""Most that a reply may have; `?max_tokens=` in a spec overrides it."""


STAGES = ("pictures", "review", "filters", "screen", "classification", "fill", "instruction", "check")


@dataclass(frozen=True)
class FinishedSet:
    """A set as it is shipped."""

    candidate: Candidate
    written: Written
    tags: tuple[str, ...]
    checked: Checked | None
    """None where a person decided."""
    problem: str = ""
    """What the checker has against it: then it is not shipped, but offered for review."""

    @property
    def id(self) -> str:
        return self.candidate.id


@dataclass(frozen=True)
class Makers:
    """Who is asked, by which rules, and where it is put down what was left out."""

    interviews: Interviews
    writer: VLM
    checker: VLM
    filters: Filters
    review: Review
    dropped: DroppedItems
    offered: list[FinishedSet] = field(default_factory=list)
    """Sets that the checker turned down: a person may accept or edit them."""

    def passes(self, picture: PlainPicture, seen: Seen) -> bool:
        """Whether the picture passes the filters; a person's word goes before theirs."""
        decision = self.review.of(picture_id(picture))
        if decision is not None and decision.decision == "reject":
            self._drop_picture(picture, "review", "rejected", decision.comment)
            return False
        fault = picture_fault(seen, self.filters)
        if fault is not None and not _accepted(decision):
            self._drop_picture(picture, "filters", *fault)
            return False
        return True

    async def member(self, picture: PlainPicture, seen: Seen) -> Member | Failure | None:
        """The picture with what it shows, unless the screen rules it out."""
        decision = self.review.of(picture_id(picture))
        screened = await self.interviews.ask(
            self.checker,
            picture.about,
            "screen",
            [picture.path, screen_prompt()],
            read_screen,
            max_tokens=_TOKENS["screen"],
        )
        if isinstance(screened, Failure):
            if screened.transient or not _accepted(decision):
                return self._lost("screen", picture, screened)
        elif screened[0] and not _accepted(decision):
            self._drop_picture(picture, "screen", *screened)
            return None
        look = await self.interviews.ask(
            self.writer, picture.about, "look", [picture.path, look_prompt()], read_look, max_tokens=_TOKENS["look"]
        )
        if isinstance(look, Failure):
            return self._lost("classification", picture, look)
        if decision is not None and decision.edit:
            look = _corrected(look, decision)
        return Member(picture, look, look.categories(scenery_only=seen.scenery_only))

    async def finished(self, candidate: Candidate) -> FinishedSet | Failure | None:
        """The set with its instruction, unless it cannot be written or does not pass the check."""
        decision = self.review.of(candidate.id)
        if decision is not None and decision.decision == "reject":
            self._drop_set(candidate, "review", "rejected", decision.comment)
            return None
        edit = _edit(decision, candidate)
        written: Written | Failure
        if "instruction" in edit:
            written = Written(instruction=edit["instruction"], thinking="Written by a person.")
        else:
            written = await self.interviews.ask(
                self.writer,
                candidate.id,
                "instruction",
                write_request(candidate),
                lambda reply: read_written(reply, candidate),
                max_tokens=_TOKENS["instruction"],
            )
        if isinstance(written, Failure):
            return self._lost("instruction", candidate, written)
        tags = edit.get("tags", tags_of([one.look for one in candidate.references]))
        # A person has looked at it: written it, or decided about this very instruction.
        if decision is not None and (
            "instruction" in edit or self.review.stands(decision, instruction=written.instruction)
        ):
            return FinishedSet(candidate, written, tags, None)
        checked = await self.interviews.ask(
            self.checker,
            candidate.id,
            "check",
            check_request(candidate, written.instruction),
            read_check,
            max_tokens=_TOKENS["check"],
        )
        if isinstance(checked, Failure):
            return self._lost("check", candidate, checked)
        if fault := checked.fault(self.filters):
            self.offered.append(FinishedSet(candidate, written, tags, checked, fault))
            self._drop_set(candidate, "check", fault, f"{written.instruction} ({checked.reason})")
            return None
        return FinishedSet(candidate, written, tags, checked)

    def _lost(self, stage: str, what: PlainPicture | Candidate, failure: Failure) -> Failure | None:
        """What another run can finish is given back; the rest is dropped."""
        if failure.transient:
            return failure
        if isinstance(what, Candidate):
            self._drop_set(what, stage, reason_of(failure), failure.detail)
        else:
            self._drop_picture(what, stage, reason_of(failure), failure.detail)
        return None

    def _drop_picture(self, picture: PlainPicture, stage: str, reason: str, detail: str) -> None:
        self.dropped.add(stage, "picture", picture.name, reason, detail, picture=picture.shown)

    def _drop_set(self, candidate: Candidate, stage: str, reason: str, detail: str) -> None:
        shown = next((one.picture.shown for one in candidate.references if one.picture.shown), "")
        self.dropped.add(stage, "set", candidate.id, reason, detail, picture=shown)


def picture_id(picture: PlainPicture) -> str:
    """What a picture is called in a review file, so that no set is called the same."""
    return f"picture:{picture.name}"


def _accepted(decision: Decision | None) -> bool:
    return decision is not None and decision.decision != "reject"


def _corrected(look: Look, decision: Decision) -> Look:
    try:
        return edited_look(look, decision.edit)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RefBenchError(f"--review, {decision.id}: {where}: {first['msg']}") from error


def _edit(decision: Decision | None, candidate: Candidate) -> dict[str, Any]:
    """What a person puts in place of the machine's, checked like it."""
    if decision is None or decision.decision != "edit":
        return {}
    where = f"--review, {decision.id}"
    if strange := [name for name in decision.edit if name not in ("instruction", "tags")]:
        raise RefBenchError(f"{where}: {strange[0]} cannot be edited, only instruction and tags")
    found: dict[str, Any] = {}
    if "instruction" in decision.edit:
        found["instruction"] = line(decision.edit["instruction"])
        if wrong := instruction_fault(found["instruction"], candidate.references):
            raise RefBenchError(f"{where}: {wrong}")
    if "tags" in decision.edit:
        said = decision.edit["tags"]
        labels = said.replace(",", " ").split() if isinstance(said, str) else said
        if not isinstance(labels, list) or any(label not in TAGS for label in labels):
            raise RefBenchError(f"{where}: tags are a list of {', '.join(TAGS)}")
        found["tags"] = tuple(label for label in TAGS if label in labels)
    return found
