"""What a judge sees and what fools it, from its marks: figures, verdicts, card, drift and panels."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy.optimize import isotonic_regression
from scipy.stats import binomtest, kendalltau, mannwhitneyu

from refbench.analysis.audit import figures
from refbench.analysis.audit.card import card_name, card_of, keep_card, sentence
from refbench.analysis.audit.drift import drift_of_audits
from refbench.analysis.audit.estimates import mean_over_cases
from refbench.analysis.audit.marks import AuditMark, Criterion, Marks, Variant, perturbations
from refbench.analysis.audit.panels import panels
from refbench.analysis.audit.people import PeopleMark
from refbench.analysis.audit.records import NOT_VALIDATED, AuditReport, DamageCell
from refbench.analysis.audit.report import Audited, audit_report
from refbench.record import RefBenchError
from refbench.report.audit import print_audit, print_drift, print_panels
from refbench.stats.interval import score_interval, score_p
from refbench.stats.isotonic import conformal_width, isotonic_map, out_of_fold
from support.planted_judges import (
    CRITERIA,
    JUDGES,
    RIGHT_FLAGS,
    blind,
    drifted,
    faults_found,
    marks_of,
    noisy,
    one_reference,
    planted_audit,
    steady,
    truth,
)

IA = Criterion(name="instruction", ability="IA")
VQ = Criterion(name="quality", ability="VQ")
RC = Criterion(name="references", ability="RC")


def rows(variant: str, *marks: float | None, criterion: str = "instruction", model: str = "") -> list[AuditMark]:
    """One mark a case."""
    return [
        AuditMark(f"c{i}", variant, criterion, 0, mark, "" if mark is not None else "refused", model)
        for i, mark in enumerate(marks)
    ]


def clean(*cases: Iterable[float], criterion: str = "instruction", model: str = "") -> list[AuditMark]:
    """The repeats of each case."""
    return [
        AuditMark(f"c{i}", "clean", criterion, repeat, mark, "", model)
        for i, marks in enumerate(cases)
        for repeat, mark in enumerate(marks)
    ]


def cell(report: AuditReport, number: int, criterion: str = "instruction") -> DamageCell:
    return next(one for one in report.damages if (one.number, one.criterion) == (number, criterion))


# The table of perturbations.


def test_the_34_perturbations_make_up_the_presets() -> None:
    table = perturbations()
    assert list(table) == list(range(1, 35))
    assert [n for n, one in table.items() if "quick" in one.presets] == [1, 2, 4, 16, 20, 27]
    core = Counter(one.kind for one in table.values() if "core" in one.presets)
    assert core == {"damage": 11, "nuisance": 4, "attack": 3, "control": 2}
    assert all(bool(one.falls) == (one.kind == "damage") for one in table.values())
    assert not any(set(one.falls) & set(one.stays) for one in table.values())


def test_the_name_of_a_variant_says_which_and_how_strong() -> None:
    assert Variant.of("16:blur@3") == (16, "blur", "3")
    assert Variant.of("27:instruction_strip") == (27, "instruction_strip", "")
    assert Variant.of("clean").number == 0
    for wrong in ("blur", "99:unknown", "x:blur"):
        with pytest.raises(RefBenchError, match="no variant of an audit"):
            Variant.of(wrong)


# Figures.


def test_pairs_count_ties_by_half_and_leave_out_cases_at_the_floor() -> None:
    marks = clean((8, 8, 6), (9, 9, 9), (1, 2, 1)) + rows("1:other_output", 8, 3, 1)
    one = figures.pairs(Marks.of(marks, [IA]), IA, 1)
    assert one.higher.tolist()[:2] == [pytest.approx(1 / 3), 1.0]
    assert np.isnan(one.higher[2]) and one.at_floor == 1
    assert one.tied[0] == pytest.approx(2 / 3)
    assert one.fall.tolist()[:2] == [pytest.approx(-2 / 3), 6.0]


def test_on_a_scale_where_less_is_better_a_rise_is_a_fall() -> None:
    less = Criterion(name="instruction", ability="IA", low=0, high=4, better="lower")
    one = figures.pairs(Marks.of(clean((0, 1)) + rows("1:other_output", 3), [less]), less, 1)
    assert one.higher[0] == 1.0
    assert one.fall[0] == 2.5


def test_rises_are_over_the_damaged_output_that_was_attacked() -> None:
    marks = clean((9,), (9,)) + rows("1:other_output", 2, None) + rows("4:subject_gone", 5, 4)
    table = Marks.of(marks + rows("27:instruction_strip", 5, 6), [IA])
    assert figures.rise(table, IA, 27).tolist() == [3.0, 2.0]


def test_references_in_a_grid_may_not_be_liked() -> None:
    table = Marks.of(clean((6,), criterion="references") + rows("6:grid", 9, criterion="references"), [RC])
    assert table.attacks(RC) == [6]
    assert figures.rise(table, RC, 6).tolist() == [3.0]


def test_excess_is_what_asking_again_does_not_explain() -> None:
    marks = clean((8, 8, 6), (7, 7, 7)) + rows("23:gamma", 8, 5)
    # Changes 0, 0, 2 against repeats 0, 2, 2; and 2, 2, 2 against 0.
    assert figures.excess(Marks.of(marks, [IA]), IA, 23).value == pytest.approx((2 / 3 - 4 / 3 + 2) / 2)


def test_flips_are_changes_of_the_order_of_two_outputs_less_those_by_asking_again() -> None:
    marks = clean((8, 8), (8, 6), model="a") + clean((6, 6), (7, 7), model="b")
    marks += rows("23:gamma", 5, 8, model="a") + rows("23:gamma", 6, 7, model="b")
    # The first order is turned; of the second half of the clean orders, which are themselves turned always.
    assert figures.flips(Marks.of(marks, [IA]), IA, 23).value == pytest.approx((1.0 + (0.5 - 1.0)) / 2)


def test_a_ladder_has_kendalls_tau_and_the_share_that_never_rises() -> None:
    marks = clean((9,), (9,), (9,), criterion="quality")
    for strength, given in enumerate(((8, 9, 9), (8, 7, 9), (3, 8, 9)), 1):
        marks += rows(f"16:blur@{strength}", *given, criterion="quality")
    one = figures.ladder(Marks.of(marks, [VQ]), VQ, 16)
    assert one is not None
    expected = [-kendalltau(range(4), [9, *marks]).statistic for marks in ((8, 8, 3), (9, 7, 8))]
    assert one.tau.value == pytest.approx(np.mean(expected))
    assert one.never_rises.value == pytest.approx(2 / 3)
    assert one.n_flat == 1


def test_auc_is_that_of_mann_and_whitney() -> None:
    rng = np.random.default_rng(1)
    good, bad = rng.integers(5, 11, 30), rng.integers(3, 9, 30)
    marks = clean(*((float(mark),) for mark in good)) + rows("1:other_output", *map(float, bad))
    one = figures.auc(Marks.of(marks, [IA]), IA, [1])
    assert one.value == pytest.approx(mannwhitneyu(good, bad).statistic / 900)


def test_spread_tells_how_many_marks_are_used() -> None:
    marks = clean((8, 8), (8, 10), (7, 8)) + rows("1:other_output", 8, 8, 7)
    one = figures.spread(Marks.of(marks, [IA]), IA, [1])
    assert (one.n_marks, one.values_used, one.narrow) == (9, 3, False)
    assert one.commonest.value == pytest.approx(6 / 9)
    assert one.at_top.value == pytest.approx(1 / 9)
    two = Marks.of(clean((8, 7), (8, 7)) + rows("1:other_output", 7, 8), [IA])
    assert figures.spread(two, IA, [1]).narrow
    binary = Criterion(name="instruction", ability="IA", low=0, high=1)
    assert not figures.spread(Marks.of(clean((1, 0)) + rows("1:other_output", 0), [binary]), binary, [1]).narrow


def test_places_are_told_apart_by_how_many_references_a_case_has() -> None:
    marks = clean((9,), (9,), (9,), criterion="references")
    marks += [AuditMark(f"c{i}", f"3:reference_swapped@{i + 1}", "references", 0, 5.0) for i in range(3)]
    found = figures.places(Marks.of(marks, [RC]), RC, {"c0": 3, "c1": 3, "c2": 3})
    assert {place: one.n for place, one in found.items()} == {"first": 1, "middle": 1, "last": 1, "after the first": 2}


def test_outputs_of_one_case_count_as_one() -> None:
    alone = mean_over_cases(np.array([1.0, 3.0, 2.0, 6.0]), np.arange(4))
    twice = mean_over_cases(np.array([1.0, 1.0, 3.0, 3.0, 2.0, 2.0, 6.0, 6.0]), np.repeat(np.arange(4), 2))
    assert twice.n == 4
    assert twice.interval() == pytest.approx(alone.interval())


def test_the_p_of_a_share_is_the_level_at_which_its_interval_ends_there() -> None:
    for value, error in ((0.9, 0.03), (0.6, 0.05), (1.0, 0.0)):
        for end in set(score_interval(value, error, 48, 47)) - {0.0, 1.0}:
            assert score_p(value, error, 48, 47, end) == pytest.approx(0.05, abs=1e-6)


def test_the_interval_of_yes_or_no_answers_is_wilsons() -> None:
    """Of very many answers, where Student's t is the normal distribution."""
    low, high = score_interval(0.8, (0.16 / 4000) ** 0.5, 4000, 3999)
    wilson = binomtest(3200, 4000).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((wilson.low, wilson.high), abs=2e-5)


