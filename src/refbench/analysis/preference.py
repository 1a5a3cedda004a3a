"""Self-preference: does a judge favour models of its own family, more than other judges do?

Each judge's marks are compared with those of judges of other families on the very same outputs; what is left is the
difference in differences: (own family less others) by this judge, less the same by the other judges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.ratings import Item, Ratings, is_panel
from refbench.chat.families import family_of
from refbench.record import Record, RefBenchError
from refbench.stats import Array, Design, bca_interval, draws_of
from refbench.table import SEED

UNKNOWN = "unknown"
LIMITS = (
    "a difference is not proof of bias: a judge may see its family's pictures more truly, or less, than the others do",
    "the comparison is only as neutral as the other judges, who have leanings of their own",
    "of two judges nobody can say which one leans: one favouring a family is the other marking it down",
    "with one model in a family its quality and its style cannot be told from its family",
    "intervals are about other cases, for these models and these judges: they say nothing about other models or judges",
)


class Preference(Record):
    """How far one judge goes with its own family, in one metric. Positive: it favours it more than the others do."""

    judge: str
    family: str
    metric: str
    own: tuple[str, ...]
    others: tuple[str, ...]
    """Models of other, known families."""
    judges: tuple[str, ...]
    """Judges of other families that it is compared with."""
    own_gap: float
    """Own family less others, by this judge."""
    their_gap: float
    """The same by the other judges."""
    difference: float
    ci95: tuple[float, float] | None
    n_items: int
    n_cases: int


class Preferences(Record):
    """The judges that can be asked, why the others cannot, and what the answer does not say."""

    rows: tuple[Preference, ...]
    left_out: tuple[str, ...]
    families: Mapping[str, str]
    limits: tuple[str, ...] = LIMITS


def self_preference(
    ratings: Ratings,
    families: Mapping[str, str] | None = None,
    *,
    metrics: Sequence[str] = (),
    draws: int = 2000,
    seed: int = SEED,
) -> Preferences:
    """Every judge against the judges of other families. `families` says what names of judges and models do not."""
    if ratings.summaries:
        raise RefBenchError("--self-preference needs scores of single cases: these are means already")
    if not ratings.one_scale:
        raise RefBenchError("--self-preference needs judges on one scale: say --scale same if they are")
    judges = [judge for judge in ratings.judges if not is_panel(judge)]
    models = sorted({mark.item.model for mark in ratings.marks})
    named = {name: (families or {}).get(name) or family_of(name) for name in (*judges, *models)}
    rows, left_out = [], []
    for judge in judges:
        against = [other for other in judges if UNKNOWN != named[other] != named[judge]]
        own = [model for model in models if named[model] == named[judge]]
        reason = _why_not(judge, named, own, models, against)
        if reason is not None:
            left_out.append(reason)
            continue
        found = [
            _of_judge(ratings, metric, judge, against, named, draws, seed) for metric in metrics or ratings.metrics
        ]
        rows += [row for row in found if row is not None]
        if not any(found):
            left_out.append(
                f"{judge} ({named[judge]}): models of its family and of others were not all marked by "
                f"{', '.join(against)} as well"
            )
    strangers = [model for model in models if named[model] == UNKNOWN]
    if strangers:
        left_out.append(f"the family of {', '.join(strangers)} is not known: say --family NAME=FAMILY")
    return Preferences(rows=tuple(rows), left_out=tuple(left_out), families=named)


def _why_not(
    judge: str, named: Mapping[str, str], own: Sequence[str], models: Sequence[str], against: Sequence[str]
) -> str | None:
    family = named[judge]
    if family == UNKNOWN:
        return f"the family of judge {judge} is not known: say --family {judge}=FAMILY"
    if not own:
        return f"{judge} ({family}): no model of its family was judged"
    if all(named[model] in (family, UNKNOWN) for model in models):
        return f"{judge} ({family}): no model of another known family was judged"
    return None if against else f"{judge} ({family}): no judge of another family saw the same outputs"


def _of_judge(
    ratings: Ratings,
    metric: str,
    judge: str,
    against: Sequence[str],
    named: Mapping[str, str],
    draws: int,
    seed: int,
) -> Preference | None:
    items, marks = ratings.of_metric(metric)
    theirs = np.mean([marks[other] for other in against], axis=0)
    # An output counts only when all these judges marked it, so that both gaps are about the same outputs.
    kept = np.flatnonzero(~np.isnan(marks[judge]) & ~np.isnan(theirs))
    kept = kept[[named[items[i].model] != UNKNOWN for i in kept]] if len(kept) else kept
    here = [items[i] for i in kept]
    own = sorted({item.model for item in here if named[item.model] == named[judge]})
    others = sorted({item.model for item in here} - set(own))
    if not own or not others:
        return None
    gap = _gap(here, own, others)
    design = Design.of(*(list(side) for side in zip(*(ratings.cluster(item.case) for item in here), strict=True)))
    apart = marks[judge][kept] - theirs[kept]
    ones = np.ones((1, len(here)))
    point = float(gap(apart, ones)[0])
    drawn, influence = draws_of(lambda weights: gap(apart, weights), design, draws, seed)
    df = design.degrees_of_freedom(np.ones(len(here), dtype=np.bool_))
    return Preference(
        judge=judge,
        family=named[judge],
        metric=metric,
        own=tuple(own),
        others=tuple(others),
        judges=tuple(against),
        own_gap=float(gap(marks[judge][kept], ones)[0]),
        their_gap=float(gap(theirs[kept], ones)[0]),
        difference=point,
        ci95=bca_interval(point, drawn, influence, df),
        n_items=len(here),
        n_cases=len({item.case for item in here}),
    )


def _gap(items: Sequence[Item], own: Sequence[str], others: Sequence[str]) -> Callable[[Array, Array], Array]:
    """Mean over the own models' means less the mean over the others', for each weight vector: every model counts the
    same, however many of its outputs were marked."""
    models = np.array([item.model for item in items])

    def mean(values: Array, weights: Array, model: str) -> Array:
        mine: NDArray[np.bool_] = models == model
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((weights[:, mine] @ values[mine]) / weights[:, mine].sum(axis=1))

    def gap(values: Array, weights: Array) -> Array:
        first, second = ([mean(values, weights, model) for model in side] for side in (own, others))
        return np.asarray(np.mean(first, axis=0) - np.mean(second, axis=0))

    return gap


def families_said(said: Sequence[str]) -> Mapping[str, str]:
    """From `NAME=FAMILY` options."""
    found = {}
    for text in said:
        name, equals, family = text.rpartition("=")
        if not equals or not name or not family:
            raise RefBenchError(f"--family {text}: write it as NAME=FAMILY, for example checkpoint-7=alibaba")
        found[name] = family.strip().casefold()
    return found
