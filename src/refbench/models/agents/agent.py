"""An agent: a model paints, a VLM looks and writes the next prompt, for a fixed number of steps.

By choice the same VLM, as a critic, also marks what was painted: the best step is kept (`keep=best`), or a good one is
the last (`stop=9`). The papers' agents do neither.

| method | the model is shown | the VLM gives |
|---|---|---|
| ipr | the prompt, all references | a new prompt |
| cafg | the prompt and a note, all references, its last result | a new prompt |
| sra | the prompt and a note, the references it did not reflect, its last result | those references, a new prompt |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    worst_sum,
)
from refbench.specs import Spec, model_options

PACKAGE = "refbench.models.agents"
PROMPT_WORDS, SELECT_WORDS, REFINE_WORDS = "plan_prompt.txt", "plan_select.txt", "refine.txt"
CRITIC_WORDS = "critic.txt"

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


def question(words: str, prompt: str, references: Sequence[Path], results: Sequence[Path]) -> list[str | Path]:
    """The prompt's text, all references in order, and the step's result last. Selecting counts from 0."""
    first = 0 if words == SELECT_WORDS else 1
    parts: list[str | Path] = [wording(PACKAGE, words, prompt=prompt, count=str(len(references)))]
    for number, path in enumerate(references, first):
        parts += [f"Reference {number}:", path]
    return [*parts, "The result:", *results]


def read_mark(reply: str) -> float | Failure:
    """The critic's mark in a reply, from 1 to 10."""
    marks = [each["mark"] for each in json_objects(reply) if "mark" in each]
    if not marks:
        detail = f"no mark in {reply.strip()[:200]!r}"
        return Failure(kind="refused" if is_refusal(reply) else "unparsable", detail=detail)
    if type(marks[-1]) not in (int, float) or not 1 <= marks[-1] <= 10:
        return Failure(kind="out_of_range", detail=f"mark {str(marks[-1])[:40]}, where 1 to 10 were asked for")
    return float(marks[-1])


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
class _Answer:
    """A reply of the VLM, or why there is none, with notes and what it took; `ends` is what ends the case."""

    reply: str | Failure
    notes: dict[str, str]
    cost_usd: float | None = None
    seconds: float | None = None
    ends: Failure | None = None
    worst_usd: float | None = None


@dataclass
class _Course:
    """What an agent has done so far for a case."""

    steps: list[Step] = field(default_factory=list)
    planned: list[_Answer] = field(default_factory=list)
    marked: list[_Answer] = field(default_factory=list)
    marks: dict[int, float] = field(default_factory=dict)
    """The critic's, by the number of the step."""

    def counts(self) -> dict[str, str]:
        found = {}
        for who, answers in (("planner", self.planned), ("critic", self.marked)):
            if answers or who == "planner":
                found[f"{who}_calls"] = str(len(answers))
                found[f"{who}_unread"] = str(sum(f"{who}_failure" in answer.notes for answer in answers))
        return found