# States.


def test_failures_are_counted_by_perturbation_and_are_no_marks() -> None:
    marks = clean(*((8.0,) for _ in range(25))) + rows("1:other_output", *[3.0] * 20, None, None, 11.0, None, 3.0)
    report = audit_report(marks, [IA])
    assert cell(report, 1).failures == {"out_of_range": 1, "refused": 3}
    assert cell(report, 1).sees.n == 21
    assert report.card.n_failures == 4


def test_a_damage_with_fewer_than_20_cases_has_no_number() -> None:
    marks = clean(*((8.0, 8.0) for _ in range(20)))
    marks += rows("1:other_output", *[3.0] * 20) + rows("4:subject_gone", *[8.0] * 19)
    report = audit_report(marks, [IA])
    few = cell(report, 4)
    assert (few.sees.value, few.sees.why, few.verdict, few.more_cases) == (
        None,
        "fewer than 20 cases",
        "too few cases",
        1,
    )
    assert few.ties is None and few.drop.value is None
    assert report.card.criteria[0].sees.value == 1.0, "the mean is over the damages that have a number"


def test_a_criterion_that_was_not_declared_is_an_error() -> None:
    with pytest.raises(RefBenchError, match="not declared"):
        audit_report(rows("clean", 3.0), [VQ])
    with pytest.raises(RefBenchError, match="each with its ability"):
        audit_report([], [])


