"""Whether a judge still gives the marks that it gave: the same requests about the same outputs, then and now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from refbench.analysis.compare import Further, Systems, compare_columns
from refbench.analysis.compare.records import Pair, between, probability, signed
from refbench.case import AnyCase
from refbench.evidence import Purpose
from refbench.record import Record, RefBenchError, content_key, counted
from refbench.runs import Run
from refbench.score import Score
from refbench.tables.result import Result
from refbench.tables.scoring import score_run
from refbench.tables.table import DRAWS, SEED, columns_of

THEN, NOW = "then", "now"


class JudgeDrift(Record):
    """One judge's marks of the frozen outputs: those of now less those of then.

    `moved` when the shift is more than asking again explains (5 % for a false alarm, over all judges of one check).
    `unseen` is the shift that the check would have missed in one of five: a judge may have moved by less.
    """

    judge: str | None
    shift: float | None
    ci95: tuple[float, float] | None
    p: float | None
    moved: bool
    unseen: float | None
    n_outputs: int
    n_changed: int
    """Outputs whose mark is not the same."""
    failed: tuple[int, int]
    """Outputs without a mark then and now."""
    sentence: str = ""


class Drift(Record):
    """A check of the judges of an anchor."""

    anchor: str
    check: str
    metric: str
    protocol: str
    digits: int
    judges: tuple[JudgeDrift, ...]
    n_other: int = 0
    """Outputs left out because they were asked about otherwise than then."""
    waiting: int = 0
    """Replies that are still to come: a check is whole or it is none."""
    asked_at: str = ""
    """When its first reply was recorded, in UTC."""
    earlier: tuple[Drift, ...] = ()
    """Other checks of the same anchor for the same run, the oldest first."""

    @property
    def moved(self) -> bool:
        return any(one.moved for one in self.judges)

    @property
    def whole(self) -> bool:
        return not self.waiting and all(one.shift is not None for one in self.judges)


class _Place(NamedTuple):
    """One recorded output."""

    case: str
    model: str


def drift_of(
    anchor: Path, check: Path, *, metric: str | None = None, protocol: str | None = None, seed: int = SEED
) -> Drift:
    """The marks of a check against those of its anchor, over the outputs that both judged in the same words."""
    then, now = (score_run(path, protocol=protocol or "both", draws=0) for path in (anchor, check))
    name = protocol or now.table.rows[0].protocol
    asked = _asked(Run.open(anchor)), _asked(Run.open(check))
    other = {_Place(p.case, p.model) for p in asked[1] if p in asked[0] and asked[0][p] != asked[1][p]}
    judges = set(now.table.parts["judges"])
    there = {_Place(p.case, p.model) for p in asked[1] if p in asked[0]} - other
    scores = [
        *_renamed(then, name, judges, there, THEN),
        *_renamed(now, name, judges, there, NOW),
    ]
    scores = _in_both(scores)
    if not scores:
        raise RefBenchError(
            f"{check} asks about no output as {anchor} does: an anchor is asked again in the same words"
        )
    cases = _outputs(now, {score.case for score in scores})
    systems = Systems.of(now.bench, name, columns_of(scores, cases), cases)
    whole = Further(by_slice=False)
    found = compare_columns(systems, models=[NOW, THEN], metric=metric, draws=DRAWS, seed=seed, further=whole)
    return Drift(
        anchor=str(anchor),
        check=str(check),
        metric=found.metric,
        protocol=name,
        digits=found.digits,
        judges=tuple(_told(pair, found.metric, found.digits) for pair in found.pairs if not pair.supplementary),
        n_other=len(other),
        waiting=now.waiting(),
        asked_at=Run.open(check).first_recorded(),
    )


def _asked(run: Run) -> dict[Purpose, str]:
    """What was asked for each purpose, the address apart: a judge that moved house is the same judge."""
    return {
        purpose: content_key({**act.request, "endpoint": str(act.request["endpoint"]).partition(" ")[0]})
        for purpose, act in run.evidence()
        if act.kind == "chat" and "endpoint" in act.request and "+" not in purpose.part and not purpose.repeat
    }


def _renamed(result: Result, protocol: str, judges: set[str], there: set[_Place], when: str) -> Iterable[Score]:
    """Each output as a case of its own, each time of asking as a model."""
    for score in result.scores:
        place = _Place(score.case, score.model)
        if score.protocol == protocol and score.judge in judges and not score.seed and place in there:
            yield score.model_copy(update={"case": content_key(list(place)), "model": when})


def _in_both(scores: Sequence[Score]) -> list[Score]:
    places: dict[tuple[str, str | None, str], set[str]] = {}
    for score in scores:
        places.setdefault((score.case, score.judge, score.metric), set()).add(score.model)
    return [score for score in scores if len(places[score.case, score.judge, score.metric]) == 2]


def _outputs(result: Result, chosen: set[str]) -> list[AnyCase]:
    """Each output as a case; the outputs of one case are of its cluster."""
    models = dict.fromkeys(score.model for score in result.scores)
    return [
        case.model_copy(update={"id": name})
        for case in result.cases
        for model in models
        if (name := content_key([case.id, model])) in chosen
    ]


def _told(pair: Pair, metric: str, digits: int) -> JudgeDrift:
    who = pair.judge or "the judge"
    failed = [sum(n for why, n in pair.failed.items() if why.startswith(f"{when}:")) for when in (THEN, NOW)]
    about = f"{who} on {counted(pair.n_cases, 'recorded output')}"
    if pair.gap is None:
        why = pair.failure.detail if pair.failure else "no value"
        said = f"{about}: cannot be compared, {why}."
    elif pair.ci95 is None and not pair.gap:
        said = f"{about}: every mark is the same as then."
    else:
        p = 1.0 if pair.p_adjusted is None else pair.p_adjusted
        facts = [probability(p, pair.p_is_bound), f"{pair.wins + pair.losses} marks changed"]
        interval = f" (95 % CI {between(pair.ci95, digits)})" if pair.ci95 else ""
        claim = "gives other marks than then" if pair.resolved else "no shift seen"
        said = f"{about}: {claim}, {signed(pair.gap, digits)}{interval} in {metric}; {', '.join(facts)}."
    return JudgeDrift(
        judge=pair.judge,
        shift=pair.gap,
        ci95=pair.ci95,
        p=pair.p_adjusted,
        moved=pair.resolved,
        unseen=pair.detectable,
        n_outputs=pair.n_cases,
        n_changed=pair.wins + pair.losses,
        failed=(failed[0], failed[1]),
        sentence=said,
    )
