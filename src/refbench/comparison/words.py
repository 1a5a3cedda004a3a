"""The sentence of a pair that may be pasted into a paper: gap, interval, corrected p, n, seeds and judges."""

from __future__ import annotations

from refbench.comparison.records import Pair


def sentence(pair: Pair, *, on: str, protocol: str, family: int, digits: int) -> str:
    """What may be said about the pair on a measure. An unresolved gap is never called equality: it names what could be
    seen."""
    if pair.gap is None or pair.p_adjusted is None:
        why = pair.failure.detail if pair.failure else "no value"
        return f"{pair.first} and {pair.second} cannot be compared on {on} ({protocol}): {why}."
    facts = _facts(pair, protocol, family, digits)
    if pair.resolved:
        side = "above" if pair.gap > 0 else "below"
        return f"{pair.first} scores {amount(abs(pair.gap), digits)} {side} {pair.second} on {on} ({facts})."
    said = f"Cannot resolve {pair.first} and {pair.second} on {on}: the gap is {pair.gap:+.{digits}f} ({facts})"
    if pair.detectable is None:
        return f"{said}."
    return f"{said}; true differences below about {_rough(pair.detectable)} will usually not be seen with this n."


def _facts(pair: Pair, protocol: str, family: int, digits: int) -> str:
    interval = f"95 % CI {pair.ci95[0]:.{digits}f} to {pair.ci95[1]:.{digits}f}" if pair.ci95 else "no interval"
    assert pair.p_adjusted is not None
    tested = probability(pair.p_adjusted) + (f", Holm over {family} pairs" if family > 1 else "")
    size = f"n = {counted(pair.n_cases, 'case')}"
    if pair.n_clusters != pair.n_cases:
        size += f" in {counted(pair.n_clusters, 'cluster')}"
    if pair.seeds is not None:
        a, b = pair.seeds
        size += f", {counted(a, 'seed')}" if a == b else f", {a} and {b} seeds"
    return "; ".join([protocol, interval, tested, f"{size}, {judged(pair)}"])


def judged(pair: Pair) -> str:
    """Who judged, both sides where they differ."""
    if pair.judge == pair.second_judge:
        return f"judge {pair.judge}" if pair.judge else "no judge"
    return f"judges {pair.judge or 'none'} and {pair.second_judge or 'none'}"


def amount(value: float, digits: int) -> str:
    """A difference on the benchmark's scale; marks and percentages are points."""
    return f"{value:.{digits}f} points" if digits == 2 else f"{value:.{digits}f}"


def probability(p: float) -> str:
    """Two significant digits, as "p = 0.012"."""
    return f"p = {p:.2g}" if p >= 0.0001 else f"p = {p:.1e}"


def counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _rough(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"