# Verdicts.


def test_accusations_are_corrected_over_the_whole_table_and_reassurance_is_not() -> None:
    """Of 48 cases the judge sees 28, which alone is below 0.75 for sure, or 44, which alone is above."""
    for seen, alone, among_many in ((28, "blind", "cannot tell"), (44, "seen", "seen")):
        given = [3.0] * seen + [9.0] * (48 - seen)
        few = clean(*((8.0,) for _ in range(48))) + rows("1:other_output", *given)
        assert cell(audit_report(few, [IA]), 1).verdict == alone
        many = list(few)
        for number in (2, 4, 5, 6, 13, 14, 15):
            many += rows(f"{number}:{perturbations()[number].name}", *[3.0] * 36, *[9.0] * 12)
        one = cell(audit_report(many, [IA]), 1)
        assert one.verdict == among_many
        assert (one.more_cases or 0) > 10 or among_many == "seen"


def test_what_was_not_tried_is_not_shown() -> None:
    given = [8.0, 9.0] * 10
    marks = clean(*((mark, mark) for mark in given)) + rows("1:other_output", *[3.0] * 20)
    marks += rows("27:instruction_strip", *[3.0] * 20)
    card = audit_report(marks, [IA]).card.criteria[0]
    assert (card.verdict, card.sees_verdict) == ("cannot tell", "seen")
    assert card.why == ("no nuisance was tried", "no control without seeing was tried")
    refused = marks + rows("31:all_grey", *[None] * 20) + rows("23:gamma", *given)
    assert audit_report(refused, [IA]).card.criteria[0].verdict == "usable", "who refuses to guess does not guess"


