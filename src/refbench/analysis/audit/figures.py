"""The figures of an audit, each a pure function of the marks: one value for each output, averaged over cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.audit.estimates import Estimate, by_output, correlation, mean_of, mean_over_cases, root_of
from refbench.analysis.audit.marks import Criterion, Marks, Variant, perturbations
from refbench.stats import Array, mean_of_those_there
from refbench.stats.agreement import icc_draws
from refbench.stats.correlation import spearman_draws

SEEN = 0.75
"""Share of pairs from which on a damage counts as seen."""
_NARROW = 0.98
"""Share of all marks that two values have, above which a judge of a longer scale uses no more than these."""
_LEVELS = 5
"""Steps that a scale has for this to be a fault."""


class Pairs(NamedTuple):
    """Clean against damaged, for each output: the share of pairs of marks in which the clean one is higher (ties half),
    the share of ties, the mean fall; and how many cases had nothing to lose."""

    higher: Array
    tied: Array
    fall: Array
    at_floor: int


def pairs(marks: Marks, criterion: Criterion, number: int, at: Sequence[Variant] | None = None) -> Pairs:
    """Under a damage: the mean over its strengths or positions, or those of them in `at`."""
    clean = marks.clean(criterion.name)
    found = marks.of_number(criterion.name, number)
    damaged = [array for variant, array in found.items() if at is None or variant in at]
    nothing = np.full(len(marks.outputs), np.nan)
    if not damaged:
        return Pairs(nothing, nothing, nothing, 0)
    before = mean_of_those_there(clean, axis=1)
    with np.errstate(invalid="ignore"):
        at_floor = before < criterion.floor
    kept = np.where(at_floor[:, None], np.nan, clean)
    after = np.concatenate(damaged, axis=1)
    apart = (kept[:, :, None] - after[:, None, :]).reshape(len(after), -1)
    there = np.isfinite(apart)
    higher = np.where(there, (apart > 0) + 0.5 * (apart == 0), np.nan)
    tied = np.where(there, (apart == 0) * 1.0, np.nan)
    out = at_floor & np.isfinite(after).any(axis=1)
    return Pairs(
        mean_of_those_there(higher, axis=1),
        mean_of_those_there(tied, axis=1),
        mean_of_those_there(apart, axis=1),
        len(np.unique(marks.case[out])),
    )


def sees(marks: Marks, one: Pairs) -> Estimate:
    return mean_over_cases(one.higher, marks.case, "share")


def change(marks: Marks, criterion: Criterion, number: int) -> Array:
    """The mean change of each output's mark under a perturbation of the clean output."""
    found = marks.of_number(criterion.name, number)
    if not found:
        return np.full(len(marks.outputs), np.nan)
    clean = mean_of_those_there(marks.clean(criterion.name), axis=1)
    return np.asarray(by_output(list(found.values())) - clean)


def excess(marks: Marks, criterion: Criterion, number: int) -> Estimate:
    """Mean absolute change under a nuisance, less that between repeats."""
    clean, found = marks.clean(criterion.name), marks.of_number(criterion.name, number)
    if not found or clean.shape[1] < 2:
        return Estimate.nothing(marks.case)
    after = np.concatenate(list(found.values()), axis=1)
    moved = np.abs(clean[:, :, None] - after[:, None, :]).reshape(len(clean), -1)
    return mean_over_cases(
        mean_of_those_there(moved, axis=1) - mean_of_those_there(_repeats_apart(clean), axis=1), marks.case
    )


def uneven(marks: Marks, criterion: Criterion, number: int) -> Estimate:
    """How much more the change under a nuisance differs between cases than asking again explains, as a variance: 0
    where all marks move alike."""
    clean = marks.clean(criterion.name)
    moved = change(marks, criterion, number)
    there = np.isfinite(moved)
    if there.sum() < 3 or clean.shape[1] < 2:
        return Estimate.nothing(marks.case)
    repeats = np.maximum(np.isfinite(clean).sum(axis=1), 1)
    noise = np.nan_to_num(_variance(clean), nan=float(np.nanmean(_variance(clean))))
    apart = (moved - moved[there].mean()) ** 2 * (there.sum() / (there.sum() - 1)) - noise * (1 + 1 / repeats)
    return mean_over_cases(np.where(there, apart, np.nan), marks.case)


def rise(marks: Marks, criterion: Criterion, number: int) -> Array:
    """The change of each output's mark under an attack, which is made on the output of another case (1), or on the one
    without its subject (4) where there is none; of a damage the change from the clean output."""
    found = marks.of_number(criterion.name, number)
    if not found or perturbations()[number].kind == "damage":
        return change(marks, criterion, number)
    bases = [list(marks.of_number(criterion.name, base).values()) for base in (1, 4)]
    before = np.full(len(marks.outputs), np.nan)
    for arrays in filter(None, bases):
        before = np.where(np.isfinite(before), before, by_output(arrays[:1]))
    return np.asarray(by_output(list(found.values())) - before)


