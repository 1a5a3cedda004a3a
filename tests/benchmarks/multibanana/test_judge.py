"""What is asked of the judge: the order of the parts, every reference, and a rubric that the readers can read."""

from __future__ import annotations

from pathlib import Path

import pytest

import refbench
from refbench import RefBenchError
from refbench.benchmarks.multibanana.cases import LABELS, MultiBananaCase
from refbench.benchmarks.multibanana.judge import judge_requests, wording_of
from refbench.benchmarks.multibanana.replies import read_corrected, read_paper
from refbench.chat import ChatPicture, ChatRequest, ChatText
from support.multibanana import Set, write_dataset


@pytest.fixture
def cases(tmp_path: Path) -> dict[int, MultiBananaCase]:
    """A case for each number of references."""
    sets = [Set("single", "006", 1), Set("add", "006", 2), *(Set(f"{n}_object", "006", n) for n in range(3, 9))]
    loaded = refbench.load("multibanana", write_dataset(tmp_path / "data", sets)).cases
    return {len(case.request.pictures): case for case in loaded}


def hashes(count: int) -> list[str]:
    return [f"ref{index}" for index in range(count)]


def shown(request: ChatRequest) -> list[str]:
    return [part.sha256 if isinstance(part, ChatPicture) else "text" for part in request.parts]


def text(request: ChatRequest, at: int) -> str:
    part = request.parts[at]
    assert isinstance(part, ChatText)
    return part.text


@pytest.mark.parametrize("count", range(1, 9))
def test_every_reference_from_0_comes_before_the_instruction_and_the_output_before_the_rubric(
    cases: dict[int, MultiBananaCase], count: int
) -> None:
    (request,) = judge_requests(cases[count], hashes(count), "out", wording_of())
    assert shown(request) == ["text", *hashes(count), "text", "out", "text"]
    assert f"There are {count} of them" in text(request, 0)
    assert cases[count].request.instruction in text(request, 1 + count)
    assert "Reference Consistency" in text(request, -1)
    assert (request.system, request.max_tokens) == (None, 8192)
    assert not any("{" in text(request, at) for at in (0, 1 + count, -1)), "every placeholder is filled"


def test_a_reference_cannot_be_forgotten(cases: dict[int, MultiBananaCase]) -> None:
    with pytest.raises(ValueError, match="has 3 references, 2 hashes"):
        judge_requests(cases[3], hashes(3)[1:], "out", wording_of())


def test_braces_in_an_instruction_stay_as_they_are(cases: dict[int, MultiBananaCase]) -> None:
    odd = cases[1].model_copy(
        update={"request": cases[1].request.model_copy(update={"instruction": "Write {task} {count} {instruction}"})}
    )
    (request,) = judge_requests(odd, hashes(1), "out", wording_of())
    assert "Write {task} {count} {instruction}" in text(request, 2)


def test_the_rubric_names_the_labels_that_the_readers_read_in_their_order() -> None:
    rubric = wording_of()["c"]
    block = [f"{label}: N." for label in LABELS.values()]
    assert rubric.splitlines()[-5:] == block
    assert '"Reasoning: "' in rubric
    for fact in ("from 1 ", "to 10", "4 as the mark of an average", "stand alone"):
        assert fact in rubric
    filled = rubric.replace(": N.", ": 7.")
    assert read_paper(filled) == dict.fromkeys(LABELS, 7.0)
    assert read_corrected(filled) == dict.fromkeys(LABELS, 7.0)


def test_a_judge_that_repeats_the_rubric_has_given_no_mark() -> None:
    assert all(isinstance(mark, refbench.Failure) for mark in read_corrected(wording_of()["c"]).values())


@pytest.mark.parametrize(
    ("label", "caps"),
    [
        ("Instruction Alignment", ["the mark is 1.", "the mark is 6 or lower"]),
        ("Reference Consistency", ["the mark is 4 or lower", "the mark is 6 or lower"]),
        ("Background-Subject Match", ["the mark is 1.", "the mark is 4 or lower"]),
        ("Physical Realism", ["the mark is 4 or lower", "the mark is 6 or lower"]),
        ("Visual Quality", ["the mark is 4 or lower"]),
    ],
)
def test_each_criterion_has_the_caps_of_the_benchmark(label: str, caps: list[str]) -> None:
    section = wording_of()["c"].partition(f". {label}\n")[2].partition("\n\n")[0]
    rules = [line for line in section.splitlines() if line.startswith("- ")]
    assert len(rules) == len(caps)
    for rule, cap in zip(rules, caps, strict=True):
        assert cap in rule


def test_other_words_come_from_three_files_and_have_another_hash(
    cases: dict[int, MultiBananaCase], tmp_path: Path
) -> None:
    for name, words in (("a", "Look."), ("b", "Told: {instruction}"), ("c", "Rate.")):
        (tmp_path / f"{name}.txt").write_text(words + "\n")
    wording = wording_of(str(tmp_path))
    assert wording.sha256 != wording_of().sha256
    (request,) = judge_requests(cases[1], hashes(1), "out", wording)
    assert text(request, 2) == f"Told: {cases[1].request.instruction}\n", "as the file has it, to the last byte"
    (tmp_path / "b.txt").write_text("Told nothing")
    with pytest.raises(RefBenchError, match=r"b\.txt has no \{instruction\}"):
        wording_of(str(tmp_path))
    (tmp_path / "c.txt").unlink()
    with pytest.raises(RefBenchError, match=r"c\.txt is not there"):
        wording_of(str(tmp_path))


def test_what_is_asked_decides_the_key_of_the_evidence(cases: dict[int, MultiBananaCase]) -> None:
    requests = [
        judge_requests(cases[2], order, output, wording_of())[0]
        for order in (["a", "b"], ["b", "a"])
        for output in ("x", "y")
    ]
    assert len({refbench.Evidence(kind="chat", request=r.canonical("here", "m"), reply="").id for r in requests}) == 4
