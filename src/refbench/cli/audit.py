"""`refbench audit`: what a judge sees, and what fools it."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from refbench.cli.options import (
    AllowFailures,
    Batch,
    Concurrency,
    Json,
    PlanOnly,
    Retry,
    ShardText,
    given_settings,
    not_negative,
)
from refbench.record import RefBenchError, counted

if TYPE_CHECKING:
    from refbench.builders.audit.make import MakeOptions
    from refbench.builders.audit.run import AuditRequest
    from refbench.builders.audit.variants import Variants

audit_command = App(
    name="audit",
    help="What does a judge see, and what fools it? Known damages, nuisances and attacks on real outputs.",
    default_parameter=Parameter(negative=()),
)

RunPath = Annotated[Path, Parameter(help="A run whose outputs are good, by golden pictures, another judge or people")]
AuditPath = Annotated[Path, Parameter(help="Run directory of an audit")]
JudgeName = Annotated[str | None, Parameter(help="Only this judge of the audit, by its name there")]
Folder = Annotated[Path | None, Parameter(help="The variants, where they are not in the audit's own folder")]
Reader = Annotated[
    str | None,
    Parameter(help="A newer file of the benchmark, or rubric, that says the ability of criteria; by default that kept"),
]
Judge = Annotated[
    list[str],
    Parameter(help="[NAME=]KIND:MODEL of the judge to audit, several times for several; never its own anchor"),
]
PresetName = Annotated[
    Literal["quick", "core", "full"],
    Parameter(help="How much: gross faults only, the default, or every perturbation"),
]
Cases = Annotated[int | None, Parameter(help="Cases to take; 20, 48 and 100 of the presets by default")]
Seed = Annotated[int, Parameter(help="The same seed gives the same variants, to the byte", validator=not_negative)]
Anchor = Annotated[
    str | None, Parameter(help="By whose word outputs are good: truth (golden pictures), or a judge of the run")
]
People = Annotated[Path | None, Parameter(help="CSV of people's marks of the run's outputs, to choose good ones by")]
Data = Annotated[Path | None, Parameter(help="Where the cases' pictures lie, if not where they were")]
VariantsFolder = Annotated[Path | None, Parameter(help="Variants that refbench audit make has made; else made here")]


def _making(
    preset: str, cases: int | None, seed: int, anchor: str | None, people: Path | None, data: Path | None
) -> MakeOptions:
    from refbench.builders.audit.make import MakeOptions

    if cases is not None and cases < 2:
        raise RefBenchError(f"--cases {cases}: an audit needs at least 2")
    return MakeOptions(preset, cases, seed, anchor, people, data)  # type: ignore[arg-type]


@audit_command.default
def _audit_command(
    run: Annotated[
        Path | None, Parameter(help="A run whose outputs are good, by golden pictures, another judge or people")
    ] = None,
    *,
    judge: Judge,
    out: Annotated[Path, Parameter(help="Run directory of the audit; the same command resumes it")],
    preset: PresetName = "core",
    cases: Cases = None,
    seed: Seed = 0,
    anchor: Anchor = None,
    people: People = None,
    variants: VariantsFolder = None,
    again: Annotated[
        Path | None, Parameter(help="In the place of RUN: an older audit, whose clean outputs are asked about again")
    ] = None,
    data: Data = None,
    budget: Annotated[str | None, Parameter(help="Most that the audit may cost, for example 20usd")] = None,
    set: Annotated[list[str], Parameter(help="KEY=VALUE for the benchmark's judging, else as in RUN")] = [],  # noqa: A002, B006
    batch: Batch = False,
    shard: ShardText = None,
    retry: Retry = [],  # noqa: B006
    concurrency: Concurrency = 32,
    plan: PlanOnly = False,
    allow_failures: AllowFailures = 0.02,
    json: Json = False,
) -> int:
    """Ask judges about clean and changed outputs of a run, resumably; the marks that fall, stay and rise are read off
    the record. It ends with the card in short; refbench audit show has the whole.

    An audit is a run: ledger, budget, batches and shards are those of refbench run, and nothing is paid for twice.
    """
    from refbench.builders.audit.run import AuditRequest

    options: dict[str, Any] = {
        "budget": budget,
        "settings": given_settings(set),
        "batch": batch,
        "shard": shard,
        "retry": retry,
        "concurrency": concurrency,
    }
    if (run is None) == (again is None):
        raise RefBenchError("name the run whose outputs are changed, or an older audit with --again: one of the two")
    if again is not None and (cases is not None or anchor is not None or people is not None):
        raise RefBenchError("--again takes the outputs of the older audit: leave --cases, --anchor and --people out")
    making = _making(preset, cases, seed, anchor, people, data)
    given = {name: value for name, value in options.items() if value is not None}
    request = AuditRequest(again or run, out, judge, making, variants, again is not None, given)  # type: ignore[arg-type]
    if not plan:
        return _asked(request, allow_failures, json=json)
    from refbench.builders.audit.run import audit_plan
    from refbench.cli.plan import show_plan

    return show_plan(asyncio.run(audit_plan(request)), concurrency, json=json)


def _asked(request: AuditRequest, allow_failures: float, *, json: bool) -> int:
    import orjson

    from refbench.builders.audit.anchor import judges_of
    from refbench.builders.audit.run import audit
    from refbench.cli.run import exit_code
    from refbench.text.console import printable

    evaluation = asyncio.run(audit(request, show=not json))
    judges = judges_of(evaluation.run)
    if json:
        told = {name: _counts(request.out, name) for name in judges}
        print(orjson.dumps({"judges": told, "stopped": evaluation.stopped}).decode())
    else:
        for name in judges:
            counts = _counts(request.out, name)
            failures = "".join(f", {n} {kind}" for kind, n in counts.items() if kind != "marks")
            print(printable(f"{name}: {counted(counts['marks'], 'mark')}{failures}", line=True))
        _tell(request, judges)
    for sentence in evaluation.given_up:
        print(f"refbench: {printable(sentence, line=True)}", file=sys.stderr)
    return exit_code(evaluation, allow_failures)


def _counts(out: Path, judge: str) -> dict[str, int]:
    """How many marks a judge gave, and of each kind of failure how many."""
    from refbench.builders.audit.read import audit_marks

    marks = audit_marks(out, judge)
    failed = Counter(mark.failure for mark in marks if mark.failure)
    return {"marks": sum(mark.mark is not None for mark in marks), **dict(sorted(failed.items()))}


def _tell(request: AuditRequest, judges: Sequence[str]) -> None:
    """The card in short, which is kept; of clean outputs asked about again whether the judge is still the same."""
    from refbench.analysis.audit.card import in_short, keep_card
    from refbench.builders.audit.read import drift_between, read_audit
    from refbench.cli.printing import hint
    from refbench.report.audit import print_drift
    from refbench.text.console import printable

    for name in judges:
        try:
            now = read_audit(request.out, name, variants=request.variants)
            if request.again:
                print_drift(drift_between(now, read_audit(request.run, name, variants=request.variants)))
                continue
            card = now.report().card
            keep_card(card, request.out)
            print(printable(f"Judge card of {name}: {in_short(card)}.", line=True))
        except RefBenchError as error:  # the marks are paid for and recorded, whatever can be read off them today
            print(printable(f"{name}: {error}", line=True))
    whole = f"drift {request.out} {request.run}" if request.again else f"show {request.out}"
    hint(f"\nNext: refbench audit {whole}, or the same command again to resume")


@audit_command.command(name="make")
def make_command(
    run: RunPath,
    *,
    out: Annotated[Path, Parameter(help="Folder for the pictures and manifest.jsonl")],
    preset: PresetName = "core",
    cases: Cases = None,
    seed: Seed = 0,
    anchor: Anchor = None,
    people: People = None,
    data: Data = None,
    json: Json = False,
) -> int:
    """Make the pictures of an audit and nothing else: to look at them, and as items with a known answer for studies.

    manifest.jsonl has a line for each case and variant: files by the hash of their content, what was measured of the
    damage, or why it was left out.
    """
    import orjson

    from refbench.builders.audit.make import make_variants
    from refbench.runs import Run

    making = _making(preset, cases, seed, anchor, people, data)
    made = make_variants(Run.open(run), out, making, show=not json)
    if json:
        told = {"cases": len(made.info.cases), "made": _made(made), "left_out": made.left_out()}
        print(orjson.dumps({**told, "manifest": made.info.manifest}).decode())
    else:
        _print_made(made)
    return 0


def _made(variants: Variants) -> dict[str, int]:
    return dict(Counter(row.variant for row in variants.rows.values() if row.state == "made"))


def _print_made(variants: Variants) -> None:
    from rich.text import Text

    from refbench.text.console import console
    from refbench.text.tables import Grid

    made, left_out = _made(variants), variants.left_out()
    names: Sequence[str] = list(dict.fromkeys(row.variant for row in variants.rows.values()))
    out = console()
    grid = Grid()
    for title in ("variant", "made", "left out"):
        grid.add_column(title, justify="right" if title == "made" else "left")
    for name in names:
        reasons = "; ".join(f"{count} {reason}" for reason, count in left_out.get(name, {}).items())
        grid.add_row(Text(name), Text(str(made.get(name, 0))), Text(reasons))
    out.print(grid)
    print(f"{counted(len(variants.info.cases), 'case')}, good by {variants.info.anchor}, in {variants.root}")


@audit_command.command(name="show")
def show_command(
    audit: AuditPath,
    *,
    judge: JudgeName = None,
    people: Annotated[
        Path | None, Parameter(help="CSV of people's marks of the clean outputs: case, model, metric, score")
    ] = None,
    variants: Folder = None,
    benchmark: Reader = None,
    json: Json = False,
) -> int:
    """What each judge of an audit sees, what moves and what fools it: its card, which is kept, the matrix of changes
    and criteria, ladders, places, and the pictures behind what went wrong.

    What the figures mean is in docs/audit.md. The method is not yet validated on real judges.
    """
    import orjson

    from refbench.analysis.audit.card import keep_card
    from refbench.builders.audit.read import audit_run, judges_to_show, read_audit, worst_pictures
    from refbench.report.audit import print_audit, print_left_out, print_pictures

    told = []
    for number, name in enumerate(judges_to_show(audit_run(audit), judge)):
        found = read_audit(audit, name, variants=variants, reader=benchmark)
        if found.only_clean:
            raise RefBenchError(
                f"{audit} holds clean outputs asked about again and nothing else: refbench audit drift {audit} OLD"
            )
        report = found.report(people)
        path, pictures = keep_card(report.card, audit), worst_pictures(found, report)
        if json:
            told.append(
                {
                    "name": name,
                    **report.model_dump(mode="json"),
                    "kept": str(path),
                    "without_ability": found.without_ability,
                    "left_out": found.variants.left_out() if found.variants else None,
                    "pictures": [one.model_dump(mode="json") for one in pictures],
                }
            )
            continue
        print(end="\n" if number else "")
        print_audit(report)
        print_pictures(pictures)
        print_left_out(found)
        print(f"Kept: {path}")
    if json:
        print(orjson.dumps({"judges": told}).decode())
    return 0


@audit_command.command(name="drift")
def drift_command(
    new: Annotated[Path, Parameter(help="The later audit, or clean outputs that were asked about again (--again)")],
    old: Annotated[Path, Parameter(help="The earlier audit")],
    *,
    judge: JudgeName = None,
    benchmark: Reader = None,
    json: Json = False,
) -> int:
    """Is the judge still the one that was audited? Its marks of the clean outputs that both audits have, now less then.

    Exit code 0: no change seen. 1: another instrument behind the name. 4: cannot be told.
    """
    import orjson

    from refbench.builders.audit.read import audit_run, drift_between, judges_to_show, read_audit
    from refbench.report.audit import print_drift
    from refbench.text.console import printable

    found = {}
    for name in judges_to_show(audit_run(new), judge):
        judges_to_show(audit_run(old), name)
        found[name] = drift_between(*(read_audit(path, name, reader=benchmark) for path in (new, old)))
    if json:
        rows = {name: [row.model_dump(mode="json") for row in of] for name, of in found.items()}
        print(orjson.dumps({"judges": rows}).decode())
    else:
        for name, of in found.items():
            print(printable(f"{name}, {new} less {old}", line=True))
            print_drift(of)
    every = [row for of in found.values() for row in of]
    return 1 if any(row.moved for row in every) else 4 if any(row.p is None for row in every) else 0


@audit_command.command(name="wordings")
def wordings_command(
    before: Annotated[Path, Parameter(help="An audit in the one wording")],
    after: Annotated[Path, Parameter(help="An audit of the same variants and judge in the other, as with harden=yes")],
    *,
    judge: JudgeName = None,
    benchmark: Reader = None,
    json: Json = False,
) -> int:
    """Do other words help a judge against attacks? How far each attack lifts the marks in two audits of the same
    variants, paired by case, with intervals; and what the words do to the marks of clean outputs.

    Exit code 0: some attack lifts the marks less for sure, and none more. 1: some lifts them more. 4: cannot be told.
    """
    import orjson

    from refbench.builders.audit.read import audit_run, judges_to_show, read_audit, reworded_between
    from refbench.report.audit import print_drift
    from refbench.report.rewording import print_rewording
    from refbench.text.console import printable

    found = {}
    for name in judges_to_show(audit_run(before), judge):
        judges_to_show(audit_run(after), name)
        found[name] = reworded_between(*(read_audit(path, name, reader=benchmark) for path in (before, after)))
    if json:
        told = {
            name: {
                "attacks": [row.model_dump(mode="json") for row in attacks],
                "clean": [row.model_dump(mode="json") for row in shifts],
            }
            for name, (attacks, shifts) in found.items()
        }
        print(orjson.dumps({"judges": told}).decode())
    else:
        for name, (attacks, shifts) in found.items():
            print(printable(f"{name}, {before} and then {after}", line=True))
            print_rewording(attacks)
            print("Marks of the clean outputs, after less before:")
            print_drift(shifts, moved="moved by the words")
    verdicts = {row.verdict for attacks, _ in found.values() for row in attacks}
    return 1 if "harms" in verdicts else 0 if "helps" in verdicts else 4


@audit_command.command(name="panel")
def panel_command(
    *audits: AuditPath,
    of: Annotated[
        str | None, Parameter(help="The judge that a panel may replace, by its name; the dearest by default")
    ] = None,
    most: Annotated[int, Parameter(help="Judges in a panel at most")] = 3,
    benchmark: Reader = None,
    json: Json = False,
) -> int:
    """Which cheap judges together see what a dear one sees? All panels of the other judges of one audit, or of several
    that were made of the same variants, with the price of a call to all of a panel."""
    import orjson

    from refbench.builders.audit.read import audit_run, judges_to_show, panels_of, read_audit
    from refbench.report.audit import print_panels

    if not audits or most < 1:
        raise RefBenchError("name the audits whose judges may be a panel, and with --most at least 1 judge of it")
    judges = [(path, name) for path in audits for name in judges_to_show(audit_run(path), None)]
    if len(judges) < 2:
        raise RefBenchError(f"{audits[0]} is an audit of one judge: a panel is compared with another one")
    found = {name: read_audit(path, name, reader=benchmark) for path, name in judges}
    if len(found) < len(judges):
        raise RefBenchError("two of the audits have a judge of the same name: give them names of their own")
    dear, rows = panels_of([*found.values()], of, most)
    price = found[dear].audited.usd_per_call
    if json:
        told = [row.model_dump(mode="json") for row in rows]
        print(orjson.dumps({"instead_of": dear, "usd_per_call": price, "panels": told}).decode())
    else:
        print_panels(rows, dear, price=price)
    return 0
