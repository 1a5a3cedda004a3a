"""Self-preference: does a judge favour models of its own family, more than other judges do?

Each judge's marks are compared with those of judges of other families on the very same outputs. A judge that uses
more of the scale gives any good model more, its own as well: how it uses the scale is read off the models of other
families first (a line through their means), and what its own models lie above that line is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from refbench.analysis.agree.ratings import RatedItem, Ratings, is_panel
from refbench.record import Record, RefBenchError
from refbench.specs import family_of
from refbench.stats import Array, Design, draws_of, interval_for, resample
from refbench.tables.table import SEED

UNKNOWN = "unknown"
_FEWEST_FOR_SLOPE = 3
"""Models of other families that it takes to see how a judge uses the scale."""
_APART = 4.0
"""How often the variance of models' means must be that of chance for a slope to be read off them."""
LIMITS = (
    "a difference is not proof of bias: a judge may see its family's pictures more truly, or less, than the others do",
    "the comparison is only as neutral as the other judges, who have leanings of their own",
    "of two judges nobody can say which one leans: one favouring a family is the other marking it down",
    "with one model in a family its quality and its style cannot be told from its family",
    "models lie off a judge's line without any family in it: a difference within the placebos' range says nothing",
    "intervals are about other cases, for these models and these judges: they say nothing about other models or judges",
)


class Preference(Record):
    """How far one judge goes with its own family, in one metric. Positive: it favours it more than the others do.

    `others` are the models of other, known families, `judges` those of other families that it is compared with.
    `own_gap` is own family less others by this judge, `their_gap` the same by the other judges. `slope` is how many
    points this judge gives where the others give one, on models of other families; None where that cannot be told, and
    one for one is taken. `difference` is how far its own models lie above what its line for the others gives them; with
    a slope of one, `own_gap` less `their_gap`. `placebo` is the same for each model of another family, as if it were
    the judge's own: how far models lie off the line without any family in it; `placebo_p` is the share, with its own,
    of those that lie as far off.
    """

    judge: str
    family: str
    metric: str
    own: tuple[str, ...]
    """Models of its family."""
    others: tuple[str, ...]
    judges: tuple[str, ...]
    own_gap: float
    their_gap: float
    slope: float | None
    difference: float
    ci95: tuple[float, float] | None
    placebo: Mapping[str, float]
    placebo_p: float | None
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
        preferences = [
            _of_judge(ratings, metric, judge, against, named, draws, seed) for metric in metrics or ratings.metrics
        ]
        rows += [row for row in preferences if row is not None]
        if not any(preferences):
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
    means = _means(here, [*own, *others])
    design = Design.of(*(list(side) for side in zip(*(ratings.cluster(item.case) for item in here), strict=True)))
    ones = np.ones((1, len(here)))
    mine, of_others = marks[judge][kept], theirs[kept]
    n = len(own)
    given, given_by_others = means(mine, ones), means(of_others, ones)
    spread = [means(of_others, weights)[n:] for weights in resample(design, draws, seed)]
    fitted = _tells(given_by_others[n:, 0], np.concatenate([given_by_others[n:, :0], *spread], axis=1))
    point = float(_above(given, given_by_others, list(range(n)), fitted)[0])

    def above(weights: Array) -> Array:
        return _above(means(mine, weights), means(of_others, weights), list(range(n)), fitted)

    drawn, influence = draws_of(above, design, draws, seed)
    df = design.degrees_of_freedom(np.ones(len(here), dtype=np.bool_))
    placebo = _placebo(given[n:], given_by_others[n:], fitted)
    as_far = sum(abs(value) >= abs(point) for value in placebo)
    return Preference(
        judge=judge,
        family=named[judge],
        metric=metric,
        own=tuple(own),
        others=tuple(others),
        judges=tuple(against),
        own_gap=float(given[:n].mean() - given[n:].mean()),
        their_gap=float(given_by_others[:n].mean() - given_by_others[n:].mean()),
        slope=float(_slope(given[n:], given_by_others[n:])[0]) if fitted else None,
        difference=point,
        ci95=interval_for(point, drawn, influence, n=design.n_clusters, df=df),
        placebo=dict(zip(others, placebo, strict=False)),
        placebo_p=(1 + as_far) / (1 + len(placebo)) if placebo else None,
        n_items=len(here),
        n_cases=len({item.case for item in here}),
    )


def _means(items: Sequence[RatedItem], names: Sequence[str]) -> Callable[[Array, Array], Array]:
    """Each model's mean mark under each weight vector, models x draws: every model counts the same, however many of
    its outputs were marked."""
    models = np.array([item.model for item in items])
    members: list[NDArray[np.bool_]] = [models == name for name in names]

    def means(values: Array, weights: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.stack([(weights[:, m] @ values[m]) / weights[:, m].sum(axis=1) for m in members])

    return means


def _tells(means: Array, draws: Array) -> bool:
    """Whether the models of other families tell how a judge uses the scale: enough of them, further apart than chance
    puts them."""
    if len(means) < _FEWEST_FOR_SLOPE:
        return False
    noise = float(np.nanmean(np.nanvar(draws - draws.mean(axis=0), axis=1))) if draws.size else 0.0
    return float(means.var(ddof=1)) > _APART * noise


def _slope(given: Array, said: Array) -> Array:
    """Of the line through models' means, for each draw."""
    x, y = said - said.mean(axis=0), given - given.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((x * y).sum(axis=0) / (x * x).sum(axis=0))


def _above(given: Array, said: Array, own: Sequence[int], fitted: bool) -> Array:
    """How far the own models' marks lie above the line of the others, for each draw."""
    rest = [i for i in range(len(given)) if i not in own]
    slope = _slope(given[rest], said[rest]) if fitted else 1.0
    line = given[rest].mean(axis=0) + slope * (said[list(own)].mean(axis=0) - said[rest].mean(axis=0))
    return np.asarray(given[list(own)].mean(axis=0) - line)


def _placebo(given: Array, said: Array, fitted: bool) -> list[float]:
    """Each model of another family as if it were the judge's own; none where too few would be left for the line."""
    if len(given) <= (_FEWEST_FOR_SLOPE if fitted else 1):
        return []
    return [float(_above(given, said, [i], fitted)[0]) for i in range(len(given))]


def families_said(said: Sequence[str]) -> Mapping[str, str]:
    """From `NAME=FAMILY` options."""
    families = {}
    for text in said:
        name, equals, family = text.rpartition("=")
        if not equals or not name or not family:
            raise RefBenchError(f"--family {text}: write it as NAME=FAMILY, for example checkpoint-7=alibaba")
        families[name] = family.strip().casefold()
    return families
