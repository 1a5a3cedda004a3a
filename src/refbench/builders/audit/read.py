"""What came of an audit: the marks of each judge, what they are about, and the pictures behind them."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from refbench.analysis.agree.people import ONLY_METRIC, read_people
from refbench.analysis.audit.card import SETTING, key_of
from refbench.analysis.audit.drift import AuditDrift, drift_of_audits
from refbench.analysis.audit.marks import CLEAN, AuditMark, Criterion, Variant
from refbench.analysis.audit.panels import PanelRow, panels
from refbench.analysis.audit.people import PeopleMark
from refbench.analysis.audit.records import AttackCell, AuditReport, DamageCell, NuisanceCell
from refbench.analysis.audit.report import Audited, audit_report
from refbench.analysis.audit.rewording import AttackChange, rewording
from refbench.benchmarks import Benchmark
from refbench.benchmarks.kit.definition import PROTOCOL
from refbench.builders.audit.anchor import judges_of
from refbench.builders.audit.scene import BESIDE
from refbench.builders.audit.variants import VariantRow, Variants, are_there, read_variants
from refbench.record import Record, RefBenchError
from refbench.runs import Run
from refbench.score import Score
from refbench.tables.scoring import benchmark_of, run_draws, score_run

FOLDER = "variants"
"""Where in an audit's run its variants lie, unless they are elsewhere already."""
LEFT_OUT = "left out of the audit: "
"""How the failure of a variant begins that a case does not have."""
_SHARES = 2.0
"""Scales shorter than this are shares: a step of theirs is a tenth of the range."""


@dataclass(frozen=True)
class JudgeAudit:
    """One judge of an audit, with all that is needed to say what it sees."""

    run: Run
    judge: str
    bench: Benchmark
    marks: tuple[AuditMark, ...]
    criteria: tuple[Criterion, ...]
    audited: Audited
    without_ability: tuple[str, ...]
    """What the judge marks and the benchmark does not say the ability of: left out."""
    variants: Variants | None
    """None where they are not in the audit's own folder, and no other is given."""

    @property
    def only_clean(self) -> bool:
        """Whether it is an older audit's clean items asked again, and nothing else."""
        return all(mark.variant == CLEAN for mark in self.marks)

    def report(self, people: Path | None = None) -> AuditReport:
        theirs = () if people is None else tuple(self.people_marks(people))
        return audit_report(self.marks, self.criteria, self.audited, theirs)

    def people_marks(self, path: Path) -> Iterator[PeopleMark]:
        """People's mean marks of the clean outputs, by criterion; marks of other outputs of the run say nothing."""
        by_name = {criterion.name: criterion for criterion in self.criteria}
        ends = {name: (one.low, one.high) for name, one in by_name.items()}
        rated = read_people(path, metrics=by_name, limits=lambda mark, _: ends.get(mark.item.metric))
        only = next(iter(by_name)) if len(by_name) == 1 else None
        whose = self.variants.info.outputs if self.variants is not None else {}
        said: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for mark in rated.marks:
            name = only if only is not None and mark.item.metric == ONLY_METRIC else mark.item.metric
            of_clean = mark.item.model in ("", CLEAN, whose.get(mark.item.case))
            if name in by_name and mark.value is not None and of_clean and not mark.item.seed:
                said[mark.item.case, name].append(mark.value)
        if not said and self.variants is None and any(mark.item.model not in ("", CLEAN) for mark in rated.marks):
            raise RefBenchError(
                f"--people {path}: whose output is the clean one of a case is said by the variants, which are not in "
                f"{self.run.path}: give --variants FOLDER"
            )
        if not said:
            raise RefBenchError(
                f"--people {path}: no mark is of a clean output of the audit on one of {', '.join(by_name)}: give the "
                "columns case, model, metric and score"
            )
        for (case, name), marks in said.items():
            yield PeopleMark(case, name, sum(marks) / len(marks))


def is_audit(run: Run) -> bool:
    """Whether a run is an audit."""
    return SETTING in run.info.settings


def audit_run(path: Path) -> Run:
    run = Run.open(path)
    if not is_audit(run):
        raise RefBenchError(f"{path} is no audit: make one with refbench audit")
    return run


