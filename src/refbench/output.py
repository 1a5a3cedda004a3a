"""Output: what one model gave for one case, or why it gave nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from pydantic import model_validator

from refbench.failure import Failure
from refbench.pictures import PictureFacts
from refbench.record import Record, content_key


class StoredPicture(Record):
    """A picture in the run's blobs, named by the hash of its bytes."""

    sha256: str
    format: str
    width: int
    height: int

    @classmethod
    def of(cls, facts: PictureFacts) -> Self:
        return cls(sha256=facts.sha256, format=facts.format, width=facts.width, height=facts.height)


class Output(Record):
    """The pictures of one (case, model, seed, step), or a Failure; `step` is None for the final one."""

    case: str
    model: str
    seed: int = 0
    step: int | None = None
    pictures: tuple[StoredPicture, ...] = ()
    failure: Failure | None = None
    seconds: float | None = None
    cost_usd: float | None = None
    worst_usd: float | None = None
    """The most that it can have cost, where that is not known."""
    provenance: Mapping[str, str] = {}

    @model_validator(mode="after")
    def _one_state(self) -> Output:
        if bool(self.pictures) == (self.failure is not None):
            raise ValueError("an Output has pictures or a failure, exactly one of them")
        return self

    @property
    def charged_usd(self) -> float:
        """What it counts for a budget: never less than nothing, whatever a record from elsewhere says."""
        return max(0.0, self.worst_usd if self.worst_usd is not None else self.cost_usd or 0.0)

    @property
    def content(self) -> str:
        return content_of(picture.sha256 for picture in self.pictures)


def content_of(hashes: Iterable[str]) -> str:
    """One hash for the pictures of an output in their order: evidence stands as long as they do."""
    return content_key(list(hashes))


def seeds_of(outputs: Iterable[Output]) -> dict[str, int]:
    """With how many seeds each model has painted, failures included; steps on the way have no seeds of their own."""
    found: dict[str, set[int]] = {}
    for output in outputs:
        if output.step is None:
            found.setdefault(output.model, set()).add(output.seed)
    return {model: len(seeds) for model, seeds in found.items()}


class Painting(Record):
    """How many outputs a model finished, and what one of them took and cost on average, with the steps that led to it;
    None unless that is known of every one: a price from some of them would be a guess."""

    n: int
    seconds: float | None
    cost_usd: float | None


def paintings(outputs: Iterable[Output]) -> dict[str, Painting]:
    """What painting took, for each model; an output that failed is in no average."""
    found: dict[str, dict[tuple[str, int], list[Output]]] = {}
    for output in outputs:
        found.setdefault(output.model, {}).setdefault((output.case, output.seed), []).append(output)
    told = {}
    for model, works in found.items():
        done = [work for work in works.values() if any(part.step is None and part.pictures for part in work)]
        seconds = _mean([part.seconds for part in work] for work in done)
        told[model] = Painting(
            n=len(done), seconds=seconds, cost_usd=_mean([p.cost_usd for p in work] for work in done)
        )
    return told


def _mean(works: Iterable[Sequence[float | None]]) -> float | None:
    sums = [sum(part for part in work if part is not None) if None not in work else None for work in works]
    known = [one for one in sums if one is not None]
    return sum(known) / len(known) if known and len(known) == len(sums) else None


_SURPLUS = "more pictures than were asked for: where it was one, the first was taken"


def painting(outputs: Sequence[Output]) -> list[str]:
    """What a picture took and cost, for models that were run here; steps on the way are counted in."""
    found = []
    for model, took in paintings(outputs).items():
        finished = [o for o in outputs if o.model == model and o.step is None and o.pictures]
        words = [f"{took.seconds:.1f} s"] if took.seconds is not None else []
        words += [f"{took.cost_usd:.4f} usd"] if took.cost_usd is not None else []
        if words:
            found.append(f"{model}: {' and '.join(words)} a case")
        for key, words_for in (("partial", "fewer pictures than were asked for"), ("surplus", _SURPLUS)):
            if count := sum(key in output.provenance for output in finished):
                found.append(f"{model}: {count} of {took.n} outputs have {words_for}")
    return found


DAGGER = "†"
REPHRASED = "rephrased"
"""The key of an Output's provenance that says so: `unsupported` or `always`, and `no` where it was not needed."""


def rephrased(outputs: Iterable[Output], group_of: Mapping[str, str], what: str) -> list[str]:
    """One sentence for each model of which some pictures were painted from rewritten prompts, with the number of cases
    in each group; `group_of` has the groups by case, `what` is what they are."""
    rewritten: dict[str, Counter[str]] = defaultdict(Counter)
    regimes: dict[str, set[str]] = defaultdict(set)
    for output in outputs:
        how = output.provenance.get(REPHRASED, "no")
        if how != "no" and output.step is None and output.failure is None and output.case in group_of:
            rewritten[output.model][group_of[output.case]] += 1
            regimes[output.model].add(how)
    found = []
    for model, counts in sorted(rewritten.items()):
        where = ", ".join(f"{name} {counts[name]}" for name in dict.fromkeys(group_of.values()) if counts[name])
        how = "/".join(sorted(regimes[model]))
        found.append(f"{model}{DAGGER} was given rewritten prompts ({how}): cases by {what} {where}")
    return found
