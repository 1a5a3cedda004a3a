"""What is measured of a case in each protocol, what does not concern it, and what follows for the case as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from refbench.benchmarks.kit.definition import Dataset, Measured
from refbench.benchmarks.multiref.benchmark import BENCHMARK
from refbench.benchmarks.multiref.cases import TYPES, MultiRefCase, MultiRefDetails, Reference, load
from refbench.benchmarks.multiref.measures import (
    DERIVED,
    DREW,
    LOCAL,
    MEASURED,
    WAYS,
    derived,
    goodness,
    measuring,
    not_applicable,
)
from refbench.case import Picture, Request
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.score import Score
from refbench.tables.scorer import score_evidence
from support.multiref import BOX, Blend, write_synthetic


def case_of(root: Path, *types: str, **changes: object) -> MultiRefCase:
    blend = Blend("a", types, changes={key.replace("__", "."): value for key, value in changes.items()})
    return load(write_synthetic(root, [blend])).cases[0]


def of_part(case: MultiRefCase, part: str, protocol: str) -> list[Measured]:
    return [m for m in measuring(case) if m.part.partition("#")[0] == part and m.protocol in ("", protocol)]


def scores(case: MultiRefCase, values: Mapping[str, float | Failure]) -> dict[str, Score]:
    away = BENCHMARK.asking.not_applicable(case)
    found = {}
    for part in MEASURED:
        value = values.get(part, Failure(kind="not_measured"))
        state: dict[str, object] = {"failure": value} if isinstance(value, Failure) else {"value": value}
        if part in away:
            state = {"not_applicable": away[part]}
        found[part] = Score.model_validate(
            {"case": case.id, "model": "m", "metric": part, "protocol": "paper", **state}
        )
    return found


def test_every_expected_part_is_measured_or_does_not_apply_in_both_protocols(dataset: Dataset) -> None:
    for case in dataset.cases:
        away = set(BENCHMARK.asking.not_applicable(case))
        for protocol in ("paper", "corrected"):
            parts = [m.part for m in measuring(case) if m.protocol in ("", protocol)]
            assert len(parts) == len(set(parts))
            assert set(parts) | (away & MEASURED) == MEASURED
            assert not set(parts) & away


def test_the_parts_of_the_benchmark_are_all_that_is_judged_measured_and_derived() -> None:
    listed = [metric for metrics in BENCHMARK.asking.parts.values() for metric in metrics]
    assert len(listed) == len(set(listed))
    assert set(listed) >= {"IQ", "IF", "SF", *MEASURED, *DERIVED}
    assert BENCHMARK.asking.measured == MEASURED
    for protocol in BENCHMARK.scoring.protocols.values():
        assert {part for measure in protocol.aggregate.measures for part in measure.parts} <= set(listed)


def test_metrics_name_their_networks_and_laptop_values_have_names_of_their_own() -> None:
    assert {part for part in WAYS if "@" not in part} == set(TYPES)
    for part, way in WAYS.items():
        network = part.partition("@")[2]
        if network and part not in DREW:
            assert way.corrected.endswith(f"@{network}")
    assert set(LOCAL) == {"canny", "sketch", "bbox", "mask", "pose", "subject", "style"}


def test_real_world_cases_are_judged_only(dataset: Dataset) -> None:
    for case in dataset.cases:
        if case.groups["split"] == "real-world":
            assert measuring(case) == []
            assert set(derived(case, "corrected", {}).values()) == {
                "the real-world split is judged only: it has no typed references"
            }


def test_corrected_compares_with_the_picture_that_the_model_was_shown(tmp_path: Path) -> None:
    case = case_of(tmp_path, "style", "caption")
    (shown,) = case.request.pictures
    (corrected,) = of_part(case, "style", "corrected")
    (paper,) = of_part(case, "style", "paper")
    assert corrected.pictures["reference"] == shown
    assert paper.pictures["reference"].name == "images/style/a_0.png" != shown.name


def test_where_the_first_was_drawn_both_protocols_measure_once(tmp_path: Path) -> None:
    case = load(write_synthetic(tmp_path, [Blend("a", ("style", "caption"), drawn=0)])).cases[0]
    assert [m.protocol for m in measuring(case) if m.part == "style"] == [""]


def test_the_box_of_the_data_goes_with_the_drawing_and_the_caption_grounds_it(tmp_path: Path) -> None:
    (measured,) = of_part(case_of(tmp_path, "bbox", "caption"), "bbox", "corrected")
    assert measured.facts == {"box": BOX, "caption": "a bright box number 0 in the dark"}
    assert measured.pictures["reference"].role == "bbox"


def test_pose_is_measured_by_the_official_score_in_paper_only(tmp_path: Path) -> None:
    case = case_of(tmp_path, "pose", "caption")
    for part, network in (("pose", "higherhrnet_w32"), ("pose@blazepose", "blazepose")):
        assert of_part(case, part, "paper")[0].metric == f"pose_pixel@{network}"
        assert of_part(case, part, "corrected")[0].metric == f"pose_f1@{network}"


def test_several_references_of_a_type_are_measured_each_and_averaged(tmp_path: Path) -> None:
    names = {"subject_1": "images/subject/a_0.png", "subject_2": "images/subject/a_2.png"}
    case = case_of(tmp_path, "subject", "caption", instructions__image_path_mapping=names)
    assert [m.part for m in of_part(case, "subject", "corrected")] == ["subject", "subject#2"]
    assert [m.pictures["reference"].name for m in of_part(case, "subject", "corrected")] == list(names.values())
    assert case.groups["n_refs"] == "3"
    found = derived(case, "corrected", scores(case, {"subject": 0.4, "subject#2": 0.8, "caption": 50.0}))
    assert found["subject"] == pytest.approx(0.6)
    assert found["fidelity"] == pytest.approx((0.6 + 1) / 2), "a type counts once"
    lost = Failure(kind="unreadable_picture")
    found = derived(case, "corrected", scores(case, {"subject": 0.4, "subject#2": lost, "caption": 50.0}))
    assert (found["subject"], found["fidelity"]) == (lost, lost), "half of the subjects is not the subjects"


def test_more_references_of_a_type_than_are_defined_do_not_apply(tmp_path: Path) -> None:
    names = {"mask_1": "images/mask/a_0.png", "mask_2": "images/mask/a_0.png"}
    case = case_of(tmp_path, "mask", "caption", instructions__image_path_mapping=names)
    assert of_part(case, "mask", "corrected") == []
    assert "more than the benchmark defines" in BENCHMARK.asking.not_applicable(case)["mask"]
    assert "more than the benchmark defines" in str(derived(case, "paper", scores(case, {"caption": 30.0}))["fidelity"])


def test_the_scorer_gives_the_mean_over_several_references(tmp_path: Path) -> None:
    names = {"subject_1": "images/subject/a_0.png", "subject_2": "images/subject/a_2.png"}
    case = case_of(tmp_path, "subject", "caption", instructions__image_path_mapping=names)
    acts = [
        (
            Purpose(case=case.id, model="m", judge="", part=part),
            Evidence(
                kind="measure", request={"metric": "image_match", "part": part}, reply=json.dumps({"value": value})
            ),
        )
        for part, value in (("subject", 0.4), ("subject#2", 0.8))
    ]
    found = {s.metric: s for s in score_evidence(BENCHMARK, [case], acts, ["corrected"])}
    assert found["subject"].value == pytest.approx(0.6)
    assert found["subject#3"].not_applicable is not None


def test_a_list_of_masks_does_not_stop_the_case(tmp_path: Path) -> None:
    case = case_of(tmp_path, "mask", "caption", conditions__mask_path=["images/mask/x.png", "images/mask/a_0.png"])
    (measured,) = of_part(case, "mask", "corrected")
    assert measured.pictures["reference"].name == "images/mask/a_0.png", "the one that was shown"


def test_a_reference_that_the_data_does_not_name_does_not_apply_and_leaves_no_fidelity(tmp_path: Path) -> None:
    case = case_of(tmp_path, "depth", "caption", conditions__depth_path=None, instructions__image_path_mapping={})
    assert not of_part(case, "depth", "corrected")
    assert BENCHMARK.asking.not_applicable(case)["depth"] == "the data names no depth map for this case"
    assert (
        derived(case, "corrected", scores(case, {"caption": 30.0}))["fidelity"]
        == BENCHMARK.asking.not_applicable(case)["depth"]
    )


def test_fidelity_is_the_mean_over_the_references_with_errors_turned_round(tmp_path: Path) -> None:
    case = case_of(tmp_path, "depth", "subject", "caption")
    found = derived(case, "corrected", scores(case, {"depth": 0.1, "subject": 0.8, "caption": 30.0}))
    assert found["fidelity"] == pytest.approx((0.9 + 0.8 + 0.6) / 3)
    assert found["fidelity@local"] == Failure(kind="not_measured")


def test_fidelity_is_never_outside_of_0_to_1() -> None:
    assert goodness("caption", 100.0) == 1
    assert goodness("subject", -0.5) == 0
    assert [goodness(part, 0.0) for part in ("depth", "canny", "sketch")] == [1, 1, 1]
    assert all(0 <= goodness(part, value) <= 1 for part, way in WAYS.items() for value in (way.low, way.high))


def test_one_failed_reference_fails_the_case_by_its_kind(tmp_path: Path) -> None:
    case = case_of(tmp_path, "bbox", "subject")
    lost = Failure(kind="no_detection", detail="nobody there")
    found = derived(case, "corrected", scores(case, {"bbox": lost, "subject": 0.8}))
    assert found["fidelity"] == lost


def test_local_fidelity_is_over_what_a_laptop_measures(tmp_path: Path) -> None:
    case = case_of(tmp_path, "canny", "subject", "caption")
    found = derived(case, "corrected", scores(case, {"canny": 0.25, "subject@mobilenet_v2": 0.5}))
    assert found["fidelity@local"] == pytest.approx((0.75 + 0.5) / 2)
    assert found["fidelity"] == Failure(kind="not_measured")
    other = case_of(tmp_path / "other", "depth", "caption")
    assert (
        derived(other, "corrected", scores(other, {}))["fidelity@local"]
        == "no reference of a type that a laptop can measure"
    )


def test_the_fid_of_one_picture_exists_in_paper_only(tmp_path: Path) -> None:
    case = case_of(tmp_path, "depth", "caption")
    given = scores(case, {"inception_mean": 0.11})
    assert derived(case, "paper", given)["fid"] == 0.11
    assert "one picture has none" in str(derived(case, "corrected", given)["fid"])
    assert derived(case, "paper", scores(case, {}))["fid"] == Failure(kind="not_measured")


def test_a_case_without_any_measurement_has_failures_and_no_numbers(tmp_path: Path) -> None:
    found = derived(case_of(tmp_path, "depth", "caption"), "paper", {})
    assert {name: value.kind for name, value in found.items() if isinstance(value, Failure)} == {
        "fid": "not_measured",
        "fidelity": "not_measured",
    }


def test_a_sketch_is_measured_by_what_drew_it() -> None:
    """Lines drawn by rule against those of the paper's network would be a number about the extractors."""

    def away(extractor: str) -> dict[str, str]:
        reference = Reference(type="sketch", picture=Picture(name="s.png", role="sketch"), extractor=extractor)
        details = MultiRefDetails(split="synthetic", entry=0, references=(reference,))
        case = MultiRefCase(id="c", request=Request(instruction="x"), cluster="c", details=details)
        return not_applicable(case)

    assert "sketch" not in away("")
    assert "sketch" not in away("sketch")
    assert "network of the paper" in away("")["sketch@sketch_dodge"]
    assert "sketch@sketch_dodge" not in away("sketch_dodge")
    assert "sketch_dodge" in away("sketch_dodge")["sketch"]
