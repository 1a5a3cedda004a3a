"""From a picture to a member of the pool, and from a candidate to a set: asked, checked, reviewed.

What cannot be used is dropped with its reason; what an endpoint or the budget stopped is given back as the failure it
is, for the next run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from refbench.benchmarks.multibanana.cases import TAGS
from refbench.builders.kit.flow import Work
from refbench.builders.kit.replies import line
from refbench.builders.kit.review import Decision
from refbench.builders.multibanana import MultiBananaSettings
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
from refbench.builders.multibanana.pictures import PoolPicture
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
from refbench.failure import Failure
from refbench.record import RefBenchError


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
class Maker:
    """Makes members of the pool and finished sets."""

    work: Work[MultiBananaSettings, FinishedSet]
    filters: Filters

    def passes(self, picture: PoolPicture, seen: Seen) -> bool:
        """Whether the picture passes the filters; a person's word goes before theirs."""
        decision = self.work.review.of(picture_id(picture))
        if decision is not None and decision.rejected:
            self.work.drop(picture.subject, "review", "rejected", decision.comment)
            return False
        fault = picture_fault(seen, self.filters)
        if fault is not None and decision is None:
            self.work.drop(picture.subject, "filters", *fault)
            return False
        return True

    async def member(self, picture: PoolPicture, seen: Seen) -> Member | Failure:
        """The picture with what it shows, unless the screen rules it out."""
        work, decision = self.work, self.work.review.of(picture_id(picture))
        screened = await work.ask("checker", picture.about, "screen", [picture.path, screen_prompt()], read_screen)
        if isinstance(screened, Failure):
            if screened.transient or decision is None:
                return work.lost(picture.subject, "screen", screened)
        elif screened[0] and decision is None:
            return work.drop(picture.subject, "screen", *screened)
        look = await work.ask("writer", picture.about, "look", [picture.path, look_prompt()], read_look)
        if isinstance(look, Failure):
            return work.lost(picture.subject, "classification", look)
        if decision is not None and decision.edit:
            look = _corrected(look, decision)
        return Member(picture, look, look.categories(scenery_only=seen.scenery_only))

    async def finished(self, candidate: Candidate) -> FinishedSet | Failure:
        """The set with its instruction, unless it cannot be written or does not pass the check."""
        work, decision = self.work, self.work.review.of(candidate.id)
        if decision is not None and decision.rejected:
            return work.drop(candidate.subject, "review", "rejected", decision.comment)
        edit = read_edit(decision, candidate)
        written: Written | Failure
        if "instruction" in edit:
            written = Written(instruction=edit["instruction"], thinking="Written by a person.")
        else:
            parts = write_request(candidate)
            written = await work.ask(
                "writer", candidate.id, "instruction", parts, lambda reply: read_written(reply, candidate)
            )
        if isinstance(written, Failure):
            return work.lost(candidate.subject, "instruction", written)
        tags = edit.get("tags", tags_of([one.look for one in candidate.references]))
        # A person has looked at it: written it, or decided about this very instruction.
        if decision is not None and (
            "instruction" in edit or work.review.stands(decision, instruction=written.instruction)
        ):
            return FinishedSet(candidate, written, tags, None)
        parts = check_request(candidate, written.instruction)
        checked = await work.ask("checker", candidate.id, "check", parts, read_check)
        if isinstance(checked, Failure):
            return work.lost(candidate.subject, "check", checked)
        if fault := checked.fault(self.filters):
            work.offered[candidate.id] = FinishedSet(candidate, written, tags, checked, fault)
            return work.drop(candidate.subject, "check", fault, f"{written.instruction} ({checked.reason})")
        return FinishedSet(candidate, written, tags, checked)


def picture_id(picture: PoolPicture) -> str:
    """What a picture is called in a review file, so that no set is called the same."""
    return f"picture:{picture.name}"


def _corrected(look: Look, decision: Decision) -> Look:
    try:
        return edited_look(look, decision.edit)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RefBenchError(f"{decision.where}: {where}: {first['msg']}") from error


def read_edit(decision: Decision | None, candidate: Candidate) -> dict[str, Any]:
    """What a person puts in place of the machine's, checked like it."""
    fields = decision.edited("instruction", "tags") if decision else {}
    found: dict[str, Any] = {}
    if decision and "instruction" in fields:
        found["instruction"] = line(fields["instruction"])
        if wrong := instruction_fault(found["instruction"], candidate.references):
            raise RefBenchError(f"{decision.where}: {wrong}")
    if decision and "tags" in fields:
        said = fields["tags"]
        labels = said.replace(",", " ").split() if isinstance(said, str) else said
        if not isinstance(labels, list) or any(label not in TAGS for label in labels):
            raise RefBenchError(f"{decision.where}: tags are a list of {', '.join(TAGS)}")
        found["tags"] = tuple(label for label in TAGS if label in labels)
    return found
