"""ICE-Bench run on loopback with a judge and the metrics that need no network: one command, both protocols."""

from __future__ import annotations

import base64
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

import refbench
from refbench.benchmarks.icebench.tasks import LOCAL, TASKS
from refbench.engine import evaluate
from refbench.pictures import encode
from refbench.tables.table import Row
from support.icebench import Item, every_task, mask_pixels, pixels, write_dataset, write_outputs
from support.judge_server import JudgeServer

RULES = ("l1_raw", "l1_canny", "l1_colorize", "colorfulness", "ssim")
"""What is measured without any network."""


def rows_of(work: Path, *, reply: str = "1") -> list[Row]:
    """The run's rows; judged by a judge that always gives the same reply."""
    with JudgeServer(reply=lambda text: reply) as judge:
        found = evaluate(
            "icebench",
            data=work / "data",
            models=[f"m=folder:{work / 'out'}"],
            judges=[f"j=openai:x?base_url={judge.url}/v1"],
            metrics=list(RULES),
            out=work / "run",
        )
    return list(found.result.table.rows)


def value(rows: list[Row], metric: str, protocol: str, **where: str) -> float | None:
    (row,) = [
        r
        for r in rows
        if (r.metric, r.protocol) == (metric, protocol) and all(r.slice.get(k) == v for k, v in where.items())
    ]
    return row.value


def prepared(work: Path, items: list[Item]) -> Path:
    write_dataset(work / "data", items)
    write_outputs(work / "out", items)
    return work


def test_every_task_is_scored_from_what_is_there(tmp_path: Path) -> None:
    rows = rows_of(prepared(tmp_path, every_task(1)))
    there = {(r.metric, r.protocol) for r in rows if r.value is not None and r.slice["level"] == "overall"}
    assert {(m, p) for m in (*RULES, "qa", "controllability") for p in ("paper", "corrected")} <= there
    assert ("partial", "corrected") in there
    assert not [metric for metric, _ in there if metric in LOCAL or metric == "score"]
    (score,) = [r for r in rows if r.metric == "score" and r.slice["level"] == "overall" and r.protocol == "corrected"]
    assert (score.failures, score.n_not_asked) == ({"not_measured": 31}, 0), "left out by --metrics"
    assert "missing aes" in (score.remark or "")
    tasks = {r.slice["task"] for r in rows if r.metric == "qa" and r.slice["level"] == "task"}
    assert tasks == {name for name, task in TASKS.items() if "qa" in task.parts}


