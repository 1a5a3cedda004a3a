"""The planner's side of an agent: what it is asked after a step, and what is read from its reply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from refbench.failure import Failure
from refbench.models.asking import is_refusal, json_objects, unfenced
from refbench.models.wrapped import wording

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