def blind(marks: Marks, criterion: Criterion, number: int) -> tuple[Estimate, Estimate]:
    """Spearman's correlation of the marks given without seeing and of those with; the mean of the former on the scale.
    Marks that are all the same are related to nothing."""
    found = marks.of_number(criterion.name, number)
    if not found:
        return Estimate.nothing(marks.case), Estimate.nothing(marks.case)
    unseen = by_output(list(found.values()))
    clean = mean_of_those_there(marks.clean(criterion.name), axis=1)
    scaled = criterion.low + unseen if criterion.better == "higher" else criterion.high - unseen
    return correlation(spearman_draws, unseen, clean, marks.case), mean_over_cases(scaled, marks.case)


def repeat_sd(marks: Marks, criterion: Criterion) -> Estimate:
    return root_of(mean_over_cases(_variance(marks.clean(criterion.name)), marks.case))


def identical(marks: Marks, criterion: Criterion) -> Estimate:
    apart = _repeats_apart(marks.clean(criterion.name))
    same = np.where(np.isfinite(apart), (apart == 0) * 1.0, np.nan)
    return mean_over_cases(mean_of_those_there(same, axis=1), marks.case, "share")


def icc(marks: Marks, criterion: Criterion) -> Estimate:
    """ICC(1,1) of the repeats, over the outputs that have all of them."""
    clean = marks.clean(criterion.name)
    whole = np.where(np.isfinite(clean).all(axis=1), 1.0, np.nan)

    def statistic(x: Array, _: Array, weights: Array) -> Array:
        return icc_draws(clean[np.isfinite(whole)].T, weights, "1,1")

    return correlation(statistic, whole, whole, marks.case)


def auc(marks: Marks, criterion: Criterion, damages: Sequence[int]) -> Estimate:
    """Clean against damaged across cases, each damage weighing the same: what a threshold could do."""
    clean = marks.clean(criterion.name)[:, 0]
    a = np.isfinite(clean)
    found = []
    for number in damages:
        arrays = list(marks.of_number(criterion.name, number).values())
        damaged = np.concatenate([array[:, 0] for array in arrays])
        case = np.tile(marks.case, len(arrays))
        b = np.isfinite(damaged)
        if a.sum() < 2 or b.sum() < 2:
            continue
        apart = clean[a][:, None] - damaged[b][None, :]
        higher = (apart > 0) + 0.5 * (apart == 0)
        value = float(higher.mean())
        influence = np.zeros(len(marks.cases))
        np.add.at(influence, marks.case[a], (higher.mean(axis=1) - value) / a.sum())
        np.add.at(influence, case[b], (higher.mean(axis=0) - value) / b.sum())
        n = len(np.intersect1d(marks.case[a], case[b]))
        found.append(Estimate(value, influence, n, "share"))
    return mean_of(found) if found else Estimate.nothing(marks.case)


class Spread(NamedTuple):
    """`commonest` and `at_top` are shares of an output's marks; `narrow` where two values are nearly all of
    the marks on a scale that has more."""

    n_marks: int
    values_used: int
    commonest: Estimate
    at_top: Estimate
    narrow: bool


def spread(marks: Marks, criterion: Criterion, damages: Sequence[int]) -> Spread:
    """Which marks are used on clean pictures and on those damaged for this criterion."""
    arrays = [marks.clean(criterion.name)]
    for number in damages:
        arrays += marks.of_number(criterion.name, number).values()
    given = np.round(np.concatenate(arrays, axis=1), 6)
    there = np.isfinite(given)
    values, counts = np.unique(given[there], return_counts=True)
    if len(values) == 0:
        return Spread(0, 0, Estimate.nothing(marks.case), Estimate.nothing(marks.case), False)

    def share(of: NDArray[np.bool_]) -> Estimate:
        return mean_over_cases(mean_of_those_there(np.where(there, of * 1.0, np.nan), axis=1), marks.case, "share")

    two = np.sort(counts)[-2:].sum() / counts.sum()
    long_scale = criterion.range / criterion.step >= _LEVELS - 1
    return Spread(
        int(counts.sum()),
        len(values),
        share(given == values[counts.argmax()]),
        share(given > criterion.range - 1e-9),
        bool(long_scale and damages and two >= _NARROW),
    )


class Ladder(NamedTuple):
    strengths: tuple[Variant, ...]
    tau: Estimate
    never_rises: Estimate
    n_flat: int


