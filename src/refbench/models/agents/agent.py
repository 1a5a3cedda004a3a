"""An agent: a model paints, a VLM looks and writes the next prompt, for a fixed number of steps.

| method | the model is shown | the VLM gives |
|---|---|---|
| ipr | the prompt, all references | a new prompt |
| cafg | the prompt and a note, all references, its last result | a new prompt |
| sra | the prompt and a note, the references it did not reflect, its last result | those references, a new prompt |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.machine import scratch_folder
from refbench.models.model import Commission, ImageModel, Painted, Shown, Step, Traits, takes_role
from refbench.models.wrappers.wrapper import (
    REPEATS,
    Wrapper,
    ask,
    asked_of,
    broken_off,
    inside,
    is_refusal,
    json_objects,
    keep,
    known_sum,
    noted,
    reply_of,
    seconds_of,
    unfenced,
    whole_cost,
    whole_seconds,
    wording,
    wording_key,
)
from refbench.specs import Spec, model_options

PACKAGE = "refbench.models.agents"
PROMPT_WORDS, SELECT_WORDS, REFINE_WORDS = "plan_prompt.txt", "plan_select.txt", "refine.txt"

_LEAD = re.compile(
    r"(?:(?:sure|certainly|okay|ok)[,.!]?\s+)?(?:here(?:['’]s| is) )?(?:the |a |your |my )?"
    r"(?:(?:new|next|revised|refined|improved|updated|final) )?(?:image )?(?:generation )?"
    r"prompt(?: (?:for|to) [^\n:]{0,40})?\s*[:：]\s*",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "“": "”", "«": "»", "'": "'", "‘": "’"}


@dataclass(frozen=True)
class Plan:
    """What the planner wants of the next step: the prompt, and the references to show (all where it names none)."""

    prompt: str
    references: tuple[int, ...]


def question(prompt: str, references: Sequence[Path], results: Sequence[Path], *, select: bool) -> list[str | Path]:
    """The prompt's text, all references in order, and the step's result last. Selecting counts from 0."""
    first = 0 if select else 1
    text = wording(PACKAGE, SELECT_WORDS if select else PROMPT_WORDS, prompt=prompt, count=str(len(references)))
    parts: list[str | Path] = [text]
    for number, path in enumerate(references, first):
        parts += [f"Reference {number}:", path]
    return [*parts, "The result:", *results]


def read_plan(reply: str, references: int, *, select: bool) -> Plan | Failure:
    """The plan in a reply; nothing is made up for what is not in it."""
    return _selected(reply, references) if select else _prompt(reply, references)


def _prompt(reply: str, references: int) -> Plan | Failure:
    text = unfenced(reply)
    for each in json_objects(text) if text.startswith("{") else ():
        if isinstance(each.get("prompt"), str):
            text = each["prompt"].strip()
    lead = _LEAD.match(text)
    text = _unquoted(text[lead.end() :] if lead else text)
    if not text:
        return Failure(kind="unparsable", detail="there is no prompt in the reply")
    if is_refusal(text):
        return Failure(kind="refused", detail=text[:300])
    return Plan(text, tuple(range(references)))


def _selected(reply: str, references: int) -> Plan | Failure:
    plans = [each for each in json_objects(reply) if "indices" in each or "prompt" in each]
    if not plans:
        detail = f"no plan in {reply.strip()[:200]!r}"
        return Failure(kind="refused" if is_refusal(reply) else "unparsable", detail=detail)
    prompt, indices = plans[-1].get("prompt"), plans[-1].get("indices")
    if not isinstance(prompt, str) or not prompt.strip():
        return Failure(kind="unparsable", detail="the plan has no prompt")
    if not isinstance(indices, list) or not all(type(i) is int and 0 <= i < references for i in indices):
        return Failure(kind="unparsable", detail=f"indices {indices} of {references} references")
    # None is short of anything: a step with no reference at all would lose them, so all are shown.
    chosen = tuple(sorted(set(indices))) or tuple(range(references))
    return Plan(prompt.strip(), chosen)


def _unquoted(text: str) -> str:
    text = text.strip()
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    return text


@dataclass(frozen=True)
class Method:
    """How an agent goes on from a result."""

    shows_result: bool
    """The model is shown its last result, as the last picture."""
    selects: bool
    """The planner says which references are shown again."""


METHODS = {
    "ipr": Method(shows_result=False, selects=False),
    "cafg": Method(shows_result=True, selects=False),
    "sra": Method(shows_result=True, selects=True),
}


@dataclass(frozen=True)
class _Thought:
    """A planner's turn: the plan to go on with, or the Failure that ends the case; with notes and what it took."""

    plan: Plan | Failure
    notes: Mapping[str, str]
    cost_usd: float | None = None
    seconds: float | None = None


