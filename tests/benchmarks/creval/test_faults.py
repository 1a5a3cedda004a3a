"""Each fault of the released data and code: what `paper` makes of it, and that `corrected` is free of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import refbench
from refbench import Failure
from refbench.tables.result import Result
from support.checkout import METRICS, Item, reply_text, write_checkout


def scored(tmp_path: Path, item: Item, metric: str, reply: str | None, *, error: str | None = None) -> Result:
    """The item with this reply for one metric, and right answers for the others."""
    root = write_checkout(tmp_path / "data", [item])
    for name in METRICS:
        folder = root / "answer_x" / name / "model"
        folder.mkdir(parents=True)
        text = reply_text([(q[0], "Yes") for q in item.of(name)])
        if name == metric:
            if error is not None:
                result = {"filename": item.stem, "questions": [], "final_score": 0.0, "error": error}
                (folder / f"{item.stem}.json").write_text(json.dumps(result))
            if reply is None:
                continue
            text = reply
        (folder / f"{item.stem}.txt").write_text(text)
    return refbench.rescore("creval", data=root, replies=root / "answer_x")


def both(result: Result, metric: str) -> tuple[float | Failure | None, float | Failure | None]:
    """(paper, corrected) for the metric: the value or the failure."""
    found = {s.protocol: s for s in result.scores if s.metric == metric}
    paper, corrected = found["paper"], found["corrected"]
    return paper.failure or paper.value, corrected.failure or corrected.value


def questions(references: Sequence[str], weights: Sequence[int] | None = None) -> list[tuple[str, str, str, int]]:
    return [
        (f"Q{n}", f"Is {n} so?", reference, (weights or [1] * len(references))[n - 1])
        for n, reference in enumerate(references, 1)
    ]


def test_bold_references_can_be_met_and_their_weights_come_back(tmp_path: Path) -> None:
    text = "".join(
        f"#### Q{n}:\n**Thinking process:** because\n**Question:** Is {n} so?\n**A:** Yes\n**Weight:** {w}\n\n"
        for n, w in ((1, 3), (2, 1))
    )
    item = Item("bold", questions={"VC": questions(["** Yes", "** Yes"])}, vc_text=text)
    reply = reply_text([("Q1", "Yes"), ("Q2", "No")])
    assert both(scored(tmp_path, item, "VC", reply), "VC") == (0.0, 0.75)


@pytest.mark.parametrize(
    ("reference", "answer"),
    [("Yes\n```", "Yes"), ("Yes  \n```", "Yes"), ("No\n```", "No"), ("No (unless asked)", "No")],
)
def test_references_with_something_behind_them_can_be_met(tmp_path: Path, reference: str, answer: str) -> None:
    item = Item("fence", questions={"IF": questions([reference, "Yes"])})
    assert both(scored(tmp_path, item, "IF", reply_text([("Q1", answer), ("Q2", "Yes")])), "IF") == (0.5, 1.0)


def test_lower_case_is_harmless(tmp_path: Path) -> None:
    item = Item("lower", questions={"VC": questions(["yes", "no"])})
    assert both(scored(tmp_path, item, "VC", reply_text([("Q1", "Yes"), ("Q2", "No")])), "VC") == (1.0, 1.0)


def test_blank_questions_are_not_scored(tmp_path: Path) -> None:
    item = Item("blank", questions={"VC": [*questions(["Yes"]), ("Q2", "", "", 1)]})
    assert both(scored(tmp_path, item, "VC", reply_text([("Q1", "Yes")])), "VC") == (0.5, 1.0)


def test_a_second_copy_of_the_questions_is_not_scored(tmp_path: Path) -> None:
    twice = [*questions(["Yes", "Yes"], [3, 1]), ("Q1", "Is 1 so?", "Yes", 1), ("Q2", "Is 2 so?", "Yes", 3)]
    item = Item("twice", questions={"VC": twice})
    assert both(scored(tmp_path, item, "VC", reply_text([("Q1", "Yes"), ("Q2", "No")])), "VC") == (0.5, 0.75)


def test_braces_in_a_question_do_not_lose_its_answer(tmp_path: Path) -> None:
    item = Item("braces", questions={"IF": [("Q1", "Is '{{brand}}' in the corner?", "Yes", 1)]})
    reply = json.dumps({"Question": "Q1: Is '{{brand}}' in the corner?", "explanation": "e", "answer": "Yes"})
    paper, corrected = both(scored(tmp_path, item, "IF", reply), "IF")
    assert isinstance(paper, Failure)
    assert corrected == 1.0


def test_the_spelling_of_keys_does_not_cost_a_point(tmp_path: Path) -> None:
    item = Item("keys", questions={"IF": questions(["Yes", "Yes"])})
    reply = reply_text([("Q1", "Yes"), ("Q2", "Yes")], keys=("Question", "Explanation", "Answer"))
    assert both(scored(tmp_path, item, "IF", reply), "IF") == (0.0, 1.0)


def test_not_applicable_leaves_its_question_out(tmp_path: Path) -> None:
    item = Item("na", questions={"VQ": questions(["Yes", "No", "Yes"])})
    reply = reply_text([("Q1", "Yes"), ("Q2", "N/A"), ("Q3", "No")])
    assert both(scored(tmp_path, item, "VQ", reply), "VQ") == (1 / 3, 0.5)


def test_an_item_of_which_nothing_can_be_scored_is_undefined(tmp_path: Path) -> None:
    item = Item("void", questions={"VQ": questions(["Yes", "Yes"])})
    paper, corrected = both(scored(tmp_path, item, "VQ", reply_text([("Q1", "N/A"), ("Q2", "N/A")])), "VQ")
    assert paper == 0.0
    assert isinstance(corrected, Failure)
    assert corrected.kind == "undefined"


def test_an_unread_answer_makes_the_item_a_failure_and_not_partly_wrong(tmp_path: Path) -> None:
    item = Item("cut", questions={"IF": questions(["Yes"] * 4)})
    paper, corrected = both(
        scored(tmp_path, item, "IF", reply_text([("Q1", "Yes"), ("Q2", "Yes"), ("Q3", "Yes")])), "IF"
    )
    assert paper == 0.75
    assert isinstance(corrected, Failure)
    assert (corrected.kind, corrected.detail) == ("unparsable", "no answer to Q4")


def test_q1_does_not_take_the_answer_of_q10(tmp_path: Path) -> None:
    item = Item("ten", questions={"IF": questions(["Yes"] * 10)})
    reply = reply_text([(f"Q{n}", "Yes") for n in range(2, 11)])
    paper, corrected = both(scored(tmp_path, item, "IF", reply), "IF")
    assert paper == 1.0
    assert isinstance(corrected, Failure)


def test_an_api_error_is_a_failure_and_zero_only_where_the_paper_imputes_it(tmp_path: Path) -> None:
    error = "call failed: Error code: 401 - key sk-abcdefghijklmnop is spent"
    result = scored(tmp_path, Item("err"), "IF", None, error=error)
    paper, corrected = both(result, "IF")
    for failure in (paper, corrected):
        assert isinstance(failure, Failure)
        assert failure.kind == "api_error"
        assert "sk-abc" not in failure.detail
    rows = {r.protocol: r for r in result.rows(metric="IF", level="overall")}
    assert (rows["paper"].value, rows["paper"].n_imputed, rows["paper"].n_scored) == (0.0, 1, 0)
    assert (rows["corrected"].value, rows["corrected"].n_imputed) == (None, 0)
    assert rows["corrected"].bounds == (0.0, 100.0)


def test_a_reply_that_is_not_there_is_missing_and_counts_nowhere(tmp_path: Path) -> None:
    result = scored(tmp_path, Item("gone"), "IF", None)
    for row in result.rows(metric="IF", level="overall"):
        assert (row.value, row.failures, row.n_imputed) == (None, {"missing_reply": 1}, 0)


def test_a_refusal_is_a_refusal(tmp_path: Path) -> None:
    _, corrected = both(scored(tmp_path, Item("no"), "VQ", "I'm sorry, I can't assist with that."), "VQ")
    assert isinstance(corrected, Failure)
    assert corrected.kind == "refused"


def test_weights_that_the_conversion_lost_are_restored_only_when_the_text_is_plain(tmp_path: Path) -> None:
    lost = questions(["Yes", "Yes", "Yes"], [1, 1, 1])
    text = "**Q1:**\nQuestion: a\nA: Yes\nWeight: 3\n\n**Q2:**\nQuestion: b\nA: Yes\nWeight: 2\n\n**Q3:**\nWeight: 1\nWeight: 2\n"
    item = Item("weights", questions={"VC": lost}, vc_text=text)
    dataset = refbench.load("creval", write_checkout(tmp_path / "d", [item]))
    written = [q.written_weight for q in dataset.cases[0].details.questions["VC"]]
    assert written == [3, 2, None], "a text that gives two weights for one question says nothing"