def ladder(marks: Marks, criterion: Criterion, number: int) -> Ladder | None:
    """Strength against mark within each case, the clean mark being strength 0; None for damages of one strength."""
    found = marks.of_number(criterion.name, number)
    if len(found) < 2:
        return None
    clean = mean_of_those_there(marks.clean(criterion.name), axis=1)
    rungs = np.stack([clean, *(mean_of_those_there(array, axis=1) for array in found.values())], axis=1)
    there = np.isfinite(rungs)
    usable = there.sum(axis=1) >= 3
    usable &= there[:, 0] & ~(np.nan_to_num(clean) < criterion.floor)
    fall = rungs[:, :, None] - rungs[:, None, :]  # of the stronger (third axis) against the weaker
    above = np.triu(np.ones(fall.shape[1:], dtype=bool), 1) & there[:, :, None] & there[:, None, :]
    net = np.where(above, np.sign(fall), 0.0).sum(axis=(1, 2))
    pairs_there, untied = above.sum(axis=(1, 2)), (above & (fall != 0)).sum(axis=(1, 2))
    flat = usable & (untied == 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        tau = np.where(usable & ~flat, net / np.sqrt(pairs_there * untied), np.nan)
    rises = (above & (fall < 0)).any(axis=(1, 2))
    never = np.where(usable, 1.0 - rises, np.nan)
    return Ladder(
        tuple(found),
        mean_over_cases(tau, marks.case),
        mean_over_cases(never, marks.case, "share"),
        len(np.unique(marks.case[flat])),
    )


def places(marks: Marks, criterion: Criterion, references: Mapping[str, int]) -> dict[str, Estimate]:
    """Whether a swapped reference (3) is seen when it is the first, a middle or the last one, or any after the first.
    The last is known where `references` says how many a case has."""
    found = marks.of_number(criterion.name, 3)
    by_place: dict[str, list[Array]] = {}
    how_many = np.array([references.get(case, 0) for case, _ in marks.outputs])
    for variant in found:
        position = variant.strength if variant.at else 0.0
        higher = pairs(marks, criterion, 3, [variant]).higher
        if position == 1:
            by_place.setdefault("first", []).append(higher)
        elif position > 1:
            by_place.setdefault("after the first", []).append(higher)
            known = how_many > 0
            last = known & (how_many == position)
            by_place.setdefault("last", []).append(np.where(last, higher, np.nan))
            by_place.setdefault("middle", []).append(np.where(known & ~last, higher, np.nan))
    order = ("first", "middle", "last", "after the first")
    return {
        place: mean_over_cases(mean_of_those_there(np.stack(by_place[place]), axis=0), marks.case, "share")
        for place in order
        if place in by_place
    }


def flips(marks: Marks, criterion: Criterion, number: int) -> Estimate:
    """Two outputs of one case: how often their order changes under a nuisance, less that under asking again. An order
    that becomes a tie has changed by half."""
    clean, found = marks.clean(criterion.name), marks.of_number(criterion.name, number)
    if not found or clean.shape[1] < 2 or len(marks.cases) == len(marks.outputs):
        return Estimate.nothing(marks.case)
    after = np.concatenate(list(found.values()), axis=1)
    values: list[float] = []
    cases: list[int] = []
    for case in range(len(marks.cases)):
        mine = np.flatnonzero(marks.case == case)
        for i, a in enumerate(mine):
            for b in mine[i + 1 :]:
                then, now = np.sign(clean[a] - clean[b]), np.sign(after[a] - after[b])
                changed = np.abs(then[:, None] - now[None, :]) / 2
                again = np.abs(then[:, None] - then[None, :])[~np.eye(len(then), dtype=bool)] / 2
                if np.isfinite(changed).any() and np.isfinite(again).any():
                    values.append(float(np.nanmean(changed) - np.nanmean(again)))
                    cases.append(case)
    if not values:
        return Estimate.nothing(marks.case)
    return _padded(mean_over_cases(np.array(values), np.array(cases, dtype=np.intp)), len(marks.cases))


def first_side(marks: Marks, criterion: Criterion, number: int) -> tuple[Estimate, Estimate]:
    """A pair judge's excess of wins of the picture shown first, over both orders (33) or of a picture against itself
    (34); and how often swapping the sides changes the winner beyond what asking again does."""
    found = marks.of_number(criterion.name, number)
    if not found:
        return Estimate.nothing(marks.case), Estimate.nothing(marks.case)
    other = by_output(list(found.values()))
    if number == 34:
        return mean_over_cases(other - 0.5, marks.case), Estimate.nothing(marks.case)
    clean = marks.clean(criterion.name)
    before = mean_of_those_there(clean, axis=1)
    bias = mean_over_cases((before + other) / 2 - 0.5, marks.case)
    if clean.shape[1] < 2:
        return bias, Estimate.nothing(marks.case)
    swapped = 1 - np.concatenate(list(found.values()), axis=1)
    changed = np.abs(clean[:, :, None] - swapped[:, None, :]).reshape(len(clean), -1)
    again = mean_of_those_there(_repeats_apart(clean), axis=1)
    return bias, mean_over_cases(mean_of_those_there(changed, axis=1) - again, marks.case)


def _padded(one: Estimate, size: int) -> Estimate:
    influence = np.zeros(size)
    influence[: len(one.influence)] = one.influence
    return Estimate(one.value, influence, one.n, one.scale)


def _repeats_apart(clean: Array) -> Array:
    """Absolute differences of all pairs of repeats, outputs x pairs."""
    first, second = np.triu_indices(clean.shape[1], 1)
    return np.abs(clean[:, first] - clean[:, second])


def _variance(clean: Array) -> Array:
    """Of each output's repeats; NaN below two."""
    there = np.isfinite(clean)
    n = there.sum(axis=1)
    apart = np.where(there, clean - mean_of_those_there(clean, axis=1)[:, None], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: NDArray[np.float64] = np.where(n > 1, (apart**2).sum(axis=1) / (n - 1), np.nan)
    return found
