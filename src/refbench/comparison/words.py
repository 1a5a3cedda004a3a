"""The sentence of a pair that may be pasted into a paper: gap, interval, corrected p, n, seeds, judges, and what was
left out."""

from __future__ import annotations

from math import ceil, floor, log10

from refbench.comparison.records import Pair
from refbench.stats.effect import LEVEL

REFUSALS = {
    "worst": "a model's own failures as the worst",
    "worst,unsupported": "a model's own failures and what it cannot take as the worst",
}


def sentence(
    pair: Pair, *, on: str, protocol: str, digits: int, lower: bool = False, refusals: str = "conditional"
) -> str:
    """What may be said about the pair on a measure. An unresolved gap is never called equality: it names what could be
    seen."""
    on = f"{on} (lower is better)" if lower else on
    if pair.gap is None or pair.p_adjusted is None:
        why = pair.failure.detail if pair.failure else "no value"
        return f"{pair.first} and {pair.second} cannot be compared on {on} ({protocol}): {why}."
    facts = _facts(pair, protocol, digits, refusals)
    if pair.resolved:
        side = "above" if pair.gap > 0 else "below"
        if lower:
            side += f" ({'better' if pair.gap < 0 else 'worse'} than)"
        return f"{pair.first} scores {amount(abs(pair.gap), digits)} {side} {pair.second} on {on} ({facts})."
    said = f"Cannot resolve {pair.first} and {pair.second} on {on}: the gap is {signed(pair.gap, digits)} ({facts})"
    if pair.hopeless:
        return f"{said}; {pair.hopeless}."
    if pair.only_failures:
        return f"{said}; on the cases both have it is more than chance explains, but {_doubt(pair, digits)}."
    if pair.detectable is None:
        return f"{said}."
    return f"{said}; a true difference of {_rough(pair.detectable)} would be found at least 4 times in 5 with this n."


def _doubt(pair: Pair, digits: int) -> str:
    """What keeps a gap from being resolved that chance does not explain. Bounds that leave out zero are undone only
    together with chance, and their interval says how far."""
    if pair.undone_by == "what failed":
        return "what failed could undo it"
    assert pair.bounds_ci95 is not None
    return f"with those that failed and chance together the gap could be {between(pair.bounds_ci95, digits)}"


def holds_zero(interval: tuple[float, float] | None) -> bool:
    return interval is not None and interval[0] <= 0 <= interval[1]


def _facts(pair: Pair, protocol: str, digits: int, refusals: str) -> str:
    interval = f"95 % CI {plain(pair.ci95[0], digits)} to {plain(pair.ci95[1], digits)}" if pair.ci95 else "no interval"
    if pair.ci95 is None and pair.n_clusters > 1:
        interval += ", as the differences do not vary"
    assert pair.p_adjusted is not None
    of = "pairs of single judges" if pair.supplementary else "pairs"
    tested = probability(pair.p_adjusted, pair.p_is_bound) + (
        f", Holm over {pair.family} {of}" if pair.family > 1 else ""
    )
    size = f"n = {counted(pair.n_cases, 'case')}"
    if pair.n_clusters != pair.n_cases:
        size += f" in {counted(pair.n_clusters, 'cluster')}"
    if pair.seeds is not None:
        a, b = pair.seeds
        size += f", {counted(a, 'seed')}" if a == b else f", {a} and {b} seeds"
    under = f"{protocol}, {REFUSALS[refusals]}" if refusals in REFUSALS else protocol
    said = [under, interval, tested, f"{size}, {judged(pair)}"]
    if pair.symmetric:
        said.append("few clusters: differences taken to be symmetric")
    if any(pair.imputed):
        how = "the worst value" if refusals in REFUSALS else "the protocol says"
        said.append(f"{counted(sum(pair.imputed), 'failed picture')} counted as {how} ({_of_each(pair, pair.imputed)})")
    return "; ".join([*said, *left_out(pair, digits)])


def _of_each(pair: Pair, counts: tuple[int, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in zip((pair.first, pair.second), counts, strict=True) if n)


def left_out(pair: Pair, digits: int) -> list[str]:
    """What takes no part, and what it could have done to the gap."""
    said = []
    if pair.left_out:
        reasons = ", ".join(f"{why} {n}" for why, n in pair.left_out.items())
        said.append(f"{counted(sum(pair.left_out.values()), 'case')} left out ({reasons})")
    if any(pair.lost):
        said.append(f"{counted(sum(pair.lost), 'failed picture')} of the others left out ({_of_each(pair, pair.lost)})")
    if pair.bounds is not None:
        said.append(f"with those that failed the gap is {between(pair.bounds, digits)}")
    elif pair.n_failed and pair.gap is not None:
        said.append("what those that failed could change is not known, as the measure has no finite range")
    return said


def judged(pair: Pair) -> str:
    """Who judged, both sides where they differ."""
    if pair.judge == pair.second_judge:
        return f"judge {pair.judge}" if pair.judge else "no judge"
    return f"judges {pair.judge or 'none'} and {pair.second_judge or 'none'}"


def plain(value: float, digits: int) -> str:
    """Without a sign where nothing but zeros is left."""
    text = f"{value:.{digits}f}"
    return text if float(text) else text.removeprefix("-")


def signed(value: float, digits: int) -> str:
    text = plain(value, digits)
    return text if text.startswith("-") or not float(text) else f"+{text}"


def between(ends: tuple[float, float], digits: int) -> str:
    return f"{signed(ends[0], digits)} to {signed(ends[1], digits)}"


def amount(value: float, digits: int) -> str:
    """A difference on the benchmark's scale; marks and percentages are points."""
    return f"{value:.{digits}f} points" if digits == 2 else f"{value:.{digits}f}"


def probability(p: float, bound: bool = False) -> str:
    """Two significant digits, as "p = 0.012", or more where these would put it on the other side of the level; "<"
    where p is only known to be below, and for all that are below 0.0001."""
    if p < 0.0001:
        return "p < 0.0001"
    if bound:  # rounded up: p is below what is printed, whatever is dropped
        step = 10.0 ** (floor(log10(p)) - 1)
        return f"p < {ceil(p / step - 1e-9) * step:.2g}"
    shown, digits = f"{p:.2g}", 2
    while digits < 9 and (float(shown) <= LEVEL) != (p <= LEVEL):
        digits += 1
        shown = f"{p:.{digits}g}"
    return f"p = {shown}"


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _rough(value: float) -> str:
    """Two digits, rounded up: what is found at least so often is no less."""
    step = 10.0 ** (floor(log10(value)) - 1) if value > 0 else 1.0
    return f"{float(f'{ceil(value / step - 1e-9) * step:.2g}'):g}"
