"""Readers of replies: what the released script makes of each shape, and what `corrected` makes of it."""

from __future__ import annotations

import json

import pytest

from refbench import Failure
from refbench.benchmarks.multibanana.cases import CRITERIA, LABELS
from refbench.benchmarks.multibanana.replies import read_corrected, read_paper
from support.multibanana import MARKS, reply

GOOD = reply()
FIRST = "Instruction Alignment: 7."


def paper(text: str) -> list[float] | str:
    marks = read_paper(text)
    return marks.kind if isinstance(marks, Failure) else [marks[criterion] for criterion in CRITERIA]


def corrected(text: str) -> list[float | str]:
    marks = read_corrected(text)
    assert tuple(marks) == CRITERIA
    return [mark.kind if isinstance(mark, Failure) else mark for mark in marks.values()]


def with_first(line: str) -> str:
    """The good reply with another line for the first criterion."""
    assert FIRST in GOOD
    return GOOD.replace(FIRST, line)


def test_the_asked_for_form_is_read_by_both() -> None:
    assert paper(GOOD) == list(MARKS)
    assert corrected(GOOD) == list(MARKS)


@pytest.mark.parametrize(
    ("line", "in_paper", "in_corrected"),
    [
        ("Instruction Alignment: 7.", 7, 7),
        ("Instruction Alignment: 7/10", 7, 7),
        ("Instruction Alignment: 7.5", 7, 7.5),
        ("Text-Instruction Alignment: 7", 7, 7),
        ("**Instruction Alignment:** 7", None, 7),
        ("Instruction Alignment: **7**", None, 7),
        ("Instruction Alignment: <7>", None, 7),
        ("instruction alignment: 7", None, 7),
        ("Instruction Alignment: 100", 100, "out_of_range"),
    ],
)
def test_each_variant_of_a_line(line: str, in_paper: float | None, in_corrected: float | str) -> None:
    assert paper(with_first(line)) == ("unparsable" if in_paper is None else [in_paper, *MARKS[1:]])
    assert corrected(with_first(line)) == [in_corrected, *MARKS[1:]]


def test_a_label_without_its_hyphen_loses_the_sample_in_paper_only() -> None:
    text = GOOD.replace("Background-Subject", "Background Subject")
    assert paper(text) == "unparsable"
    assert corrected(text) == list(MARKS)


def test_numbers_in_the_reasoning_are_taken_by_paper_only() -> None:
    text = reply(reasoning="Instruction Alignment: 2 of 3 subjects are there, so not full marks.")
    assert paper(text) == [2, *MARKS[1:]]
    assert corrected(text) == list(MARKS)


@pytest.mark.parametrize("text", ["Error during evaluation: 429 quota", "  Error during evaluation"])
def test_an_error_that_was_saved_as_a_reply_is_an_error(text: str) -> None:
    assert paper(text) == "api_error"
    assert corrected(text) == ["api_error"] * 5


def test_a_key_in_a_saved_error_does_not_stay() -> None:
    failure = read_paper("Error during evaluation: 401 - key sk-abcdefghijklmnop is spent")
    assert isinstance(failure, Failure)
    assert "sk-abc" not in failure.detail


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_file_is_an_empty_reply(text: str) -> None:
    assert paper(text) == "empty_reply"
    assert corrected(text) == ["empty_reply"] * 5


def test_a_missing_criterion_loses_all_five_in_paper_and_itself_in_corrected() -> None:
    text = GOOD.replace("Physical Realism: 4.\n", "")
    assert paper(text) == "unparsable"
    assert corrected(text) == [7, 6, 5, "unparsable", 8]


def test_paper_takes_any_number_that_a_table_can_hold() -> None:
    assert paper(with_first("Instruction Alignment: 0")) == [0, *MARKS[1:]]
    assert paper(with_first("Instruction Alignment: ٧")) == [7, *MARKS[1:]]
    assert paper(with_first("Instruction Alignment: \n\n 7")) == [7, *MARKS[1:]]
    assert paper(with_first("Instruction Alignment: " + "9" * 5000)) == "out_of_range"


@pytest.mark.parametrize(
    "line",
    [
        "- Instruction Alignment: 7", "1. Instruction Alignment: 7.", "(1) Instruction Alignment: 7", "### Instruction Alignment: 7",
        "> *Instruction Alignment*: 7", "__Instruction Alignment__: 7", "| Instruction Alignment | 7 |", "INSTRUCTION ALIGNMENT = 7",
        "Instruction_Alignment: 7", "Instruction-Alignment : 7", "`Instruction Alignment`: `7`", "Instruction Alignment: [7]",
        "Instruction Alignment Score: 7", "Instruction Alignment (1-10): 7", "Instruction Alignment: 7 / 10.", "Instruction Alignment: 7 out of 10",
        "Instruction Alignment: 7 of 10", "Instruction Alignment: (7/10)", "Instruction Alignment: 7.0", "Instruction Alignment：7",
        "Instruction Alignment: 7, the hat is missing", "Instruction Alignment: 7 - the hat is missing", "Instruction Alignment: 7 (good)",
        "Instruction Alignment: 7. 2 of 3 hats are there.", "  * **Instruction Alignment**: **7**/10  ", "Instruction Alignment: 7 points.",
        '"Instruction Alignment": "7",', "Instruction Alignment: 7\r", "Instruction Alignment: 3.\nInstruction Alignment: 7.",
    ],
)  # fmt: skip
def test_corrected_reads(line: str) -> None:
    assert corrected(with_first(line)) == list(MARKS), line


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Instruction Alignment: 7/5", "unparsable"),
        ("Instruction Alignment: 70/100", "unparsable"),
        ("Instruction Alignment: 2 of 3 subjects", "unparsable"),
        ("Instruction Alignment: 2 subjects are missing", "unparsable"),
        ("Instruction Alignment: 6-7", "unparsable"),
        ("Instruction Alignment: 6 - 7", "unparsable"),
        ("Instruction Alignment: 6, 7", "unparsable"),
        ("Instruction Alignment: 7,5", "unparsable"),
        ("Instruction Alignment: 70%", "unparsable"),
        ("Instruction Alignment: 7.5.3", "unparsable"),
        ("Instruction Alignment: 1*0", "unparsable"),
        ("Instruction Alignment: 7**.5**", "unparsable"),
        ("Instruction Alignment: 8 -> 6", "unparsable"),
        ("| Instruction Alignment | 7 | 8 |", "unparsable"),
        ("Instruction Alignment: seven", "unparsable"),
        ("Instruction Alignment: N/A", "unparsable"),
        ("Instruction Alignment: <number>.", "unparsable"),
        ("Instruction Alignment:", "unparsable"),
        ("Overall Instruction Alignment: 7", "unparsable"),
        ("Non-instruction alignment: 7", "unparsable"),
        ("Misinstruction Alignment: 7", "unparsable"),
        ("Instruction Alignments: 7", "unparsable"),
        ("Instruction Alignment: 0", "out_of_range"),
        ("Instruction Alignment: -7", "out_of_range"),
        ("Instruction Alignment: 10.5", "out_of_range"),
        ("Instruction Alignment: 11/10", "out_of_range"),
        ("Instruction Alignment: " + "9" * 6000, "out_of_range"),
    ],
)
def test_corrected_does_not_read(line: str, kind: str) -> None:
    assert corrected(with_first(line)) == [kind, *MARKS[1:]], line