def place_of_variants(run: Run) -> Path | None:
    """Where the variants of an audit's run lie: in its own folder, or where they were when it was made, if they are
    there still and no others have come in their place."""
    if are_there(run.path / FOLDER):
        return run.path / FOLDER
    noted = run.notes(FOLDER).get("")
    with contextlib.suppress(RefBenchError):
        if noted and are_there(Path(noted)) and _same(run, read_variants(Path(noted))):
            return Path(noted)
    return None


def _same(run: Run, found: Variants) -> bool:
    return found.info.manifest.startswith(run.info.settings[SETTING])


def variants_of_run(run: Run, elsewhere: Path | None = None) -> Variants:
    """The variants that an audit's run asked about."""
    found = read_variants(elsewhere or place_of_variants(run) or run.path / FOLDER)
    if not _same(run, found):
        raise RefBenchError(f"{found.root} holds other variants than those that {run.path} asked about")
    return found


def judges_to_show(run: Run, judge: str | None) -> list[str]:
    """The judges of an audit, or the one that is named."""
    judges = judges_of(run)
    if not judges or judge not in (None, *judges):
        given = f"--judge {judge}: " if judge else ""
        raise RefBenchError(f"{given}{run.path} is an audit of {', '.join(judges) or 'nobody yet'}")
    return judges if judge is None else [judge]


def audit_marks(path: Path, judge: str | None = None) -> list[AuditMark]:
    """Every mark of an audit's run, of one judge where there are several. Variants that a case does not have give none;
    what a judge refused or did not say readably is there as a failure."""
    run = audit_run(path)
    judges = judges_to_show(run, judge)
    if len(judges) > 1:
        raise RefBenchError(f"{path} is an audit of several judges: choose one of {', '.join(judges)}")
    return [_mark(score) for score in _scores(run, judges[0], benchmark_of(run)) if not score.not_asked]


def read_audit(path: Path, judge: str, *, variants: Path | None = None, reader: Path | str | None = None) -> JudgeAudit:
    """One judge of an audit; `reader` is a newer file of the benchmark, or rubric, which says what criteria are of."""
    run = audit_run(path)
    bench = benchmark_of(run, reader)
    scores = _scores(run, judge, bench)
    place = variants or place_of_variants(run)
    made = variants_of_run(run, place) if place is not None else None
    asked = {score.metric for score in scores if not score.not_asked}
    criteria = tuple(one for one in criteria_of(bench) if one.name in asked)
    if not criteria:
        raise RefBenchError(_no_criterion(run, judge, bench, asked))
    names = {criterion.name for criterion in criteria}
    key = key_of(score_run(path, protocol=PROTOCOL, draws=0).table.parts, judge)
    audited = Audited(
        judge=key.judge,
        wording=key.wording,
        rubric=key.rubric,
        preset=made.info.preset if made is not None else "",
        usd_per_call=_usd_per_call(run, judge),
        references={case.id: _references(case) for case in run.cases(bench.data.case_type)},
        waiting=len({(score.case, score.model, score.repeat) for score in scores if score.not_asked}),
    )
    marks = tuple(_mark(score) for score in scores if score.metric in names and not score.not_asked)
    left_out = tuple(sorted(_judged(bench) - set(bench.asking.abilities)))
    return JudgeAudit(run, judge, bench, marks, criteria, audited, left_out, made)


def criteria_of(bench: Benchmark) -> list[Criterion]:
    """The criteria that a benchmark says the ability of, on their scales."""
    aggregate = bench.scoring.protocols[PROTOCOL].aggregate
    low, high = aggregate.ends("low"), aggregate.ends("high")
    return [
        Criterion(
            name=name,
            ability=ability,
            low=low[name],
            high=high[name],
            step=1.0 if high[name] - low[name] >= _SHARES else (high[name] - low[name]) / 10,
            better="lower" if name in bench.scoring.lower else "higher",
        )
        for name, ability in bench.asking.abilities.items()
        if name in low and name in high
    ]


def _judged(bench: Benchmark) -> set[str]:
    parts = {part: of for part, of in bench.asking.parts.items() if part not in bench.asking.measured}
    return {metric for part, of in parts.items() if part != "derived" for metric in of}


