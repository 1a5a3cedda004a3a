"""The released code's eval_result.txt, read again: values for the protocols that measure that way."""

from __future__ import annotations

from pathlib import Path

import pytest

import refbench
from refbench import RefBenchError
from refbench.benchmarks.icebench.replies import JUDGE
from support.icebench import Item, write_dataset
from support.icebench import result_line as line

ITEMS = [Item("Color Editing", 0), Item("Color Editing", 1), Item("Edge-guided Generation"), Item("Virtual Try On")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "data", ITEMS)


def write(folder: Path, *lines: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "eval_result.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_task_scores_come_out_as_the_released_code_has_them(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "painter", line(ITEMS[0]), line(ITEMS[1], qa=0.0), line(ITEMS[2]), line(ITEMS[3]))
    result = refbench.rescore("icebench", data=data, replies=folder, draws=0)
    (row,) = [r for r in result.rows(level="task", metric="score", protocol="paper") if r.slice["number"] == "5"]
    assert (row.model, row.judge) == ("painter", JUDGE)
    assert row.value == pytest.approx(0.3 * 0.6 + 0.3 * 0.7 + 0.3 * (2 * 0.3 + 0.5) / 2 + 0.1 * 0.85)


def test_the_printed_equations_are_sums_beside_the_released_means(tmp_path: Path) -> None:
    """4 and 6: colour and consistency with the source range to 2. The paper has no weights, so there is no score."""
    items = [Item("Image Colorization"), Item("Color Editing")]
    root = write_dataset(tmp_path / "data", items)
    folder = write(tmp_path / "painter", line(items[0], colorfulness=0.4), line(items[1]))
    run = tmp_path / "run"
    released = refbench.rescore("icebench", data=root, replies=folder, draws=0, out=run)
    printed = refbench.rescore("icebench", data=root, replies=folder, draws=0, formulas="printed")
    found = {
        name: [
            (row.slice["number"], row.metric, round(row.value or 0, 9))
            for row in result.rows(level="task", protocol="paper")
            if row.metric in ("prompt_following", "source_consistency", "score")
        ]
        for name, result in (("released", released), ("printed", printed))
    }
    following, consistent = "prompt_following", "source_consistency"
    assert found["printed"] == [("5", consistent, 1.7), ("5", following, 0.8), ("26", following, 1.0)]
    assert printed.summary("paper") == following
    assert [entry for entry in found["released"] if entry[1] != "score"] == [
        ("5", following, 0.8),
        ("5", consistent, 0.85),
        ("26", following, 0.55),
    ]
    assert printed.table.fingerprint != released.table.fingerprint
    assert "numbers by the formulas 'printed'" in printed.notes
    again = refbench.score_run(run, draws=0, formulas="printed")
    assert [row.value for row in again.rows(level="task")] == [row.value for row in printed.rows(level="task")]
    with pytest.raises(RefBenchError, match=r"--formulas sums: ICE-Bench has the formulas printed beside"):
        refbench.rescore("icebench", data=root, replies=folder, draws=0, formulas="sums")


def test_what_corrected_measures_otherwise_is_for_paper_alone(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "painter", *(line(item) for item in ITEMS))
    result = refbench.rescore("icebench", data=data, replies=folder, draws=0)
    for metric, expected in (("l1_canny", 0.9), ("dino_ref", 0.8)):
        assert result.value(level="overall", metric=metric, protocol="paper") == pytest.approx(expected)
        (row,) = result.rows(level="overall", metric=metric, protocol="corrected")
        assert (row.value, row.failures) == (None, {"not_measured": 1})
    assert result.value(level="overall", metric="l1_raw", protocol="corrected") == pytest.approx(0.2)


def test_nan_is_undefined_and_takes_nothing_with_it(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "painter", line(ITEMS[0], l1_raw=float("nan")), *(line(item) for item in ITEMS[1:]))
    result = refbench.rescore("icebench", data=data, replies=folder, draws=0)
    (row,) = [r for r in result.rows(level="task", metric="l1_raw", protocol="paper") if r.slice["number"] == "5"]
    assert (row.value, row.failures) == (0.2, {"undefined": 1})


def test_lines_that_belong_to_nothing_are_counted(data: Path, tmp_path: Path) -> None:
    other = line(ITEMS[0]).replace("Color Editing", "Face Editing")
    folder = write(tmp_path / "painter", line(ITEMS[1]), other, "broken", line(Item("Color Editing", 9)))
    result = refbench.rescore("icebench", data=data, replies=folder, draws=0, models=["mine"])
    assert any("3 replies" in note for note in result.notes)
    assert {row.model for row in result.table.rows} == {"mine"}


def test_the_file_itself_may_be_given(data: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "painter", line(ITEMS[0]))
    result = refbench.rescore("icebench", data=data, replies=folder / "eval_result.txt", draws=0, judge="qwen")
    assert {(row.model, row.judge) for row in result.table.rows} == {("painter", "qwen")}


@pytest.mark.parametrize("text", ["", "nothing\n", "x#;#Color Editing#;#{}\n"])
def test_a_file_without_results_for_the_data_is_refused(data: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "eval_result.txt").write_text(text)
    with pytest.raises(RefBenchError, match="has no result of an item"):
        refbench.rescore("icebench", data=data, replies=tmp_path)


def test_a_folder_without_the_file_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=r"eval_result\.txt is not there"):
        refbench.rescore("icebench", data=data, replies=tmp_path)


def test_two_models_cannot_share_a_file(data: Path, tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match="--model may be given once"):
        refbench.rescore("icebench", data=data, replies=tmp_path, models=["a", "b"])
