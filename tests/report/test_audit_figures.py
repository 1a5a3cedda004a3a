"""The figures of an audit: every mark is a figure of the report, and what has no number says why."""

from __future__ import annotations

import re

import numpy as np
import pytest

from refbench.analysis.audit.records import NOT_VALIDATED, AuditReport
from refbench.report.figures.audit import blind_chart, ladder_chart, place_chart
from refbench.report.figures.drawing import draw
from support.planted_judges import planted_audit


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return planted_audit("one reference", np.random.default_rng(3), 48)[0]


def test_a_ladder_is_a_line_of_steps_lost_with_its_interval(report: AuditReport) -> None:
    chart = ladder_chart(report)
    assert [panel.title for panel in chart.panels] == ["16 blur"]
    (row,) = report.ladders
    (series,) = chart.panels[0].series
    assert [(one.value, one.ends) for one in series.values] == [(rung.drop.value, rung.drop.ci95) for rung in row.rungs]
    svg = draw(chart)
    assert [float(value) for value in re.findall(r'data-value="([^"]+)"', svg)] == [r.drop.value for r in row.rungs]
    assert svg.count("<line") > len(row.rungs) and NOT_VALIDATED[1:] in svg


def test_places_stand_in_their_order_and_the_first_is_seen(report: AuditReport) -> None:
    (panel,) = place_chart(report).panels
    assert panel.categories == ("first", "middle", "last", "after the first")
    values = dict(zip(panel.categories, panel.series[0].values, strict=True))
    assert {row.place: (row.sees.value, row.sees.why) for row in report.positions} == {
        place: (one.value, one.why) for place, one in values.items()
    }
    assert values["after the first"].value is not None and values["after the first"].value < 0.75
    assert values["first"].why == "fewer than 20 cases"


def test_marks_without_seeing_have_a_row_a_criterion(report: AuditReport) -> None:
    (panel,) = blind_chart(report).panels
    assert panel.categories == tuple(one.name for one in report.card.criteria)
    drawn = {(s.name, c): one for s in panel.series for c, one in zip(panel.categories, s.values, strict=True)}
    assert {key: (one.value, one.why) for key, one in drawn.items()} == {
        (cell.said, cell.criterion): (cell.blind.value, cell.blind.why) for cell in report.controls
    }


def test_where_nothing_was_asked_nothing_is_drawn(report: AuditReport) -> None:
    empty = report.model_copy(update={"ladders": (), "positions": (), "controls": ()})
    assert not any(chart(empty).scored for chart in (ladder_chart, place_chart, blind_chart))
