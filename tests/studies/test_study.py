"""A study as its server uses it: items handed out, marks taken, taken back, and refused."""

from __future__ import annotations

from pathlib import Path

from refbench.studies.design import Training
from refbench.studies.items import Allowed, ItemOutput
from refbench.studies.shown import Acknowledgement, Refusal, Shown
from refbench.studies.study import Study
from support.studies import mark, picture, rate_items, study
from support.study_raters import answer_all, marks_by


def test_a_rater_marks_all_items_and_gets_the_code_after_the_last(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 4), gold=0)
    token = made.raters.add().token
    assert token
    rater = made.rater(token)
    assert rater is not None
    refused = made.finish_code(rater)
    assert isinstance(refused, Refusal) and "4 are left" in refused.sentence
    for number in range(4):
        shown = made.next_items(rater)[0]
        assert (shown.position, shown.total) == (number + 1, 4)
        taken = made.take(rater, mark(shown.item, number, IQ=4, IF="unsure"))
        assert isinstance(taken, Acknowledgement), taken
        assert (taken.done, taken.finished) == (number + 1, number == 3)
    assert made.next_items(rater) == []
    code = made.finish_code(rater)
    assert isinstance(code, str) and len(code) == 12
    late = made.undo(rater)
    assert isinstance(late, Refusal) and late.kind == "closed"


def test_who_comes_to_a_full_study_is_asked_nothing_and_gets_no_code(tmp_path: Path) -> None:
    now = [1000.0]
    gold, trained, *items = rate_items(tmp_path, 4)
    allowed = {"IQ": Allowed(low=3)}
    gold = gold.model_copy(update={"use": "gold", "allowed": allowed})
    trained = trained.model_copy(update={"use": "training", "allowed": allowed})
    design = {"gold": 1, "training": Training(items=1, right=1), "overlap": 1}
    made = study(tmp_path, [gold, trained, *items], lambda: now[0], **design)
    first, early, late = (made.raters.add() for _ in range(3))
    open_to_early = made.next_items(early)
    assert open_to_early and answer_all(made, first, marks_by(lambda item: 0.5)) == 4
    assert isinstance(made.finish_code(first), str)
    for rater in (early, late):  # neither the training nor the gold item is worth anybody's time now
        progress = made.progress(rater)
        assert progress.full and not progress.finished and (progress.done, progress.total) == (0, 0)
        assert made.next_items(rater) == []
        refused = made.finish_code(rater)
        assert isinstance(refused, Refusal) and "all its raters" in refused.sentence
        assert made.raters.all[rater.id].finished == 0
    rows = {row.rater: row for row in made.status().raters}
    assert [(rows[r.id].full, rows[r.id].finished) for r in (first, late)] == [(False, True), (True, False)]


def test_what_was_right_in_a_set_is_said_of_the_place_in_which_it_was_shown(tmp_path: Path) -> None:
    item = rate_items(tmp_path, 1)[0]
    outputs = tuple(ItemOutput(model=f"m{k}", pictures=(picture(tmp_path, f"{k}.png", k),)) for k in range(4))
    allowed = {f"{k}.IQ": Allowed(low=3) if k == 2 else Allowed(high=2) for k in range(4)}
    trained = item.model_copy(update={"screen": "set", "outputs": outputs, "use": "training", "allowed": allowed})
    rest = [one.model_copy(update={"id": f"rest-{n}", "use": "item", "allowed": {}}) for n, one in enumerate([trained])]
    made = study(tmp_path, [trained, *rest], screen="set", gold=0, training=Training(items=1, right=1))
    orders = set()
    for number in range(4):
        rater = made.raters.add()
        shown = made.next_items(rater)[0]
        order = next(lease.order for lease in made.leases.all.values() if lease.rater == rater.id)
        orders.add(order)
        told = made.take(rater, mark(shown.item, number, **{f"{k}.{c}": 5 for k in range(4) for c in ("IQ", "IF")}))
        assert isinstance(told, Acknowledgement), told
        assert {one.name for one in told.feedback if one.right} == {f"{order.index(2)}.IQ"}
    assert len({order.index(2) for order in orders}) > 1


