"""Files to cases, and everything odd about them: nothing is dropped in silence."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import refbench
from refbench import RefBenchError
from refbench.benchmarks import benchmark
from refbench.benchmarks.icebench.cases import ICECase, wanted_text
from refbench.benchmarks.icebench.tasks import BY_CODE, N_CASES, TASKS
from refbench.pictures import encode
from support.icebench import Item, every_task, line, write_dataset

ALWAYS = {"other_count", "missing_task", "unusual_task_size"}
"""A small dataset is not the release, and that is said."""


def cases(root: Path) -> list[ICECase]:
    return list(refbench.load("icebench", root).cases)


def anomalies(root: Path) -> list[tuple[str, str]]:
    found = benchmark("icebench").data.anomalies(refbench.load("icebench", root))
    assert {a.kind for a in found} <= set(benchmark("icebench").data.anomaly_kinds)
    return [(a.kind, a.case) for a in found if a.kind not in ALWAYS]


def append(root: Path, text: str) -> None:
    with (root / "data.jsonl").open("a", encoding="utf-8") as file:
        file.write(text + "\n")


# --- tasks ---------------------------------------------------------------------------------------------------


def test_there_are_31_tasks_numbered_as_in_table_2() -> None:
    assert [task.number for task in TASKS.values()] == list(range(1, 32))
    assert TASKS["Local Text Removal"].number == 21, "Table 8 swaps 21 and 22"
    assert TASKS["Local Text Render"].number == 22
    assert Counter((t.kind, t.reference, t.scope) for t in TASKS.values()) == {
        ("Creating", False, ""): 1,
        ("Creating", True, ""): 3,
        ("Editing", False, "Global"): 12,
        ("Editing", False, "Local"): 6,
        ("Editing", False, "Controllable"): 5,
        ("Editing", True, ""): 4,
    }


def test_the_code_has_other_names_for_some_tasks_than_the_paper() -> None:
    renamed = {task.name: code for code, task in BY_CODE.items() if code != task.name and task.kind == "Editing"}
    assert renamed == {
        "Image Colorization": "Image Colorize",
        "Image Deblurring": "Image Deblur",
        "Style Transfer": "Style Reference Editing",
    }
    assert BY_CODE["Text2Image"].number == 1


def test_weights_of_every_task_and_of_every_dimension_add_up_to_one() -> None:
    for task in TASKS.values():
        assert sum(d.weight for d in task.dimensions) == pytest.approx(1, abs=1e-12)
        for dimension in task.dimensions:
            assert sum(term.weight for term in dimension.terms) == pytest.approx(1, abs=1e-12)


# --- cases ---------------------------------------------------------------------------------------------------


def test_every_line_becomes_a_case_with_role_tagged_pictures(data: Path) -> None:
    found = cases(data)
    assert len(found) == 62
    roles = {case.groups["task"]: tuple(p.role for p in case.request.pictures) for case in found}
    assert roles["Text-to-Image Creating"] == ()
    assert roles["Face Reference Creating"] == ("reference",)
    assert roles["Color Editing"] == ("source",)
    assert roles["Inpainting"] == ("source", "mask")
    assert roles["Virtual Try On"] == ("source", "mask", "reference")
    assert anomalies(data) == []


def test_groups_hold_every_slice_of_the_benchmark(data: Path) -> None:
    case = next(case for case in cases(data) if case.groups["code"] == "Style Reference Editing")
    assert dict(case.groups) == {
        "number": "28",
        "task": "Style Transfer",
        "code": "Style Reference Editing",
        "kind": "Editing",
        "reference": "Reference",
        "source_type": "Real Image",
        "region": "no",
    }
    assert case.stratum == "Style Transfer"
    assert case.cluster == case.request.pictures[0].name


def test_the_model_sees_the_instruction_and_the_pictures_and_no_caption(data: Path) -> None:
    for case in cases(data):
        assert case.details.target_caption
        assert case.details.target_caption not in case.request.model_dump_json()


@pytest.mark.parametrize("folder", ["", "dataset", "data"])
def test_data_is_found_in_the_folder_that_the_readme_names(tmp_path: Path, folder: str) -> None:
    root = write_dataset(tmp_path, [Item("Color Editing")], folder=folder)
    dataset = refbench.load("icebench", root)
    assert dataset.path(dataset.cases[0].request.pictures[0]).is_file()


def test_pictures_are_found_beside_data_jsonl_and_not_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_dataset(tmp_path / "a", [Item("Color Editing")])
    said = json.loads((root / "data.jsonl").read_text())
    (root / "data.jsonl").write_text(json.dumps({**said, "SourceImage": f"dataset/{said['SourceImage']}"}))
    monkeypatch.chdir(tmp_path)
    assert anomalies(root) == []


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        ('Write "OPEN DAILY" on the door of <SOURCE>.', "OPEN DAILY"),
        ("Add the text 'Fresh Bread' above the window, don't touch the rest.", "Fresh Bread"),
        ("Put “Café 24” on the sign.", "Café 24"),
        ('Replace the text "Exit" with "Way out".', "Way out"),
        ('Change "Exit" to the word "Enter" please.', "Enter"),
        ('Write "left" at the left and "right" at the right.', ""),
        ("Write the name of the shop on the sign.", ""),
        ("It's the baker's sign.", ""),
    ],
)
def test_the_wanted_text_is_the_one_that_the_instruction_quotes(instruction: str, text: str) -> None:
    assert wanted_text(instruction) == text


def test_only_text_render_tasks_want_a_text(tmp_path: Path) -> None:
    said = {"Instruction": 'Remove "OLD" from <SOURCE>.'}
    root = write_dataset(tmp_path, [Item("Text Removal", fields=said), Item("Text Render"), Item("Local Text Render")])
    assert [case.details.wanted_text for case in cases(root)] == ["", "SALE 0", "SALE 0"]


# --- what is odd ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("{", "unexpected end of data"),
        ("[]", "no JSON object"),
        ('{"ItemID": "x"}', "Task is missing"),
        ('{"Task": "Inpainting", "Instruction": "Do."}', "ItemID is missing"),
        ('{"Task": "Inpainting", "ItemID": 7}', "ItemID is no text"),
        ('{"Task": "Inpainting", "ItemID": "x", "RegionBased": "maybe"}', "RegionBased is neither"),
        ('{"Task": "Inpainting", "ItemID": "x", "ReferenceImages": {"a": 1}}', "ReferenceImages is no list"),
        ('{"Task": "Inpainting", "ItemID": "x", "SourceImage": "/etc/passwd"}', "leaves the dataset"),
        ('{"Task": "Inpainting", "ItemID": "x", "SourceImage": "../../secret.png"}', "leaves the dataset"),
    ],
)
def test_a_malformed_line_is_named_with_its_number(tmp_path: Path, line: str, detail: str) -> None:
    root = write_dataset(tmp_path, [Item("Inpainting")])
    append(root, line)
    (found,) = [
        a for a in benchmark("icebench").data.anomalies(refbench.load("icebench", root)) if a.kind == "malformed_line"
    ]
    assert found.case == "line 2"
    assert detail in found.detail
    assert "\n" not in found.detail
    assert len(cases(root)) == 1


def test_a_task_may_be_called_as_the_paper_calls_it(tmp_path: Path) -> None:
    root = write_dataset(tmp_path, [Item(name, fields={"Task": name}) for name in TASKS])
    assert [case.groups["task"] for case in cases(root)] == list(TASKS)
    assert [case.groups["code"] for case in cases(root)] == list(BY_CODE)


@pytest.mark.parametrize("folder", ["", "dataset", "data", "dataset/data"])
@pytest.mark.parametrize("prefix", ["", "dataset/", "data/"])
def test_the_archive_may_be_unpacked_where_a_user_has_it(tmp_path: Path, folder: str, prefix: str) -> None:
    """Lines name pictures from where the released code is started; the pictures are beside data.jsonl."""
    place = tmp_path / folder
    made = line(place, Item("Color Editing"), prefix)
    (place / "data.jsonl").write_text(json.dumps(made))
    dataset = refbench.load("icebench", tmp_path)
    assert dataset.lacking() == ""


def test_an_archive_is_named_with_what_to_do(tmp_path: Path) -> None:
    packed = tmp_path / "dataset.zip"
    packed.write_bytes(b"PK")
    for given in (packed, tmp_path):
        with pytest.raises(RefBenchError, match=r"dataset\.zip.* unpack it"):
            refbench.load("icebench", given)


def test_an_unknown_task_is_named_where_the_released_code_stops(tmp_path: Path) -> None:
    root = write_dataset(tmp_path, [Item("Inpainting"), Item("Color Editing", fields={"Task": "Colouring"})])
    assert anomalies(root) == [("unknown_task", "line 2")]


def test_of_two_lines_with_one_id_the_last_stays_and_it_is_said(tmp_path: Path) -> None:
    again = Item("Color Editing", fields={"Instruction": "Make <SOURCE> blue."})
    root = write_dataset(tmp_path, [Item("Color Editing"), Item("Color Editing", 1), again])
    assert cases(root)[0].request.instruction == "Make <SOURCE> blue."
    assert anomalies(root) == [("duplicate_id", again.id)]
    (said,) = [
        a.detail
        for a in benchmark("icebench").data.anomalies(refbench.load("icebench", root))
        if a.kind == "duplicate_id"
    ]
    assert "lines 1 and 3" in said


def test_a_part_of_the_release_is_told_from_the_whole(tmp_path: Path) -> None:
    root = write_dataset(tmp_path, [Item("Color Editing")])
    found = benchmark("icebench").data.anomalies(refbench.load("icebench", root))
    assert Counter(a.kind for a in found) == {"other_count": 1, "missing_task": 30, "unusual_task_size": 1}
    assert f"{N_CASES:,}" in found[0].detail


@pytest.mark.parametrize(
    ("task", "fields", "kind"),
    [
        ("Color Editing", {"TargetCaption": ""}, "empty_caption"),
        ("Color Editing", {"TargetCaption": None}, "empty_caption"),
        ("Color Editing", {"Instruction": " "}, "empty_instruction"),
        ("Color Editing", {"SourceImage": ""}, "no_source"),
        ("Face Swap", {"ReferenceImages": []}, "no_reference"),
        ("Inpainting", {"SourceMask": ""}, "no_mask"),
        ("Inpainting", {"RegionBased": False}, "unmarked_mask"),
        ("Face Swap", {"ReferenceImages": ["images/a_ref1.png", "images/a_ref2.png"]}, "more_references"),
    ],
)
def test_what_is_wrong_with_an_item_is_reported(tmp_path: Path, task: str, fields: dict[str, Any], kind: str) -> None:
    item = Item(task, fields=fields)
    root = write_dataset(tmp_path, [item])
    assert anomalies(root) == [(kind, item.id)]


def test_a_deblurred_picture_needs_no_caption(tmp_path: Path) -> None:
    assert anomalies(write_dataset(tmp_path, [Item("Image Deblurring", fields={"TargetCaption": ""})])) == []


def test_odd_pictures_are_reported_and_never_hide_a_case(tmp_path: Path) -> None:
    items = [Item("Inpainting", number) for number in range(5)]
    root = write_dataset(tmp_path, items)
    at = {case.id: {p.role: root / p.name for p in case.request.pictures} for case in cases(root)}
    at[items[0].id]["source"].unlink()
    at[items[1].id]["source"].write_bytes(b"no picture")
    at[items[2].id]["mask"].write_bytes(encode(np.zeros((10, 10, 3), np.uint8)))
    at[items[3].id]["mask"].write_bytes(encode(np.full((40, 48, 3), 255, np.uint8)))
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (48, 40)).save(at[items[4].id]["source"], format="jpeg", exif=exif)
    assert anomalies(root) == [
        ("missing_picture", items[0].id),
        ("unreadable_picture", items[1].id),
        ("mask_size", items[2].id),
        ("full_mask", items[3].id),
        ("rotated_picture", items[4].id),
    ]
    assert len(cases(root)) == 5


# --- what cannot be loaded -----------------------------------------------------------------------------------


def test_a_directory_without_data_jsonl_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RefBenchError, match=r"no ICE-Bench checkout: data\.jsonl is not in it") as error:
        refbench.load("icebench", tmp_path)
    assert "\n" not in str(error.value)


def test_a_file_without_any_item_is_refused_with_the_first_reason(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text('{"id": "own", "prompt": "Do."}\n')
    with pytest.raises(RefBenchError, match=r"holds no item of ICE-Bench \(first: line 1, Task is missing\)"):
        refbench.load("icebench", tmp_path)


def test_a_file_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_bytes(b"\xff\xfe{}")
    with pytest.raises(RefBenchError, match="is not UTF-8"):
        refbench.load("icebench", tmp_path)


def test_there_are_no_subsets(data: Path) -> None:
    with pytest.raises(RefBenchError, match="no subsets"):
        refbench.load("icebench", data, subset="local")


def test_items_are_counted_by_every_group(data: Path) -> None:
    said = benchmark("icebench").data.describe(refbench.load("icebench", data))["items"]
    assert said["kind"] == {"Creating": 8, "Editing": 54}
    assert said["reference"] == {"No-reference": 48, "Reference": 14}
    assert said["scope"] == {"Controllable": 10, "Global": 24, "Local": 12}
    assert said["source_type"] == {"Generated Image": 27, "Real Image": 27}
    assert said["region"] == {"no": 46, "yes": 16}
    assert list(said["task"]) == list(TASKS)
    assert sum(said["task"].values()) == len(every_task())


def test_names_that_no_file_can_have_are_malformed_and_long_ones_are_missing_pictures(tmp_path: Path) -> None:
    place = write_dataset(tmp_path, every_task(1)[:3])
    lines = [json.loads(line) for line in (place / "data.jsonl").read_text().splitlines()]
    lines[0]["SourceImage"], lines[1]["SourceImage"] = "images/a\0b.png", f"images/{'n' * 300}.png"
    lines[1]["SourceImageType"] = "9" * 5000
    (place / "data.jsonl").write_text("\n".join(map(json.dumps, lines)))
    bench = benchmark("icebench")
    dataset = bench.data.load(place, None)
    assert "no file can be called" in next(
        a.detail for a in bench.data.anomalies(dataset) if a.kind == "malformed_line"
    )
    assert f"{'n' * 300}.png is not there" in dataset.lacking()
    assert bench.data.describe(dataset)
