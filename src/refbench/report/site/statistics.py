"""Chunks `<board>/compare` and `<board>/agreement`: what the analyses say about a board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from refbench.analysis.agree.ratings import is_panel
from refbench.analysis.agree.rows import agreement_rows
from refbench.analysis.precision.variance import Variance, variances
from refbench.record import RefBenchError
from refbench.report.site.boards import Board
from refbench.report.site.contract import AgreementChunk, CompareChunk, GapRow, as_view
from refbench.score import Score
from refbench.tables.scoring import REFUSALS, run_draws

_MOST_DRIVERS = 8
_LIMITS = (
    "A pair is compared on the cases that both models have a score for, in the benchmark's own aggregate.",
    "Adjusted p-values are Holm's over all pairs of one protocol, all judges together; intervals are of single pairs.",
    "A gap that is not resolved is not proof that two models are equal.",
)


def compare_chunk(board: Board) -> CompareChunk:
    """All pairs of models under every protocol and judge, in the summary measure."""
    pairs: list[GapRow] = []
    limits: list[str] = list(_LIMITS)
    for protocol, judge in _families(board):
        try:
            found = board.compare(protocol, judge)
        except RefBenchError as error:
            limits.append(f"{protocol}, {judge or 'no judge'}: {error}")
            continue
        limits += [note for note in (*found.differences, *found.notes) if note not in limits]
        for pair in found.pairs:
            if pair.gap is None:
                limits.append(f"{pair.first} and {pair.second} ({protocol}, {judge or 'no judge'}): {pair.failure}")
                continue
            drivers = pair.drivers[:_MOST_DRIVERS]
            pairs.append(
                as_view(
                    GapRow,
                    pair,
                    first=board.model_numbers[pair.first],
                    second=board.model_numbers[pair.second],
                    judge=board.judge_numbers[judge],
                    protocol=protocol,
                    metric=found.metric,
                    undone=pair.undone_by if pair.only_failures else "",
                    n=pair.n_cases,
                    drivers=[{"slice": d.slice, "gap": d.gap, "share": d.share, "n": d.n_cases} for d in drivers],
                )
            )
    return CompareChunk(pairs=pairs, limits=limits)


def _families(board: Board) -> Iterator[tuple[str, str | None]]:
    """Protocol and judge wherever a judge has seen at least two models."""
    systems = {(score.protocol, score.judge, score.model) for score in board.result.scores}
    for protocol in board.protocols:
        for judge in board.judges:
            if sum(place[:2] == (protocol, judge) for place in systems) > 1:
                yield protocol, judge


def agreement_chunk(board: Board) -> AgreementChunk:
    """Judges against each other, and where the variance of each model's marks comes from; first protocol only."""
    protocol = board.protocols[0]
    notes = [f"Under the {protocol} protocol."]
    pairs = agreement_rows(board.result, protocol)
    if not pairs:
        judges = sum(judge is not None for judge in board.judges)
        there = (
            "There is one judge"
            if judges == 1
            else "No judge was asked"
            if not judges
            else "No two judges have marked the same pictures"
        )
        notes.append(f"{there}: agreement needs at least two, or scores of people (refbench agree).")
    components: list[dict[str, Any]] = []
    for run in range(len(board.runs)):
        for one in _variances(board, run, protocol):
            components += _component_rows(board, one)
            notes += [f"{one.model}: {remark}." for remark in one.remarks]
    return AgreementChunk(pairs=pairs, components=components, notes=list(dict.fromkeys(notes)))


def _variances(board: Board, run: int, protocol: str) -> list[Variance]:
    """The components of one run's models, on the cases that this run was asked for."""
    called = {model.of_run: model.name for model in board.models if model.run == run}
    drawn = _single_draws(board) or [
        score.model_copy(update={"model": called[score.model]})
        for score in run_draws(board.runs[run].path, protocol=protocol)
        if score.model in called
    ]
    there = {score.case for score in drawn}
    names = set(called.values())
    of_run = replace(
        board.result,
        cases=tuple(case for case in board.cases if case.id in there),
        scores=tuple(s for s in board.result.scores if s.model in names and s.case in there),
    )
    return variances(of_run, drawn, protocol) if drawn else []


def _single_draws(board: Board) -> list[Score]:
    """The scores of the only run of a board where each picture was judged once: what was drawn is what is scored then,
    and the run need not be read again."""
    replies = board.replies[0]
    if len(board.runs) > 1 or replies.has_repeats or board.result.refusals != REFUSALS[0]:
        return []
    return [s for s in board.result.scores if s.model in replies.models and (s.judge is None or not is_panel(s.judge))]


def _component_rows(board: Board, one: Variance) -> list[dict[str, Any]]:
    more = {gain.of.split()[-1].removesuffix("s"): gain for gain in one.one_more}
    rows = []
    for source, variance in one.variance.items():
        # Another judge evens out how judges differ from case to case; how strict the panel is, it leaves open.
        gain = more.get({"case_by_judge": "judge", "judge": ""}.get(source, source))
        buys = None
        if gain is not None and gain.error is not None and one.error is not None:
            of = f"gap to {one.versus}: " if one.versus else ""
            buys = f"{of}standard error {one.error:.3g} now, {gain.error:.3g} with {_more(gain.of)}"
        elif gain is not None:
            buys = gain.why
        rows.append(
            {
                "model": board.model_numbers[one.model],
                "judge": None,
                "metric": one.measure,
                "source": source.replace("_", " "),
                "share": one.share[source],
                "variance": variance,
                "buys": buys,
            }
        )
    return rows


def _more(of: str) -> str:
    return f"{of} more" if of[0].isdigit() else f"one more {of}"
