"""What is measured for each task: the table of the benchmark's specification, by either protocol."""

from __future__ import annotations

from pathlib import Path

import pytest

import refbench
from refbench.benchmarks import benchmark
from refbench.benchmarks.icebench.cases import ICECase, not_applicable
from refbench.benchmarks.icebench.measures import measuring
from refbench.benchmarks.icebench.tasks import LOCAL, OFFICIAL, PARTS, QA, TASKS
from refbench.metrics import find_metric
from support.icebench import Item, every_task, write_dataset


@pytest.fixture
def cases(tmp_path: Path) -> dict[str, ICECase]:
    loaded = refbench.load("icebench", write_dataset(tmp_path / "data", every_task(1))).cases
    return {case.groups["task"]: case for case in loaded}


def metric(case: ICECase, part: str, protocol: str) -> str:
    (found,) = [m for m in measuring(case) if m.part == part and m.protocol in ("", protocol)]
    return found.metric


BASE = {"aes", "img", "clip_cap"}
EDIT = BASE | {"clip_src", "l1_raw", "qa"}


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("Text-to-Image Creating", BASE),
        ("Face Reference Creating", BASE | {"clip_ref", "face_ref"}),
        ("Style Reference Creating", BASE | {"clip_ref", "style_ref"}),
        ("Subject Reference Creating", BASE | {"clip_ref", "dino_ref"}),
        ("Color Editing", EDIT),
        ("Composite Editing", EDIT),
        ("Inpainting", EDIT),
        ("Local Text Render", EDIT),
        ("Pose-guided Generation", BASE | {"l1_pose"}),
        ("Edge-guided Generation", BASE | {"l1_canny"}),
        ("Depth-guided Generation", BASE | {"l1_depth"}),
        ("Image Colorization", BASE | {"l1_colorize", "colorfulness"}),
        ("Image Deblurring", {"aes", "img", "ssim"}),
        ("Style Transfer", EDIT | {"style_ref"}),
        ("Subject-guided Inpainting", EDIT | {"dino_ref"}),
        ("Virtual Try On", EDIT | {"dino_ref"}),
        ("Face Swap", EDIT | {"face_ref"}),
    ],
)
def test_official_parts_of_each_task(cases: dict[str, ICECase], task: str, parts: set[str]) -> None:
    assert {part for part in TASKS[task].parts if part in OFFICIAL} == parts
    assert {m.part for m in measuring(cases[task]) if m.part in OFFICIAL} == parts - {QA}
    assert set(not_applicable(cases[task])) >= set(OFFICIAL) - parts


def test_every_part_is_expected_or_does_not_apply_and_says_why(cases: dict[str, ICECase]) -> None:
    bench = benchmark("icebench")
    assert tuple(bench.asking.parts) == PARTS
    assert bench.asking.measured == set(PARTS) - {QA}
    for case in cases.values():
        away = bench.asking.not_applicable(case)
        measured = {m.part for m in measuring(case)}
        asked = {QA} if QA in TASKS[case.groups["task"]].parts else set()
        assert measured | asked | set(away) == set(PARTS)
        assert not (measured | asked) & set(away)
        assert all(reason for reason in away.values())


def test_no_part_is_measured_twice_by_one_protocol(cases: dict[str, ICECase]) -> None:
    for case in cases.values():
        for protocol in ("paper", "corrected"):
            parts = [m.part for m in measuring(case) if m.protocol in ("", protocol)]
            assert len(parts) == len(set(parts))


def test_laptop_parts_carry_their_network_and_enter_no_score(cases: dict[str, ICECase]) -> None:
    scored = {part for task in TASKS.values() for part in task.scored}
    assert not scored & set(LOCAL)
    for case in cases.values():
        for m in measuring(case):
            if m.part in LOCAL:
                assert m.part.partition("@")[2] == m.metric.partition("@")[2]
            else:
                assert "@" not in m.part