def test_a_study_is_not_full_while_somebody_only_has_the_items_open(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2), gold=0, overlap=1)
    first, late = made.raters.add(), made.raters.add()
    shown = made.next_items(first, 2)
    progress = made.progress(late)
    assert made.next_items(late) == [] and not progress.full and not progress.finished
    assert isinstance(made.finish_code(late), Refusal)
    for number, one in enumerate(shown):
        made.take(first, mark(one.item, number, IQ=4, IF=2))
    assert made.progress(late).full and not made.progress(first).full
    made.undo(first)
    assert not made.progress(late).full


def test_nothing_that_a_rater_is_told_names_a_model_a_path_or_a_hash(tmp_path: Path) -> None:
    items = rate_items(tmp_path, 3, ("secret-model", "hidden-model"))
    made = study(tmp_path, items)
    rater = made.raters.add()
    told = "".join(shown.model_dump_json() for shown in made.next_items(rater, 10))
    assert '"item"' in told
    for item in items:
        for word in (item.id, *item.models, *(p.sha256 for p in item.inputs), str(tmp_path), ".png"):
            assert word not in told


def test_pictures_are_given_only_to_who_was_shown_the_item(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2))
    first, second = made.raters.add(), made.raters.add()
    slot = made.next_items(first)[0].pictures[0]
    data = made.picture(first, slot.name)
    assert isinstance(data, bytes) and data.startswith(b"\xff\xd8")
    assert (slot.width, slot.height) == (32, 24)
    refused = made.picture(second, slot.name)
    assert isinstance(refused, Refusal) and refused.kind == "unknown"


def test_a_resend_is_the_same_mark_and_a_reopened_study_goes_on_where_it_was(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 3))
    rater = made.raters.add()
    shown = made.next_items(rater)
    made.take(rater, mark(shown[0].item, 1, IQ=4, IF=2))
    again = made.take(rater, mark(shown[0].item, 1, IQ=4, IF=2))
    assert isinstance(again, Acknowledgement) and again.again
    assert len((tmp_path / "marks.jsonl").read_text().splitlines()) == 1
    reopened = Study.open(tmp_path)
    assert [one.item for one in reopened.next_items(rater)] == [one.item for one in shown[1:]]


def test_undo_shows_the_item_again_with_what_was_said(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 3))
    rater = made.raters.add()
    first = made.next_items(rater)[0]
    made.take(rater, {**mark(first.item, 1, IQ=4, IF=2), "comment": "odd"})
    back = made.undo(rater)
    assert isinstance(back, Shown)
    assert (back.item, back.given, back.comment) == (first.item, {"IQ": 4, "IF": 2}, "odd")
    assert made.progress(rater).done == 0
    made.take(rater, mark(first.item, 2, IQ=1, IF=1))
    assert [dict(m.values) for m in made.marks.given()] == [{"IQ": 1, "IF": 1}]


def test_marks_that_an_item_does_not_take_are_refused_with_a_sentence(tmp_path: Path) -> None:
    made = study(tmp_path, rate_items(tmp_path, 2))
    rater, other = made.raters.add(), made.raters.add()
    item = made.next_items(rater)[0].item
    theirs = made.next_items(other)[0].item
    wrong = {
        "IQ takes 1, 2, 3, 4, 5 or unsure": mark(item, 1, IQ=6, IF=1),
        "Instruction following: the mark is missing": mark(item, 2, IQ=5),
        "does not ask for VQ": mark(item, 3, IQ=5, IF=5, VQ=1),
        "no such item": mark(theirs, 4, IQ=5, IF=5),
        "cannot be read: id": {**mark(item, 5), "id": "../../x"},
        "cannot be read: values": {**mark(item, 6), "values": [1]},
    }
    for words, sent in wrong.items():
        refused = made.take(rater, sent)
        assert isinstance(refused, Refusal) and words in refused.sentence, refused
    assert not (tmp_path / "marks.jsonl").exists()
