"""`refbench precision`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refbench.cli.options import Data, Json, Refusals
from refbench.record import counted

if TYPE_CHECKING:
    from rich.console import Console

    from refbench.analysis.precision.report import JudgePrecision, PrecisionReport
    from refbench.analysis.precision.variance import Variance
    from refbench.analysis.precision.weights import WeightSweep


def precision_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    protocol: Annotated[
        Literal["paper", "corrected"] | None, Parameter(help="Which numbers; by default the benchmark's first")
    ] = None,
    judge: Annotated[str | None, Parameter(help="Only the numbers of this judge")] = None,
    weights: Annotated[
        list[str] | None, Parameter(help="Weights of the criteria to try, for example 1:1:1; several times")
    ] = None,
    humans: Annotated[
        Path | None,
        Parameter(help="CSV of people's scores, as `agree --humans` reads it: how well each weighting goes with them"),
    ] = None,
    given: Annotated[
        list[str] | None, Parameter(help="MEASURE:CONDITION:AT_LEAST, for example VC:IF:80; several times")
    ] = None,
    refusals: Refusals = "conditional",
    data: Data = None,
    json: Json = False,
) -> int:
    """Say how certain a run's numbers are: failures, ranks, where the variance comes from, what one more seed,
    judge or repeat would buy, weights, outputs that are copies, and consistency among outputs that follow."""
    from refbench.analysis.agree.people import read_people
    from refbench.analysis.precision.report import precision_report
    from refbench.record import RefBenchError
    from refbench.report.site.boards import picture_root
    from refbench.runs import Run
    from refbench.tables.scoring import score_run
    from refbench.text.console import console

    result = score_run(run, protocol=protocol or "both", draws=0, refusals=refusals)
    result.needs_all_calls("refbench precision", str(run))
    opened = Run.open(run)
    if humans is not None and not humans.is_file():
        raise RefBenchError(f"--humans {humans}: there is no such file; give a CSV of human scores")
    metrics = list(dict.fromkeys(row.metric for row in result.table.rows))
    report = precision_report(
        result,
        opened,
        protocol=protocol or result.table.rows[0].protocol,
        judge=judge,
        weights=weights or (),
        humans=None if humans is None else read_people(humans, metrics=metrics),
        given=given or (),
        pictures=picture_root([opened], result.bench, result.cases, data),
    )
    if json:
        print(report.model_dump_json())
    else:
        _print(report, console())
    return 0


def _print(report: PrecisionReport, out: Console) -> None:
    from rich.text import Text

    from refbench.score import digits_of

    of = f"{counted(report.n_cases, 'case')}, {report.protocol}"
    out.print(Text.assemble((report.title, "bold"), f": {of}, fingerprint {report.fingerprint}"))
    ends = [end for one in report.judges for c in one.coverage for end in c.bounds or ()]
    digits = digits_of([*ends, *(rank.value for one in report.judges for rank in one.ranking)])
    for note in report.notes:
        out.print(Text(f"Note: {note}."))
    for one in report.judges:
        by = f" by {one.judge}" if one.judge else ""
        out.print(Text(f"\nRanks in {report.measure}{by}", style="bold"))
        _print_ranking(one, digits, out)
        out.print(Text(f"\nFailures{by}", style="bold"))
        _print_failures(one, digits, out)
        out.print(Text(f"\nWeights{by}", style="bold"))
        if isinstance(one.weights, str):
            _say(one.weights, out)
        else:
            _print_weights(one.weights, out)
        _print_conditional(one, by, digits, out)
    out.print("\nWhere the variance comes from", style="bold")
    _print_variance(report, digits, out)
    out.print("\nOutputs that are copies", style="bold")
    _print_copies(report, out)


def _print_ranking(one: JudgePrecision, digits: int, out: Console) -> None:
    rows = []
    for rank in one.ranking:
        low, high = rank.rank95 or (0, 0)
        reach = "-" if rank.rank95 is None else f"{low}" if low == high else f"{low} to {high}"
        best = "-" if rank.best is None else f"{100 * rank.best:.0f} %"
        rows.append((rank.model, _number(rank.value, digits), str(rank.rank), reach, best))
    _rows(out, ("model", "value", "rank", "could hold (95 %)", "best in"), rows)


def _print_failures(one: JudgePrecision, digits: int, out: Console) -> None:
    rows = []
    for whole in (c for c in one.coverage if c.slice["level"] == "overall"):
        parts = [c for c in one.coverage if c.model == whole.model and c.n_expected and c is not whole]
        least = min(parts, key=lambda c: c.n_scored / c.n_expected, default=None)
        where = "-"
        if least is not None and least.n_scored < least.n_expected:
            name = " / ".join(value for key, value in least.slice.items() if key != "level")
            where = f"{name}: {least.n_scored} of {least.n_expected}"
        kinds = ", ".join(f"{n} {kind}" for kind, n in whole.failures.items())
        reach = " to ".join(_number(end, digits) for end in whole.bounds or ()) if kinds else ""
        scored = f"{whole.n_scored} of {whole.n_expected}"
        rows.append((whole.model, scored, kinds or "none", reach or "-", where))
    _rows(out, ("model", "scored", "failed", "whatever they score", "least covered slice"), rows)
    _say(one.failures.statement, out)
    if one.failures.n_left_out:
        _say(f"{one.failures.n_left_out} cases that not every model was asked for are not in this test", out)


def _print_weights(sweep: WeightSweep, out: Console) -> None:
    winners = ", ".join(f"{model} in {100 * share:.0f} %" for model, share in list(sweep.winners.items())[:3])
    _say(f"the weights of {sweep.measure} are {sweep.default.label} ({', '.join(sweep.criteria)})", out)
    _say(f"over {sweep.n_grid} weightings on a grid, first is {winners}", out)
    tau = ""
    if sweep.tau_lowest is not None and sweep.tau_median is not None:
        tau = f"; Kendall's tau with its own order: median {sweep.tau_median:.2f}, lowest {sweep.tau_lowest:.2f}"
    _say(f"the whole order stays the same in {100 * sweep.same_order:.0f} % of them{tau}", out)
    shown = [(f"{sweep.default.label} (own)", sweep.default), *((one.label, one) for one in sweep.given)]
    if sweep.human_best is not None:
        shown.append((f"{sweep.human_best.label} (best fit)", sweep.human_best))
    if len(shown) > 1:
        titles: tuple[str, ...] = ("weights", "tau")
        if (fit := sweep.default.human) is not None:
            titles += (f"r ({fit.n_models} models)", "rho", f"r ({fit.n_items} outputs)")
        rows = []
        for name, one in shown:
            row: tuple[str, ...] = (name, _number(one.tau, 2))
            if one.human is not None:
                fits = one.human.pearson, one.human.spearman, one.human.item_pearson
                row += tuple(_number(value, 3) for value in fits)
            rows.append((*row, " > ".join(one.ranking)))
        _rows(out, (*titles, "order"), rows, last="left")
    if sweep.human_best is not None:
        _say("the best fit with human scores was found by looking, so it flatters itself", out)
    for remark in sweep.remarks:
        _say(remark, out)


def _print_conditional(one: JudgePrecision, by: str, digits: int, out: Console) -> None:
    from rich.text import Text

    for of, given, least in dict.fromkeys((row.of, row.given, row.at_least) for row in one.conditional):
        mine = [row for row in one.conditional if (row.of, row.given, row.at_least) == (of, given, least)]
        out.print(Text(f"\n{of} where {given} is at least {least:g}{by}", style="bold"))
        rows = []
        for row in mine:
            ends = [_number(end, digits) for end in row.ci95 or ()]
            outputs = f"{row.n} of {row.n_scored}"
            over_all = _number(row.unconditional, digits)
            rows.append((row.model, _number(row.value, digits), " to ".join(ends) or "-", outputs, over_all))
        _rows(out, ("model", f"{of} there", "95 % interval", "outputs", f"{of} over all"), rows)
        _say(f"each model has such outputs of its own; {mine[0].n_shared} cases are among every model's", out)


def _print_variance(report: PrecisionReport, digits: int, out: Console) -> None:
    if not report.variances:
        _say("too few scored cases to tell", out)
        return
    shares = ", ".join(f"{_SOURCES[source]} {100 * share:.0f} %" for source, share in report.shares.items())
    _say(f"mean over {report.n_pooled} of {len(report.variances)} models: {shares}", out)
    most = max(report.variances, key=lambda one: len(one.share))
    for inside in dict.fromkeys(most.merged.values()):
        hidden = [source for source in ("seed", "repeat") if most.merged.get(source) == inside]
        if hidden:
            sources = " and ".join(f"{source}s" for source in hidden)
            _say(f"what {sources} add cannot be told apart here, and counts as {_SOURCES[inside]}", out)
    more = {m.of: any(dict(_errors(one))[m.of] for one in report.variances) for m in report.variances[0].one_more}
    told = [of for of, known in more.items() if known]
    level = any(one.level_error is not None for one in report.variances)
    rows = []
    for one in report.variances:
        errors = dict(_errors(one))
        cells = [one.error, *(errors[of] for of in told), *([one.level_error] if level else [])]
        rows.append((one.model, one.versus or "-", *(_number(cell, digits) for cell in cells)))
    panel = ", mean over the judges" if any(one.n_judges > 1 for one in report.variances) else ""
    gap = any(one.versus for one in report.variances)
    what = f"gap in {report.measure} to another model" if gap else f"{report.measure} of the only model"
    _say(f"the standard error of the {what}{panel}, by cluster, now and with more (of a gap, for both models)", out)
    titles = [f"+1 {of}" if of in _PLURAL else f"+{of}" for of in told]
    _rows(out, ("model", "to", "now", *titles, *(["judges' level"] if level else [])), rows)
    if level:
        _say("judges' level: what another panel of as many judges would add", out)
    _print_purchases(report, digits, out)
    lacking: dict[str, list[str]] = {}
    for one in report.variances:
        for one_more in one.one_more:
            if one_more.error is None:
                name = f"+1 {one_more.of}" if one_more.of in _PLURAL else f"+{one_more.of}"
                lacking.setdefault(f"{name}: {one_more.why}", []).append(one.model)
    for reason, models in lacking.items():
        _say(reason if len(models) == len(report.variances) else f"{reason} ({', '.join(models)})", out)
    remarks: dict[str, list[str]] = {}
    for one in report.variances:
        for remark in one.remarks:
            remarks.setdefault(remark, []).append(one.model)
    for remark, models in remarks.items():
        _say(f"{remark} ({', '.join(models)})", out)


def _print_purchases(report: PrecisionReport, digits: int, out: Console) -> None:
    """Where the variance of each gap comes from, and what takes most of it for each judgement that is bought."""
    for one in report.variances:
        if one.versus is not None and one.error_shares:
            parts = ", ".join(f"{of}s {100 * share:.0f} %" for of, share in one.error_shares.items())
            _say(
                f"of the variance of {one.model}'s gap to {one.versus}, ever more of each would take at most: {parts} "
                "(they overlap); the rest takes more cases",
                out,
            )
    for one in report.variances:
        best = one.best_buy
        if best is not None:
            name = f"one more {best.of}" if best.of in _PLURAL else f"{best.of} more"
            to = f" to {one.versus}" if one.versus else ""
            _say(
                f"what to buy next for {one.model}{to}: {name}, which takes most from the variance for each judgement "
                f"({best.calls:.0f} of them: {_number(one.error, digits)} becomes {_number(best.error, digits)})"
                + ("; its pictures cost as well" if best.of != "repeat" and best.of != "judge" else ""),
                out,
            )


def _errors(one: Variance) -> list[tuple[str, float | None]]:
    return [(more.of, more.error) for more in one.one_more]


_SOURCES = {
    "case": "cases",
    "judge": "judges' levels",
    "case_by_judge": "judges differing about cases",
    "seed": "seeds",
    "seed_by_judge": "judges differing about single outputs",
    "repeat": "a judge asked again",
}
_PLURAL = ("seed", "judge", "repeat")


def _print_copies(report: PrecisionReport, out: Console) -> None:
    check = report.copies
    if isinstance(check, str):
        _say(check, out)
        return
    words = {"near_source": "nearly the source", "near_reference": "nearly a reference"}
    for model, checked in check.checked.items():
        for flag, words_of_flag in words.items():
            cases = [one.case for one in check.flags if (one.model, one.flag) == (model, flag)]
            distinct = list(dict.fromkeys(cases))
            if cases:
                more = f" and {len(distinct) - 3} more" if len(distinct) > 3 else ""
                named = ", ".join(distinct[:3])
                _say(f"{model}: {len(cases)} of {checked} outputs are {words_of_flag} ({named}{more})", out)
    if not check.flags:
        _say(f"none of {sum(check.checked.values())} outputs is nearly its source or a reference", out)
    if check.not_checked:
        first = check.not_checked[0]
        named = f"{first.model}, {first.case}: {first.why}"
        _say(f"not checked: {len(check.not_checked)} outputs (first: {named})", out)


def _rows(
    out: Console, titles: Sequence[str], rows: Sequence[Sequence[str]], last: Literal["left", "right"] = "right"
) -> None:
    """A plain table; names and words are text, whatever marks they contain."""
    from rich.text import Text

    from refbench.text.tables import Grid

    grid = Grid(pad_edge=True)
    for i, title in enumerate(titles):
        grid.add_column(title, justify="left" if i == 0 else last if i == len(titles) - 1 else "right")
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    out.print(grid)


def _say(sentence: str, out: Console) -> None:
    from rich.text import Text

    # Only a word of ours is capitalised: a model's name stays as it is.
    first = sentence.split(" ", 1)[0]
    out.print(Text(f"  {sentence[0].upper() if first.isalpha() and first.islower() else sentence[0]}{sentence[1:]}."))


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