def test_the_last_block_counts_even_if_the_reasoning_goes_line_by_line() -> None:
    draft = "\n".join(f"{n}. {label}: 2. Not good." for n, label in enumerate(LABELS.values(), 1))
    assert corrected(f"Reasoning:\n{draft}\n\n{GOOD}") == list(MARKS)
    assert paper(f"Reasoning:\n{draft}\n\n{GOOD}") == [2] * 5


def test_a_mark_that_the_last_block_lacks_is_not_taken_from_the_reasoning() -> None:
    reasoning = "Reasoning:\nInstruction Alignment: 2.\nVisual Quality: 3.\n\n"
    cut = "\n".join(GOOD.splitlines()[2:-1])
    assert corrected(reasoning + cut) == [7, 6, 5, 4, "unparsable"]
    out_of_order = "Reference Consistency: 3.\n\n"
    assert corrected(out_of_order + GOOD) == list(MARKS)


def test_a_reply_cut_off_in_its_reasoning_has_no_marks() -> None:
    assert corrected("Reasoning: the hat is right. Instruction Alignment: 7 seems fair, and Visual Quality: 8. But") == ["unparsable"] * 5  # fmt: skip


def test_all_marks_in_one_line_are_a_block_wherever_it_stands() -> None:
    line = " ".join(GOOD.splitlines()[2:])
    for text in (
        line,
        f"Reasoning: fine. {line}",
        f"Reasoning: Visual Quality: 2 at first. {line}",
        line.replace(".", ","),
    ):
        assert corrected(text) == list(MARKS), text
    assert corrected("Reasoning: so. " + line.replace("Physical Realism: 4. ", "")) == ["unparsable"] * 5


def test_other_orders_are_read_when_nothing_comes_twice() -> None:
    head, lines = GOOD.splitlines()[:2], GOOD.splitlines()[2:]
    assert corrected("\n".join([*head, *reversed(lines)])) == list(MARKS)


# --- JSON ----------------------------------------------------------------------------------------------------


JSON = {"reasoning": "Visual Quality: 2", **dict(zip(CRITERIA, MARKS, strict=True))}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(JSON),
        json.dumps(JSON, indent=2),
        f"```json\n{json.dumps(JSON, indent=2)}\n```",
        json.dumps({"scores": JSON}),
        json.dumps([{"a": 1}, JSON]),
        json.dumps(dict(zip(LABELS.values(), MARKS, strict=True))),
        json.dumps({label: f"{mark}/10" for label, mark in zip(LABELS.values(), MARKS, strict=True)}),
        json.dumps({label: {"score": mark, "why": "so"} for label, mark in zip(LABELS.values(), MARKS, strict=True)}),
        json.dumps(dict.fromkeys(CRITERIA, 2)) + json.dumps(JSON),
        json.dumps(dict.fromkeys(CRITERIA, 2)) + "\n" + GOOD,
        "Reasoning:\nVisual Quality: 2.\n" + json.dumps(JSON),
    ],
)
def test_corrected_reads_json(text: str) -> None:
    assert corrected(text) == list(MARKS)


def test_json_marks_are_as_strict_as_written_ones() -> None:
    said = dict(zip(CRITERIA, (True, 70, "7/5", None, 7.5), strict=True))
    assert corrected(json.dumps(said)) == ["unparsable", "out_of_range", "unparsable", "unparsable", 7.5]
    assert corrected(json.dumps({"visual_quality": 8})) == ["unparsable"] * 4 + [8]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I'm sorry, but I can't help with that.", "refused"),
        ("I cannot assist with this request.", "refused"),
        ("The picture is lovely.", "unparsable"),
        ("{" * 50, "unparsable"),
        ("x" * 300_000, "unparsable"),
    ],
)
def test_a_reply_without_any_mark_is_a_failure_of_its_kind(text: str, kind: str) -> None:
    assert corrected(text) == [kind] * 5
    assert paper(text) == "unparsable"


def test_words_of_regret_before_marks_are_no_refusal() -> None:
    assert corrected("Sorry, a short answer.\n" + GOOD) == list(MARKS)
