"""rephrase: a VLM looks at the request and writes one prompt for each picture that is expected.

IDEA-Bench's way of testing text-to-image models (dagger rows: only what a model cannot take; "-T2I" rows: always), and
MultiRef's compositional route.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from refbench.chat.vlm import VLM
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.machine import scratch_folder
from refbench.models.model import Commission, ImageModel, Painted, Step, not_native, pictures_too_many
from refbench.models.wrappers.wrapper import (
    REPEATS,
    Wrapper,
    ask,
    asked_of,
    inside,
    is_refusal,
    json_objects,
    known_sum,
    noted,
    reply_of,
    seconds_of,
    wording,
    wording_key,
    worst_sum,
)
from refbench.record import canonical_json
from refbench.specs import Spec, model_options

_WORDS = "rephrase.txt"
_TRIES = 2


@dataclass(frozen=True)
class Rephrased:
    """What the VLM made of the request, and what asking it took."""

    prompts: tuple[str, ...] | Failure
    cost_usd: float | None = None
    seconds: float | None = None
    worst_usd: float | None = None


class Rephrase(Wrapper):
    """The model, asked in the VLM's words for what it cannot take (`when=unsupported`), or for all (`when=always`).

    Under `always` no picture reaches the model. Under `unsupported` they do where it can take them and only the number
    of pictures asked for is too much; each picture is then asked for alone.
    """

    def __init__(self, spec: Spec, vlm: VLM, model: ImageModel, folder: Path) -> None:
        super().__init__(spec, model, vlm, max_references=None, roles=None, max_pictures=None)
        self.when = model_options(spec)["when"]
        self.vlm = vlm
        self._folder = folder

    def canonical(self) -> Mapping[str, str]:
        own = {"kind": "rephrase", "when": self.when, "words": wording_key("refbench.models.wrappers", _WORDS)}
        return {**own, "vlm": asked_of(self.vlm), **inside(self.model)}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        why = not_native(commission, self.model.traits)
        if self.when == "unsupported" and not why:
            return noted(await self.model.generate(commission, seed), {"rephrased": "no"})
        with scratch_folder(self._folder) as folder:
            rephrased = await self._rephrased(commission, seed, folder)
        prompts = rephrased.prompts
        notes = {"rephrased": self.when, "rephrased_by": self.vlm.name, "rephrased_because": why or "always"}
        if rephrased.cost_usd is not None:
            notes["vlm_usd"] = repr(rephrased.cost_usd)
        if isinstance(prompts, Failure):
            cost, worst = rephrased.cost_usd, rephrased.worst_usd
            return Painted((), prompts, rephrased.seconds, cost, worst, provenance=notes)
        notes["prompts"] = canonical_json(prompts).decode()
        painted = await self._painted(commission, prompts, seed)
        return replace(
            noted(painted, notes),
            seconds=known_sum([painted.seconds, rephrased.seconds]),
            cost_usd=known_sum([painted.cost_usd, rephrased.cost_usd]),
            worst_usd=worst_sum([painted, rephrased]),
        )

    async def _rephrased(self, commission: Commission, seed: int, folder: Path) -> Rephrased:
        """One prompt for each picture; a reply that cannot be read is asked for once more."""
        parts = _question(commission)
        replies: list[Evidence] = []
        read: tuple[str, ...] | Failure = Failure(kind="missing_reply")
        for attempt in range(_TRIES):
            evidence = await ask(self.vlm, parts, seed * REPEATS + attempt, folder)
            if isinstance(evidence, Failure):
                read = evidence
                break
            replies.append(evidence)
            reply = reply_of(evidence)
            read = reply if isinstance(reply, Failure) else read_prompts(reply, commission.n_pictures)
            if not isinstance(read, Failure) or read.kind != "unparsable":
                break
        if isinstance(read, Failure):
            read = Failure(kind=read.kind, detail=f"rephrasing by {self.vlm.name}: {read.detail}")
        cost = known_sum(evidence.cost_usd for evidence in replies)
        seconds = known_sum(seconds_of(evidence) for evidence in replies)
        return Rephrased(read, cost, seconds, worst_sum(replies))

    async def _painted(self, commission: Commission, prompts: tuple[str, ...], seed: int) -> Painted:
        """One request a prompt. It ends with the first that fails: a later picture would stand in a wrong place."""
        shown = commission.pictures
        if self.when == "always" or pictures_too_many(shown, self.model.traits):
            shown = ()
        pictures: list[bytes] = []
        steps: list[Step] = []
        made: list[Painted] = []
        failure: Failure | None = None
        for number, prompt in enumerate(prompts, 1):
            asked = replace(commission, instruction=prompt, pictures=shown, n_pictures=1)
            painted = await self.model.generate(asked, seed)
            made.append(painted)
            steps.extend(painted.steps)
            if painted.failure is not None or not painted.pictures:
                failure = painted.failure or Failure(kind="missing_output", detail="no picture came")
                if len(prompts) > 1:
                    failure = _partial(failure, number, len(prompts))
                break
            pictures.append(painted.pictures[0])
        return Painted(
            pictures=tuple(pictures),
            failure=failure,
            seconds=known_sum(painted.seconds for painted in made),
            cost_usd=known_sum(painted.cost_usd for painted in made),
            worst_usd=worst_sum(made),
            steps=tuple(steps),
            provenance=made[-1].provenance,
        )


def read_prompts(reply: str, count: int) -> tuple[str, ...] | Failure:
    """The prompts in a reply: the last JSON object with as many as are asked for, none of them empty."""
    lists: list[object] = [each["prompts"] for each in json_objects(reply) if isinstance(each.get("prompts"), list)]
    if not lists:
        if is_refusal(reply):
            return Failure(kind="refused", detail=reply.strip()[:300])
        return Failure(kind="unparsable", detail=f'no object with "prompts" in {reply.strip()[:200]!r}')
    prompts = lists[-1]
    assert isinstance(prompts, list)
    if len(prompts) != count:
        return Failure(kind="unparsable", detail=f"{len(prompts)} prompts for {count} pictures")
    texts = [prompt.strip() if isinstance(prompt, str) else "" for prompt in prompts]
    if not all(texts):
        return Failure(kind="unparsable", detail=f"prompt {texts.index('') + 1} is empty or no text")
    return tuple(texts)


def _question(commission: Commission) -> list[str | Path]:
    size = f"{commission.size[0]} x {commission.size[1]} pixels" if commission.size else "not fixed"
    text = wording(
        "refbench.models.wrappers",
        _WORDS,
        instruction=commission.instruction,
        count=str(commission.n_pictures),
        shown=str(len(commission.pictures)),
        size=size,
    )
    parts: list[str | Path] = [text]
    for number, shown in enumerate(commission.pictures, 1):
        parts += [f"Picture {number} ({shown.role}):", shown.path]
    return parts


def _partial(failure: Failure, number: int, count: int) -> Failure:
    """A set with a gap is a missing output, but for what another run cannot mend (a refusal stays one)."""
    detail = f"{number - 1} of {count} pictures came, picture {number}: {failure}"
    return Failure(kind="missing_output" if failure.transient and number > 1 else failure.kind, detail=detail)
