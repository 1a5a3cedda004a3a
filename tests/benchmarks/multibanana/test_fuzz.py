"""Replies are hostile text: thousands of mutations never raise, never hang, and never yield a mark that is not there."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import strategies as st

from refbench import Failure
from refbench.benchmarks.multibanana.cases import CRITERIA, HIGHEST, LABELS, LOWEST
from refbench.benchmarks.multibanana.replies import read_corrected, read_paper
from refbench.judges.values import LONGEST_REPLY
from support.campaigns import damaged, searched, slow
from support.hang import no_hang
from support.multibanana import MARKS, reply

STRUCTURE = ["*", "**", "`", "\n", "\r\n", ":", ".", "/10", "/5", " of 3", "{", "}", '"', "|", "- ", "1. ", "<", ">", "7", "100", "-3", "7.5",
             "Visual Quality: ", "Instruction Alignment", "instruction_alignment", "\ud800", "\x00", "\u2028", "٧", "²", " " * 40, "N/A"]  # fmt: skip
SHAPES = [
    reply(),
    reply(reasoning="Instruction Alignment: 2 of 3 subjects, Visual Quality: high, 7 hats."),
    reply([f"**{mark}**/10" for mark in MARKS]),
    "\n".join(f"{n}. **{label}**: {mark}" for n, (label, mark) in enumerate(zip(LABELS.values(), MARKS, strict=True), 1)),
    " ".join(reply().splitlines()),
    "\n".join(f"| {label} | {mark} |" for label, mark in zip(LABELS.values(), MARKS, strict=True)),
    json.dumps(dict(zip(CRITERIA, MARKS, strict=True)), indent=2),
    json.dumps({label: {"score": mark} for label, mark in zip(LABELS.values(), MARKS, strict=True)}),
]  # fmt: skip


def mutate(text: str, rng: random.Random) -> str:
    cut = (":", ".", "\n", " ", "-")
    return damaged(text, rng, STRUCTURE, lambda text, rng: text.replace(rng.choice(cut), "", rng.randint(1, 3)))


def written_for(text: str, criterion: str, mark: float) -> bool:
    """Whether the reply names the criterion and writes this number close behind: an independent, laxer look."""
    label = r"[\W_]{0,12}".join(criterion.split("_"))
    numbers = re.findall(rf"{label}[^\d]{{0,400}}?(\d+(?:\.\d+)?)", text, re.IGNORECASE)
    return any(abs(float(number) - mark) < 1e-9 for number in numbers)


def check(text: str) -> int:
    marks = read_corrected(text)
    assert tuple(marks) == CRITERIA
    values = {criterion: mark for criterion, mark in marks.items() if not isinstance(mark, Failure)}
    for criterion, mark in values.items():
        assert LOWEST <= mark <= HIGHEST
        assert written_for(text, criterion, mark), (criterion, mark, text)
    paper = read_paper(text)
    assert isinstance(paper, Failure) or tuple(paper) == CRITERIA
    numberless = re.sub(r"\d", "x", text)
    assert isinstance(read_paper(numberless), Failure)
    assert all(isinstance(mark, Failure) for mark in read_corrected(numberless).values()), numberless
    return len(values)


@pytest.mark.parametrize("mutations", [1_000, slow(20_000)])
def test_mutated_replies_are_read_without_raising_hanging_or_inventing(mutations: int) -> None:
    rng = random.Random(20251115)
    with no_hang(300):
        read = sum(check(mutate(rng.choice(SHAPES), rng)) for _ in range(mutations))
    assert read > 2 * mutations, "most marks survive a small damage; a reader that reads nothing would pass otherwise"


@pytest.mark.parametrize("mutations", [300, slow(3_000)])
def test_a_label_that_is_gone_has_no_mark(mutations: int) -> None:
    rng = random.Random(7)
    for _ in range(mutations):
        text = mutate(rng.choice(SHAPES), rng)
        for criterion in CRITERIA:
            word = criterion.split("_")[-1]
            nameless = re.sub(word, "zzz", text, flags=re.IGNORECASE)
            assert isinstance(read_corrected(nameless)[criterion], Failure), nameless


@searched(25, 100, st.text(max_size=400))
def test_any_text_is_read_without_raising(text: str) -> None:
    check(text)


@searched(
    25,
    100,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["7", "7/10", "x"]),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from([*CRITERIA, *LABELS.values(), "score"]), inner, max_size=8)
        ),
        max_leaves=25,
    ),
)
def test_any_json_is_read_without_raising(value: object) -> None:
    marks = read_corrected(json.dumps(value))
    assert all(isinstance(mark, Failure) or LOWEST <= mark <= HIGHEST for mark in marks.values())


UNITS = ["{", "}", '{"a":', '{"a":[', "[", " ", "\n", "*", "9", "1. ", "- ", "|", "Instruction Alignment", "Instruction Alignment: ", "visual quality:7",
    "Visual Quality: 7. ", "Visual Quality: 7\n", "Physical Realism (", "text ", "text-", "background subject ", "Physical Realism: 9" + "9" * 500, "_",
    "Visual Quality: 7/", "Visual Quality" + " " * 30, "instruction_", '{"visual_quality": 7}', "> # > # "]  # fmt: skip
OFTEN = ["{", "> # > # "]


@pytest.mark.parametrize("unit", [unit if unit in OFTEN else slow(unit) for unit in UNITS])
def test_endless_repetition_takes_no_endless_time(unit: str) -> None:
    with no_hang(30):
        for head in ("", "Visual Quality: "):
            for tail in ("", "x", "7", "}"):
                text = (head + unit * (LONGEST_REPLY // len(unit)))[: LONGEST_REPLY - 1] + tail
                read_paper(text)
                read_corrected(text)