def test_values_are_those_of_the_definitions(tmp_path: Path) -> None:
    """L1 and SSIM's neighbours by Pillow and numpy, apart from the metrics' code."""
    items = [Item("Color Editing"), Item("Inpainting"), Item("Image Colorization")]
    work = prepared(tmp_path, items)
    wide = Image.fromarray(pixels("m", items[0].id)).resize((97, 61))
    wide.save(work / "out" / f"{items[0].id}.png")
    rows = rows_of(work)
    cases = {case.groups["task"]: case for case in refbench.load("icebench", work / "data").cases}

    def read(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.asarray(Image.open(path).convert("RGB"), dtype=np.float64) / 255

    source = {name: read(work / "data" / case.request.pictures[0].name) for name, case in cases.items()}
    resized = np.asarray(wide.resize((48, 40), Image.Resampling.BICUBIC), dtype=np.float64) / 255
    plain = float(np.abs(resized - source["Color Editing"]).mean())
    assert value(rows, "l1_raw", "corrected", number="5") == pytest.approx(plain, abs=1e-6)
    difference = np.abs(read(work / "out" / f"{items[1].id}.png") - source["Inpainting"])
    outside = float(difference[mask_pixels()[..., 0] <= 128].mean())
    assert value(rows, "l1_raw", "paper", number="17") == pytest.approx(outside, abs=1e-6)


def test_a_mask_that_covers_everything_leaves_no_distance_and_no_nan(tmp_path: Path) -> None:
    items = [Item("Inpainting", n) for n in range(2)]
    work = prepared(tmp_path, items)
    (case, _) = refbench.load("icebench", work / "data").cases
    (work / "data" / case.request.pictures[1].name).write_bytes(encode(np.full((40, 48, 3), 255, np.uint8)))
    for row in rows_of(work):
        if row.metric == "l1_raw" and row.slice["level"] == "task":
            assert row.failures == {"undefined": 1}
            assert row.value is not None
            assert np.isfinite(row.value)


def test_a_mask_of_another_size_is_undefined_in_paper_and_resized_in_corrected(tmp_path: Path) -> None:
    item = Item("Inpainting")
    work = prepared(tmp_path, [item])
    (case,) = refbench.load("icebench", work / "data").cases
    path = work / "data" / case.request.pictures[1].name
    whole = value(rows_of(work), "l1_raw", "corrected", level="task")
    path.write_bytes(encode(np.ascontiguousarray(mask_pixels()[::2, ::2])))
    rows = rows_of(prepared_again(work, tmp_path / "second"))
    assert value(rows, "l1_raw", "paper", level="task") is None
    assert value(rows, "l1_raw", "corrected", level="task") == pytest.approx(whole)


def prepared_again(work: Path, fresh: Path) -> Path:
    """The same data and outputs for a run of its own."""
    fresh.mkdir()
    for name in ("data", "out"):
        (fresh / name).symlink_to(work / name)
    return fresh


def test_an_output_without_edges_is_no_good_answer_to_edges(tmp_path: Path) -> None:
    """By L1 over a map that is mostly black it would still get 1 minus the share of edges."""
    item = Item("Edge-guided Generation")
    work = prepared(tmp_path, [item])
    (case,) = refbench.load("icebench", work / "data").cases
    edges = cv2.Canny(pixels(item.id, "source"), 100, 200)
    (work / "data" / case.request.pictures[0].name).write_bytes(encode(np.stack([edges] * 3, axis=-1)))
    (work / "out" / f"{item.id}.png").write_bytes(encode(np.full((40, 48, 3), 128, np.uint8)))
    rows = rows_of(work)
    paper, corrected = (value(rows, "l1_canny", protocol, level="task") for protocol in ("paper", "corrected"))
    assert paper == pytest.approx(1 - (edges > 0).mean())
    assert paper is not None
    assert paper > 0.8
    assert corrected == 0.0


def test_a_grey_output_has_no_colour_and_a_colourful_one_not_more_than_all(tmp_path: Path) -> None:
    items = [Item("Image Colorization", n) for n in range(2)]
    work = prepared(tmp_path, items)
    (work / "out" / f"{items[0].id}.png").write_bytes(encode(np.full((40, 48, 3), 90, np.uint8)))
    loud = np.zeros((40, 48, 3), np.uint8)
    loud[:20] = (255, 0, 0)
    loud[20:] = (0, 0, 255)
    (work / "out" / f"{items[1].id}.png").write_bytes(encode(loud))
    rows = rows_of(work)
    assert value(rows, "colorfulness", "corrected", level="task") == pytest.approx(0.5), "0 and the upper end"
    paper = value(rows, "colorfulness", "paper", level="task")
    assert paper is not None
    assert paper > 0.4, "without an upper end"


def test_a_missing_output_is_a_failure_and_ends_nothing(tmp_path: Path) -> None:
    items = [Item("Color Editing", n) for n in range(3)]
    work = prepared(tmp_path, items)
    (work / "out" / f"{items[1].id}.png").unlink()
    (row,) = [r for r in rows_of(work) if r.metric == "qa" and r.slice["level"] == "task" and r.protocol == "paper"]
    assert (row.n_expected, row.n_scored, row.failures) == (3, 2, {"missing_output": 1})


@pytest.mark.parametrize(
    ("reply", "paper", "corrected"), [("1", 1.0, 1.0), ("10", 10.0, None), ("Yes, it is there.", None, 1.0)]
)
def test_the_judge_is_asked_once_for_both_protocols(
    tmp_path: Path, reply: str, paper: float | None, corrected: float | None
) -> None:
    rows = rows_of(prepared(tmp_path, [Item("Color Editing")]), reply=reply)
    assert value(rows, "qa", "paper", level="task") == paper
    assert value(rows, "qa", "corrected", level="task") == corrected


def test_the_judge_sees_source_output_mask_and_reference(tmp_path: Path) -> None:
    item = Item("Virtual Try On")
    work = prepared(tmp_path, [item])
    with JudgeServer(reply=lambda text: "1") as judge:
        evaluate(
            "icebench",
            data=work / "data",
            models=[f"m=folder:{work / 'out'}"],
            judges=[f"j=openai:x?base_url={judge.url}/v1&temperature=0"],
            metrics=["l1_raw"],
            out=work / "run",
        )
        (request,) = judge.requests
    content = request.body["messages"][0]["content"]
    sent = [base64.b64decode(part["image_url"]["url"].split(",")[1]) for part in content if "image_url" in part]
    (case,) = refbench.load("icebench", work / "data").cases
    source, mask, reference = ((work / "data" / p.name).read_bytes() for p in case.request.pictures)
    assert sent == [source, (work / "out" / f"{item.id}.png").read_bytes(), mask, reference]
    assert request.body["temperature"] == 0
    assert "'Do virtual try on with [REFERENCE] in [SOURCE].'" in content[-1]["text"]
