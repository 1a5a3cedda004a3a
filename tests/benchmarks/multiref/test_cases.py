"""Files to cases: every released layout, both splits, what the model is shown, and what is odd in a copy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from refbench.benchmarks.kit.definition import Dataset
from refbench.benchmarks.multiref.anomalies import KINDS, anomalies
from refbench.benchmarks.multiref.benchmark import BENCHMARK
from refbench.benchmarks.multiref.cases import (
    CATEGORIES,
    TYPES,
    MultiRefCase,
    load,
    picture_number,
    read_entry,
    released_files,
    type_of,
    type_of_token,
)
from refbench.record import RefBenchError
from support.multiref import (
    BOX,
    Blend,
    Request,
    blends,
    requests,
    write_checkout,
    write_combined,
    write_entries,
    write_real_world,
    write_synthetic,
)


def only(root: Path, blend: Blend) -> MultiRefCase:
    (case,) = load(write_synthetic(root, [blend])).cases
    return case


def kinds(dataset: Dataset, *, but: tuple[str, ...] = ("other_count", "missing_split")) -> Counter[str]:
    return Counter(a.kind for a in anomalies(dataset) if a.kind not in but)


def test_both_splits_are_there_by_default_and_each_alone_as_a_subset(data: Path) -> None:
    assert Counter(case.groups["split"] for case in load(data).cases) == {"synthetic": 7, "real-world": 10}
    assert {case.groups["split"] for case in load(data, "synthetic").cases} == {"synthetic"}
    assert {case.groups["split"] for case in load(data, "real-world").cases} == {"real-world"}
    with pytest.raises(RefBenchError, match="synthetic, synthetic-900, real-world"):
        load(data, "half")


def test_one_combined_file_and_two_folders_give_the_same_cases(tmp_path: Path) -> None:
    one = load(write_combined(tmp_path / "one", blends(), requests()))
    two = load(write_checkout(tmp_path / "two", blends(), requests()))
    assert sorted(case.id for case in one.cases) == sorted(case.id for case in two.cases)
    assert all(one.path(p).is_file() for case in one.cases for p in (*case.request.pictures, *case.targets))
    assert all(two.path(p).is_file() for case in two.cases for p in (*case.request.pictures, *case.targets))


def test_a_file_of_splits_by_name_is_read_too(tmp_path: Path) -> None:
    root = write_combined(tmp_path, blends(), requests())
    import json

    entries = json.loads((root / "combined1990.json").read_text())
    write_entries(root / "combined1990.json", {"real_world": entries[:10], "synthetic": entries[10:]})
    assert len(load(root).cases) == 17


def test_the_model_is_shown_the_pictures_in_the_order_of_the_prompt_and_told_the_caption(tmp_path: Path) -> None:
    case = only(tmp_path, Blend("a", ("bbox", "subject", "caption")))
    assert [p.role for p in case.request.pictures] == ["bbox", "subject"]
    assert case.details.tokens == ("bbox_image", "subject_1")
    assert case.request.instruction.endswith("following the caption: a bright box number 0 in the dark.")
    turned = "Paint <subject_1> into <bbox_image> following the caption: it."
    other = only(
        tmp_path / "other",
        Blend("a", ("bbox", "subject", "caption"), changes={"instructions.original_prompts": turned}),
    )
    assert [p.role for p in other.request.pictures] == ["subject", "bbox"]


def test_a_case_knows_its_references_combination_and_original(tmp_path: Path) -> None:
    case = only(tmp_path, Blend("a", ("subject", "bbox", "caption")))
    assert case.groups == {"split": "synthetic", "combination": "bbox+caption+subject", "n_refs": "3"}
    assert case.id == "synthetic/a"
    assert [t.name for t in case.targets] == ["original_images/a.png"]
    assert case.cluster == "synthetic/original_images/a.png"
    assert case.stratum == "synthetic/bbox+caption+subject"
    (box,) = case.details.of_type("bbox")
    assert box.box == BOX
    (caption,) = case.details.of_type("caption")
    assert (caption.caption, caption.picture) == ("a bright box number 0 in the dark", None)


def test_targets_and_details_are_no_part_of_what_the_model_sees(dataset: Dataset) -> None:
    for case in dataset.cases:
        seen = case.request.model_dump_json()
        assert not any(target.name in seen for target in case.targets)


def test_cases_of_one_original_are_one_cluster_and_have_ids_of_their_own(tmp_path: Path) -> None:
    root = write_synthetic(tmp_path, [Blend("a", ("depth", "caption")), Blend("a", ("canny", "subject"))])
    cases = load(root).cases
    assert [case.id for case in cases] == ["synthetic/a+caption+depth", "synthetic/a+canny+subject"]
    assert len({case.cluster for case in cases}) == 1


def test_a_second_entry_of_the_same_id_is_left_out_and_said(tmp_path: Path) -> None:
    dataset = load(write_real_world(tmp_path, [Request(7), Request(7)]))
    assert [case.id for case in dataset.cases] == ["real-world/7"]
    assert kinds(dataset)["duplicate_id"] == 1


def test_an_older_release_without_conditions_has_all_it_needs_in_the_instructions(tmp_path: Path) -> None:
    (case,) = load(write_synthetic(tmp_path, [Blend("a", ("bbox", "style", "caption"))], conditions=False)).cases
    assert [r.type for r in case.details.references] == ["bbox", "style", "caption"]
    assert all(r.usable for r in case.details.references)
    assert case.details.of_type("caption")[0].caption == "a bright box number 0 in the dark"
    assert case.details.of_type("bbox")[0].box is None


def test_an_entry_without_the_mapping_is_shown_the_first_of_each_list(tmp_path: Path) -> None:
    case = only(tmp_path, Blend("a", ("style", "caption"), changes={"instructions.image_path_mapping": None}))
    assert [p.name for p in case.request.pictures] == ["images/style/a_0.png"]


def test_real_world_pictures_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = {f"image{n}": f"compressed_images/7_{n}.jpg" for n in (10, 2, 1)}
    (case,) = load(write_real_world(tmp_path, [Request(7, changes={"image_path_mapping": names})])).cases
    assert case.details.tokens == ("image1", "image2", "image10")
    assert case.groups["n_refs"] == "3"


@pytest.mark.parametrize(
    ("said", "category"),
    [
        (1, "element_replacement"),
        ("2", "element_addition"),
        ({"category": 3}, "style_appearance"),
        ("Spatial/Environment Modifications", "spatial_environment"),
        ("attribute_transfer", "attribute_transfer"),
        (6, "unknown"),
        (True, "unknown"),
        ("", "unknown"),
        ([], "unknown"),
    ],
)
def test_categories_are_numbers_texts_or_names(tmp_path: Path, said: Any, category: str) -> None:
    dataset = load(write_real_world(tmp_path, [Request(7, category=said)]))
    assert dataset.cases[0].groups["category"] == category
    assert kinds(dataset)["unknown_category"] == (category == "unknown")


def test_every_name_of_a_type_is_that_type() -> None:
    for kind in TYPES:
        assert type_of(kind) == kind
    assert type_of("Semantic Map") == "semantic_map"
    assert type_of_token("pose_2") == "pose"
    assert type_of_token("semantic_image") == "semantic_map"
    assert type_of_token("image1") is None
    assert [picture_number(t) for t in ("image1", "image12", "image", "images1", "image-1", "image1234")] == [
        1, 12, None, None, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "item",
    [
        None, 3, "text", [], {}, {"prompt": ""}, {"prompt": 4}, {"prompt": "x"}, {"prompt": "x", "image_path_mapping": [1]},
        {"instructions": {"conditions": ["depth"]}}, {"instructions": {"conditions": [], "original_prompts": "x"}},
        {"prompt": "x", "image_path_mapping": {"thing": "a.png"}},
    ],
)  # fmt: skip
def test_what_is_no_entry_is_said_and_not_guessed(item: Any) -> None:
    assert isinstance(read_entry(item, 0), str)


def test_unread_entries_are_left_out_and_said(tmp_path: Path) -> None:
    root = write_synthetic(
        tmp_path, [Blend("a", ("depth", "caption")), Blend("b", ("depth",), changes={"instructions": None})]
    )
    dataset = load(root)
    assert len(dataset.cases) == 1
    (odd,) = [a for a in anomalies(dataset) if a.kind == "unread_entry"]
    assert odd.case == "benchmark990v3.json[1]"


def test_of_two_files_of_one_split_the_newest_counts(tmp_path: Path) -> None:
    write_synthetic(tmp_path, [Blend("old", ("depth", "caption"))], file="benchmark990v2.json")
    dataset = load(write_synthetic(tmp_path, [Blend("new", ("depth", "caption"))]))
    assert [case.id for case in dataset.cases] == ["synthetic/new"]
    assert kinds(dataset)["other_file"] == 1


def test_no_files_bad_json_and_no_list_are_clear_errors(tmp_path: Path) -> None:
    assert not released_files(tmp_path)
    with pytest.raises(RefBenchError, match="holds none of"):
        load(tmp_path)
    (tmp_path / "combined1990.json").write_text("{")
    assert released_files(tmp_path)
    with pytest.raises(RefBenchError, match=r"combined1990\.json is not valid JSON"):
        load(tmp_path)
    for said in ({"a": 1}, [], 4):
        write_entries(tmp_path / "combined1990.json", said)
        with pytest.raises(RefBenchError, match="no list of entries"):
            load(tmp_path)
    write_entries(tmp_path / "combined1990.json", [{"no": "entry"}])
    with pytest.raises(RefBenchError, match="no case that can be read"):
        load(tmp_path)


def test_a_clean_copy_has_only_the_oddities_of_its_size_and_compression(dataset: Dataset) -> None:
    # The release draws one of several pictures; here it is the second, so that what was drawn can be told.
    assert kinds(dataset) == {"unseen_reference": 6}
    assert {a.kind for a in anomalies(dataset)} <= set(KINDS)


@pytest.mark.parametrize(
    ("types", "changes", "kind"),
    [
        (("depth", "caption"), {"instructions.conditions": ["depth", "caption", "smell"]}, "unknown_type"),
        (("depth", "caption"), {"conditions.depth_path": None, "instructions.image_path_mapping": {}}, "missing_reference"),
        (("depth", "caption"), {"instructions.image_path_mapping": {"depth_image": "images/gone.png"}}, "missing_picture"),
        (("depth", "caption"), {"instructions.image_path_mapping": {"depth_image": "../gone.png"}}, "outside_path"),
        (("depth", "caption"), {"instructions.image_path_mapping": {"depth_image": "/etc/gone.png"}}, "outside_path"),
        (("depth", "caption"), {"instructions.original_prompts": "Paint <depth_image>."}, "caption_not_in_prompt"),
        (("depth",), {"instructions.original_prompts": "Paint something."}, "token_not_in_prompt"),
        (("depth", "caption"), {"instructions.enhance_prompts": None}, "missing_enhanced"),
        (("depth", "caption"), {"instructions.enhance_prompts": ["I paint freely."]}, "changed_enhanced"),
        (("depth", "caption"), {"instructions.enhance_prompts": ["I paint <depth_image> freely."]}, "changed_enhanced"),
        (("depth", "caption"), {"original_image_path": None}, "missing_target"),
        (("bbox", "caption"), {"conditions.bbox_value": None}, "drawn_box"),
        (("bbox", "caption"), {"conditions.bbox_value": [list(BOX), [0, 0, 5, 5]]}, "several_instances"),
        (("mask", "caption"), {"conditions.mask_path": ["images/mask/a_0.png", "images/mask/b.png"]}, "several_instances"),
        (("pose", "caption"), {"conditions.pose_path": ["images/pose/a_0.png"]}, "several_instances"),
    ],
)  # fmt: skip
def test_each_oddity_of_an_entry_has_its_kind(
    tmp_path: Path, types: tuple[str, ...], changes: dict[str, Any], kind: str
) -> None:
    dataset = load(write_synthetic(tmp_path, [Blend("a", types, changes=changes)]))
    assert kinds(dataset)[kind] == 1


def test_maps_kept_as_jpeg_and_maps_of_another_size_are_told(tmp_path: Path) -> None:
    dataset = load(write_synthetic(tmp_path, [Blend("a", ("pose", "caption"), extension="jpg")]))
    assert kinds(dataset) == {"jpeg_map": 1}
    other = Blend("b", ("mask", "caption"), changes={"original_image_path": "images/mask/small.png"})
    root = write_synthetic(tmp_path / "other", [other])
    import numpy as np

    from refbench.pictures import encode

    (root / "images/mask/small.png").write_bytes(encode(np.zeros((10, 12, 3), np.uint8)))
    assert kinds(load(root)) == {"other_size": 1}


def test_unreadable_pictures_are_told(tmp_path: Path) -> None:
    root = write_synthetic(tmp_path, [Blend("a", ("depth", "caption"))])
    (root / "images/depth/a_0.png").write_bytes(b"no picture")
    assert kinds(load(root)) == {"unreadable_picture": 1}


def test_more_or_fewer_than_two_to_six_pictures_are_told(tmp_path: Path) -> None:
    dataset = load(write_real_world(tmp_path, [Request(1, n_pictures=1), Request(2, n_pictures=7), Request(3)]))
    assert kinds(dataset)["picture_count"] == 2


def test_counts_unlike_the_papers_are_told_and_not_asserted(dataset: Dataset) -> None:
    said = [a.detail for a in anomalies(dataset) if a.kind == "other_count"]
    assert said == ["7 entries, 990 in the paper", "10 entries, 1,000 in the paper"]
    counts = BENCHMARK.data.describe(dataset)["cases_by"]
    assert counts["split"] == {"real-world": 10, "synthetic": 7}
    assert counts["category"] == dict.fromkeys(CATEGORIES, 2)
    assert counts["type"]["caption"] == 6
    assert set(counts["type"]) == set(TYPES)


def test_anomalies_of_a_subset_are_about_that_subset(data: Path) -> None:
    assert {a.case for a in anomalies(load(data, "real-world")) if a.kind == "other_count"} == {"real-world"}


def test_outputs_are_found_by_id_or_by_name_alone(dataset: Dataset) -> None:
    case = next(case for case in dataset.cases if case.groups["split"] == "real-world")
    assert BENCHMARK.data.output_names(case) == [case.id, case.id.partition("/")[2]]
