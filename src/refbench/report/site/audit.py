"""Chunk `<board>/audit`: what an audit's run says of each judge, with the outputs behind every cell of its matrix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from refbench.analysis.audit.card import sentence
from refbench.analysis.audit.marks import CLEAN, Variant
from refbench.analysis.audit.records import AuditReport, Cell
from refbench.builders.audit.anchor import judges_of
from refbench.builders.audit.read import JudgeAudit, is_audit, read_audit
from refbench.builders.audit.variants import VariantRow
from refbench.case import AnyCase
from refbench.record import RefBenchError
from refbench.report.figures.audit import blind_chart, ladder_chart, ladder_title, place_chart
from refbench.report.figures.chart import Panel
from refbench.report.site.boards import Board
from refbench.report.site.contract import AuditChunk, FigureView, JudgeAuditView, PictureView, VariantView
from refbench.report.site.figures import figure_view
from refbench.report.site.pictures import PictureStore

_SWAPPED = 3


def audit_chunk(board: Board, store: PictureStore) -> AuditChunk:
    """Every judge of every audit among the runs of a board."""
    return AuditChunk(
        judges=[
            _of_judge(board, store, run, judge)
            for run, one in enumerate(board.runs)
            if is_audit(one)
            for judge in judges_of(one)
            if judge in board.judge_numbers
        ]
    )


def _of_judge(board: Board, store: PictureStore, run: int, judge: str) -> JudgeAuditView:
    found = JudgeAuditView(
        run=board.run_names[run],
        judge=board.judge_numbers[judge],
        why="",
        report=None,
        variants={},
        figures=[],
        left_out={},
        without_ability=[],
        at_hand=True,
        sentence="",
    )
    try:
        audit = read_audit(board.runs[run].path, judge)
    except RefBenchError as error:
        return {**found, "why": str(error)}
    if audit.only_clean:
        return {**found, "why": "Clean outputs were asked about again, and nothing else: refbench audit drift NEW OLD"}
    report = audit.report()
    return {
        **found,
        "report": report.model_dump(mode="json"),
        "variants": _Shown(board, store, run, audit).of(report),
        "figures": _figures(report, judge),
        "left_out": audit.variants.left_out() if audit.variants is not None else {},
        "without_ability": audit.without_ability,
        "at_hand": audit.variants is not None,
        "sentence": sentence(report.card, judge),
    }


def cells_of(report: AuditReport) -> list[Cell]:
    """Every cell of the matrix."""
    return [*report.damages, *report.nuisances, *report.attacks, *report.controls, *report.pairs]


@dataclass(frozen=True)
class _Shown:
    """The variants behind cells: what a judge was shown, and its marks."""

    board: Board
    store: PictureStore
    run: int
    audit: JudgeAudit

    def of(self, report: AuditReport) -> dict[str, dict[str, VariantView]]:
        """By case and variant, in the order of the report's table."""
        wanted: defaultdict[str, set[int]] = defaultdict(set)
        for cell in cells_of(report):
            for case, _ in cell.worst:
                wanted[case].add(cell.number)
        return {case: dict(self._of_case(case, numbers)) for case, numbers in wanted.items()}

    def _of_case(self, case: str, numbers: set[int]) -> Iterator[tuple[str, VariantView]]:
        named = {name for name in self._marks[case] if Variant.of(name).number in numbers}
        bases = {row.base for name in named if (row := self._row(case, name)) is not None}
        for name in sorted({CLEAN, *named, *bases}, key=lambda one: (Variant.of(one).number, Variant.of(one).strength)):
            model = self.board.numbers_by_run.get((self.run, name))
            if model is None:
                continue
            row = self._row(case, name)
            yield (
                name,
                VariantView(
                    model=model,
                    base=CLEAN if row is None else row.base,
                    marks=self._marks[case].get(name, {}),
                    shown=None if row is None else self._pictures(case, row),
                    said="" if row is None else _in_words(row),
                ),
            )

    def _row(self, case: str, variant: str) -> VariantRow | None:
        return None if self.audit.variants is None else self.audit.variants.rows.get((case, variant))

    @cached_property
    def _marks(self) -> Mapping[str, Mapping[str, Mapping[str, list[float | str | None]]]]:
        """By case, variant and criterion: for each repeat the mark, or what became of it."""
        found: defaultdict[str, defaultdict[str, defaultdict[str, list[float | str | None]]]]
        found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        for one in self.audit.marks:
            repeats = found[one.case][one.variant][one.criterion]
            repeats += [None] * (one.repeat + 1 - len(repeats))
            repeats[one.repeat] = one.mark if one.mark is not None else one.failure or "no mark"
        return found

    def _pictures(self, case: str, row: VariantRow) -> list[PictureView] | None:
        """The request's pictures as the judge saw them, where they are not the case's own in their order."""
        if not row.inputs and not row.order:
            return None
        assert self.audit.variants is not None
        pictures = self._cases[case].request.pictures
        own = self.store.inputs(pictures, self.board.picture_root, self.board.inputs)
        shown = [
            self.store.variant(self.audit.variants.path(row.inputs[place]), picture.role)
            if place in row.inputs
            else own[place]
            for place, picture in enumerate(pictures)
        ]
        return [shown[place] for place in row.order] or shown

    @cached_property
    def _cases(self) -> Mapping[str, AnyCase]:
        return {case.id: case for case in self.board.cases}


def _in_words(row: VariantRow) -> str:
    """What a variant changes of the text that the judge reads."""
    name, _, value = row.text.partition(":")
    said = {
        "polite": "the judge's criteria are in another order, after a please",
        "made_by": f"the judge is told that {value} made the picture",
    }
    parts = [said.get(name, row.text)] if row.text else []
    parts += [f"the instruction is put as: {row.instruction}"] if row.instruction is not None else []
    parts += ["references in the order " + ", ".join(str(place + 1) for place in row.order)] if row.order else []
    return "; ".join(parts)


def _figures(report: AuditReport, judge: str) -> list[FigureView]:
    """What can be drawn of a report; each mark opens its cell."""
    ladders = {ladder_title(row): row.number for row in report.ladders}
    controls = {cell.said: cell.number for cell in report.controls}

    def of_ladder(panel: Panel, series: str, category: str) -> dict[str, str]:
        return {"cell": f"damages/{ladders[panel.title]}/{series}"}

    def of_place(panel: Panel, series: str, category: str) -> dict[str, str]:
        return {"cell": f"damages/{_SWAPPED}/{series}"}

    def of_control(panel: Panel, series: str, category: str) -> dict[str, str]:
        return {"cell": f"controls/{controls[series]}/{category}"}

    grey = "marks of grey pictures against those of the real ones: 1 is a judge that does not look"
    drawn = (
        (ladder_chart(report, judge), "steps of the scale that each strength of a damage costs", of_ladder),
        (place_chart(report, judge), "whether a reference that was exchanged is seen, by its place", of_place),
        (blind_chart(report, judge), grey, of_control),
    )
    return [figure_view(chart, shows, behind) for chart, shows, behind in drawn if chart.scored]