def test_source_is_compared_outside_of_the_mask_where_there_is_one(cases: dict[str, ICECase]) -> None:
    assert metric(cases["Color Editing"], "l1_raw", "paper") == "l1"
    (masked,) = [m for m in measuring(cases["Inpainting"]) if m.part == "l1_raw"]
    assert masked.metric == "l1_masked"
    assert set(masked.pictures) == {"source", "mask"}
    (plain,) = [m for m in measuring(cases["Inpainting"]) if m.part == "clip_src"]
    assert set(plain.pictures) == {"reference"}, "CLIP looks at the whole picture"
    assert plain.pictures["reference"].role == "source"


def test_control_by_maps_is_what_is_found_again_in_corrected(cases: dict[str, ICECase]) -> None:
    edges, pose = cases["Edge-guided Generation"], cases["Pose-guided Generation"]
    assert (metric(edges, "l1_canny", "paper"), metric(edges, "l1_canny", "corrected")) == ("canny_l1", "edge_f1")
    assert metric(pose, "l1_pose", "paper") == "pose_l1@openpose_body"
    assert metric(pose, "l1_pose", "corrected") == "pose_f1@openpose_body"
    assert metric(pose, "l1_pose@blazepose", "corrected") == "pose_f1@blazepose"


def test_a_subject_under_a_mask_is_cropped_in_corrected_and_painted_around_in_paper(cases: dict[str, ICECase]) -> None:
    masked, whole = cases["Virtual Try On"], cases["Subject Reference Creating"]
    assert metric(masked, "dino_ref", "paper") == "masked_image_match@dinov2_giant"
    assert metric(masked, "dino_ref", "corrected") == "subject_match@dinov2_giant"
    assert metric(whole, "dino_ref", "paper") == metric(whole, "dino_ref", "corrected") == "image_match@dinov2_giant"


def test_captions_and_wanted_texts_are_facts(cases: dict[str, ICECase]) -> None:
    (caption,) = [m for m in measuring(cases["Color Editing"]) if m.part == "clip_cap"]
    assert caption.facts == {"caption": cases["Color Editing"].details.target_caption}
    (text,) = [m for m in measuring(cases["Text Render"]) if m.part == "text@ppocr"]
    assert (text.metric, text.facts) == ("text_match@ppocr", {"caption": "SALE 0"})


def test_a_text_that_is_not_quoted_is_not_read(tmp_path: Path) -> None:
    item = Item("Text Render", fields={"Instruction": "Write the shop's name in <SOURCE>."})
    (case,) = refbench.load("icebench", write_dataset(tmp_path, [item])).cases
    assert "text@ppocr" not in {m.part for m in measuring(case)}
    assert "quote" in not_applicable(case)["text@ppocr"]


def test_only_the_first_reference_is_scored(tmp_path: Path) -> None:
    item = Item("Face Swap", fields={"ReferenceImages": ["images/first.png", "images/second.png"]})
    (case,) = refbench.load("icebench", write_dataset(tmp_path, [item])).cases
    assert len(case.request.pictures) == 3, "the model gets both"
    (face,) = [m for m in measuring(case) if m.part == "face_ref"]
    assert face.pictures["reference"].name == "images/first.png"


@pytest.mark.parametrize("protocol", ["paper", "corrected"])
def test_rule_metrics_and_laptop_metrics_are_given_the_pictures_they_read(
    cases: dict[str, ICECase], protocol: str
) -> None:
    """Of the metrics that exist: the names of the pictures are those of the arguments."""
    seen = set()
    for case in cases.values():
        for m in measuring(case):
            if m.protocol not in ("", protocol) or ("@" in m.metric and m.part not in LOCAL):
                continue
            found = find_metric(m.metric, protocol)
            needed = {i.name for i in found.inputs if not i.optional and i.kind != "network"} - {"output"}
            assert needed <= set(m.pictures) | set(m.facts), (m.part, found.id)
            assert found.id == m.metric
            seen.add(m.part)
    assert seen >= {"l1_raw", "l1_canny", "l1_colorize", "colorfulness", "ssim", *LOCAL}
