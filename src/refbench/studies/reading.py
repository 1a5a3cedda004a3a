"""Reading a study's marks: as rows about models' outputs, with who is left out and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from refbench.record import RefBenchError
from refbench.stats.agreement import alpha_draws
from refbench.stats.interval import Array, Design, resample
from refbench.studies.design import UNSURE
from refbench.studies.exclusion import Answer, Fallen, RaterFacts, facts_of, fallen
from refbench.studies.items import PREFERENCE, Entry, Item, entries_of
from refbench.studies.marks import Mark, Value

if TYPE_CHECKING:
    from refbench.studies.study import Study

ADJUDICATED = "adjudicated"
"""The rater that a named person's decisions about disputed items are of."""


class Row(NamedTuple):
    """One mark of one output by one rater; None where the rater could not say."""

    item: str
    case: str
    model: str
    seed: int
    metric: str
    rater: str
    value: float | None
    version: int
    probability: float | None


class Preference(NamedTuple):
    """One answer to a pair: which model was preferred; None for a tie, both bad or unsure, and `said` says which."""

    item: str
    case: str
    first: str
    second: str
    said: str
    """first, second, tie, both_bad or unsure."""
    rater: str
    version: int


@dataclass(frozen=True)
class Reading:
    """The marks of a study as they count."""

    rows: tuple[Row, ...]
    preferences: tuple[Preference, ...]
    facts: tuple[RaterFacts, ...]
    fallen: tuple[Fallen, ...]
    versions: tuple[int, ...]
    """Versions of the design that there are marks of; the newest is what rows are of, unless another was asked for."""
    beforehand: bool = False
    """Whether the rules are those of the design that the marks were given under."""

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset(one.rater for one in self.fallen)

    @property
    def raters(self) -> frozenset[str]:
        """Who marked anything, left out or not."""
        return frozenset([*(row.rater for row in self.rows), *(one.rater for one in self.preferences)])

    @property
    def version(self) -> int | None:
        """Of the design that the marks were given under; None without marks."""
        versions = [*(row.version for row in self.rows), *(one.version for one in self.preferences)]
        return versions[0] if versions else None

    @property
    def nobody_left(self) -> bool:
        """Whether there are marks, and all of them are of raters who are left out."""
        return bool(self.raters) and self.raters <= self.left_out

    def kept(self) -> tuple[Row, ...]:
        """The rows without those of raters who are left out."""
        return tuple(row for row in self.rows if row.rater not in self.left_out)

    def kept_preferences(self) -> tuple[Preference, ...]:
        return tuple(one for one in self.preferences if one.rater not in self.left_out)


def read(study: Study, version: int | None = None) -> Reading:
    """The marks of one version of the design, the newest that has any."""
    study.marks.refresh()
    given = counted_marks(study)
    versions = tuple(sorted({mark.version for mark in given}))
    if version is not None and version not in versions:
        there = ", ".join(map(str, versions)) or "none"
        raise RefBenchError(f"--version {version}: there are marks of the versions {there}")
    wanted = version if version is not None else (versions[-1] if versions else 1)
    given = [mark for mark in given if mark.version == wanted]
    use = {item.id: item.use for item in study.items.values()}
    of_items = [mark for mark in given if use[mark.item] == "item"]
    raters = [mark for mark in of_items if mark.rater != ADJUDICATED]
    checked: dict[str, dict[str, list[bool]]] = {what: defaultdict(list) for what in ("gold", "attention")}
    for mark in given:
        if use[mark.item] in checked:
            checked[use[mark.item]][mark.rater].append(study.items[mark.item].right(mark.values))
    seconds: dict[str, list[float]] = defaultdict(list)
    for mark in raters:
        seconds[mark.rater].append(mark.active)
    facts = facts_of(
        [answer for mark in raters for answer in answers_of(study, mark)],
        checked["gold"],
        seconds,
        checked["attention"],
    )
    first = [mark for mark in of_items if mark.occasion == 0]
    rules = study.design.rules
    return Reading(
        rows=tuple(row for mark in first for row in _rows(study, mark)),
        preferences=tuple(one for mark in first if (one := _preference(study, mark)) is not None),
        facts=tuple(facts),
        fallen=tuple(fallen(facts, rules)),
        versions=versions,
        beforehand=any(one.number == wanted and one.design.rules == rules for one in study.versions.all),
    )


def counted_marks(study: Study) -> list[Mark]:
    """The marks that stand, of raters and under one name of whoever adjudicates, the last of several; what an owner
    tried out is none."""
    found = {}
    for mark in study.marks.given():
        known = study.raters.all.get(mark.rater)
        role = known.role if known is not None else "rater"
        if role == "owner" or mark.item not in study.items:
            continue
        named = mark.model_copy(update={"rater": ADJUDICATED}) if role == "adjudicator" else mark
        found[named.place] = named
    return list(found.values())


