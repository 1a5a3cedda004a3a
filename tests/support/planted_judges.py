"""Judges whose faults are known, as the marks they give in an audit: what the audit must find, and must not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.audit.drift import drift_of_audits
from refbench.analysis.audit.marks import AuditMark, Criterion, perturbations
from refbench.analysis.audit.records import AuditReport
from refbench.analysis.audit.report import Audited, audit_report

Array = NDArray[np.float64]
CRITERIA = tuple(Criterion(name=ability, ability=ability) for ability in ("IA", "RC", "BM", "PR", "VQ"))
PAIR = Criterion(name="better", ability="pair", low=0.0, high=1.0)
DAMAGES = (1, 2, 3, 4, 5, 6, 7, 9, 10, 12)
NUISANCES = (20, 22, 23, 26)
ATTACKS = (27, 28, 30)
REFERENCES = 3
NOISE = 0.5


@dataclass(frozen=True)
class Truth:
    """What the outputs of an audit deserve: for each variant cases x criteria, before any judge has looked. `place` is
    the position of the reference that damage 3 swaps."""

    marks: dict[str, Array]
    place: NDArray[np.intp]
    better: NDArray[np.bool_]
    """Of the pair shown for each case, whether the first is better."""


def truth(rng: np.random.Generator, cases: int, fall: tuple[float, float] = (2.0, 5.0)) -> Truth:
    """Good outputs, as rule 1 asks for; damages lower what they aim at by two to five steps and what is not said to
    stay by up to one."""
    names = [criterion.ability for criterion in CRITERIA]
    good = rng.integers(8, 11, (cases, len(names))).astype(float)
    place = rng.permutation(np.arange(cases) % REFERENCES) + 1
    marks = {"clean": good}
    for number in DAMAGES:
        about = perturbations()[number]
        marks[f"{number}:{about.name}"] = np.stack(
            [
                good[:, i]
                - (
                    rng.uniform(*fall, cases)
                    if ability in about.falls
                    else rng.uniform(0, 1, cases) * (ability not in about.stays)
                )
                for i, ability in enumerate(names)
            ],
            axis=1,
        )
    for strength in (1, 2, 3):
        blurred = good.copy()
        blurred[:, names.index("VQ")] -= strength * fall[0] * 0.9
        blurred -= 0.4 * (strength - 1) * (np.array(names) != "VQ")
        marks[f"16:blur@{strength}"] = blurred
    for number in NUISANCES:
        marks[f"{number}:{perturbations()[number].name}"] = good
    for number in ATTACKS:
        marks[f"{number}:{perturbations()[number].name}"] = marks["1:other_output"]
    marks["31:all_grey"] = np.ones_like(good)
    grey = good.copy()
    grey[:, [names.index(ability) for ability in ("IA", "RC", "BM")]] = (5.0, 1.0, 6.0)
    marks["32:references_grey"] = grey
    return Truth(marks, place, rng.random(cases) < 0.5)


Judge = Callable[[str, Array, Truth, np.random.Generator], Array]
"""Variant, what it deserves, everything, chance: what the judge says before rounding."""


def perfect(variant: str, deserved: Array, _: Truth, rng: np.random.Generator) -> Array:
    return deserved


def noisy(variant: str, deserved: Array, _: Truth, rng: np.random.Generator, sd: float = 1.0) -> Array:
    return deserved + rng.normal(0, sd, deserved.shape)


def blind(variant: str, deserved: Array, about: Truth, rng: np.random.Generator) -> Array:
    """Marks the text of the request: the same whatever the pictures."""
    text = 6.5 + 1.7 * np.random.default_rng(7).standard_normal((len(deserved), 1)) * np.ones(deserved.shape)
    return noisy(variant, text, about, rng, NOISE)


def one_reference(variant: str, deserved: Array, about: Truth, rng: np.random.Generator) -> Array:
    if variant.startswith("3:"):
        deserved = np.where((about.place == 1)[:, None], deserved, about.marks["clean"])
    return noisy(variant, deserved, about, rng, NOISE)


def obeys_text(variant: str, deserved: Array, about: Truth, rng: np.random.Generator) -> Array:
    return noisy(variant, deserved, about, rng, NOISE) + 3.0 * variant.startswith(("27:", "28:"))


def loves_beauty(variant: str, deserved: Array, about: Truth, rng: np.random.Generator) -> Array:
    return noisy(variant, deserved, about, rng, NOISE) + 1.0 * variant.startswith("30:")


def halo(variant: str, deserved: Array, about: Truth, rng: np.random.Generator) -> Array:
    """One impression, the worst of all criteria, for every criterion."""
    return noisy(variant, np.repeat(deserved.min(axis=1, keepdims=True), deserved.shape[1], 1), about, rng, NOISE)


def seven_or_eight(variant: str, deserved: Array, about: Truth, rng: np.random.Generator) -> Array:
    return np.where(noisy(variant, deserved, about, rng, NOISE) > 7, 8.0, 7.0)


def steady(variant: str, deserved: Array, about: Truth, rng: np.random.Generator) -> Array:
    return noisy(variant, deserved, about, rng, NOISE)


def drifted(variant: str, deserved: Array, about: Truth, rng: np.random.Generator) -> Array:
    """What `steady` is after its provider has put another model behind the name."""
    return noisy(variant, deserved, about, rng, NOISE) - 0.6


JUDGES: dict[str, Judge] = {
    "perfect": perfect,
    "noisy": noisy,
    "blind": blind,
    "one reference": one_reference,
    "obeys text": obeys_text,
    "loves beauty": loves_beauty,
    "halo": halo,
    "7 and 8": seven_or_eight,
    "first side": steady,
    "drifted": drifted,
}


def marks_of(
    judge: Judge, about: Truth, rng: np.random.Generator, *, repeats: int = 3, lost: float = 0.0
) -> list[AuditMark]:
    """The marks of a core audit; a share of them `lost` to refusals."""
    found: list[AuditMark] = []
    names = [criterion.name for criterion in CRITERIA]
    for variant, deserved in about.marks.items():
        for repeat in range(repeats if variant == "clean" else 1):
            said = np.clip(np.round(judge(variant, deserved, about, rng)), 1, 10).tolist()
            refused = (rng.random(len(said)) < lost).tolist()
            places = about.place.tolist()
            for case, row in enumerate(said):
                name = f"{variant}@{places[case]}" if variant.startswith("3:") else variant
                for criterion, mark in zip(names, row, strict=True):
                    if refused[case]:
                        found.append(AuditMark(f"c{case}", name, criterion, repeat, None, "refused"))
                    else:
                        found.append(AuditMark(f"c{case}", name, criterion, repeat, mark))
    return found


def pair_marks(about: Truth, rng: np.random.Generator, first: float) -> list[AuditMark]:
    """A pair judge's choices: right in nine of ten cases, and the first side in a share `first` of all without looking."""
    found = []

    def choose(case: int, first_is_better: float) -> float:
        if rng.random() < first:
            return 1.0
        right = first_is_better if first_is_better != 0.5 else float(rng.random() < 0.5)
        return right if rng.random() < 0.9 else 1 - right

    for case, better in enumerate(about.better.tolist()):
        said = [choose(case, float(better)) for _ in range(3)]
        found += [AuditMark(f"c{case}", "clean", PAIR.name, repeat, mark) for repeat, mark in enumerate(said)]
        for variant, deserved in (("33:sides_swapped", float(not better)), ("34:same_twice", 0.5)):
            found.append(AuditMark(f"c{case}", variant, PAIR.name, 0, choose(case, deserved)))
    return found