def _scores(run: Run, judge: str, bench: Benchmark) -> list[Score]:
    """The judge's scores of variants that there are: given, failed or still owed."""
    abilities, measured = bench.asking.abilities, bench.asking.measured
    return [
        score
        for score in run_draws(run.path, protocol=PROTOCOL)
        if score.judge == judge
        and (score.metric in abilities if abilities else score.metric not in measured)
        and score.not_applicable is None
        and not (score.failure is not None and score.failure.detail.startswith(LEFT_OUT))
    ]


def _mark(score: Score) -> AuditMark:
    return AuditMark(
        case=score.case,
        variant=score.model,
        criterion=score.metric,
        repeat=score.repeat,
        mark=score.value,
        failure="" if score.failure is None else score.failure.kind,
    )


def _no_criterion(run: Run, judge: str, bench: Benchmark, asked: set[str]) -> str:
    if not asked:
        return f"{run.path} holds no reply of {judge} yet: the same refbench audit command goes on"
    return (
        f"{run.path}: {bench.title} does not say what {', '.join(sorted(asked))} is about, so that nobody knows which "
        'mark must fall: add a line such as ability = "IA" to each criterion, and give the file with --benchmark FILE'
    )


def _references(case: object) -> int:
    return sum(picture.role not in BESIDE for picture in case.request.pictures)  # type: ignore[attr-defined]


def _usd_per_call(run: Run, judge: str) -> float | None:
    """The mean of what replies cost; None where that is not known of any."""
    costs = [
        act.cost_usd
        for purpose, act in run.evidence()
        if purpose.judge == judge and act.kind == "chat" and act.reply is not None
    ]
    known = [cost for cost in costs if cost is not None]
    return sum(known) / len(known) if known and len(known) == len(costs) else None


# --- the pictures behind a cell -------------------------------------------------------------------------------------


_Looked: TypeAlias = DamageCell | NuisanceCell | AttackCell


class LookedAt(Record):
    """An output that was marked as if nothing had happened, or moved by what should move nothing: its marks, and the
    pictures that the judge was shown before and after."""

    number: int
    said: str
    criterion: str
    case: str
    variant: str
    before: float
    after: float
    wrong: float
    """How far off the mark is, as a share of the range."""
    fault: bool
    """Whether the cell that it is in is a fault of the judge's."""
    output: tuple[str, ...]
    """The clean output; of an attack the damaged one that was attacked."""
    shown: tuple[str, ...]
    """What was shown in its place, or in the place of references."""


def worst_pictures(audit: JudgeAudit, report: AuditReport) -> list[LookedAt]:
    """Of each cell up to five outputs that show it best, those of faults first; none without the variants."""
    if audit.variants is None:
        return []
    marks = _means(audit)
    by_name = {criterion.name: criterion for criterion in audit.criteria}
    rows: defaultdict[tuple[str, int], list[VariantRow]] = defaultdict(list)
    for row in audit.variants.rows.values():
        if row.state == "made":
            rows[row.case, Variant.of(row.variant).number].append(row)
    cells: list[_Looked] = [*(one for one in report.damages if one.aimed), *report.nuisances, *report.attacks]
    found = [
        one
        for cell in cells
        for case, _ in cell.worst
        for row in rows[case, cell.number]
        if (one := _looked_at(audit.variants, cell, row, by_name[cell.criterion], marks)) is not None
    ]
    return sorted(found, key=lambda one: (not one.fault, -one.wrong, one.number, one.criterion, one.case))


def _looked_at(
    variants: Variants,
    cell: _Looked,
    row: VariantRow,
    criterion: Criterion,
    marks: Mapping[tuple[str, str, str], float],
) -> LookedAt | None:
    """None where nothing is wrong with the mark nor with the cell, or one of the two marks is not there."""
    before = marks.get((row.case, row.base, criterion.name))
    after = marks.get((row.case, row.variant, criterion.name))
    if before is None or after is None:
        return None
    rise = (after - before if criterion.better == "higher" else before - after) / criterion.range
    wrong = abs(rise) if isinstance(cell, NuisanceCell) else rise
    fault = cell.verdict in ("blind", "moved", "fooled")
    if not fault and (wrong < 0 or (wrong == 0 and not isinstance(cell, DamageCell))):
        return None
    return LookedAt(
        number=cell.number,
        said=cell.said,
        criterion=criterion.name,
        case=row.case,
        variant=row.variant,
        before=before,
        after=after,
        wrong=wrong,
        fault=fault,
        output=tuple(str(variants.path(picture)) for picture in variants.rows[row.case, row.base].outputs),
        shown=tuple(str(variants.path(picture)) for picture in [*row.inputs.values()] or row.outputs),
    )


