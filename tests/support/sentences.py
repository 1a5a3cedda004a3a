"""Reads the sentences of comparisons back, so that a test can hold them against the numbers they were made of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_HEAD = {
    "resolved": re.compile(
        rf"(?P<first>.+?) scores (?P<gap>{_NUMBER})(?: points)? (?P<side>above|below)(?: \((?P<verdict>better|worse) than\))? "
        r"(?P<second>.+?) on (?P<on>.+?)(?P<lower> \(lower is better\))? \((?P<facts>.*)\)\."
    ),
    "unresolved": re.compile(
        r"Cannot resolve (?P<first>.+?) and (?P<second>.+?) on (?P<on>.+?)(?P<lower> \(lower is better\))?: "
        rf"the gap is (?P<gap>{_NUMBER}) \((?P<facts>.*?)\)(?:; (?P<why>[^()]*))?\."
    ),
    "incomparable": re.compile(
        r"(?P<first>.+?) and (?P<second>.+?) cannot be compared on (?P<on>.+?)(?P<lower> \(lower is better\))? "
        r"\((?P<facts>.*?)\): (?P<why>.*)\."
    ),
}


@dataclass(frozen=True)
class Said:
    """What a sentence says, number by number; None for what it is silent about."""

    state: Literal["resolved", "unresolved", "incomparable"]
    first: str
    second: str
    on: str
    lower: bool
    protocol: str
    gap: float | None = None
    """With its sign: first less second."""
    digits: int = 0
    verdict: str | None = None
    """`better` or `worse`, where the sentence says one of them."""
    interval: tuple[float, float] | None = None
    p: float | None = None
    p_below: bool = False
    """The sentence says "p <", not "p ="."""
    family: int = 1
    of_single_judges: bool = False
    n_cases: int | None = None
    n_clusters: int | None = None
    seeds: tuple[int, int] | None = None
    judges: tuple[str, ...] = ()
    symmetric: bool = False
    left_out: dict[str, int] = field(default_factory=dict)
    n_left_out: int = 0
    n_lost: int = 0
    n_imputed: int = 0
    bounds: tuple[float, float] | None = None
    unbounded: bool = False
    refusals: str = "conditional"
    detectable: float | None = None
    hopeless: bool = False
    undone: bool = False
    together: tuple[float, float] | None = None
    """What the gap could be with failures and chance together, where only both undo it."""
    why: str = ""


def parse(sentence: str) -> Said:
    """The sentence of a pair, read back. Names that hold the words around them (" on ", " and ") cannot be told."""
    for state, form in _HEAD.items():
        found = form.fullmatch(sentence)
        if found is not None:
            return _read(state, found)  # type: ignore[arg-type]
    raise ValueError(f"no sentence of a comparison: {sentence}")


def _read(state: Literal["resolved", "unresolved", "incomparable"], found: re.Match[str]) -> Said:
    said = found.groupdict()
    facts, why = said["facts"], said.get("why") or ""
    head = {
        "state": state,
        "first": said["first"],
        "second": said["second"],
        "on": said["on"],
        "lower": bool(said["lower"]),
        "why": why,
    }
    if state == "incomparable":
        return Said(**head, protocol=facts)
    under, *rest = facts.split("; ")
    protocol, _, refusals = under.partition(", ")
    gap = float(said["gap"])
    if state == "resolved":
        gap = abs(gap) if said["side"] == "above" else -abs(gap)
    detectable = re.search(rf"a true difference of ({_NUMBER}) would be found at least 4 times in 5", why)
    together = re.search(rf"failed and chance together the gap could be ({_NUMBER}) to ({_NUMBER})$", why)
    numbers: dict[str, object] = {}
    for fact in rest:
        numbers |= _fact(fact)
    return Said(
        **head,
        protocol=protocol,
        refusals="conditional" if not refusals else "worst,unsupported" if "cannot take" in refusals else "worst",
        gap=gap,
        digits=len(said["gap"].partition(".")[2]),
        verdict=said.get("verdict"),
        detectable=float(detectable.group(1)) if detectable else None,
        hopeless="cannot show a difference whatever the data" in why,
        undone="what failed could undo it" in why,
        together=(float(together[1]), float(together[2])) if together else None,
        **numbers,  # type: ignore[arg-type]
    )


def _fact(fact: str) -> dict[str, object]:
    if match := re.fullmatch(rf"95 % CI ({_NUMBER}) to ({_NUMBER})", fact):
        return {"interval": (float(match[1]), float(match[2]))}
    if fact in ("no interval", "no interval, as the differences do not vary"):
        return {}
    if match := re.fullmatch(rf"p ([=<]) ({_NUMBER})(?:, Holm over (\d+) pairs(?: (of single judges))?)?", fact):
        return {
            "p": float(match[2]),
            "p_below": match[1] == "<",
            "family": int(match[3] or 1),
            "of_single_judges": bool(match[4]),
        }
    if match := re.fullmatch(
        r"n = (\d+) cases?(?: in (\d+) clusters?)?(?:, (\d+)(?: and (\d+))? seeds?)?, (no judge|judges? .+)", fact
    ):
        n = int(match[1])
        seeds = None if match[3] is None else (int(match[3]), int(match[4] or match[3]))
        named = re.fullmatch(r"judges (.+) and (.+)", match[5])
        judges = named.groups() if named else () if match[5] == "no judge" else (match[5].removeprefix("judge "),)
        return {"n_cases": n, "n_clusters": int(match[2] or n), "seeds": seeds, "judges": judges}
    if fact == "few clusters: differences taken to be symmetric":
        return {"symmetric": True}
    if match := re.fullmatch(r"(\d+) cases? left out \((.+)\)", fact):
        # A reason may be several kinds of failure, with commas between them.
        reasons = {why: int(n) for why, n in re.findall(r"(?:^|, )(.+?) (\d+)(?=, |$)", match[2])}
        return {"n_left_out": int(match[1]), "left_out": reasons}
    if match := re.fullmatch(r"(\d+) failed pictures? left out of the cases compared \((.+)\)", fact):
        return {"n_lost": int(match[1])}
    if match := re.fullmatch(r"(\d+) failed pictures? counted as (the worst value|the protocol says) \((.+)\)", fact):
        return {"n_imputed": int(match[1])}
    if match := re.fullmatch(rf"with those that failed the gap is ({_NUMBER}) to ({_NUMBER})", fact):
        return {"bounds": (float(match[1]), float(match[2]))}
    if fact.startswith("what those that failed could change is not known"):
        return {"unbounded": True}
    raise ValueError(f"unknown fact in a sentence: {fact}")


def contradictions(said: Said) -> list[str]:
    """What a sentence says against itself, without looking at any record."""
    found = []

    def holds_zero(ends: tuple[float, float] | None) -> bool:
        return ends is not None and ends[0] <= 0 <= ends[1]

    if said.state == "incomparable":
        return found
    assert said.gap is not None
    assert said.p is not None
    step = 10.0**-said.digits
    if said.interval and not said.interval[0] - step <= said.gap <= said.interval[1] + step:
        found.append("the gap is outside its interval")
    if said.bounds and said.bounds[0] > said.bounds[1]:
        found.append("bounds the wrong way round")
    if said.state == "resolved":
        if said.p > 0.05:
            found.append("resolved with p above 0.05")
        if holds_zero(said.interval):
            found.append("resolved, and the interval holds zero")
        if holds_zero(said.bounds):
            found.append("resolved, and what failed could undo it")
        if said.gap == 0:
            found.append("resolved, and the gap is zero")
    elif said.p <= 0.05 and not holds_zero(said.interval) and not (said.undone or said.together or said.hopeless):
        found.append("not resolved, and nothing says why")
    elif said.family == 1 and said.p > 0.05 and said.interval and not holds_zero(said.interval) and not said.hopeless:
        found.append("p above 0.05 beside an interval without zero, of one pair")
    if said.undone and said.bounds and not holds_zero(said.bounds):
        found.append("what failed could undo it, and its bounds leave out zero")
    if said.together and not holds_zero(said.together):
        found.append("undone by failures and chance together, which leave out zero")
    if said.verdict and (said.verdict == "better") != ((said.gap < 0) == said.lower):
        found.append("better and worse confused")
    if sum(said.left_out.values()) != said.n_left_out:
        found.append("the reasons do not add up to what was left out")
    return found
