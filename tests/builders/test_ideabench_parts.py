"""What the IDEA-Bench builder refuses to ship, part by part, without a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refbench.benchmarks.ideabench.cases import COUNT_MARK, LISTED, read_auto, read_human
from refbench.benchmarks.ideabench.replies import read_corrected
from refbench.builders.ideabench import IdeaBenchSettings
from refbench.builders.ideabench.asking import (
    fitting_capabilities,
    graded,
    instruction_fault,
    questions_prompt,
    read_capabilities,
    read_check,
    read_instruction,
    read_questions,
)
from refbench.builders.ideabench.build import read_edit
from refbench.builders.ideabench.dataset import arrangement, auto_questions, human_questions
from refbench.builders.ideabench.item import LEVELS, DesignTask, GradedQuestion, Item
from refbench.builders.ideabench.sources import read_tasks, slug_of
from refbench.builders.kit.dropped import DroppedItems
from refbench.builders.kit.pictures import SourcePicture
from refbench.builders.kit.review import Decision
from refbench.builders.kit.sources import split_by_looks
from refbench.failure import Failure
from refbench.record import RefBenchError


def plain(number: int = 1) -> SourcePicture:
    return SourcePicture(f"{number}.png", str(number), Path(f"{number}.png"), ".png", (80, 72), str(number), number)


def task(references: int = 0, outputs: int = 1) -> DesignTask:
    pictures = tuple(plain(number) for number in range(1, references + 1))
    return DesignTask("logo_0001", "logo", "logo", "0101", instruction="Draw it.", pictures=pictures, outputs=outputs)


def entry(number: int = 1, **more: Any) -> dict[str, Any]:
    said = {
        "question": f"Is the thing number {number} in the middle?",
        "zero": "It is elsewhere.",
        "one": "It is there.",
    }
    return {"level": LEVELS[number - 1], **said, **more}


def reply(entries: list[Any]) -> str:
    return json.dumps({"thinking": "Hm.", "questions": entries})


ALL = [entry(number) for number in range(1, 7)]


# --- questions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question": "What colour does the dog have?"}, "Yes or No does not answer"),
        ({"question": "Is it red? Is it blue?"}, "one question mark"),
        ({"question": "Is the layout beautiful to look at?"}, "matter of taste"),
        ({"question": "Is it?"}, "words"),
        ({"question": f"{COUNT_MARK} 4?"}, "number of pictures"),
        ({"zero": ""}, '"zero" has 0 words'),
        ({"one": "It is elsewhere."}, "say the same"),
        ({"one": "It is there; half a point if it is near."}, "only 0 and 1"),
        ({"one": "It\x07 is there."}, "cannot be shown"),
        ({"results": [2]}, "not numbers from 1 to 1"),
        ({"results": []}, "not numbers from 1 to 1"),
        ({"results": ["1"]}, "lists of numbers"),
        ({"references": [1]}, "no references"),
    ],
)
def test_a_question_that_a_reviewer_cannot_use_is_named(change: dict[str, Any], said: str) -> None:
    found = graded(entry(**change), task())
    assert isinstance(found, str)
    assert said in found


def test_six_good_questions_are_read() -> None:
    found = read_questions(reply(ALL), task(), ())
    assert not isinstance(found, Failure)
    assert [one.question for one in found] == [one["question"] for one in ALL]
    assert all(one.results == (1,) for one in found), "all results where it does not say which"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda entries: entries[:5], "5 questions, not 6"),
        (lambda entries: [*entries[:5], entries[0] | {"level": "finish"}], "question 6 asks what question 1 asks"),
        (lambda entries: [entries[2], *entries[1:]], "question 1: its level is not basis"),
        (lambda entries: [*entries[:5], "?"], "question 6: it is no object"),
        (lambda entries: [entries[0] | {"capability": "magic"}, *entries[1:]], "its capability is none of"),
        (lambda entries: "none", "no list of questions"),
    ],
)
def test_a_set_that_the_gates_make_no_sense_of_is_asked_for_again(spoil: Callable[[Any], Any], said: str) -> None:
    found = read_questions(reply(spoil(ALL)), task(), ())
    assert isinstance(found, Failure)
    assert said in found.detail


def test_every_capability_is_tested_by_a_question() -> None:
    several = task(references=2)
    found = read_questions(reply(ALL), several, ("identity", "fusion"))
    assert isinstance(found, Failure)
    assert found.detail == "no question tests identity; no question tests fusion"
    tested = [ALL[0] | {"capability": "identity"}, ALL[1] | {"capability": "fusion"}, *ALL[2:]]
    assert not isinstance(read_questions(reply(tested), several, ("identity", "fusion")), Failure)


def test_capabilities_are_those_of_several_references_or_of_several_results() -> None:
    assert fitting_capabilities(task(references=1)) == {}
    references, results = set(fitting_capabilities(task(2))), set(fitting_capabilities(task(0, 3)))
    assert references
    assert results
    assert not references & results
    assert set(fitting_capabilities(task(2, 3))) == references | results
    said = read_capabilities('{"capabilities": ["order"]}', task(2))
    assert isinstance(said, Failure)
    assert "'order' is none of" in said.detail
    assert isinstance(read_capabilities('{"capabilities": []}', task(2)), Failure)
    assert read_capabilities('{"capabilities": ["fusion", "fusion"]}', task(2)) == ("fusion",)


def test_of_a_set_the_first_question_is_counted_and_not_written() -> None:
    one, many = task(), task(outputs=4)
    assert "exactly 6 questions" in questions_prompt(one, "Draw it.", ())
    asked = questions_prompt(many, "Draw it.", ())
    assert "exactly 5 questions in this order of levels: basis, demands, demands, finish, finish." in asked
    assert "whether exactly 4 pictures were delivered" in asked
    assert "{" not in asked.replace('{"thinking"', "").replace('[{"level"', "")


# --- the check -----------------------------------------------------------------------------------------------


def verdicts(numbers: list[int], **more: str) -> str:
    good = {"objective": "Yes", "standards": "Yes", "level": "Yes"}
    return json.dumps({"verdicts": [{"number": number, **good, **more} for number in numbers]})


def test_the_checker_says_yes_or_no_to_every_question() -> None:
    six = Item(task(), "Draw it.", (), questions(6))
    five = Item(task(outputs=2), "Draw it.", (), questions(5))
    assert read_check(verdicts([1, 2, 3, 4, 5, 6]), six) == ()
    assert read_check(verdicts([2, 3, 4, 5, 6]), five) == ()
    found = read_check(verdicts([1, 2, 3, 4, 5, 6], level="no", reason="Too early."), six)
    assert isinstance(found, tuple)
    assert found[0] == "question 1, level: Too early."
    for wrong in (verdicts([1, 2, 3]), verdicts([2, 3, 4, 5, 6, 1]), verdicts([1, 2, 3, 4, 5, 6], level="maybe"), "{}"):
        assert isinstance(read_check(wrong, six), Failure)


# --- briefs --------------------------------------------------------------------------------------------------


def test_a_brief_is_long_enough_and_no_refusal() -> None:
    long = " ".join(f"word{n}" for n in range(60))
    assert read_instruction(json.dumps({"thinking": "", "instruction": long})) == long
    for text in ("Draw it.", f"I'm sorry, but {long}", f"{long} {COUNT_MARK} 3"):
        assert isinstance(read_instruction(json.dumps({"thinking": "", "instruction": text})), Failure)
    refused = read_instruction("I'm sorry, I can't help with that.")
    assert isinstance(refused, Failure)
    assert refused.kind == "refused"
    assert instruction_fault("Draw a cat.\nIn red.") == "", "a brief of the source may be short and have lines"


# --- the files -----------------------------------------------------------------------------------------------


def questions(count: int) -> tuple[GradedQuestion, ...]:
    return tuple(
        GradedQuestion(question=f"Is part {n} there?", zero="It is not.", one="It is.", references=(1,))
        for n in range(count)
    )


def test_the_loader_reads_the_questions_as_they_were_meant() -> None:
    item = Item(task(references=2, outputs=3), "Draw it.", (), questions(5))
    lines = "".join(json.dumps(row) + "\n" for row in auto_questions(item))
    read = read_auto(lines.encode())
    assert isinstance(read, list)
    assert [one.counts for one in read] == [3, None, None, None, None, None]
    assert [one.inputs for one in read] == [(), *[("0001.png",)] * 5]
    people = read_human(json.dumps({"questions": human_questions(item)}).encode())
    assert isinstance(people, list)
    assert len(people) == 6
    assert (people[1].text, people[1].zero, people[1].one) == ("Is part 0 there?", "It is not.", "It is.")


def test_the_form_that_the_judge_is_asked_for_is_one_that_is_read() -> None:
    text = auto_questions(Item(task(1), "Draw it.", (), questions(6)))[0]["question"]
    assert "{'score': int, 'reason': str}" in text
    assert read_corrected("{'score': 1, 'reason': 'seen'}") == 1.0


def test_the_judge_is_told_how_the_pictures_lie() -> None:
    asked = GradedQuestion(question="Is it there?", zero="It is not.", one="It is.", references=(1, 3), results=(2,))
    assert arrangement(asked, 3, 4) == (
        "The upper row shows, from left to right, what the designer was given: the references 1, 3 of 3. "
        "The lower row shows, from left to right, what was delivered: the result 2 of 4."
    )
    assert arrangement(asked.model_copy(update={"references": (), "results": (1,)}), 0, 1) == "You see the result."


# --- sources -------------------------------------------------------------------------------------------------


def read_table(root: Path, rows: list[dict[str, Any]]) -> tuple[list[DesignTask], dict[str, str]]:
    path = root / "tasks.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    dropped = DroppedItems()
    found, _ = read_tasks(IdeaBenchSettings(path, out=root / "out", writer="none"), dropped)
    return found, {one.id: one.reason for one in dropped}


def test_rows_that_cannot_become_a_case_are_named(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"task": "logo", "instruction": "Draw a red logo."},
        {"task": "Logo", "instruction": "Draw  a RED logo!"},
        {"instruction": "Draw a red logo."},
        {"task": "logo"},
        {"task": "logo", "instruction": "Draw a logo.", "outputs": "many"},
        {"task": "logo", "instruction": "Draw a logo.", "outputs": 99},
        {"task": "logo", "instruction": "Draw a logo.", "pictures": ["../secret.png"]},
        {"task": "logo", "instruction": "Draw a logo.", "pictures": ["missing.png"]},
        {"task": "logo", "instruction": f"Draw it. {COUNT_MARK} 3?"},
    ]
    found, why = read_table(tmp_path, rows)
    assert [one.id for one in found] == ["logo_0001"]
    assert list(why.values()) == [
        "duplicate", "no task", "nothing to go by", "unreadable", "outputs", "unusable picture", "unusable picture",
        "unusable instruction",
    ]  # fmt: skip


def test_a_task_of_two_categories_is_two_tasks(tmp_path: Path) -> None:
    rows = [
        {"task": "couple icon", "instruction": "Draw one icon.", "uid": "0063"},
        {"task": "couple icon", "instruction": "Draw two icons.", "outputs": 2},
    ]
    found, _ = read_table(tmp_path, rows)
    assert [one.id for one in found] == ["couple_icon_t2i_0001", "couple_icon_t2is_0001"]
    assert found[0].uid not in LISTED["I2I"], "the uid of a released task of another category is not taken"
    assert len({one.uid for one in found}) == 2


def test_slugs_are_good_folder_names() -> None:
    assert slug_of("Children's book: Rôle / Scène") == "childrens_book_rôle_scène"
    assert slug_of("../..") == ""
    assert len(slug_of("x" * 500)) == 80


# --- splits --------------------------------------------------------------------------------------------------


def test_clusters_never_part() -> None:
    far = [0x0F0F0F0F0F0F0F0F, 0xFF00FF00FF00FF00, 0x3333333333333333]
    items = {"a": [far[0]], "b": [far[0] ^ 1, far[1]], "c": [far[1] ^ 3], "d": [far[2]], "e": []}
    for seed in range(20):
        found = split_by_looks(items, 0.5, seed)
        assert found["a"] == found["b"] == found["c"]
    both = [split_by_looks(items, 0.2, seed) for seed in range(20)]
    assert {split["d"] for split in both} == {"dev", "test"}
    assert all(sum(side == "test" for side in split.values()) == 1 for split in both)
    assert set(split_by_looks(items, None, 0).values()) == {""}


# --- review --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"colour": "red"}, "colour cannot be edited"),
        ({"instruction": "Hm."}, "1 words"),
        ({"questions": "["}, "JSON list"),
        ({"questions": ALL[:5]}, "a list of 6 questions"),
        ({"questions": [*ALL[:5], {}]}, 'question 6: its "question" has 0 words'),
        ({"questions": [*ALL[:5], ALL[0]]}, "asks what question 1 asks"),
    ],
)
def test_a_mistake_in_a_review_is_said(edit: dict[str, Any], said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        read_edit(Decision(id="logo_0001", decision="edit", edit=edit), task())


def test_a_decision_becomes_usable() -> None:
    assert read_edit(Decision(id="x", decision="accept"), task()) == read_edit(None, task())
    edit = read_edit(Decision(id="x", decision="edit", edit={"questions": json.dumps(ALL)}), task())
    assert len(edit.questions) == 6
    five = replace(task(), outputs=2)
    assert len(read_edit(Decision(id="x", decision="edit", edit={"questions": ALL[1:]}), five).questions) == 5