def _means(audit: JudgeAudit) -> Mapping[tuple[str, str, str], float]:
    """By case, variant and criterion."""
    given: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for mark in audit.marks:
        if mark.mark is not None:
            given[mark.case, mark.variant, mark.criterion].append(mark.mark)
    return {place: sum(marks) / len(marks) for place, marks in given.items()}


# --- several audits ---------------------------------------------------------------------------------------------------


def drift_between(now: JudgeAudit, then: JudgeAudit) -> list[AuditDrift]:
    """Whether the judge that was asked now is the one of then, over the clean outputs that are the same."""
    for name, new, old in (
        ("judge", now.audited.judge, then.audited.judge),
        ("rubric", now.audited.rubric, then.audited.rubric),
        ("wording", now.audited.wording, then.audited.wording),
    ):
        if new != old:
            raise RefBenchError(
                f"{now.run.path} and {then.run.path} are not of one {name} ({new}, {old}): drift is of one judge "
                "that is asked in the same words"
            )
    pictures = [
        {output.case: output.content for output in one.run.outputs() if output.model == CLEAN} for one in (now, then)
    ]
    same = {case for case, content in pictures[0].items() if pictures[1].get(case) == content}
    marks = [[mark for mark in one.marks if mark.case in same] for one in (then, now)]
    return drift_of_audits(marks[0], marks[1], then.criteria)


def reworded_between(before: JudgeAudit, after: JudgeAudit) -> tuple[list[AttackChange], list[AuditDrift]]:
    """What other words do to the attacks and to the marks of clean outputs, of one judge and the same variants."""
    for what, old, new in (
        ("variants", before.run.info.settings[SETTING], after.run.info.settings[SETTING]),
        ("judge", before.audited.judge, after.audited.judge),
        ("criteria", before.criteria, after.criteria),
    ):
        if old != new:
            raise RefBenchError(
                f"{before.run.path} and {after.run.path} have other {what}: wordings are compared with one judge on "
                "the same --variants"
            )
    if before.audited.wording == after.audited.wording:
        raise RefBenchError(
            f"{before.run.path} and {after.run.path} ask in the same words: there is nothing to compare"
        )
    return (
        rewording(before.marks, after.marks, before.criteria),
        drift_of_audits(before.marks, after.marks, before.criteria),
    )


def panels_of(audits: Sequence[JudgeAudit], of: str | None, most: int) -> tuple[str, list[PanelRow]]:
    """What panels of the other judges see of what one sees: by default the dearest."""
    first, *others = audits
    for one in others:
        if one.run.info.settings[SETTING] != first.run.info.settings[SETTING]:
            raise RefBenchError(
                f"{one.run.path} and {first.run.path} are of other variants: judges are compared on the same pictures; "
                "give both audits the same --variants"
            )
        if one.criteria != first.criteria:
            raise RefBenchError(f"{one.run.path} and {first.run.path} have other criteria: judges mark by one rubric")
    prices = {one.judge: one.audited.usd_per_call for one in audits}
    known = {name: price for name, price in prices.items() if price is not None}
    if of is not None and of not in prices:
        raise RefBenchError(f"--of {of}: the judges of these audits are {', '.join(prices)}")
    if of is None:
        if len(known) < len(prices):
            unknown = ", ".join(name for name in prices if name not in known)
            raise RefBenchError(f"--of JUDGE: say which one is to be replaced; the price of {unknown} is not known")
        of = max(known, key=lambda name: known[name])
    marks = {one.judge: one.marks for one in audits}
    return of, panels(marks, first.criteria, instead_of=of, usd_per_call=known, largest=most)
