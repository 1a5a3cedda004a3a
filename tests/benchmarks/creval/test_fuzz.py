"""Replies are hostile text: 100,000 mutations of them never raise, never hang, never yield an invented answer."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import strategies as st

from refbench import Failure
from refbench.benchmarks.creval.cases import METRICS, Question
from refbench.benchmarks.creval.replies import read_choice, read_corrected, read_paper
from refbench.judges.values import LONGEST_REPLY
from support.campaigns import damaged, searched, slow
from support.checkout import reply_text
from support.hang import no_hang

SHARED = Path(__file__).resolve().parents[4] / "shared" / "creval-mini"

STRUCTURE = ['"', "'", "{", "}", "[", "]", ",", ":", "\\", "\n", "```", '"answer"', '"Question"', "Q1", "Q10", "Yes", "No",
             '"answer": ', "}{", "},{", "“", "\u2028", "\x00", "{{", '\\"', "null", "N/A", ";", "))", "\ud800", " " * 40]  # fmt: skip


def shapes() -> list[tuple[str, list[Question]]]:
    """Replies of every shape that judges have given, in our own words."""
    questions = [
        Question(
            id=f"Q{n}", text=f"Is the {thing} still where it was?", choices=("Yes", "No"), reference="Yes", weight=1
        )
        for n, thing in enumerate(
            ("tower", "river", "hat", "sign '{{name}}'", "lamp", "dog", "cat", "sky", "sea", "sun"), 1
        )
    ]
    pairs = [(q.id, "Yes" if i % 3 else "No") for i, q in enumerate(questions)]
    good = reply_text(pairs)
    return [
        (text, questions)
        for text in (
            good,
            f"Here you are:\n```json\n[{good}]\n```",
            reply_text(pairs, keys=("Question", "Explanation", "Answer")),
            json.dumps({"explanation": "all", "answer": [{"Question": f"{q}: x", "answer": a} for q, a in pairs]}),
            json.dumps(dict(pairs)),
            json.dumps({q: {"explanation": "e", "answer": a} for q, a in pairs}),
            good.replace('picture."', 'picture said "no" here."'),
            good.replace('picture.",', 'picture."'),
            good.replace('{\n    "Question": "Q', '{\n    "Q').replace(": Is it so?", '": "Is it so?'),
        )
    ]


def real_replies() -> list[tuple[str, list[Question]]]:
    if not (SHARED / "bench").exists():
        return []
    found = []
    for metric in METRICS:
        for path in sorted((SHARED / "bench/questions_all" / metric).glob("*.json")):
            entries = json.loads(path.read_text())["quality_check_questions"]
            questions = [
                Question(
                    id=e["question_id"],
                    text=e["question"],
                    choices=e["choices"],
                    reference=e["answer"],
                    weight=e["weight"],
                )
                for e in entries
            ]
            for folder in (SHARED / "answer_gpt" / metric, SHARED / "answer_qwen" / metric):
                for model in sorted(folder.iterdir()):
                    text = model / f"{path.stem}.txt"
                    if text.exists():
                        found.append((text.read_text(), questions))
    return found


def mutate(text: str, rng: random.Random) -> str:
    return damaged(
        text,
        rng,
        STRUCTURE,
        lambda text, rng: text.replace('"', rng.choice("'“”`"), rng.randint(1, 9)),
        lambda text, rng: text.replace(rng.choice((",", ":", "}", "{", "\n", "answer")), "", rng.randint(1, 3)),
    )


def choices(text: str, questions: list[Question]) -> list[str | None]:
    """Yes, no or nothing for each question: both readers come back with one answer each, or a failure."""
    paper = read_paper(text, questions)
    assert isinstance(paper, Failure) or len(paper) == len(questions)
    found = read_corrected(text, questions)
    if isinstance(found, Failure):
        return [None] * len(questions)
    assert len(found) == len(questions)
    return [read_choice(answer or "") for answer in found]


def written_for(text: str, question: Question, choice: str) -> bool:
    """Whether the reply names the question and says this choice where an answer stands: an independent, laxer look."""
    number = question.id[1:]
    named = re.search(rf"Q(?:uestion)?[ _]?{number}(?!\d)", text, re.IGNORECASE)
    told = (
        " ".join(question.text.replace("*", " ").split()).casefold()
        in " ".join(text.replace("*", " ").split()).casefold()
    )
    answers = rf"(?:answer|Q\s?{number}).{{0,3}}?\s*[:：]\s*[\"'“”\s*`.‘’]*{choice}\b"
    return bool((named or told) and re.search(answers, text, re.IGNORECASE))


def check(text: str, questions: list[Question], *, thoroughly: bool) -> int:
    found = choices(text, questions)
    for question, choice in zip(questions, found, strict=True):
        if choice:
            assert written_for(text, question, choice), (question.id, choice, text)
    if thoroughly:
        # Without the words yes and no nothing can be answered ...
        wordless = re.sub("yes|no", "zz", text, flags=re.IGNORECASE)
        assert not any(choices(wordless, questions)), wordless
        paper = read_paper(wordless, questions)
        assert isinstance(paper, Failure) or not {a.strip().lower() for a in paper} & {"yes", "no"}
        # ... and without any mention of a question, that question cannot.
        target = questions[len(text) % len(questions)]
        nameless = re.sub(rf"(Q(?:uestion)?[ _]?){target.id[1:]}(?!\d)", r"\1x", text, flags=re.IGNORECASE)
        if target.text.strip() and target.text.strip("*\n ") not in text:
            for question, choice in zip(questions, choices(nameless, questions), strict=True):
                assert question.id != target.id or choice is None, nameless
    return sum(choice is not None for choice in found)


@pytest.mark.parametrize("mutations", [2_000, slow(100_000)])
def test_mutated_replies_are_read_without_raising_hanging_or_inventing(mutations: int) -> None:
    seeds = real_replies() + shapes() * 20
    rng = random.Random(20251115)
    read = 0
    with no_hang(600):
        for number in range(mutations):
            text, questions = rng.choice(seeds)
            read += check(mutate(text, rng), questions, thoroughly=number % 8 == 0)
    assert read > mutations, "most answers survive a small damage; a reader that reads nothing would pass otherwise"


@searched(25, 100, st.text(max_size=400), st.integers(1, 12))
def test_any_text_is_read_without_raising(text: str, count: int) -> None:
    check(text, shapes()[0][1][: min(count, 10)], thoroughly=True)


@searched(25, 100, st.recursive(st.none() | st.booleans() | st.floats(allow_nan=False) | st.sampled_from(["Yes", "No", "Q1: x", "Q2"]),
                    lambda inner: st.lists(inner, max_size=4)
                    | st.dictionaries(st.sampled_from(["Question", "answer", "Q1", "id", "Answer", "question 2"]), inner, max_size=4),
                    max_leaves=20))  # fmt: skip
def test_any_json_is_read_without_raising(value: object) -> None:
    choices(json.dumps(value), shapes()[0][1])


UNITS = ["{", "}", '{"a":', '{"a":{', '{"a":[', "[", '"', '{"Question": "Q1", ', '"answer": "', "'answer': '", "\n", " ", "}\n", "\n{ ",
    '"question"   ', '"answer"' + " " * 7, "Q1 ", '{"a":[{"b":1},', "\\", '"answer": "Yes" ', "{}", '{"Question":"Q1: ' + " " * 50,
    '"Question": "Q1" "answer": "Yes", ']  # fmt: skip
OFTEN = ["{", '"answer": "Yes" ']


@pytest.mark.parametrize("unit", [unit if unit in OFTEN else slow(unit) for unit in UNITS])
def test_endless_repetition_takes_no_endless_time(unit: str) -> None:
    questions = shapes()[0][1]
    with no_hang(60):
        for tail in ("", "x", '"', "}"):
            text = (unit * (LONGEST_REPLY // len(unit)))[: LONGEST_REPLY - 1] + tail
            read_paper(text, questions)
            read_corrected(text, questions)