RIGHT_FLAGS = {
    "blind": {f"blind to damage in {criterion.name}" for criterion in CRITERIA},
    "one reference": {"one reference"},
    "obeys text": {"fooled by 27", "fooled by 28"},
    "loves beauty": {"fooled by 30"},
    "halo": {"halo"},
    "7 and 8": {"few marks"},
    "first side": {"side"},
    "drifted": {"drifted"},
}
"""What an audit must say of each; of the others nothing at all."""
_NUMBERED = ("fooled by", "moved by")


def planted_audit(name: str, rng: np.random.Generator, cases: int) -> tuple[AuditReport, bool]:
    """A core audit of a planted judge, its choices between pairs included, and whether it moved when it was asked about
    the clean items again."""
    about, judge = truth(rng, cases), JUDGES[name]
    then = marks_of(steady if name == "drifted" else judge, about, rng)
    clean = Truth({"clean": about.marks["clean"]}, about.place, about.better)
    drift = drift_of_audits(then, marks_of(judge, clean, rng), CRITERIA)
    side = 0.5 if name == "first side" else 0.0
    audited = Audited(judge=name, references={f"c{case}": REFERENCES for case in range(cases)})
    report = audit_report(then + pair_marks(about, rng, side), (*CRITERIA, PAIR), audited)
    return report, any(row.moved for row in drift)


def faults_found(report: AuditReport, moved: bool) -> set[str]:
    """The faults on a card in short; "blind to damage in" is a criterion's, "blind to" a single damage's."""
    found = {f"{flag.kind} {flag.number}" if flag.kind in _NUMBERED else flag.kind for flag in report.card.flags}
    found |= {f"blind to damage in {card.name}" for card in report.card.criteria if card.sees_verdict == "blind"}
    return found | ({"drifted"} if moved else set())
