"""An audit on a terminal: the judge's card, the matrix of perturbations and criteria, ladders, places and people."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from refbench.analysis.audit.card import sentence
from refbench.analysis.audit.drift import AuditDrift
from refbench.analysis.audit.marks import FEWEST
from refbench.analysis.audit.panels import PanelRow
from refbench.analysis.audit.records import (
    AttackCell,
    AuditReport,
    ControlCell,
    CriterionCard,
    DamageCell,
    Figure,
    JudgeCard,
    NuisanceCell,
    PairCell,
)
from refbench.record import counted
from refbench.text.console import console
from refbench.text.tables import Grid

if TYPE_CHECKING:
    from refbench.builders.audit.read import JudgeAudit, LookedAt

_MOST_PICTURES = 6
_Cell = DamageCell | NuisanceCell | AttackCell | ControlCell


def print_audit(report: AuditReport, out: Console | None = None) -> None:
    """Everything that the marks of an audit say, the card first."""
    out = out or console()
    print_card(report.card, out)
    names = [one.name for one in report.card.criteria]
    _matrix("Damages: share of pairs with the clean mark higher", report.damages, names, out)
    _say(
        out,
        "In brackets: not aimed at this criterion, * should stay. Capitals: blind to it; "
        '"seen": the interval lies above 75 %; "?": cannot tell; "few": fewer than 20 cases.',
    )
    _matrix("Nuisances: mean change, which should be 0", report.nuisances, names, out)
    _say(out, '"ok": within 5 % of the range; capitals: moved beyond it, for sure; "?": cannot tell.')
    _matrix("Attacks: mean rise, which should be 0 or less", report.attacks, names, out)
    _matrix("Without seeing: rank correlation with the marks of the pictures", report.controls, names, out)
    _print_pairs(report.pairs, out)
    _print_ladders(report, out)
    _print_positions(report, out)
    _print_people(report, out)
    _print_failures([*report.damages, *report.nuisances, *report.attacks, *report.controls], out)
    _say(out, "To paste: " + sentence(report.card))


def print_card(card: JudgeCard, out: Console | None = None) -> None:
    out = out or console()
    facts = [f"rubric {card.rubric}" if card.rubric else "", f"wording {card.wording[:12]}" if card.wording else ""]
    facts += [counted(card.n_cases, "case"), counted(card.n_marks, "mark"), f"{card.n_failures} failed"]
    facts += [f"preset {card.preset}" if card.preset else ""]
    facts += [f"${card.usd_per_call:.4g} a call" if card.usd_per_call is not None else ""]
    head = Text.assemble(("Judge card: ", "bold"), (card.judge, "bold"), "; ", ", ".join(filter(None, facts)))
    out.print(head, soft_wrap=not out.is_terminal)
    _say(out, f"{card.note[0].upper()}{card.note[1:]}.")
    if card.n_waiting:
        _say(
            out,
            f"Not finished: it was not asked about {counted(card.n_waiting, 'output')} yet, and all this is of the "
            "others. The same refbench audit command goes on.",
        )
    grid = Grid("criterion", "verdict", "sees", "95 % CI", "ties", "steps", "selective")
    scale = Grid("criterion", "sd", "same", "ICC", "AUC", "marks used", "commonest", "at the top")
    for one in card.criteria:
        sees, drop = _number(one.sees), _number(one.drop)
        grid.add_row(one.name, one.verdict, sees, _ends(one.sees), _share(one.ties), drop, _number(one.selective))
        steady = [_number(figure) for figure in (one.sd, one.identical, one.icc, one.auc)]
        used = one.spread
        scale.add_row(one.name, *steady, str(used.values_used), _share(used.commonest.value), _share(used.at_top.value))
    out.print(grid)
    out.print(scale)
    for one in card.criteria:
        if one.why:
            _say(out, f"{one.name}: {'; '.join(one.why)}{_further(one)}.")
    if card.flags:
        _say(out, f"Faults, 5 % for a false one among the {card.n_claims} claims of the table:")
        for said, names in _flags(card).items():
            _say(out, f"  {said}: {', '.join(names)}")
    else:
        tested = f"No fault was found by {counted(card.n_claims, 'test')}, at 5 % for all of them."
        _say(out, tested if card.n_claims else f"Nothing could be tested: a test takes marks of {FEWEST} cases.")


def _further(one: CriterionCard) -> str:
    """How many more cases would tell; where there is no number yet, how many one takes."""
    if not one.more_cases:
        return ""
    more = counted(one.more_cases, "more case")
    few = any("too few" in why for why in one.why)
    return f" (it takes {more} at least)" if few else f" (about {more} would tell)"


def _flags(card: JudgeCard) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for flag in card.flags:
        said = f"{flag.kind} {flag.said}" if flag.kind in ("blind to", "fooled by", "moved by") else flag.said
        if flag.kind == "guesses":
            said = f"gives the same marks without seeing ({flag.said})"
        found.setdefault(said, []).append(flag.criterion)
    return found


def _matrix(title: str, cells: Sequence[_Cell], names: Sequence[str], out: Console) -> None:
    if not cells:
        return
    out.print(Text(f"\n{title}", "bold"))
    by_number: dict[int, dict[str, _Cell]] = {}
    for cell in cells:
        by_number.setdefault(cell.number, {})[cell.criterion] = cell
    grid = Grid("", "", *names, names=2)
    for number, row in sorted(by_number.items()):
        said = next(iter(row.values())).said
        grid.add_row(str(number), said, *(_shown(row[name]) if name in row else "" for name in names))
    out.print(grid)


def _shown(cell: _Cell) -> str:
    if isinstance(cell, DamageCell):
        value = "-" if cell.sees.value is None else f"{cell.sees.value:.2f}"
        if not cell.aimed:
            return f"({value}{'*' if cell.stays else ''})"
        words = {"seen": "seen", "blind": "BLIND", "cannot tell": "?", "too few cases": "few"}
        return f"{words[cell.verdict or 'too few cases']} {value}"
    if isinstance(cell, NuisanceCell):
        words = {"unmoved": "ok", "moved": "MOVED", "cannot tell": "?", "too few cases": "few"}
        return f"{words[cell.verdict]} {_signed(cell.shift)}"
    if isinstance(cell, AttackCell):
        words = {"fooled": "FOOLED ", "not fooled": "", "too few cases": "few "}
        return f"{words[cell.verdict]}{_signed(cell.rise)}"
    return ("GUESSES " if cell.guesses else "") + _number(cell.blind)


def _print_pairs(cells: Sequence[PairCell], out: Console) -> None:
    for cell in cells:
        what = "over both orders" if cell.number == 33 else "of a picture against itself"
        told = f", favours the {cell.favours} side" if cell.favours else ""
        _say(out, f"{cell.criterion}: the first side wins {_signed(cell.first_side)} above half {what}{told}.")


def _print_ladders(report: AuditReport, out: Console) -> None:
    if not report.ladders:
        return
    out.print(Text("\nLadders: steps lost at each strength", "bold"))
    grid = Grid("", "", "criterion", "steps", "tau", "never rises", "flat", names=2)
    for row in report.ladders:
        steps = ", ".join(f"{rung.strength}: {_number(rung.drop)}" for rung in row.rungs)
        grid.add_row(
            str(row.number), row.name, row.criterion, steps, _number(row.tau), _number(row.never_rises), str(row.n_flat)
        )
    out.print(grid)


def _print_positions(report: AuditReport, out: Console) -> None:
    if not report.positions:
        return
    out.print(Text("\nA swapped reference, by its place", "bold"))
    grid = Grid("criterion", "place", "sees", "95 % CI", "cases", "verdict", names=2)
    for row in report.positions:
        ends, cases = _ends(row.sees), str(row.sees.n)
        grid.add_row(row.criterion, row.place, _number(row.sees), ends, cases, row.sees.why or row.verdict or "")
    out.print(grid)


def _print_people(report: AuditReport, out: Console) -> None:
    for row in report.people:
        half = "" if row.half_width is None else f"; nine of ten people's marks lie within {row.half_width:.2f}"
        _say(
            out,
            f"{row.criterion}, with people's marks of {row.n} outputs: mean error {_number(row.before)}, after the "
            f"isotonic map {_number(row.after)}{half}.",
        )


def _print_failures(cells: Iterable[_Cell], out: Console) -> None:
    kinds: dict[tuple[int, str], dict[str, int]] = {}
    for cell in cells:
        mine = kinds.setdefault((cell.number, cell.said), {})
        for kind, n in cell.failures.items():
            mine[kind] = max(mine.get(kind, 0), n)
    for (number, said), counts in sorted(kinds.items()):
        if counts:
            _say(out, f"No mark under {number} ({said}): {_counts(counts)}.")


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))


def print_drift(
    rows: Sequence[AuditDrift], out: Console | None = None, *, moved: str = "another instrument behind the name"
) -> None:
    """One sentence a criterion; `moved` says what a change means."""
    out = out or console()
    for row in rows:
        if row.shift.value is None:
            _say(out, f"{row.criterion}: cannot be compared, {row.shift.why}.")
            continue
        told = moved if row.moved else "no change seen"
        reach = "" if row.moved or row.unseen is None else f", one of {row.unseen:.2f} would have been, 4 times in 5"
        ends = "" if row.shift.ci95 is None else f" (95 % CI {row.shift.ci95[0]:+.2f} to {row.shift.ci95[1]:+.2f})"
        _say(out, f"{row.criterion}: {told}, {row.shift.value:+.2f}{ends} on {row.shift.n} clean cases{reach}.")


def print_panels(
    rows: Sequence[PanelRow], instead_of: str, out: Console | None = None, *, price: float | None = None
) -> None:
    out = out or console()
    whose = f"{instead_of} (${price:.4g} a call)" if price is not None else instead_of
    out.print(Text(f"Instead of {whose}: what panels see of the same damages", "bold"))
    grid = Grid("panel", "a call", f"sees, less {instead_of}", "verdict", "misses")
    for row in rows:
        costs = "" if row.usd_per_call is None else f"${row.usd_per_call:.4g}"
        misses = "; ".join(row.misses[:3]) + (f" and {len(row.misses) - 3} more" if len(row.misses) > 3 else "")
        grid.add_row(" + ".join(row.judges), costs, _signed(row.gap), row.verdict, misses)
    out.print(grid)
    _say(out, '"sees as much": at most 5 points less in every criterion, at 5 % over all panels.')


def print_pictures(pictures: Sequence[LookedAt], out: Console | None = None) -> None:
    """The worst of the outputs behind cells, with their files: those of faults, or of what looks most like one."""
    out = out or console()
    faults = [one for one in pictures if one.fault]
    shown = (faults or pictures)[:_MOST_PICTURES]
    if not shown:
        return
    out.print(Text("\nPictures to look at" + ("" if faults else " (none of them shows a fault)"), "bold"))
    for one in shown:
        _say(out, f"{one.variant}, {one.case}: {one.criterion} {one.before:g} before, {one.after:g} after")
        for what, files in (("of", one.output), ("shown", one.shown if one.shown != one.output else ())):
            for file in files:
                out.print(Text(f"  {what:<5} {os.path.relpath(file)}"), soft_wrap=True)
    if more := len(faults or pictures) - len(shown):
        _say(out, f"And {more} more: --json lists all.")


def print_left_out(audit: JudgeAudit, out: Console | None = None) -> None:
    """What the figures are not about: criteria without an ability, and variants that were not made."""
    out = out or console()
    if audit.without_ability:
        names = ", ".join(audit.without_ability)
        _say(out, f'Left out: {names}: nothing says what they are about (ability = "IA", and so on, in the rubric).')
    if audit.variants is None:
        _say(out, f"The variants are not in {audit.run.path}: --variants FOLDER shows pictures and what was not made.")
        return
    reasons: dict[str, list[str]] = {}
    for variant, counts in audit.variants.left_out().items():
        for reason, cases in counts.items():
            reasons.setdefault(reason, []).append(f"{variant} of {counted(cases, 'case')}")
    if reasons:
        out.print(Text("\nNot made", "bold"))
    for reason, names_of in reasons.items():
        _say(out, f"{', '.join(names_of)}: {reason}.")


def _number(one: Figure) -> str:
    return "-" if one.value is None else f"{one.value:.2f}"


def _signed(one: Figure) -> str:
    return "-" if one.value is None else f"{one.value:+.2f}"


def _ends(one: Figure) -> str:
    return "" if one.ci95 is None else f"{one.ci95[0]:.2f} to {one.ci95[1]:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _say(out: Console, text: str) -> None:
    out.print(Text(text), soft_wrap=not out.is_terminal)