def test_an_unmoved_mark_needs_no_interval() -> None:
    marks = clean(*((8.0, 8.0) for _ in range(20))) + rows("23:gamma", *[8.0] * 20)
    assert audit_report(marks, [IA]).nuisances[0].verdict == "unmoved"


def test_a_criterion_that_is_shifted_alike_still_ranks() -> None:
    rng = np.random.default_rng(5)
    about = truth(rng, 48)
    marks = [
        one._replace(mark=max(1.0, (one.mark or 0) - 2)) if one.variant.startswith("23:") else one
        for one in marks_of(steady, about, rng)
    ]
    report = audit_report(marks, CRITERIA)
    assert {card.verdict for card in report.card.criteria} == {"ranks only"}
    assert report.card.criteria[0].why == ("shifted alike by gamma",)


@pytest.mark.parametrize("name", JUDGES)
def test_planted_faults_are_found_and_no_others_in_judges_without(name: str) -> None:
    report, moved = planted_audit(name, np.random.default_rng(11), 48)
    found = faults_found(report, moved)
    assert RIGHT_FLAGS.get(name, set()) <= found
    assert name not in ("perfect", "noisy") or found == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", JUDGES)
def test_planted_faults_are_found_in_most_audits(name: str) -> None:
    """perf/audit.py makes 200 of each, and measures the shares."""
    rng = np.random.default_rng(12)
    found = [faults_found(*planted_audit(name, rng, 48)) for _ in range(20)]
    wanted = RIGHT_FLAGS.get(name)
    assert sum(wanted <= one if wanted else not one for one in found) >= 18


def test_references_after_the_first_are_told_apart_from_the_first() -> None:
    rng = np.random.default_rng(3)
    marks = marks_of(one_reference, truth(rng, 96), rng)
    report = audit_report(marks, CRITERIA, Audited(references={f"c{i}": 3 for i in range(96)}))
    assert {row.place: row.verdict for row in report.positions if row.p is not None} == {
        "first": "seen",
        "after the first": "blind",
    }
    card = next(card for card in report.card.criteria if card.name == "RC")
    assert (card.verdict, card.why) == ("not usable", ("does not see references after the first",))


# The card.


@pytest.fixture(scope="module")
def audited() -> AuditReport:
    rng = np.random.default_rng(4)
    about = truth(rng, 48)
    people = [PeopleMark(f"c{i}", "RC", float(mark) / 2) for i, mark in enumerate(about.marks["clean"][:, 1])]
    facts = Audited("openai:judge", "3fa9bb0112345", "own", "core", 0.012, {f"c{i}": 3 for i in range(48)})
    return audit_report(marks_of(one_reference, about, rng, lost=0.03), CRITERIA, facts, people)


def test_a_card_is_found_by_judge_wording_and_rubric_beside_a_run(audited: AuditReport, tmp_path: Path) -> None:
    card = audited.card
    path = keep_card(card, tmp_path / "audit")
    assert path.name == card_name(card.judge, card.wording, card.rubric)
    run = tmp_path / "x"
    run.mkdir()
    same = {"judge": card.judge, "wording": card.wording, "rubric": card.rubric}
    assert card_of(run, **same) == card
    for name in same:
        assert card_of(run, **{**same, name: "another"}) is None
    path.write_text('{"judge": "of another version"}')
    assert card_of(run, **same) is None
    (tmp_path / "cards").write_text("a file where the folder should be")
    with pytest.raises(RefBenchError, match="choose another"):
        keep_card(card, tmp_path)


def test_a_report_has_a_json_form(audited: AuditReport) -> None:
    assert AuditReport.model_validate_json(audited.model_dump_json()) == audited


def test_the_sentence_to_paste_has_figures_and_no_verdicts(audited: AuditReport) -> None:
    said = sentence(audited.card)
    assert "95 % CI" in said and "48 cases" in said
    assert NOT_VALIDATED[1:] in said
    assert not any(word in said for word in ("usable", "blind", "ranks only", "fooled"))


