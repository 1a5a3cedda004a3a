"""Loading: the official layout as it is probed, every oddity reported, nothing left out silently."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

import refbench
from refbench import RefBenchError
from refbench.benchmarks import benchmark
from refbench.benchmarks.multibanana.cases import TASKS, task_of
from support.multibanana import PNG, Set, every_task, write_dataset


def anomalies(root: Path) -> list[tuple[str, str]]:
    found = benchmark("multibanana").data.anomalies(refbench.load("multibanana", root))
    assert {a.kind for a in found} <= set(benchmark("multibanana").data.anomaly_kinds)
    return [(a.kind, a.case) for a in found if a.kind != "missing_task"]


def small(root: Path, *sets: Set) -> Path:
    return write_dataset(root, [Set("add", "006", 2), Set("add", "014", 2), *sets])


def test_there_are_36_tasks_in_six_groups() -> None:
    assert Counter(task.group for task in TASKS.values()) == {"single": 1, "two": 11, "object": 6, "local": 6, "global": 6, "background": 6}  # fmt: skip


@pytest.mark.parametrize(
    ("directory", "task", "group"),
    [
        ("single", "single", "single"),
        ("background", "background", "two"),
        ("3_back", "3_back", "background"),
        ("4_background", "4_back", "background"),
        ("3_obj", "3_object", "object"),
        ("8_objects", "8_object", "object"),
        ("5_local", "5_local", "local"),
        ("6_global", "6_global", "global"),
    ],
)
def test_directories_are_tasks_however_they_are_spelt(directory: str, task: str, group: str) -> None:
    found = task_of(directory)
    assert found is not None
    assert (found.name, found.group) == (task, group)


@pytest.mark.parametrize(
    "directory", ["2_back", "9_object", "3_", "obj", "x_obj", "_back", "results", "03_back", "", "3_locals"]
)
def test_other_directories_are_no_tasks(directory: str) -> None:
    assert task_of(directory) is None


def test_cases_carry_what_the_files_say(data: Path) -> None:
    dataset = refbench.load("multibanana", data)
    assert len(dataset.cases) == 72
    case = dataset.by_id()["3_back/006"]
    assert case.request.instruction == "Put image 1 of 3_back/006 on a shelf."
    assert [p.name for p in case.request.pictures] == ["3_back/006_0.png", "3_back/006_1.png", "3_back/006_2.png"]
    assert {p.role for p in case.request.pictures} == {"reference"}
    assert dataset.path(case.request.pictures[0]).is_file()
    assert dict(case.groups) == {"group": "background", "task": "3_back", "n_refs": "3", "source": "real"}
    assert (case.stratum, case.cluster) == ("3_back", "3_back/006")
    assert (case.details.task_dir, case.details.number) == ("3_back", "006")


def test_the_folder_above_data_will_do(data: Path, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    shutil.copytree(data, tmp_path / "repo/data")
    cases = refbench.load("multibanana", tmp_path / "repo").cases
    assert [case.key for case in cases] == [case.key for case in refbench.load("multibanana", data).cases]


def test_a_clean_copy_has_no_anomaly(data: Path) -> None:
    assert benchmark("multibanana").data.anomalies(refbench.load("multibanana", data)) == []


def test_object_directories_keep_their_own_name_in_the_id(tmp_path: Path) -> None:
    case = refbench.load("multibanana", small(tmp_path, Set("3_obj", "007", 3))).cases[-1]
    assert (case.id, case.groups["task"], case.details.task_dir) == ("3_obj/007", "3_object", "3_obj")


def test_files_that_users_and_judges_add_are_not_references(tmp_path: Path) -> None:
    root = small(tmp_path)
    (root / "add/006_generated.png").write_bytes(PNG)
    (root / "add/006_gpt_judge.txt").write_text("Visual Quality: 3")
    (root / "add/020_generated.jpg").write_bytes(PNG)
    (root / ".cache").mkdir()
    assert len(refbench.load("multibanana", root).cases) == 2
    assert anomalies(root) == []


# --- references ----------------------------------------------------------------------------------------------


def test_extensions_are_probed_in_the_official_order(tmp_path: Path) -> None:
    root = small(tmp_path)
    (root / "add/006_0.jpg").write_bytes(b"\xff\xd8")
    (root / "add/006_1.webp").write_bytes(PNG)
    case = refbench.load("multibanana", root).by_id()["add/006"]
    assert [p.name for p in case.request.pictures] == ["add/006_0.jpg", "add/006_1.png"]
    assert [kind for kind, _ in anomalies(root)].count("duplicate_reference") == 2


def test_probing_stops_at_a_gap(tmp_path: Path) -> None:
    root = small(tmp_path, Set("5_local", "006", 5))
    (root / "5_local/006_2.png").unlink()
    case = refbench.load("multibanana", root).by_id()["5_local/006"]
    assert len(case.request.pictures) == 2
    assert case.groups["n_refs"] == "2"
    assert anomalies(root) == [("reference_gap", "5_local/006"), ("other_reference_count", "5_local/006")]


def test_references_that_begin_at_1_are_not_seen(tmp_path: Path) -> None:
    root = small(tmp_path)
    (root / "add/006_0.png").unlink()
    assert [case.id for case in refbench.load("multibanana", root).cases] == ["add/014"]
    assert anomalies(root) == [("late_references", "add/006")]


def test_a_prompt_without_references_and_references_without_a_prompt_are_left_out_and_said(tmp_path: Path) -> None:
    root = small(tmp_path)
    (root / "add/020_prompt.txt").write_text("Do something.")
    (root / "add/021_0.png").write_bytes(PNG)
    (root / "add/021_1.png").write_bytes(PNG)
    assert len(refbench.load("multibanana", root).cases) == 2
    assert anomalies(root) == [("missing_references", "add/020"), ("missing_prompt", "add/021")]


@pytest.mark.parametrize("name", ["006_0.PNG", "006_0.Jpg", "006_00.png", "006_0.tiff", "006_0000000000000000000.png"])
def test_names_that_no_probing_finds_are_reported(tmp_path: Path, name: str) -> None:
    root = small(tmp_path)
    (root / "add/006_0.png").rename(root / "add" / name)
    assert [case.id for case in refbench.load("multibanana", root).cases] == ["add/014"]
    assert ("unprobed_picture", "add/006") in anomalies(root)


def test_a_set_with_more_references_than_its_directory_says_is_reported(tmp_path: Path) -> None:
    assert anomalies(small(tmp_path, Set("3_back", "006", 4))) == [("other_reference_count", "3_back/006")]


# --- directories and prompts ---------------------------------------------------------------------------------


def test_unknown_empty_and_missing_directories_are_reported(tmp_path: Path) -> None:
    root = small(tmp_path)
    (root / "results").mkdir()
    (root / "pose").mkdir()
    assert anomalies(root) == [("empty_task", "pose"), ("unknown_directory", "results")]
    found = benchmark("multibanana").data.anomalies(refbench.load("multibanana", root))
    assert sum(a.kind == "missing_task" for a in found) == 34


def test_empty_and_undecodable_prompts_are_reported_and_kept(tmp_path: Path) -> None:
    root = small(tmp_path)
    (root / "add/006_prompt.txt").write_bytes(b" \n")
    (root / "add/014_prompt.txt").write_bytes("Rück es".encode("latin-1"))
    cases = refbench.load("multibanana", root).cases
    assert [case.request.instruction for case in cases] == ["", "R�ck es"]
    assert anomalies(root) == [("empty_prompt", "add/006"), ("undecodable_prompt", "add/014")]


def test_a_byte_order_mark_is_no_part_of_the_instruction(tmp_path: Path) -> None:
    root = small(tmp_path)
    (root / "add/006_prompt.txt").write_bytes("\ufeffMake it so.".encode())
    assert refbench.load("multibanana", root).cases[0].request.instruction == "Make it so."


def test_names_that_are_no_text_are_reported(tmp_path: Path) -> None:
    root = small(tmp_path)
    try:
        (root / "add" / os.fsdecode(b"\xff_prompt.txt")).write_text("x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert anomalies(root) == [("undecodable_name", "add")]


# --- tags and sources ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "tags"),
    [
        ("domain", ("cross_domain",)),
        (["scale", "rare"], ("scale", "rare")),
        (["rare", "scale"], ("scale", "rare")),
        ("ling", ("multilingual",)),
        ("font", ("font",)),
        ("domain, scale", ("cross_domain", "scale")),
        ("Rare", ("rare",)),
        ([], ()),
        (None, ()),
    ],
)
def test_tags_are_read_from_text_and_from_lists(tmp_path: Path, said: object, tags: tuple[str, ...]) -> None:
    root = small(tmp_path)
    (root / "add/types.json").write_text(json.dumps({"006": said}))
    first, second = refbench.load("multibanana", root).cases
    assert (first.tags, second.tags) == (tags, ())
    assert anomalies(root) == []


def test_set_numbers_in_types_json_may_lack_their_zeros(tmp_path: Path) -> None:
    root = small(tmp_path)
    (root / "add/types.json").write_text('{"6": "rare"}')
    assert refbench.load("multibanana", root).cases[0].tags == ("rare",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, [("missing_tags", "add")]),
        ("{", [("unreadable_tags", "add")]),
        ("[]", [("unreadable_tags", "add")]),
        ('{"006": "hard"}', [("unknown_tag", "add/006")]),
        ('{"006": {"type": "rare"}}', [("unknown_tag", "add/006")]),
        ('{"099": "rare"}', [("stray_tag", "add/099")]),
    ],
)
def test_what_is_wrong_with_tags_is_reported(tmp_path: Path, text: str | None, expected: list[tuple[str, str]]) -> None:
    root = small(tmp_path)
    (root / "add/types.json").unlink()
    if text is not None:
        (root / "add/types.json").write_text(text)
    assert anomalies(root) == expected
    known = {case.details.tags_known for case in refbench.load("multibanana", root).cases}
    assert known == {expected[0][0] not in ("missing_tags", "unreadable_tags")}


@pytest.mark.parametrize(
    "text",
    [
        "path,source\nadd/006_0.png,real\nadd/006_1.png,real\nadd/014_0.png,generated\nadd/014_1.png,real\n",
        "add/006_0.png,real\nadd/006_1.png,real\nadd/014_0.png,generated\nadd/014_1.png,real\n",
        "task;file;origin\nadd;006_0.jpg;LAION-5B\nadd;006_1.jpg;LAION-5B\nadd;014_0.jpg;nano banana\nadd;014_1.jpg;laion\n",
        "id,from,where\n1,Real photo,./data/add/006_0.jpg\n2,real,data/add/006_1.jpg\n3,GPT-Image-1,data/add/014_0.jpg\n4,real,data/add/014_1.jpg\n",
        "\ufeffsynthetic?\tfile\nreal\tadd\\006_0\nreal\tadd\\006_1\nsynthetic\tadd\\014_0\nreal\tadd\\014_1\n",
    ],
)
def test_sources_are_understood_whatever_the_columns_are_called(tmp_path: Path, text: str) -> None:
    root = small(tmp_path)
    (root / "from_where.csv").write_text(text)
    cases = refbench.load("multibanana", root).cases
    assert [case.groups["source"] for case in cases] == ["real", "both"]
    assert anomalies(root) == []


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (None, {"missing_sources": 1}),
        ("", {"unreadable_sources": 1}),
        ("a,b\nc,d\n", {"unreadable_sources": 1}),
        ("path\nadd/006_0.png\nadd/006_1.png\n", {"unreadable_sources": 1}),
        ("file,source\n006_0.png,real\n006_1.png,real\n", {"unread_source": 2, "unlisted_reference": 4}),
        (
            "file,source\nadd/006_0.png,real\nadd/006_1.png,dream\nadd/014_0.png,real\n",
            {"unread_source": 1, "unlisted_reference": 1},
        ),
        (
            'file,source\nadd/006_0.png,real\nadd/014_0.png,real\n"add/006_1.png',
            {"unread_source": 1, "unlisted_reference": 1},
        ),
    ],
)
def test_what_is_not_understood_of_the_sources_is_reported_and_unknown(
    tmp_path: Path, text: str | None, kinds: dict[str, int]
) -> None:
    root = small(tmp_path)
    (root / "from_where.csv").unlink()
    if text is not None:
        (root / "from_where.csv").write_text(text)
    assert {case.groups["source"] for case in refbench.load("multibanana", root).cases} == {"unknown"}
    assert Counter(kind for kind, _ in anomalies(root)) == kinds


# --- pictures ------------------------------------------------------------------------------------------------


def test_odd_pictures_are_reported_and_never_hide_a_case(tmp_path: Path) -> None:
    root = small(tmp_path, Set("3_back", "006", 3), Set("4_back", "006", 4))
    (root / "add/006_0.png").write_bytes(b"")
    (root / "add/006_1.png").unlink()
    (root / "add/006_1.png").symlink_to(root / "nowhere")
    jpeg = cv2.imencode(".jpg", np.zeros((8, 8, 3), np.uint8))[1].tobytes()
    (root / "add/014_0.png").write_bytes(jpeg)
    Image.new("RGBA", (8, 8)).save(root / "3_back/006_0.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    (root / "3_back/006_1.png").unlink()
    Image.new("RGB", (8, 8)).save(root / "3_back/006_1.jpg", exif=exif)
    Image.new("RGB", (8, 8)).save(root / "3_back/006_2.png", icc_profile=b"profile")
    (root / "4_back/006_3.png").unlink()
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    frames[0].save(root / "4_back/006_3.gif", save_all=True, append_images=frames[1:])
    assert len(refbench.load("multibanana", root).cases) == 4
    assert Counter(anomalies(root)) == Counter(
        [
            ("unreadable_picture", "add/006"),
            ("missing_picture", "add/006"),
            ("wrong_extension", "add/014"),
            ("unusual_pixels", "3_back/006"),
            ("rotated_picture", "3_back/006"),
            ("colour_profile", "3_back/006"),
            ("unusual_pixels", "4_back/006"),
            ("animated_picture", "4_back/006"),
        ]
    )


# --- what cannot be loaded -----------------------------------------------------------------------------------


def test_a_directory_without_sets_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "add").mkdir()
    with pytest.raises(RefBenchError, match=r"no MultiBanana checkout: no task directory") as error:
        refbench.load("multibanana", tmp_path)
    assert "\n" not in str(error.value)
    (tmp_path / "add/006_prompt.txt").write_text("Do it.")
    with pytest.raises(RefBenchError, match="no set with a reference 0"):
        refbench.load("multibanana", tmp_path)


def test_a_task_directory_is_not_the_data_directory(data: Path) -> None:
    with pytest.raises(RefBenchError, match="did you mean"):
        refbench.load("multibanana", data / "add")


def test_there_are_no_subsets(data: Path) -> None:
    with pytest.raises(RefBenchError, match="no subsets"):
        refbench.load("multibanana", data, subset="paper874")


def test_sets_are_counted_and_never_asserted(data: Path) -> None:
    said = benchmark("multibanana").data.describe(refbench.load("multibanana", data))["sets"]
    assert said["group"] == {"single": 2, "two": 22, "object": 12, "local": 12, "global": 12, "background": 12}
    assert list(said["task"]) == list(TASKS)
    assert said["n_refs"] == {"1": 2, "2": 22, **{str(n): 8 for n in range(3, 9)}}
    assert sum(said["source"].values()) == len(every_task())
    assert said["tag"] == {"cross_domain": 24, "scale": 24, "rare": 24}
