"""The official layout becomes cases; the flags decide the category, and what disagrees is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from refbench.benchmarks import benchmark, resolve_data
from refbench.benchmarks.ideabench.benchmark import BENCHMARK
from refbench.benchmarks.ideabench.cases import group_of, groups, leaf_of, read_auto, read_human
from refbench.record import RefBenchError
from support.ideabench import Design, designs, write_checkout


def test_the_taxonomy_has_100_leaves_in_58_groups() -> None:
    leaves = dict.fromkeys(("T2I", "I2I", "Is2I", "T2Is", "I(s)2Is"), 0)
    columns = dict.fromkeys(leaves, 0)
    for group in groups():
        leaves[group.category] += len(group.leaves)
        columns[group.category] += 1
    assert leaves == {"T2I": 11, "I2I": 25, "Is2I": 25, "T2Is": 21, "I(s)2Is": 18}
    assert columns == {"T2I": 11, "I2I": 13, "Is2I": 8, "T2Is": 11, "I(s)2Is": 15}


@pytest.mark.parametrize(
    ("category", "slug", "group", "leaf"),
    [
        # Names of the released folders, slips included.
        ("Is2I", "3d_effect_generation_three-view_reference", "3D effect", "three-view"),
        ("Is2I", "3d_effect_generation_single_reference", "3D effect", "single"),
        ("I(s)2Is", "childrens_book_generation_role_definition", "children's book", "role"),
        ("Is2I", "human_attribute_editing_hairstyle_transformation", "human attribute editing", "hairstyle"),
        ("Is2I", "image_blending_artisic_collage", "image blending", "collage"),
        ("I2I", "image_blur_filed_blur", "blur", ""),
        ("I2I", "image_blur_motion_blur", "blur", "motion"),
        ("I2I", "image_retouching_landscape_photo_retouching", "retouching", "landscape"),
        ("I2I", "image_straighten_completing_straighten", "straighten", "completing"),
        ("Is2I", "image_transfer_light_transfer", "image transfer", "light"),
        ("I(s)2Is", "lighting_effect_simulation", "lighting effect simulation", "lighting effect simulation"),
        ("I(s)2Is", "movie_shots_generation_character_definition", "movie shots", ""),
        ("I(s)2Is", "multi-appearance_variant_generation", "appearance variants", "appearance variants"),
        ("I(s)2Is", "multi-interior_decoration_variants_generation", "interior decoration variants", None),
        ("I(s)2Is", "multi-view_transformation", "multi-view transformation", "multi-view transformation"),
        ("I2I", "object_editing_background_changing", "object editing", "background"),
        ("I(s)2Is", "paintings_undo_painting_undo_from_semi-finished_work", "paintings undo", "semi-finished"),
        ("I(s)2Is", "paintings_undo_painting_undo_from_finished_work", "paintings undo", "finished"),
        ("I(s)2Is", "plant_growth_process_generation_with_reference", "plant growth", "plant growth"),
        ("Is2I", "real_and_anime_interaction_mixed_portrait", "real and anime", "mixed portrait"),
        ("I(s)2Is", "same_pose_generation", "same pose", "same pose"),
        ("Is2I", "special_effect_adding", "special effect adding", "special effect adding"),
        ("I(s)2Is", "stop-motion_animation_generation", "stop motion", "stop motion"),
        ("I2I", "style_editing_art_style_editing", "style editing", "art style"),
        ("Is2I", "text_editing_text_style_editing", "text editing", "style"),
        ("I(s)2Is", "three-view_generation", "three-view", "three-view"),
    ],
)
def test_released_names_fall_into_their_groups(category: str, slug: str, group: str, leaf: str | None) -> None:
    found = group_of(category, slug, "")  # type: ignore[arg-type]
    assert found is not None
    assert (found.category, found.name) == (category, group)
    if leaf is not None:
        assert leaf_of(found, slug) == leaf


@pytest.mark.parametrize("place", ["dataset", "dataset/IDEA-Bench", "IDEA-Bench", ".", "anywhere"])
def test_any_root_is_accepted(tmp_path: Path, place: str) -> None:
    root = write_checkout(tmp_path, designs(1), place=place)
    assert resolve_data(benchmark("ideabench"), root) == root
    assert len(BENCHMARK.data.load(root, None).cases) == 7


def test_a_case_shows_the_model_its_references_and_nothing_else(tmp_path: Path) -> None:
    dataset = BENCHMARK.data.load(write_checkout(tmp_path, designs(1)), None)
    case = dataset.by_id()["image_blending_artisic_collage_0001"]
    assert case.request.instruction == "Design image_blending_artisic_collage_0001, please."
    assert [p.name for p in case.request.pictures] == [f"{case.id}/0001.jpg", f"{case.id}/0002.jpg"]
    assert all(dataset.path(p).is_file() for p in case.request.pictures)
    assert case.groups == {"category": "Is2I", "group": "image blending", "task": "image_blending_artisic_collage"}
    several = dataset.by_id()["style_group_generation_pixel_art_0001"]
    assert (several.request.n_pictures, several.details.uid, several.details.leaf) == (4, "0014", "pixel art")
    assert "score" not in several.request.model_dump_json()


def test_the_automatic_subset_is_the_cases_with_questions_for_a_judge(tmp_path: Path) -> None:
    items = [*designs(1), Design("ticket_generation", "0030", auto=False)]
    root = write_checkout(tmp_path, items)
    assert len(BENCHMARK.data.load(root, "all").cases) == len(BENCHMARK.data.load(root, None).cases) == 8
    assert len(BENCHMARK.data.load(root, "auto").cases) == 7
    counts = BENCHMARK.data.describe(BENCHMARK.data.load(root, None))
    assert counts["questions"] == {"for a judge": 42, "for people": 48}
    assert counts["cases by category"]["T2I"] == 3
    with pytest.raises(RefBenchError, match="auto, all"):
        BENCHMARK.data.load(root, "mllm")


def kinds(root: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for anomaly in BENCHMARK.data.anomalies(BENCHMARK.data.load(root, None)):
        assert anomaly.kind in BENCHMARK.data.anomaly_kinds
        found.setdefault(anomaly.kind, []).append(anomaly.case)
    return found


def test_a_clean_copy_has_only_its_size_against_it(tmp_path: Path) -> None:
    assert set(kinds(write_checkout(tmp_path, designs(2)))) == {"release_size"}


def test_flags_decide_the_category_and_conflicts_are_reported(tmp_path: Path) -> None:
    """As with text insertion, which one figure has under I2I and the task list under Is2I."""
    text = Design("text_editing_text_insertion", "0080", inputs=1)
    listed = Design("ticket_generation", "0063")
    flags = Design("poster_generation", "0024", inputs=1, meta={"image_reference": False})
    root = write_checkout(tmp_path, [text, listed, flags])
    cases = BENCHMARK.data.load(root, None).by_id()
    assert cases[text.name].groups["category"] == "I2I"
    assert cases[text.name].groups["group"] == "text editing"
    assert cases[flags.name].groups["category"] == "T2I"
    found = kinds(root)
    assert sorted(set(found["category_conflict"])) == sorted([text.name, listed.name])
    assert found["flag_conflict"] == [flags.name]


@pytest.mark.parametrize(
    "said",
    [
        {"I2I": ["0063"], "Is2Is": ["0044", "0024"]},
        {"I2I": [63], "Is2Is": [44, 24]},
        {"image blur filed blur": "I2I", "three-view_generation": "Is2Is", "poster_generation_0001": "I(s)2Is"},
    ],
)
def test_the_split_of_the_release_is_read_and_its_conflicts_are_told(tmp_path: Path, said: object) -> None:
    items = [design for design in designs(1) if design.uid in ("0024", "0044", "0063")]
    root = write_checkout(tmp_path, items)
    (root / "task_split.json").write_text(json.dumps(said))
    assert kinds(root)["category_conflict"] == ["poster_generation_0001"]
    counts = BENCHMARK.data.describe(BENCHMARK.data.load(root, None))["task_split.json"]
    assert sum(counts.values()) == 3
    assert "" not in counts
    (root / "task_split.json").write_text("[")
    assert kinds(root)["unreadable_split"] == ["task_split.json"]


def test_what_is_broken_is_left_out_and_named(tmp_path: Path) -> None:
    items = designs(1)
    root = write_checkout(tmp_path, items)
    data = root / "dataset"
    (data / items[0].name / "meta.json").write_text("{")
    (data / items[1].name / "instruction.txt").unlink()
    (data / items[2].name / "auto_eval.jsonl").write_text('{"question": "one?", "output_images": ["0001.jpg"]}\n')
    (data / items[3].name / "eval.json").write_text("[1, 2]")
    (data / items[4].name / "0002.jpg").write_bytes(b"no picture")
    (data / "notes").mkdir()
    found = kinds(root)
    assert found["unreadable_meta"] == [items[0].name]
    assert found["missing_instruction"] == [items[1].name]
    assert found["question_count"] == [items[2].name]
    assert found["unreadable_human"] == [items[3].name]
    assert found["unreadable_picture"] == [items[4].name]
    cases = BENCHMARK.data.load(root, None).by_id()
    assert len(cases) == 5
    assert set(BENCHMARK.asking.not_applicable(cases[items[2].name])) > {"score", "q1#1"}


def test_a_number_for_a_uid_gets_its_zeros_back(tmp_path: Path) -> None:
    root = write_checkout(tmp_path, [Design("poster_generation", "x", meta={"uid": 24, "num_of_cases": 3})])
    (case,) = BENCHMARK.data.load(root, None).cases
    assert case.details.uid == "0024"
    assert kinds(root)["case_count"] == ["poster_generation"]


@pytest.mark.parametrize(
    ("said", "wanted"), [("4?", 4), (" '12'", 12), ("\n3 and no other", 3), (" four", 4), (" that was asked for?", 2)]
)
def test_the_count_question_is_known_by_its_words(said: str, wanted: int) -> None:
    line = {"question": f"Is the number in the image the digit{said}", "output_images": ["0001.jpg", "0002.jpg"]}
    questions = read_auto(json.dumps(line).encode())
    assert not isinstance(questions, str)
    assert questions[0].counts == wanted
    plain = read_auto(json.dumps({"question": "Is it the digit 4?"}).encode())
    assert not isinstance(plain, str)
    assert plain[0].counts is None


@pytest.mark.parametrize("said", [b"{", b'{"question": 3}', b'{"question": "a", "input_images": "0001.jpg"}'])
def test_questions_that_cannot_be_read_are_said_to_be(said: bytes) -> None:
    assert isinstance(read_auto(said), str)


@pytest.mark.parametrize(
    "shape",
    [
        lambda entries: entries,
        lambda entries: {"questions": entries},
        lambda entries: {"task": "x", "meta": {"a": "b"}, "eval": entries},
        lambda entries: {f"q{n}": entry for n, entry in enumerate(entries)},
    ],
)
@pytest.mark.parametrize(
    "entry",
    [
        {"question": "Is it?", "0": "no", "1": "yes"},
        {"id": 1, "eval_question": "Is it?", "score_0": "no", "score_1": "yes"},
        {"Question": "Is it?", "standards": {"0-point": "no", "1-point": "yes"}},
        {"text": "Is it?", "zero_standard": "no", "one_standard": "yes"},
    ],
)
def test_questions_for_people_are_read_whatever_their_fields_are_called(shape: object, entry: dict[str, str]) -> None:
    found = read_human(json.dumps(shape([entry] * 6)).encode())  # type: ignore[operator]
    assert not isinstance(found, str)
    assert [(q.text, q.zero, q.one) for q in found] == [("Is it?", "no", "yes")] * 6
    assert json.loads(found[0].raw) == entry


def test_cases_of_a_task_must_agree(tmp_path: Path) -> None:
    one, other = Design("poster_generation", "0024"), Design("poster_generation", "0099", number=2)
    third = replace(Design("logo_generation", "0024"), number=1)
    found = kinds(write_checkout(tmp_path, [one, other, third]))
    assert sorted(found["task_conflict"]) == ["0024", "poster_generation"]
