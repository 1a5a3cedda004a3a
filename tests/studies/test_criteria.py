"""What raters are asked: a judge's rubric word for word, with Chinese labels where we shipped it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from refbench.judges.rubric import shipped_rubrics
from refbench.record import RefBenchError
from refbench.studies.criteria import PRESETS, criteria_named


def test_shipped_rubrics_and_presets_have_chinese_labels_for_all_that_people_mark() -> None:
    labelled = 0
    for name in (*shipped_rubrics(), *PRESETS):
        try:
            criteria, _ = criteria_named(name)
        except RefBenchError:
            assert name == "checklist"  # it has questions of the cases alone
            continue
        for criterion in criteria:
            assert any("\u4e00" <= sign <= "\u9fff" for sign in criterion.label["zh"]), criterion.name
            labelled += 1
    assert labelled >= 18


@pytest.mark.parametrize("changed", [False, True])
def test_a_rubric_with_a_changed_word_is_somebody_elses_and_has_its_own_labels_only(
    tmp_path: Path, changed: bool
) -> None:
    text = resources.files("refbench.judges").joinpath("rubrics/five_criteria.md").read_text("utf-8")
    path = tmp_path / "five_criteria.md"
    path.write_text(text.replace("Are", "Is").replace("subject", "object") if changed else text)
    criteria, _ = criteria_named(str(path))
    assert all(("zh" in criterion.label) is not changed for criterion in criteria)
    assert all(criterion.label["en"] for criterion in criteria)
