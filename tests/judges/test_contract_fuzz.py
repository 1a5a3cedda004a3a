"""Replies are hostile text: mutations of them never raise, never hang, never yield an invented value."""

from __future__ import annotations

import json
import random
import re

import pytest
from hypothesis import strategies as st

from refbench.failure import Failure
from refbench.judges import Contract, Criterion, Scale, Text, YesNo
from refbench.judges.values import LONGEST_REPLY, MARKDOWN
from support.campaigns import searched, slow
from support.hang import no_hang

DAMAGE = ['"', "'", "{", "}", "[", "]", ",", ":", "\\", "\n", "```", "**", "7", "/10", "Yes", "No", "true", "}{", "“", "\x00",
          "null", ";", "\ud800", "٣", "²", " " * 40, "visual_quality", '"answer": ', "Q1", "-", ".", "</think>"]  # fmt: skip

CONTRACTS = {
    "json_object": Contract(
        "json_object",
        (
            Criterion("visual_quality", Scale(1, 10)),
            Criterion("realism", Scale(0, 5, whole=True)),
            Criterion("ok", YesNo()),
        ),
    ),
    "labelled_lines": Contract(
        "labelled_lines", (Criterion("visual_quality", Scale(1, 10)), Criterion("realism", Scale(1, 10)))
    ),
    "the last": Contract(
        "labelled_lines", (Criterion("visual_quality", Scale(1, 10)), Criterion("realism", Scale(1, 10))), "last"
    ),
    "number_list": Contract("number_list", (Criterion("sharp", Scale(0, 10)), Criterion("clean", Scale(0, 10)))),
    "binary": Contract("binary", (Criterion("present", YesNo()),)),
    "json_per_question": Contract(
        "json_per_question", tuple(Criterion(f"Q{n}", YesNo(), f"Is part {n} there?") for n in range(1, 12))
    ),
    "with_text": Contract(
        "json_object", (Criterion("why", Text(), optional=True), Criterion("mark", Scale(0, 10), optional=True))
    ),
}
SEEDS = [
    '{"visual_quality": 7, "realism": 3, "ok": "Yes", "why": "two hands", "mark": 4.5}',
    'So:\n```json\n{"Visual-Quality": "7/10", "Realism": {"score": 4}, "ok": true}\n```\nDone.',
    '{"why": "it says "stop" {", "visual_quality": 7.5, "realism": 3, "mark": 9, "ok": "No"}',
    "**Visual quality:** 7/10 - good\n1. Realism: 4\nok: yes\nSharp: 3, Clean: 4.",
    'Reasons. "score": [7, 8.5], and also [7/10, 8.5].',
    "Answer: Yes, the hat is there.",
    "No",
    json.dumps({"answers": [{"question": f"Q{n}", "explanation": "so", "answer": "Yes"} for n in range(1, 12)]}),
    "\n".join(f'{{"Question": "Q{n}: Is part {n} there?", "answer": "No",}}' for n in range(1, 12)),
    json.dumps({f"Q{n}": "Yes" for n in range(1, 12)}),
]


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        b = min(b, a + rng.choice((1, 3, 20, 200)))
        text = rng.choice(
            (
                text[:a] + text[b:],
                text[:a],
                text[a:],
                text[:a] + rng.choice(DAMAGE) + text[a:],
                text[:a] + rng.choice(DAMAGE) + text[b:],
                text[:a] + text[a:b] * 2 + text[b:],
                text[:a] + text[a:b].swapcase() + text[b:],
                text.replace('"', rng.choice("'“”`"), rng.randint(1, 9)),
                text.replace(rng.choice((",", ":", "}", "{", "\n")), "", rng.randint(1, 3)),
            )
        )
    return text


def check(text: str) -> int:
    """Every contract reads the text; what it reads is written there; without words and digits it reads nothing."""
    found = 0
    empty = re.sub(r"yes|no|true|false", "zz", re.sub(r"[0-9]", "x", text), flags=re.IGNORECASE)
    for contract in CONTRACTS.values():
        for name, value in contract.read(text).items():
            if isinstance(value, Failure) or value is None:
                continue
            found += 1
            if isinstance(value, bool):
                words = r"yes|true|1" if value else r"no|false|0"
                assert re.search(words, text, re.IGNORECASE), (name, value, text)
            elif isinstance(value, float):
                assert any(float(number) == value for number in re.findall(r"[0-9]+(?:\.[0-9]+)?", text)), (value, text)
            else:
                plain = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
                assert value in plain.translate(MARKDOWN) or value in plain or "\\" in text
        for name, value in contract.read(empty).items():
            assert value is None or isinstance(value, Failure | str), (name, value, empty)
    return found


@pytest.mark.parametrize("mutations", [600, slow(6_000)])
def test_mutated_replies_are_read_without_raising_hanging_or_inventing(mutations: int) -> None:
    rng = random.Random(20251115)
    found = 0
    with no_hang(300):
        for _ in range(mutations):
            found += check(mutate(rng.choice(SEEDS), rng))
    assert found > 2 * mutations, "most values survive a small damage; a reader that reads nothing would pass otherwise"


@searched(50, 200, st.text(max_size=300))
def test_any_text_is_read_without_raising(text: str) -> None:
    check(text)


@searched(50, 200, st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["Yes", "7", "Q1"]),
                    lambda inner: st.lists(inner, max_size=4)
                    | st.dictionaries(st.sampled_from(["question", "answer", "Q1", "id", "score", "visual_quality", "ok"]), inner, max_size=4),
                    max_leaves=20))  # fmt: skip
def test_any_json_is_read_without_raising(value: object) -> None:
    for contract in CONTRACTS.values():
        contract.read(json.dumps(value))


@pytest.mark.parametrize(
    "unit",
    ["{", "}", '{"a":', '{"a":[', "[", '"', '"visual_quality": ', '"visual_quality"' + " " * 7, "Visual quality: 7, ", "Visual ",
     "visual_quality", "- ", "[7", "[7, ", "\n", " ", "1", "1.", '"question": "Q1', '{"question":"Q1: ', '"answer": "Yes" ', "Answer: ",
     "Yes\n", "\\", "* ", "Q1", "(", "answer is ", "_"],
)  # fmt: skip
@pytest.mark.parametrize("tails", [("",), slow(("x", '"', "}"))])
def test_endless_repetition_takes_no_endless_time(unit: str, tails: tuple[str, ...]) -> None:
    with no_hang(60):
        for tail in tails:
            text = (unit * (LONGEST_REPLY // len(unit)))[: LONGEST_REPLY - 1] + tail
            for contract in CONTRACTS.values():
                contract.read(text)