class Agent(Wrapper):
    """The model and the planner in a loop. The result is the last step's or the best; the others are kept beside it."""

    def __init__(self, spec: Spec, planner: VLM, model: ImageModel, folder: Path) -> None:
        super().__init__(spec, model, planner)
        self.kind = spec.kind
        self.method = METHODS[spec.kind]
        options = model_options(spec)
        self.steps, self.stop, self.keeps_best = options["steps"], options["stop"], options["keep"] == "best"
        self.planner = planner
        self._folder = folder
        self.traits = _traits(model.traits, self.method, self.steps)

    def canonical(self) -> Mapping[str, str]:
        own = {"kind": self.kind, "steps": str(self.steps), "planner": asked_of(self.planner)}
        words = wording_key(PACKAGE, SELECT_WORDS if self.method.selects else PROMPT_WORDS, REFINE_WORDS)
        critic = {"keep": "best"} if self.keeps_best else {}
        critic |= {} if self.stop is None else {"stop": str(self.stop)}
        critic |= {"critic_words": wording_key(PACKAGE, CRITIC_WORDS)} if critic else {}
        return {**own, "words": words, **critic, **inside(self.model)}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        with scratch_folder(self._folder) as folder:
            return await self._steps(commission, seed, folder)

    async def _steps(self, commission: Commission, seed: int, folder: Path) -> Painted:
        plan = Plan(commission.instruction, tuple(range(len(commission.pictures))))
        results: tuple[Path, ...] = ()
        course = _Course()
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
            last, made = number == self.steps, painted.failure is None and bool(painted.pictures)
            repeat = seed * REPEATS + number - 1
            answers: list[_Answer] = []
            if made and not (last and self.stop is None and not self.keeps_best):
                results = keep(painted.pictures, folder, f"step-{number}")
            if made and (self.keeps_best or (self.stop is not None and not last)):
                answers.append(await self._mark(commission, results, (repeat, number), folder, course))
            enough = self.stop is not None and course.marks.get(number, 0.0) >= self.stop
            if made and not last and not enough and not any(answer.ends for answer in answers):
                answers.append(await self._plan(commission, plan, results, repeat, folder))
                course.planned.append(answers[-1])
            step = _step(asked, painted, notes, answers)
            if ends := next((answer.ends for answer in answers if answer.ends), None):
                course.steps.append(step)
                told = {key: value for answer in answers for key, value in answer.notes.items()}
                return Painted(failure=ends, cost_usd=0.0, steps=tuple(course.steps), provenance=told)
            if not made or last or enough:
                stopped = {"stopped": f"{number} of {self.steps}"} if enough and not last else {}
                return self._ended(course, painted, step, {**course.counts(), **stopped})
            course.steps.append(step)
            read = self._read(answers[-1], len(commission.pictures))
            plan = plan if isinstance(read, Failure) else read
        raise AssertionError("the last step returns")

    def _ended(self, course: _Course, painted: Painted, step: Step, notes: Mapping[str, str]) -> Painted:
        """The result: this step's, or the best of all where the critic has marked any; of equals the last, which is
        what the agent of the paper would give."""
        if self.keeps_best and painted.pictures and painted.failure is None and course.marks:
            steps = (*course.steps, step)
            best = max(course.marks, key=lambda number: (course.marks[number], number))
            kept = {"kept": f"{best} of {len(steps)}", "instruction": steps[best - 1].instruction}
            told = {**steps[best - 1].provenance, **notes, **kept}
            return Painted(steps[best - 1].pictures, seconds=0.0, cost_usd=0.0, steps=steps, provenance=told)
        whole = step.provenance["step"] == f"{self.steps} of {self.steps}" or "stopped" in notes
        ended = replace(painted if whole else broken_off(painted), seconds=step.seconds, cost_usd=step.cost_usd)
        ended = replace(ended, worst_usd=step.worst_usd, steps=tuple(course.steps))
        return noted(ended, {**step.provenance, **notes, "instruction": step.instruction})

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

    async def _plan(
        self, commission: Commission, plan: Plan, results: tuple[Path, ...], repeat: int, folder: Path
    ) -> _Answer:
        """The planner's reply. One that cannot be used keeps the plan before and is noted; none at all (an error that
        may pass) ends the case, since going on would be another agent."""
        shown = [picture.path for picture in commission.pictures]
        words = SELECT_WORDS if self.method.selects else PROMPT_WORDS
        answer = await self._ask("planner", question(words, plan.prompt, shown, results), repeat, folder)
        read = self._read(answer, len(shown))
        return replace(
            answer, notes={**answer.notes, **({"planner_failure": str(read)} if isinstance(read, Failure) else {})}
        )

    def _read(self, answer: _Answer, references: int) -> Plan | Failure:
        if isinstance(answer.reply, Failure):
            return answer.reply
        return read_plan(answer.reply, references, select=self.method.selects)

    async def _mark(
        self, commission: Commission, results: tuple[Path, ...], at: tuple[int, int], folder: Path, course: _Course
    ) -> _Answer:
        """The critic's reply about what a step made of the request as the user wrote it. A step whose mark cannot be
        read has none: it neither ends the work nor is it the best."""
        (repeat, number), shown = at, [picture.path for picture in commission.pictures]
        answer = await self._ask(
            "critic", question(CRITIC_WORDS, commission.instruction, shown, results), repeat, folder
        )
        mark = answer.reply if isinstance(answer.reply, Failure) else read_mark(answer.reply)
        if isinstance(mark, Failure):
            answer = replace(answer, notes={**answer.notes, "critic_failure": str(mark)})
        else:
            course.marks[number] = mark
            answer = replace(answer, notes={**answer.notes, "critic_mark": f"{mark:g}"})
        course.marked.append(answer)
        return answer

    async def _ask(self, who: str, parts: list[str | Path], repeat: int, folder: Path) -> _Answer:
        evidence = await ask(self.planner, parts, repeat, folder)
        if isinstance(evidence, Failure):
            return _Answer(evidence, {}, ends=evidence)
        cost, seconds = evidence.cost_usd, seconds_of(evidence)
        used = {"vlm_usd": cost, "vlm_seconds": seconds} if who == "planner" else {"critic_usd": cost}
        notes = {name: repr(amount) for name, amount in used.items() if amount is not None}
        if evidence.reply is not None:
            notes[f"{who}_reply"] = evidence.reply
        reply = reply_of(evidence)
        ends = None
        if isinstance(reply, Failure) and reply.transient:
            ends = Failure(kind=reply.kind, detail=f"{who} {self.planner.name}: {reply.detail}")
        return _Answer(reply, notes, cost, seconds, ends, evidence.worst_usd)


def _step(asked: Commission, painted: Painted, notes: Mapping[str, str], answers: Sequence[_Answer]) -> Step:
    """A step with the questions that were asked about it: what they cost is its own."""
    return Step(
        instruction=asked.instruction,
        pictures=painted.pictures,
        seconds=known_sum([whole_seconds(painted), *(answer.seconds for answer in answers)]),
        cost_usd=known_sum([whole_cost(painted), *(answer.cost_usd for answer in answers)]),
        worst_usd=worst_sum([painted, *painted.steps, *answers]),
        provenance={**notes, **{key: value for answer in answers for key, value in answer.notes.items()}},
    )


def _traits(inner: Traits, method: Method, steps: int) -> Traits:
    """The model's own, less the place that its last result takes, and at the price of all steps."""
    most = inner.max_references
    if method.shows_result and most is not None and steps > 1:
        most = max(0, most - 1)
    price = None if inner.price is None else inner.price * steps
    return inner.model_copy(update={"max_references": most, "price": price})