class Agent(Wrapper):
    """The model and the planner in a loop. The result is the last step's, the steps before it are kept beside it."""

    def __init__(self, spec: Spec, planner: VLM, model: ImageModel, folder: Path) -> None:
        super().__init__(spec, model, planner)
        self.kind = spec.kind
        self.method = METHODS[spec.kind]
        self.steps = model_options(spec)["steps"]
        self.planner = planner
        self._folder = folder
        self.traits = _traits(model.traits, self.method, self.steps)

    def canonical(self) -> Mapping[str, str]:
        own = {"kind": self.kind, "steps": str(self.steps), "planner": asked_of(self.planner)}
        words = wording_key(PACKAGE, SELECT_WORDS if self.method.selects else PROMPT_WORDS, REFINE_WORDS)
        return {**own, "words": words, **inside(self.model)}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        with scratch_folder(self._folder) as folder:
            return await self._steps(commission, seed, folder)

    async def _steps(self, commission: Commission, seed: int, folder: Path) -> Painted:
        plan = Plan(commission.instruction, tuple(range(len(commission.pictures))))
        results: tuple[Path, ...] = ()
        steps: list[Step] = []
        unread = 0
        for number in range(1, self.steps + 1):
            asked = self._asked(commission, plan, results)
            painted = await self.model.generate(asked, seed)
            notes = {
                **painted.provenance,
                "agent": self.kind,
                "step": f"{number} of {self.steps}",
                "prompt": plan.prompt,
                "references": " ".join(str(i) for i in plan.references),
            }
            spent, took = whole_cost(painted), whole_seconds(painted)
            if number == self.steps or painted.failure is not None or not painted.pictures:
                calls = {"planner_calls": str(len(steps)), "planner_unread": str(unread)}
                ended = painted if number == self.steps else broken_off(painted)
                ended = replace(ended, seconds=took, cost_usd=spent, steps=tuple(steps))
                return noted(ended, {**notes, **calls, "instruction": asked.instruction})
            results = keep(painted.pictures, folder, f"step-{number}")
            thought = await self._think(commission, plan, results, seed * REPEATS + number - 1, folder)
            unread += "planner_failure" in thought.notes
            steps.append(
                Step(
                    instruction=asked.instruction,
                    pictures=painted.pictures,
                    seconds=known_sum([took, thought.seconds]),
                    cost_usd=known_sum([spent, thought.cost_usd]),
                    provenance={**notes, **thought.notes},
                )
            )
            if isinstance(thought.plan, Failure):
                return Painted(failure=thought.plan, cost_usd=0.0, steps=tuple(steps), provenance=dict(thought.notes))
            plan = thought.plan
        raise AssertionError("the last step returns")

    def _asked(self, commission: Commission, plan: Plan, results: tuple[Path, ...]) -> Commission:
        """What the model is told at a step; the first one has no result to go on from and is plain for all methods."""
        references = tuple(commission.pictures[i] for i in plan.references)
        if not results or not self.method.shows_result:
            return replace(commission, instruction=plan.prompt, pictures=references)
        role = "previous" if takes_role(self.model.traits, "previous") else "source"
        return replace(
            commission,
            instruction=f"{plan.prompt}\n\n{wording(PACKAGE, REFINE_WORDS)}",
            pictures=(*references, *(Shown(path, role) for path in results)),
        )

    async def _think(
        self, commission: Commission, plan: Plan, results: tuple[Path, ...], repeat: int, folder: Path
    ) -> _Thought:
        """The next plan. A reply that cannot be used keeps the one before and is noted; no reply at all (an error that
        may pass) ends the case, since going on would be another agent."""
        shown = [picture.path for picture in commission.pictures]
        parts = question(plan.prompt, shown, results, select=self.method.selects)
        evidence = await ask(self.planner, parts, repeat, folder)
        if isinstance(evidence, Failure):
            return _Thought(evidence, {"planner_failure": str(evidence)})
        cost, seconds = evidence.cost_usd, seconds_of(evidence)
        notes = {} if cost is None else {"vlm_usd": repr(cost)}
        if evidence.reply is not None:
            notes["planner_reply"] = evidence.reply
        reply = reply_of(evidence)
        read = reply if isinstance(reply, Failure) else read_plan(reply, len(shown), select=self.method.selects)
        if isinstance(read, Failure):
            notes["planner_failure"] = str(read)
            if read.transient:
                stop = Failure(kind=read.kind, detail=f"planner {self.planner.name}: {read.detail}")
                return _Thought(stop, notes, cost, seconds)
            return _Thought(plan, notes, cost, seconds)
        return _Thought(read, notes, cost, seconds)


def _traits(inner: Traits, method: Method, steps: int) -> Traits:
    """The model's own, less the place that its last result takes, and at the price of all steps."""
    most = inner.max_references
    if method.shows_result and most is not None and steps > 1:
        most = max(0, most - 1)
    price = None if inner.price is None else inner.price * steps
    return inner.model_copy(update={"max_references": most, "price": price})
