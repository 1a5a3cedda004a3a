"""What is asked of the judge: four wordings, the official order of pictures, and an answer both readers can read."""

from __future__ import annotations

from pathlib import Path

import pytest

import refbench
from refbench import RefBenchError
from refbench.benchmarks.icebench.cases import ICECase
from refbench.benchmarks.icebench.judge import judge_request, named, wording_of
from refbench.benchmarks.icebench.tasks import QA, TASKS
from refbench.chat import ChatPicture, ChatRequest, ChatText
from support.icebench import Item, every_task, write_dataset


@pytest.fixture
def cases(tmp_path: Path) -> dict[str, ICECase]:
    loaded = refbench.load("icebench", write_dataset(tmp_path / "data", every_task(1))).cases
    return {case.groups["task"]: case for case in loaded}


def asked(case: ICECase) -> ChatRequest | None:
    return judge_request(case, "output", {p.role: p.role for p in case.request.pictures}, wording_of())


def shown(request: ChatRequest) -> list[str]:
    return [part.sha256 if isinstance(part, ChatPicture) else "text" for part in request.parts]


def text(request: ChatRequest) -> str:
    part = request.parts[-1]
    assert isinstance(part, ChatText)
    return part.text


@pytest.mark.parametrize(
    ("task", "pictures", "names"),
    [
        ("Color Editing", ["source", "output"], ["[SOURCE]", "[OUTPUT]"]),
        ("Inpainting", ["source", "output", "mask"], ["[SOURCE]", "[OUTPUT]", "[MASK]"]),
        ("Face Swap", ["source", "output", "reference"], ["[SOURCE]", "[OUTPUT]", "[REFERENCE]"]),
        (
            "Virtual Try On",
            ["source", "output", "mask", "reference"],
            ["[SOURCE]", "[OUTPUT]", "[MASK]", "[REFERENCE]"],
        ),
    ],
)
def test_pictures_come_in_the_official_order_and_are_introduced_in_it(
    cases: dict[str, ICECase], task: str, pictures: list[str], names: list[str]
) -> None:
    request = asked(cases[task])
    assert request is not None
    assert shown(request) == [*pictures, "text"]
    introduction = text(request).split("\n")[0]
    assert [name for name in ("[SOURCE]", "[OUTPUT]", "[MASK]", "[REFERENCE]") if name in introduction] == names
    places = [introduction.index(name) for name in names]
    assert places == sorted(places)


def test_only_edits_without_a_control_are_asked_about(cases: dict[str, ICECase]) -> None:
    with_question = {name for name, case in cases.items() if asked(case) is not None}
    assert with_question == {name for name, task in TASKS.items() if QA in task.parts}
    assert len(with_question) == 22


def test_tokens_are_the_names_that_the_question_uses(cases: dict[str, ICECase]) -> None:
    for case in cases.values():
        request = asked(case)
        if request is not None:
            assert "<" not in text(request), "the released code leaves <SOURCE> and <REF_1> untouched"
            assert f"'{named(case.request.instruction)}'" in text(request)
    assert named("Put <REF_1> into <SOURCE>") == "Put [REFERENCE] into [SOURCE]"


def test_braces_in_an_instruction_stay_as_they_are(tmp_path: Path) -> None:
    item = Item("Color Editing", fields={"Instruction": "Write {instruction} {x} on <SOURCE>"})
    (case,) = refbench.load("icebench", write_dataset(tmp_path, [item])).cases
    request = asked(case)
    assert request is not None
    assert "'Write {instruction} {x} on [SOURCE]'" in text(request)


def test_every_wording_asks_for_one_digit() -> None:
    for words in wording_of().texts.values():
        assert "single digit 1 or 0 and nothing else" in words


def test_nothing_else_may_change_unless_a_reference_is_followed() -> None:
    words = wording_of().texts
    assert "nobody asked for" in words["plain"]
    assert "something else in the region" in words["mask"]
    assert "any change outside of the region" in words["mask"]
    assert "any change outside of the region" in words["mask_reference"]
    assert "else" not in words["reference"].replace("nothing else, without", "")


def test_an_edit_without_its_source_cannot_be_asked_about(tmp_path: Path) -> None:
    (case,) = refbench.load(
        "icebench", write_dataset(tmp_path, [Item("Color Editing", fields={"SourceImage": ""})])
    ).cases
    assert asked(case) is None


def test_other_words_come_from_four_files_and_have_another_hash(cases: dict[str, ICECase], tmp_path: Path) -> None:
    for name in wording_of().texts:
        (tmp_path / f"{name}.txt").write_text(f"{name}: {{instruction}}\n")
    wording = wording_of(str(tmp_path))
    assert wording.sha256 != wording_of().sha256
    request = judge_request(cases["Inpainting"], "o", {"source": "s", "mask": "m"}, wording)
    assert request is not None
    assert text(request).startswith("mask: Do inpainting")
    (tmp_path / "plain.txt").write_text("nothing")
    with pytest.raises(RefBenchError, match=r"plain\.txt has no \{instruction\}"):
        wording_of(str(tmp_path))
    (tmp_path / "mask.txt").unlink()
    (tmp_path / "plain.txt").write_text("{instruction}")
    with pytest.raises(RefBenchError, match=r"mask\.txt is not there"):
        wording_of(str(tmp_path))
