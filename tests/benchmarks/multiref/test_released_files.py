"""The releases as they lie on a disk, made up in their exact form: rows with three keys, categories in another file,
the first 900 of 990, and the files of the released evaluation."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from refbench.benchmarks.multiref.anomalies import anomalies
from refbench.benchmarks.multiref.cases import load
from refbench.benchmarks.multiref.evaluations import import_values
from refbench.benchmarks.own.cases import load_cases
from refbench.engine import evaluate
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.tables.scoring import rescore
from support.multiref import (
    Blend,
    blends,
    original,
    requests,
    training_picture,
    write_checkout,
    write_entries,
    write_evaluation,
    write_hub_release,
    write_picture,
    write_real_world,
    write_synthetic,
    write_training_set,
)


def of_kind(root: Path, kind: str) -> list[str]:
    return [anomaly.case for anomaly in anomalies(load(root)) if anomaly.kind == kind]


# --- ONE-Lab/MultiRef-benchmark -------------------------------------------------------------------------------------


def test_the_hub_s_rows_are_both_splits_and_nothing_is_odd_but_what_they_lack(tmp_path: Path) -> None:
    dataset = load(write_hub_release(tmp_path, blends(), requests()))
    assert Counter(case.groups["split"] for case in dataset.cases) == {"synthetic": 7, "real-world": 10}
    lacking = {"missing_target", "missing_enhanced", "missing_taxonomy", "unknown_category", "drawn_box", "other_count"}
    assert {anomaly.kind for anomaly in anomalies(dataset)} == lacking


def test_a_synthetic_row_whose_tokens_are_numbers_is_told_by_its_id_and_its_folders(tmp_path: Path) -> None:
    write_hub_release(tmp_path, blends(), requests())
    path = tmp_path / "combined1990.json"
    rows = json.loads(path.read_text())
    before = {case.id: case for case in load(tmp_path).cases}
    for row in rows:
        if row["row_id"] >= 1000:
            for number, (token, place) in enumerate(list(row["image_path_mapping"].items()), 1):
                row["prompt"] = row["prompt"].replace(f"<{token}>", f"<image{number}>")
                del row["image_path_mapping"][token]
                row["image_path_mapping"][f"image{number}"] = place
    write_entries(path, rows)
    after = {case.id: case for case in load(tmp_path).cases}
    assert after.keys() == before.keys()
    assert all(after[name].groups == before[name].groups for name in before)
    assert all(after[name].request.pictures == before[name].request.pictures for name in before)


def test_a_row_above_999_of_no_known_type_is_never_taken_for_a_real_world_one(tmp_path: Path) -> None:
    write_hub_release(tmp_path, blends(), requests())
    path = tmp_path / "combined1990.json"
    rows = json.loads(path.read_text())
    rows[-1]["image_path_mapping"] = {"image1": "images/odd/a.png", "image2": "images/odd/b.png"}
    write_entries(path, rows)
    assert len(load(tmp_path, "real-world").cases) == 10
    assert of_kind(tmp_path, "unread_entry") == ["combined1990.json[16]"]


@pytest.mark.parametrize("place", ["", "multi_image_benchmark", "MultiRef_dataset/multi_image_benchmark"])
def test_categories_come_from_the_older_release_s_file_wherever_it_was_put(place: str, tmp_path: Path) -> None:
    items = requests()
    for number, item in enumerate(items):  # in the real one no two prompts are the same
        item.changes["prompt"] = f"Edit image <image1> by adding <image2>, number {number}."
    write_hub_release(tmp_path, blends(), items)
    write_real_world(tmp_path / place, items)
    cases = load(tmp_path, "real-world").cases
    assert [case.groups["category"] for case in cases] == [case.groups["category"] for case in load(tmp_path).cases[7:]]
    assert Counter(case.groups["category"] for case in cases).most_common(1)[0][1] == 2, "two of each of the five"
    assert not of_kind(tmp_path, "unknown_category") and not of_kind(tmp_path, "missing_taxonomy")


def test_a_category_is_never_taken_from_an_entry_with_another_prompt(tmp_path: Path) -> None:
    items = requests(2)
    for number, item in enumerate(items):
        item.changes["prompt"] = f"Edit image <image1> by adding <image2>, number {number}."
    write_hub_release(tmp_path, blends(), items)
    items[1].changes |= {"prompt": "Edit image <image1> by something else.", "row_id": 1}
    write_real_world(tmp_path, items)
    assert [case.groups["category"] for case in load(tmp_path, "real-world").cases] == [
        "element_replacement",
        "unknown",
    ]


def test_prompts_that_stand_twice_are_told_apart_by_their_rows(tmp_path: Path) -> None:
    items = requests(2)
    for number, item in enumerate(items):
        item.changes |= {"prompt": "Edit image <image1> by adding <image2>.", "row_id": number}
    write_hub_release(tmp_path, blends(), items)
    write_real_world(tmp_path, items)
    assert [case.groups["category"] for case in load(tmp_path, "real-world").cases] == [
        "element_replacement",
        "element_addition",
    ]


def test_a_table_says_which_rows_are_in_no_number_for_want_of_a_category(tmp_path: Path) -> None:
    root = write_hub_release(tmp_path / "data", blends(), requests(2))
    for case in load(root).cases:
        write_picture(tmp_path / f"out/{case.id}.png", original())
    found = evaluate(
        "multiref", data=root, models=[f"m=folder:{tmp_path / 'out'}"], metrics=["canny"], out=tmp_path / "run"
    )
    assert any("2 of 2 real-world cases have no category" in note for note in found.result.notes)


# --- the older release ----------------------------------------------------------------------------------------------


def test_the_first_900_of_the_older_release_are_a_subset(tmp_path: Path) -> None:
    entries = [Blend(f"p{number:04d}", ("canny", "subject")) for number in range(3)]
    write_synthetic(tmp_path, entries)
    few = load(tmp_path, "synthetic-900")
    assert len(few.cases) == 3 and {a.kind for a in anomalies(few)} == {"other_count", "unseen_reference"}
    path = tmp_path / "benchmark990v3.json"
    row = json.loads(path.read_text())[0]
    write_entries(path, [{**row, "original_image_path": f"original_images/q{number}.png"} for number in range(990)])
    dataset = load(tmp_path, "synthetic-900")
    assert [case.id for case in dataset.cases] == [f"synthetic/q{number}" for number in range(900)]
    assert len(load(tmp_path, "synthetic").cases) == 990
    assert dataset.outside == {f"synthetic/q{number}" for number in range(900, 990)}


# --- files of the released evaluation -------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_checkout(tmp_path / "data", blends(), requests())


def test_outputs_are_found_by_the_input_of_the_released_evaluation(data: Path, tmp_path: Path) -> None:
    names = {blend.name: f"out/omnigen/{number}.png" for number, blend in enumerate(blends())}
    lost = blends()[0].name
    for name, place in names.items():
        if name != lost:
            write_picture(tmp_path / place, original())
    listed = write_evaluation(tmp_path / "omnigen.json", tmp_path / "made", blends(), names, {})
    run = evaluate(
        "multiref",
        data=data,
        models=[f"omnigen=folder:{listed}"],
        metrics=["canny"],
        subset="synthetic",
        out=tmp_path / "run",
    )
    (row,) = run.result.rows(metric="canny", protocol="paper", level="overall")
    assert row.value is not None and row.n_scored == 1


def test_a_list_in_which_no_entry_is_a_case_of_the_data_is_an_error(data: Path, tmp_path: Path) -> None:
    other = [Blend("elsewhere", ("canny", "style"))]
    listed = write_evaluation(tmp_path / "l.json", tmp_path / "made", other, {"elsewhere": "x.png"}, {})
    with pytest.raises(RefBenchError, match="none of its 1 entries is a case of the data"):
        evaluate("multiref", data=data, models=[f"m=folder:{listed}"], metrics=["canny"], out=tmp_path / "run")


VALUES = {
    "fid": 0.104,
    "aesthetics": 5.5,
    "depth": 0.25,
    "caption": 26.0,
    "sketch": 0.1,
    "canny": 0.05,
    "bbox": 0.4,
    "mask": 0.5,
    "semantic_map": 0.6,
    "pose": 0.2,
    "subject": 0.7,
    "style": 0.8,
}


def values_of(blend: Blend, **changes: object) -> dict[str, object]:
    wanted = {"fid", "aesthetics", *blend.types}
    return {**{key: value for key, value in VALUES.items() if key in wanted}, **changes}


def test_values_of_the_released_evaluation_become_the_paper_s_table(data: Path, tmp_path: Path) -> None:
    path = write_evaluation(
        tmp_path / "omnigen_result.json", tmp_path / "made", blends(), {}, {b.name: values_of(b) for b in blends()}
    )
    result = rescore("multiref", replies=path, data=data, subset="synthetic")
    found = {row.metric: row.value for row in result.rows(level="overall", protocol="paper")}
    assert {row.protocol for row in result.table.rows} == {"paper"}
    assert {row.model for row in result.table.rows} == {"omnigen"}, "as every entry says in results.model_name"
    scaled = {**VALUES, "aesthetics": 0.55, "caption": 0.52}
    assert {name: found[name] for name in scaled} == pytest.approx(scaled)
    errors = {"depth", "canny", "sketch"}
    types = [1 - v if k in errors else v for k, v in scaled.items() if k not in ("fid", "aesthetics")]
    assert found["avg"] == pytest.approx(sum(types) / len(types)) and len(types) == 10


def test_what_the_released_evaluation_lost_is_a_failure_and_never_a_number(data: Path, tmp_path: Path) -> None:
    first, second, third, fourth, *rest = blends()
    evaluations: dict[str, object] = {b.name: values_of(b) for b in rest}
    evaluations[first.name] = values_of(first, depth=math.nan, fid=math.nan)
    evaluations[second.name] = {k: v for k, v in values_of(second).items() if k != "bbox"} | {"bbox_error": "no box"}
    evaluations[third.name] = {"error": "Generated image not found: out/x.png"}
    path = write_evaluation(tmp_path / "r.json", tmp_path / "made", blends(), {}, evaluations)
    assert "NaN" in path.read_text()
    result = rescore("multiref", replies=path, data=data, models=["omnigen"], out=tmp_path / "run")
    states = {(s.case, s.metric): s for s in result.scores if s.protocol == "paper"}

    def failed(blend: Blend, metric: str) -> Failure:
        failure = states[f"synthetic/{blend.name}", metric].failure
        assert failure is not None
        return failure

    assert failed(first, "depth").kind == "undefined" and "NaN" in failed(first, "depth").detail
    assert failed(second, "bbox").detail == "the released evaluation: no box"
    assert failed(third, "mask").kind == failed(third, "style").kind == "missing_output"
    assert states[f"synthetic/{second.name}", "subject"].value == 0.7
    assert states[f"synthetic/{fourth.name}", "canny"].value is None, "the file has no values of it"


@pytest.mark.parametrize(
    "value, kind",
    [(7.0, "out_of_range"), (10**200, "out_of_range"), ("0.4", "undefined"), (True, "undefined"), (None, "undefined")],
)
def test_a_value_that_no_metric_can_have_is_a_failure(value: object, kind: str, data: Path, tmp_path: Path) -> None:
    second = blends()[1]
    path = write_evaluation(
        tmp_path / "r.json", tmp_path / "m", blends(), {}, {second.name: values_of(second, bbox=value)}
    )
    result = rescore("multiref", replies=path, data=data)
    (score,) = [s for s in result.scores if (s.case, s.metric) == (f"synthetic/{second.name}", "bbox")]
    assert score.value is None and score.failure is not None and score.failure.kind == kind


def test_entries_with_one_prompt_are_told_apart_by_their_pictures_also_outside_a_subset(tmp_path: Path) -> None:
    same = {"instructions.original_prompts": "Generate an image like <canny_image> and <subject_1>."}
    two = [Blend(name, ("canny", "subject"), changes=dict(same)) for name in ("a", "b")]
    root = write_synthetic(tmp_path / "data", two)
    values = {b.name: values_of(b, canny=canny) for b, canny in zip(two, (0.1, 0.3), strict=True)}
    path = write_evaluation(tmp_path / "r.json", tmp_path / "m", two, {}, values)
    scored = {s.case: s.value for s in rescore("multiref", replies=path, data=root).scores if s.metric == "canny"}
    assert scored == {"synthetic/a": 0.1, "synthetic/b": 0.3}
    first = list(json.loads((root / "benchmark990v3.json").read_text()))[:1]
    others = [{**first[0], "original_image_path": f"original_images/{n}.png"} for n in range(900)]
    for number, entry in enumerate(others):
        entry["instructions"] = {**entry["instructions"], "original_prompts": f"Another one, {number}: <canny_image>."}
    write_entries(root / "benchmark990v3.json", [*others, *json.loads((root / "benchmark990v3.json").read_text())])
    with pytest.raises(RefBenchError, match="none of its 2 entries is a case of the data"):
        rescore("multiref", replies=path, data=root, subset="synthetic-900")


@pytest.mark.parametrize("name", ["other", "", None, ["omnigen"]])
def test_a_result_whose_entries_name_no_single_model_is_called_as_its_file(
    data: Path, tmp_path: Path, name: object
) -> None:
    path = write_evaluation(tmp_path / "r.json", tmp_path / "m", blends(), {}, {b.name: values_of(b) for b in blends()})
    entries = json.loads(path.read_text())
    entries[0]["results"]["model_name"] = name
    path.write_text(json.dumps(entries))
    imported = import_values(load(data), path, None)
    assert imported.models == ("r",)
    assert import_values(load(data), path, ["mine"]).models == ("mine",)


def test_the_corrected_protocol_is_not_made_of_the_release_s_values(data: Path, tmp_path: Path) -> None:
    path = write_evaluation(tmp_path / "r.json", tmp_path / "m", blends(), {}, {b.name: values_of(b) for b in blends()})
    with pytest.raises(RefBenchError, match="values of the paper protocol alone"):
        rescore("multiref", replies=path, data=data, protocol="corrected")


def test_a_made_up_release_goes_through_check_rescore_and_table(
    run_cli: Callable[..., tuple[int, str, str]], data: Path, tmp_path: Path
) -> None:
    path = write_evaluation(tmp_path / "r.json", tmp_path / "m", blends(), {}, {b.name: values_of(b) for b in blends()})
    run = tmp_path / "run"
    code, out, _ = run_cli("check", "multiref", "--data", data)
    assert code == 0 and ": 17 cases, 53 pictures" in " ".join(out.split())
    code, out, _ = run_cli("describe", "multiref", "--data", data, "--json")
    assert json.loads(out)["cases"] == 17
    assert run_cli("rescore", "multiref", "--data", data, "--replies", path, "--out", run)[0] == 0
    code, out, err = run_cli("table", run, "--by", "split")
    assert (code, err) == (0, "") and "0.7000" in out and "corrected" not in out and "not asked" not in out


# --- ONE-Lab/MultiRef-dataset: the training set as cases --------------------------------------------------------------


def test_the_training_set_is_a_file_of_cases_with_its_pictures_unpacked_once(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = write_training_set(tmp_path)
    dataset = load_cases(path)
    assert [case.id for case in dataset.cases] == ["000001", "000002", "000003"]
    for number, case in enumerate(dataset.cases):
        assert case.request.instruction == f"Sample {number}." and case.groups == {"n_refs": "2"}
        shown = [dataset.path(p).read_bytes() for p in (*case.request.pictures, *case.targets)]
        assert shown == [training_picture(number, n) for n in range(3)], "inputs in order, then the output"
    for file in (tmp_path / "data").iterdir():
        file.write_bytes(b"gone")  # what lies unpacked is not read again
    assert load_cases(path).cases == dataset.cases


def test_pictures_that_lie_beside_the_training_set_are_taken_from_there(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = write_training_set(tmp_path, 1)
    for name in ("depth/0.png", "style/0.png", "original/0.png"):
        write_picture(tmp_path / name, original())
    shutil.rmtree(tmp_path / "data")
    (case,) = load_cases(path).cases
    assert [picture.name for picture in case.request.pictures] == ["depth/0.png", "style/0.png"]
    assert not (tmp_path / "new_training_data.jsonl.pictures").exists()


def test_a_path_that_leaves_the_training_set_is_never_written(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = write_training_set(tmp_path / "set", 1)
    path.write_text(path.read_text().replace("/style/0.png", "/../../outside.png"))
    load_cases(path)
    assert not list(tmp_path.glob("**/outside.png"))


def test_the_training_set_goes_through_describe_cases_and_blend(
    run_cli: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    path = write_training_set(tmp_path / "set", 6)
    code, out, err = run_cli("describe", path)
    assert (code, err) == (0, "") and "6" in out
    assert run_cli("cases", path, "--out", tmp_path / "cases.jsonl")[0] == 0
    assert len((tmp_path / "cases.jsonl").read_text().splitlines()) == 6
    words = ("--layout", "multiref-dataset", "--types", "canny,sketch_dodge,caption", "--rules", tmp_path / "r.toml")
    (tmp_path / "r.toml").write_text('extends = "matrix"\nallow = [["canny", "sketch"]]\n')
    code, out, err = run_cli("blend", "build", tmp_path / "set", "--out", tmp_path / "blend", *words)
    assert code == 0, err
    assert "6 pictures" in out