def test_a_report_fits_a_terminal_of_80_columns(audited: AuditReport) -> None:
    out = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    print_audit(audited, out)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= 80
    for part in ("Judge card: openai:judge", "not yet validated", "does not see references after the first", "Ladders"):
        assert part in text
    assert "refused" in text


def test_a_red_cell_names_the_outputs_behind_it(audited: AuditReport) -> None:
    worst = next(one for one in audited.damages if (one.number, one.criterion) == (3, "RC")).worst
    assert len(worst) == 5
    assert all(int(case[1:]) < 48 for case, _ in worst)


# People.


def test_the_map_to_peoples_scale_is_isotonic_regression() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(1, 8, 60).astype(float)
    y = x + rng.normal(0, 2, 60)
    levels, fitted = isotonic_map(x, y)
    order = np.argsort(x, kind="stable")
    means = [y[x == level].mean() for level in levels]
    weights = [(x == level).sum() for level in levels]
    assert fitted == pytest.approx(isotonic_regression(means, weights=weights).x)
    assert np.isfinite(out_of_fold(x[order], y[order], np.arange(60))).all()


def test_a_band_needs_as_many_residuals_as_its_level_asks() -> None:
    assert conformal_width(np.arange(9.0)) == 8.0
    assert conformal_width(np.arange(8.0)) is None


def test_the_map_lowers_the_error_against_people(audited: AuditReport) -> None:
    row = audited.people[0]
    assert row.before.value is not None and row.after.value is not None
    assert row.after.value < row.before.value / 2
    assert row.half_width is not None


# Drift and panels.


def test_another_instrument_behind_the_name_is_noticed() -> None:
    rng = np.random.default_rng(6)
    about = truth(rng, 48)
    then, again, now = (marks_of(judge, about, rng) for judge in (steady, steady, drifted))
    assert not any(row.moved for row in drift_of_audits(then, again, CRITERIA))
    found = drift_of_audits(then, now, CRITERIA)
    assert all(row.moved and row.shift.value and row.shift.value < 0 for row in found)
    out = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    print_drift(found, out)
    assert "another instrument behind the name" in " ".join(out.file.getvalue().split())  # type: ignore[attr-defined]


def test_audits_of_other_cases_are_not_compared() -> None:
    with pytest.raises(RefBenchError, match="no clean item in common"):
        drift_of_audits(rows("clean", 3.0), [AuditMark("other", "clean", IA.name, 0, 3.0)], [IA])


def test_two_cheap_judges_may_see_what_an_expensive_one_sees() -> None:
    rng = np.random.default_rng(7)
    about = truth(rng, 48)
    cheap = partial(noisy, sd=0.7)
    judges = {"big": steady, "a": cheap, "b": cheap, "c": blind}
    asked = [criterion for criterion in CRITERIA if criterion.name in ("BM", "VQ")]
    names = {criterion.name for criterion in asked}
    marks = {
        name: [mark for mark in marks_of(judge, about, rng) if mark.criterion in names]
        for name, judge in judges.items()
    }
    found = panels(marks, asked, instead_of="big", usd_per_call={"a": 0.001, "b": 0.002, "c": 0.0005})
    by_names = {row.judges: row for row in found}
    assert len(found) == 7
    assert by_names["a", "b"].verdict == "sees as much"
    assert by_names["a", "b"].usd_per_call == pytest.approx(0.003)
    assert by_names["c",].verdict == "sees less"
    assert "VQ: blur" in by_names["c",].misses
    out = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    print_panels(found, "big", out)
    assert "sees as much" in out.file.getvalue()  # type: ignore[attr-defined]
    with pytest.raises(RefBenchError, match="among others"):
        panels({"big": marks["big"]}, asked, instead_of="big")


def test_a_blur_that_is_strong_says_nothing_about_halo() -> None:
    """Instruction marks stay only under the weakest; a quick audit has none of it."""
    both = [*clean(*((8.0,) for _ in range(20))), *clean(*((8.0,) for _ in range(20)), criterion="quality")]
    for strength, expected in ((1, 0.0), (3, None)):
        marks = [*both, *rows(f"16:blur@{strength}", *[4.0] * 20)]
        marks += rows(f"16:blur@{strength}", *[4.0] * 20, criterion="quality")
        assert audit_report(marks, [IA, VQ]).card.criteria[1].selective.value == expected
