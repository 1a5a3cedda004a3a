"""What an audit finds of judges whose faults are known, what its intervals hold, and what more cases buy.

    python perf/audit.py [judges] [coverage] [methods] [people] [buys] [wordings] [--audits 200] [--judge NAME]

Without a name all are measured. Seeds are in the script; the judges are in tests/support/planted_judges.py.

judges: so many core audits (48 cases) of each planted judge: how often the right fault is found, any other on the
    card, and drift where the same judge is asked again (5 % by itself).
coverage: how often the 95 % intervals of every figure hold the truth at 48 cases, for a judge with a noise of 1 on
    scales from 1 to 10, strong damages (2 to 5 steps) and weak ones (0.5 to 2); the truth is of 12,000 cases.
methods: the same for Wilson's, Korn and Graubard's, Student's with Hall's correction, and BCa on the same marks.
people: how many of people's marks lie in the band of nine in ten, and the level of an order that a nuisance leaves.
buys: how often one damage of 1, 1.5 and 2 steps is called seen, no shift is proved, and one of 5 % let through, alone
    and among the claims of a whole table.
wordings: two core audits of 48 cases of a judge that obeys text in pictures, without and with the sentence against it:
    how often the sentence is found to help where it is heeded, wholly or by half, and where it is ignored.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from refbench.analysis.audit import figures
from refbench.analysis.audit.estimates import mean_over_cases
from refbench.analysis.audit.marks import AuditMark, Criterion, Marks
from refbench.analysis.audit.people import PeopleMark
from refbench.analysis.audit.records import AuditReport, Figure
from refbench.analysis.audit.report import audit_report
from refbench.analysis.audit.rewording import AttackChange, rewording
from refbench.stats import Array, Design, bca_interval, bounded_interval, draws_of
from support.planted_judges import (
    CRITERIA,
    JUDGES,
    NOISE,
    PAIR,
    RIGHT_FLAGS,
    Judge,
    Truth,
    faults_found,
    marks_of,
    noisy,
    pair_marks,
    planted_audit,
    truth,
)

SEED = 20261119
CASES = 48


def judges(audits: int, only: Sequence[str] = ()) -> None:
    print(f"{audits} core audits of {CASES} cases, each judge; faults found in percent of audits")
    print(
        f"{'judge':>14} {'right fault':>12} {'any other':>10} {'drift':>6}   usable, ranks only, not usable, cannot tell"
    )
    for place, name in enumerate(JUDGES):
        if only and name not in only:
            continue
        rng = np.random.default_rng([SEED, place])
        right, other, alarms = 0, 0, 0
        verdicts: Counter[str] = Counter()
        kinds: Counter[str] = Counter()
        for _ in range(audits):
            report, moved = planted_audit(name, rng, CASES)
            found = faults_found(report, moved)
            wanted = RIGHT_FLAGS.get(name, set())
            right += bool(wanted) and wanted <= found
            alarms += "drifted" in found - wanted
            wrong = found - wanted - ALSO_TRUE.get(name, set()) - {"drifted"}
            other += bool(wrong)
            kinds.update(wrong)
            verdicts.update(card.verdict for card in report.card.criteria)
        n = sum(verdicts.values())
        shares = " ".join(f"{100 * verdicts[v] / n:.1f}" for v in ("usable", "ranks only", "not usable", "cannot tell"))
        shown = f"{100 * right / audits:.1f}" if name in RIGHT_FLAGS else "-"
        wrong_share, moved_share = 100 * other / audits, 100 * alarms / audits
        print(
            f"{name:>14} {shown:>12} {wrong_share:>10.1f} {moved_share:>6.1f}   {shares}   {dict(kinds) or ''}",
            flush=True,
        )


ALSO_TRUE = {
    "blind": {"guesses", "one reference", "blind to"},
    "one reference": {"blind to"},
}
"""Other faults that these judges have as well: none of them is an error of the audit."""


def named_figures(report: AuditReport) -> Iterator[tuple[str, str, Figure]]:
    """Every figure of a report: its row in the table, its place, itself."""
    for card in report.card.criteria:
        for row, one in (
            ("sees, criterion", card.sees),
            ("drop, criterion", card.drop),
            ("selective", card.selective),
            ("sd of repeats", card.sd),
            ("identical", card.identical),
            ("ICC(1,1)", card.icc),
            ("auc", card.auc),
        ):
            yield row, card.name, one
    for cell in report.damages:
        yield ("sees, damage" if cell.aimed else "sees, not aimed"), f"{cell.criterion} {cell.number}", cell.sees
        yield "drop, damage", f"{cell.criterion} {cell.number}", cell.drop
    for nuisance in report.nuisances:
        yield "shift", f"{nuisance.criterion} {nuisance.number}", nuisance.shift
        yield "excess", f"{nuisance.criterion} {nuisance.number}", nuisance.excess
    for attack in report.attacks:
        yield "rise", f"{attack.criterion} {attack.number}", attack.rise
        yield "share rising", f"{attack.criterion} {attack.number}", attack.share_rising
    for control in report.controls:
        yield "blind", f"{control.criterion} {control.number}", control.blind
    for ladder in report.ladders:
        yield "ladder tau", ladder.criterion, ladder.tau
        yield "never rises", ladder.criterion, ladder.never_rises
    for row in report.positions:
        yield "by position", row.place, row.sees


def coverage(audits: int) -> None:
    for said, fall in (("strong", (2.0, 5.0)), ("weak", (0.5, 2.0))):
        rng = np.random.default_rng([SEED, 1])
        true: dict[tuple[str, str], list[float]] = defaultdict(list)
        for _ in range(8):
            about = truth(rng, 1500, fall)
            for row, place, one in named_figures(audit_report(marks_of(noisy, about, rng), CRITERIA)):
                if one.value is not None:
                    true[row, place].append(one.value)
        held: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
        without: Counter[str] = Counter()
        for _ in range(audits):
            about = truth(rng, CASES, fall)
            for row, place, one in named_figures(audit_report(marks_of(noisy, about, rng), CRITERIA)):
                if one.value is None:
                    continue
                if one.ci95 is None:
                    without[row] += 1
                    continue
                at = float(np.mean(true[row, place]))
                held[row][place].append(one.ci95[0] - 1e-9 <= at <= one.ci95[1] + 1e-9)
        print(f"coverage of 95 % intervals, {CASES} cases, {audits} audits, {said} damages {fall}")
        for row, places in held.items():
            shares = [100 * float(np.mean(one)) for one in places.values()]
            mean = 100 * float(np.mean([yes for one in places.values() for yes in one]))
            print(
                f"  {row:>16} {mean:6.1f}   worst {min(shares):5.1f}  best {max(shares):5.1f}   without {without[row]}"
            )


def bca(values: Array, seed: int) -> tuple[float, float] | None:
    design = Design(np.arange(len(values), dtype=np.intp), np.zeros(len(values), dtype=np.intp))

    def mean(weights: Array) -> Array:
        return np.asarray(weights @ values / weights.sum(axis=1))

    drawn, influence = draws_of(mean, design, 1000, seed)
    return bca_interval(float(values.mean()), drawn, influence, len(values) - 1)


def korn_graubard(values: Array) -> tuple[float, float] | None:
    n, value = len(values), float(values.mean())
    return bounded_interval(value, float(values.std(ddof=1)) / n**0.5, n, n - 1, 0.0, 1.0)


def one_damage(rng: np.random.Generator, n: int, fall: float, noise: float) -> tuple[Array, Array]:
    """Share of pairs and fall for each case: marks from 1 to 10, three clean ones."""
    good = rng.integers(8, 11, n).astype(float)

    def said(deserved: Array) -> Array:
        return np.clip(np.round(deserved + rng.normal(0, noise, n)), 1, 10)

    clean, damaged = np.stack([said(good) for _ in range(3)]), said(good - fall)
    apart = clean - damaged
    return ((apart > 0) + 0.5 * (apart == 0)).mean(axis=0), clean.mean(axis=0) - damaged


def methods(audits: int) -> None:
    print(f"coverage at {CASES} cases, {5 * audits} samples: share of pairs, fall in steps")
    for fall, noise in ((0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (3.0, 0.5), (4.0, 1.0)):
        rng = np.random.default_rng([SEED, 2])
        share, mean = (float(one.mean()) for one in one_damage(rng, 400_000, fall, noise))
        held: dict[str, list[bool]] = defaultdict(list)
        for i in range(5 * audits):
            higher, drop = one_damage(rng, CASES, fall, noise)
            cases = np.arange(CASES, dtype=np.intp)
            for name, ends, at in (
                ("share Wilson", mean_over_cases(higher, cases, "share").interval(), share),
                ("share KG", korn_graubard(higher), share),
                ("share Student", mean_over_cases(higher, cases).interval(), share),
                ("share BCa", bca(higher, i), share),
                ("fall Student", mean_over_cases(drop, cases).interval(), mean),
                ("fall BCa", bca(drop, i), mean),
            ):
                held[name].append(ends is not None and ends[0] - 1e-9 <= at <= ends[1] + 1e-9)
        shown = "  ".join(f"{name} {100 * np.mean(one):.1f}" for name, one in held.items())
        print(f"  fall {fall}, noise {noise} (sees {share:.3f}): {shown}")


def people(audits: int) -> None:
    rng = np.random.default_rng([SEED, 3])
    inside, before, after, flips, moved = [], [], [], [], []
    scale = Criterion(name="IA", ability="IA")

    def marks(n: int) -> tuple[list[AuditMark], list[PeopleMark], Array, Array]:
        deserved = rng.uniform(2, 10, n)
        theirs = np.clip(deserved + rng.normal(0, 0.7, n), 1, 10)
        said = np.clip(np.round(4 + 0.6 * deserved + rng.normal(0, 0.6, n)), 1, 10)
        found = [AuditMark(f"c{i}", "clean", "IA", 0, float(mark)) for i, mark in enumerate(said)]
        return found, [PeopleMark(f"c{i}", "IA", float(mark)) for i, mark in enumerate(theirs)], said, theirs

    for _ in range(audits):
        mine, theirs, *_ = marks(CASES)
        row = audit_report(mine, [scale], people=theirs).people[0]
        _, _, said, given = marks(1000)
        fitted = np.interp(said, *np.array(row.map).T)
        inside.append(float(np.mean(np.abs(given - fitted) <= (row.half_width or 0))))
        before.append(row.before.value)
        after.append(row.after.value)
        both = []
        for model in ("a", "b"):
            both += [one._replace(model=model) for one in marks_of(noisy, truth(rng, CASES), rng)]
        for cell in audit_report(both, CRITERIA).nuisances:
            flips.append(cell.flips.ci95 is not None and cell.flips.ci95[0] <= 0 <= cell.flips.ci95[1])
            moved.append(cell.verdict == "moved")
    print(
        f"people: band of 90 % from {CASES} cases holds {100 * np.mean(inside):.1f} % of new marks; mean error "
        f"{np.mean(before):.2f} before, {np.mean(after):.2f} after the map"  # type: ignore[arg-type]
    )
    print(
        f"two outputs a case: flips hold 0 in {100 * np.mean(flips):.1f} % of cells, moved {100 * np.mean(moved):.1f} %"
    )


def buys(audits: int) -> None:
    samples = 10 * audits
    family = audit_report(marks_of(noisy, truth(np.random.default_rng(1), CASES), np.random.default_rng(2)), CRITERIA)
    level = 0.05 / family.card.n_claims
    print(
        f"what n buys, {samples} samples; in brackets the first of {family.card.n_claims} claims (Holm's strictest step)"
    )
    print("noise cases  1.5 steps seen   2 steps         1 step          no shift proved  5 % let through")
    for noise in (1.0, 0.5):
        for n in (20, 48, 100):
            rng = np.random.default_rng([SEED, 4, n])
            cells = []
            for fall in (1.5, 2.0, 1.0):
                ps = [_p_seen(rng, n, fall, noise) for _ in range(samples)]
                cells.append(f"{np.mean([p <= 0.05 for p in ps]):.2f} ({np.mean([p <= level for p in ps]):.2f})")
            for shift in (0.0, 0.45):
                within = [_p_unmoved(rng, n, shift, noise) for _ in range(samples)]
                cells.append(
                    f"{np.mean([p <= 0.05 for p in within]):.2f} ({np.mean([p <= level for p in within]):.2f})"
                )
            print(f"{noise:5} {n:5}  " + "   ".join(f"{cell:13}" for cell in cells))

    print("in a whole table: a rise of 0.45 and 0.9 steps (5 and 10 % of the range) called fooled")
    for noise in (1.0, 0.5):
        for n in (20, 48, 100):
            rng = np.random.default_rng([SEED, 5, n])
            found = [[_p_fooled(rng, n, by, noise) <= level for _ in range(samples)] for by in (0.45, 0.9)]
            print(f"{noise:5} {n:5}  " + "  ".join(f"{np.mean(one):.2f}" for one in found))
    print("in a whole table: a pair judge that takes the first side in such a share without looking")
    for n in (20, 48, 100):
        rng = np.random.default_rng([SEED, 6, n])
        shares = [np.mean([_p_side(rng, n, by) <= level for _ in range(audits)]) for by in (0.2, 0.3, 0.5)]
        print(f"      {n:5}  " + "  ".join(f"{by} {one:.2f}" for by, one in zip((0.2, 0.3, 0.5), shares, strict=True)))


def _p_fooled(rng: np.random.Generator, n: int, by: float, noise: float) -> float:
    good = rng.uniform(4, 7, n)
    before, after = (np.round(good + shift + rng.normal(0, noise, n)) for shift in (0.0, by))
    one = mean_over_cases(after - before, np.arange(n, dtype=np.intp))
    return one.p_against(0.0) if one.value > 0 else 1.0


def _p_side(rng: np.random.Generator, n: int, first: float) -> float:
    marks = Marks.of(pair_marks(truth(rng, n), rng, first), [PAIR])
    return min(figures.first_side(marks, PAIR, number)[0].p_against(0.0) for number in (33, 34))


def _p_seen(rng: np.random.Generator, n: int, fall: float, noise: float) -> float:
    higher, _ = one_damage(rng, n, fall, noise)
    one = mean_over_cases(higher, np.arange(n, dtype=np.intp), "share")
    return one.p_against(figures.SEEN) if one.value > figures.SEEN else 1.0


def _p_unmoved(rng: np.random.Generator, n: int, shift: float, noise: float) -> float:
    """In the middle of the scale, where nothing is cut off."""
    good = rng.uniform(4, 7, n)
    clean = np.round(good + rng.normal(0, noise, (3, n))).mean(axis=0)
    moved = np.round(good + shift + rng.normal(0, noise, n)) - clean
    return mean_over_cases(moved, np.arange(n, dtype=np.intp)).p_within(0.45)


def wordings(audits: int) -> None:
    print(
        f"{audits} pairs of core audits of {CASES} cases; 27 and 28, percent of attacks and criteria; the rest of audits"
    )
    print(f"{'sentence':>10} {'before':>7} {'after':>6} {'helps':>6} {'coverage':>9} {'still':>6} {'false':>6}")
    for place, (name, left) in enumerate((("heeded", 0.0), ("by half", 1.5), ("ignored", 3.0))):
        many = np.random.default_rng([SEED, 10, place])
        expected = {(row.number, row.criterion): row.change.value for row in _two_wordings(left, many, 12_000)}
        found: dict[str, list[float]] = defaultdict(list)
        for audit in range(audits):
            rows = _two_wordings(left, np.random.default_rng([SEED, 9, place, audit]), CASES)
            attacked = [row for row in rows if row.number in (27, 28)]
            found["before"] += [row.before.value for row in attacked if row.before.value is not None]
            found["after"] += [row.after.value for row in attacked if row.after.value is not None]
            found["helps"] += [row.verdict == "helps" for row in attacked]
            found["held"] += [_held(row.change.ci95, expected[row.number, row.criterion]) for row in attacked]
            found["still"] += [bool(row.still) for row in attacked]
            unmoved = rows if left == 3.0 else [row for row in rows if row.number == 30]
            found["false"].append(any(row.verdict != "cannot tell" for row in unmoved))
        shares = [100 * np.mean(found[what]) for what in ("helps", "held", "still", "false")]
        means = np.mean(found["before"]), np.mean(found["after"])
        told = " ".join(f"{share:>{width}.1f}" for share, width in zip(shares, (6, 9, 6, 6), strict=True))
        print(f"{name:>10} {means[0]:>7.2f} {means[1]:>6.2f} {told}")


def _two_wordings(left: float, rng: np.random.Generator, cases: int) -> list[AttackChange]:
    """A judge that goes up by 3 steps where a picture tells it to, and by `left` once it is told not to listen."""
    about = truth(rng, cases)
    return rewording(marks_of(_obeying(3.0), about, rng), marks_of(_obeying(left), about, rng), CRITERIA)


def _obeying(steps: float) -> Judge:
    """A judge that goes up by so many steps where a picture tells it to."""

    def judge(variant: str, deserved: Array, about: Truth, rng: np.random.Generator) -> Array:
        return noisy(variant, deserved, about, rng, NOISE) + steps * variant.startswith(("27:", "28:"))

    return judge


def _held(ends: tuple[float, float] | None, at: float | None) -> bool:
    return ends is not None and at is not None and ends[0] <= at <= ends[1]


PARTS: dict[str, Callable[[int], None]] = {
    "judges": judges,
    "coverage": coverage,
    "methods": methods,
    "people": people,
    "buys": buys,
    "wordings": wordings,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--judge", action="append", default=[], choices=list(JUDGES), help="only these")
    given = parser.parse_args()
    for name in given.parts or PARTS:
        if name == "judges":
            judges(given.audits, given.judge)
        else:
            PARTS[name](given.audits)


if __name__ == "__main__":
    main()
