"""Loading: the official layout, its anomalies reported, broken copies refused in one sentence."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

import refbench
from refbench import RefBenchError
from refbench.benchmarks import benchmark
from support.checkout import Item, plain_items, write_checkout


def kinds(root: Path) -> Counter[str]:
    return Counter(a.kind for a in benchmark("creval").data.anomalies(refbench.load("creval", root)))


def test_cases_carry_what_the_files_say(checkout: Path) -> None:
    dataset = refbench.load("creval", checkout)
    case = dataset.cases[0]
    assert len(dataset.cases) == 27
    assert case.id == "item_000.0", "stems may contain dots"
    assert case.groups == {"category": "Customization", "dimension": "Derivative Character"}
    assert case.request.pictures[0].role == "source"
    assert dataset.path(case.request.pictures[0]).is_file()
    assert "questions" not in case.request.model_dump(), "what the model may see is the request, nothing else"


def test_a_case_is_the_same_wherever_the_data_lies(checkout: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(checkout, moved)
    keys = [[c.key for c in refbench.load("creval", root).cases] for root in (checkout, moved)]
    assert keys[0] == keys[1]


def test_a_clean_checkout_has_no_anomaly(checkout: Path) -> None:
    assert not kinds(checkout)


def test_every_anomaly_of_the_release_is_reported(tmp_path: Path) -> None:
    q = lambda *refs: [(f"Q{n}", f"Is {n} so?", r, 1) for n, r in enumerate(refs, 1)]  # noqa: E731
    full = ["Yes"] * 4
    items = [
        Item("markdown", questions={"VC": q("** Yes", *full)}, vc_text="**Q1:**\nWeight: 3\n"),
        Item("fence", questions={"IF": q("Yes\n```", *full)}),
        Item("free", questions={"IF": q("No (unless asked)", *full)}),
        Item("blank", questions={"VC": [*q(*full, "Yes"), ("Q6", "", "", 1)]}),
        Item("twice", questions={"VC": [*q(*full, "Yes"), *q("Yes")]}),
        Item("late", questions={"IF": q(*full, "Yes", "Yes")[1:]}),
        Item("few", questions={"VQ": q(*full)}),
        Item("lower", questions={"VC": q("yes", *full)}),
        Item("braces", questions={"IF": [("Q1", "Is {{brand}} there?", "Yes", 1), *q(*full, "Yes")[1:]]}),
    ]
    root = write_checkout(tmp_path / "odd", items)
    (root / "bench/image/markdown.png").unlink()
    (root / "bench/image/fence.png").write_text("<html>this is no picture</html>")
    (root / "bench/image/free.png").write_bytes(b"")
    assert kinds(root) == {
        "markdown_reference": 1,
        "lost_weight": 1,
        "fenced_reference": 1,
        "free_text_reference": 1,
        "blank_question": 1,
        "duplicate_question": 1,
        "lost_question": 1,
        "few_questions": 1,
        "lower_case_choice": 1,
        "braces_in_question": 1,
        "missing_picture": 1,
        "unreadable_picture": 2,
    }
    assert set(kinds(root)) <= set(benchmark("creval").data.anomaly_kinds)


def test_the_anomalies_of_the_real_data_are_those_of_the_release(creval_mini: Path) -> None:
    found = kinds(creval_mini)
    assert found["markdown_reference"] == 15
    assert found["blank_question"] == 1
    assert found["duplicate_question"] == 12
    assert found["braces_in_question"] == 1
    assert found["free_text_reference"] == 1
    assert found["lost_weight"] == 51, "the lost weights go beyond the items with a broken reference"


def broken(root: Path, what: str) -> None:
    instructions = root / "bench/instruction.json"
    items = json.loads(instructions.read_text())
    if what == "no instructions":
        instructions.unlink()
    elif what == "cut off":
        instructions.write_text(instructions.read_text()[:500])
    elif what == "duplicate id":
        items[3]["id"] = items[2]["id"]
    elif what == "duplicate stem":
        items[3]["input_image"] = ["image/" + items[2]["input_image"][0].split("/")[1].replace(".png", ".jpg")]
    elif what == "class 12":
        items[0]["class_id"] = 12
    elif what == "missing field":
        del items[5]["input_prompt"]
    elif what == "outside":
        items[0]["input_image"] = ["../../" + items[0]["input_image"][0]]
    elif what == "half copied":
        for path in sorted((root / "bench/questions_all/VC").glob("*.json"))[:10]:
            path.unlink()
    elif what == "no folder":
        shutil.rmtree(root / "bench/questions_all/VQ")
    elif what == "question json":
        next((root / "bench/questions_all/IF").glob("*.json")).write_text('{"quality_check_questions": [')
    elif what == "question field":
        path = next((root / "bench/questions_all/IF").glob("*.json"))
        path.write_text(json.dumps({"quality_check_questions": [{"question_id": "Q1"}]}))
    if what in ("duplicate id", "duplicate stem", "class 12", "missing field", "outside"):
        instructions.write_text(json.dumps(items))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("no instructions", "instruction.json"),
        ("cut off", "not valid JSON"),
        ("duplicate id", "there twice"),
        ("duplicate stem", "two items have the picture name"),
        ("class 12", "class_id 12"),
        ("missing field", "entry 5 lacks"),
        ("outside", "leaves the dataset"),
        ("half copied", "VC lacks 10 of 27 question files"),
        ("no folder", "VQ is not there"),
        ("question json", "not valid JSON"),
        ("question field", "question lacks a field"),
    ],
)
def test_a_broken_copy_is_refused_with_the_file_and_the_remedy(checkout: Path, what: str, says: str) -> None:
    broken(checkout, what)
    with pytest.raises(RefBenchError, match=says) as error:
        refbench.load("creval", checkout)
    assert "\n" not in str(error.value)


def test_names_are_found_whatever_form_their_accents_have(tmp_path: Path) -> None:
    import unicodedata

    composed = unicodedata.normalize("NFC", "33753208_Tường")
    root = write_checkout(tmp_path / "c", [Item(composed), *plain_items(2)])
    for metric in ("IF", "VC", "VQ"):
        folder = root / "bench/questions_all" / metric
        (folder / f"{composed}.json").rename(folder / (unicodedata.normalize("NFD", composed) + ".json"))
    assert refbench.load("creval", root).cases[0].id == composed


def test_another_benchmarks_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "from_where.csv").write_text("a,b\n")
    with pytest.raises(RefBenchError, match="looks like multibanana"):
        refbench.load("creval", tmp_path)


def test_the_default_directory_comes_from_the_environment(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFBENCH_DATA", str(checkout.parent))
    assert len(refbench.load("creval").cases) == 27
    monkeypatch.delenv("REFBENCH_DATA")
    with pytest.raises(RefBenchError, match="REFBENCH_DATA"):
        refbench.load("creval")


@pytest.mark.parametrize(
    ("file", "field", "value"),
    [
        ("instruction", "input_image", [{"a": 1}]),
        ("instruction", "input_image_resolution", [2.0**64, 24]),
        ("instruction", "input_prompt", [["x"]]),
        ("question", "weight", 2.0**64),
        ("question", "choices", {"a": {}}),
    ],
)
def test_values_that_no_case_can_have_are_refused_with_the_file(
    tmp_path: Path, file: str, field: str, value: object
) -> None:
    root = write_checkout(tmp_path, plain_items(1), pictures=False)
    folder = root / "bench/questions_all/IF"
    path = root / "bench/instruction.json" if file == "instruction" else next(folder.glob("*.json"))
    said = json.loads(path.read_text())
    (said if file == "instruction" else said["quality_check_questions"])[0][field] = value
    path.write_text(json.dumps(said))
    with pytest.raises(RefBenchError, match=path.name):
        refbench.load("creval", root)