def answers_of(study: Study, mark: Mark) -> Iterator[Answer]:
    """A mark as numbers, entry by entry; closed questions are not answers."""
    item = study.items[mark.item]
    for entry in entries_of(item, study.design):
        if entry.name not in mark.values or entry.kind == "edit":
            continue
        number = _number(mark.values[entry.name], item)
        step = entry.marks[1] - entry.marks[0] if len(entry.marks) > 1 else 1.0
        yield Answer(mark.rater, mark.item, entry.name, number, mark.occasion, step)


_PREFERRED = {"0": 1.0, "1": 0.0, "tie": 0.5, "both_bad": 0.5}
_VERDICT = {"accept": 1.0, "edit": 0.5, "reject": 0.0}


def _number(value: Value, item: Item) -> float | None:
    if isinstance(value, str):
        return (_PREFERRED if item.screen == "pair" else _VERDICT).get(value)
    return float(value) if isinstance(value, int | float) else None


def _rows(study: Study, mark: Mark) -> Iterator[Row]:
    item = study.items[mark.item]
    if item.screen in ("pair", "review"):
        return

    def row(output: int, metric: str, value: float | None) -> Row:
        shown = item.outputs[output] if item.outputs else None
        model, seed = (shown.model, shown.seed) if shown is not None else ("", 0)
        return Row(item.id, item.case, model, seed, metric, mark.rater, value, mark.version, item.probability)

    entries = entries_of(item, study.design)
    for entry in entries:
        if entry.name in mark.values:
            yield row(*_about(entry), _number(mark.values[entry.name], item))
    if item.screen == "questions" and item.outputs:
        yield row(0, "score", gated_share(entries, mark))


def gated_share(entries: tuple[Entry, ...], mark: Mark) -> float | None:
    """The share of questions answered yes, those that are closed counted as no; None where an answer is unsure and
    could have changed it."""
    if any(mark.values.get(entry.name) == UNSURE for entry in entries):
        return None
    return sum(mark.values.get(entry.name) == 1 for entry in entries) / len(entries) if entries else None


def _about(entry: Entry) -> tuple[int, str]:
    """Which output an entry is about, and the criterion."""
    if entry.output is None:
        return 0, entry.name
    return entry.output, entry.name.partition(".")[2]


def _preference(study: Study, mark: Mark) -> Preference | None:
    item = study.items[mark.item]
    if item.screen != "pair":
        return None
    said = {"0": "first", "1": "second"}.get(str(mark.values.get(PREFERENCE)), str(mark.values.get(PREFERENCE)))
    first, second = item.models
    return Preference(item.id, item.case, first, second, said, mark.rater, mark.version)


# --- agreement ----------------------------------------------------------------------------------------------------


class Alpha(NamedTuple):
    """Krippendorff's alpha of a criterion; no interval below LEAST items with two marks."""

    metric: str
    items: int
    alpha: float | None
    interval: tuple[float, float] | None


LEAST = 20
"""Items that must be marked twice before an alpha is told with an interval."""
_DRAWS = 500


def alphas(rows: tuple[Row, ...], *, seed: int = 0) -> list[Alpha]:
    """Alpha for each criterion as `refbench agree` has it (interval distance), with an interval over cases."""
    found = []
    for metric in dict.fromkeys(row.metric for row in rows):
        given = [row for row in rows if row.metric == metric and row.value is not None and row.rater != ADJUDICATED]
        units = list(dict.fromkeys((row.item, row.model, row.seed) for row in given))
        raters = list(dict.fromkeys(row.rater for row in given))
        values = np.full((len(raters), len(units)), np.nan)
        place = {unit: k for k, unit in enumerate(units)}
        number = {rater: k for k, rater in enumerate(raters)}
        case: dict[int, str] = {}
        for row in given:
            unit = place[row.item, row.model, row.seed]
            values[number[row.rater], unit] = row.value
            case[unit] = row.case
        twice = int(((~np.isnan(values)).sum(axis=0) >= 2).sum())
        found.append(Alpha(metric, twice, *_alpha(values, [case[k] for k in range(len(units))], twice, seed)))
    return found


def _alpha(values: Array, cases: list[str], twice: int, seed: int) -> tuple[float | None, tuple[float, float] | None]:
    if twice < 3:
        return None, None
    point = float(alpha_draws(values, np.ones((1, values.shape[1])), "interval")[0])
    if not np.isfinite(point):
        return None, None
    if twice < LEAST:
        return point, None
    design = Design.of(cases, [""] * len(cases))
    drawn = np.concatenate([alpha_draws(values, weights, "interval") for weights in resample(design, _DRAWS, seed)])
    drawn = drawn[np.isfinite(drawn)]
    if design.n_clusters < 3 or len(drawn) < 0.95 * _DRAWS:
        return point, None
    low, high = np.quantile(drawn, [0.025, 0.975])
    return point, (float(low), float(high))
