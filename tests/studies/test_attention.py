"""Explicit checks: choose 3 here, whatever the pictures show; in both languages, and out by a rule fixed before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from refbench.studies.design import Criterion
from refbench.studies.gold import explicit_checks
from refbench.studies.items import Item, ItemOutput, Question
from refbench.studies.reading import read
from refbench.studies.shown import Shown
from refbench.studies.study import Study
from support.commands import called
from support.studies import IF, IQ, rate_items, study
from support.study_raters import answer_all
from support.study_server import serving


def checked(folder: Path, cases: int = 24, **design: Any) -> Study:
    items = rate_items(folder, cases)
    return study(folder, [*items, *explicit_checks(items, (IQ, IF), 2)], attention=2, gold=0, **design)


def reads(item: Item, shown: Shown) -> dict[str, float]:
    """Somebody who reads what is written, and judges the rest."""
    mark = 3 if "choose 3" in shown.attention.get("en", "") else 4 if sum(item.id.encode()) % 2 else 5
    return {"IQ": mark, "IF": mark}


def clicks(item: Item, shown: Shown) -> dict[str, float]:
    mark = 4 if sum(item.id.encode()) % 2 else 5
    return {"IQ": mark, "IF": mark}


def test_who_does_not_read_is_left_out_and_checks_are_in_no_figure(tmp_path: Path) -> None:
    made = checked(tmp_path)
    reader, clicker = made.raters.add(), made.raters.add()
    assert answer_all(made, reader, reads) == answer_all(made, clicker, clicks) == 26
    found = read(made)
    assert [(one.rater, one.rules) for one in found.fallen] == [(clicker.id, ("attention: 0 of 2 right",))]
    assert {row.item for row in found.rows} == {item.id for item in made.items.values() if item.use == "item"}
    order = [mark.item for mark in made.marks.of(reader.id)]
    first, second = (place for place, item in enumerate(order) if made.items[item].use == "attention")
    assert first <= 12 < second  # one in each half
    toml = made.path / "study.toml"
    toml.write_text(toml.read_text().replace("attention = 0.5", "attention = 0.0"))
    assert read(Study.open(made.path)).fallen == ()


def test_one_slip_of_two_is_forgiven(tmp_path: Path) -> None:
    made, said = checked(tmp_path), []

    def slips(item: Item, shown: Shown) -> dict[str, float]:
        said.extend([item.id] if shown.attention else [])
        return clicks(item, shown) if said == [item.id] else reads(item, shown)

    rater = made.raters.add()
    answer_all(made, rater, slips)
    assert len(said) == 2 and rater.id not in read(made).left_out


def test_what_is_asked_for_can_be_answered_on_every_screen() -> None:
    def item(screen: Any, outputs: int, **rest: Any) -> Item:
        shown = tuple(ItemOutput(model=f"m{n}", pictures=()) for n in range(outputs))
        return Item(id="one", case="one", screen=screen, outputs=shown, **rest)

    halves = IQ.model_copy(update={"low": 0, "high": 1, "step": 0.5})
    yes = Criterion(name="ok", label={"en": "OK?"}, kind="yes_no", low=0, high=1)
    (made,) = explicit_checks([item("set", 2)], (IQ, IF), 3)
    assert made.right({"0.IQ": 3, "1.IQ": 3, "0.IF": 3, "1.IF": 3}) and not made.right({"0.IQ": 3, "1.IQ": 4})
    (made,) = explicit_checks([item("rate", 1)], (halves,), 3)
    assert made.right({"IQ": 0.5}) and "choose 0.5" in made.attention["en"] and "0.5" in made.attention["zh"]
    (made,) = explicit_checks([item("rate", 1)], (yes,), 3)
    assert made.right({"ok": 1}) and "Yes" in made.attention["en"] and "是" in made.attention["zh"]
    (made,) = explicit_checks([item("questions", 1, questions=(Question(text="a"), Question(text="b")))], (), 3)
    assert made.right({"Q1": 1, "Q2": 1}) and not made.right({"Q1": 1, "Q2": "unsure"})
    (made,) = explicit_checks([item("pair", 2)], (IQ,), 3)
    assert made.right({"preference": "tie"}) and not made.right({"preference": "0"})
    assert explicit_checks([item("rate", 1)], (IQ, yes), 3) == []  # no one mark is an answer to both


def test_checks_are_asked_for_from_the_front_door_and_off_without(tmp_path: Path) -> None:
    items = rate_items(tmp_path, 4)
    rows = [f'{{"id": "c{n}", "instruction": "Paint {n}."}}' for n in range(4)]
    (tmp_path / "cases.jsonl").write_text("\n".join(rows))
    (tmp_path / "A").mkdir()
    for n, one in enumerate(items):
        (tmp_path / f"A/c{n}.png").write_bytes(Path(one.outputs[0].pictures[0].file).read_bytes())
    model, run = f"A=folder:{tmp_path / 'A'}", tmp_path / "run"
    assert called("generate", tmp_path / "cases.jsonl", "--model", model, "--out", run)[0] == 0
    new = ("--from", run, "--screen", "rate", "--rubric", "multiref")
    for name, more, n in (("plain", (), 0), ("checked", ("--attention", "2"), 2)):
        assert called("study", "new", tmp_path / name, *new, *more)[0] == 0
        made = Study.open(tmp_path / name)
        assert sum(item.use == "attention" for item in made.items.values()) == made.design.attention == n
    new = (tmp_path / "mixed", "--from", run, "--screen", "rate", "--rubric", "five_criteria", "--attention", "9")
    code, said, _ = called("study", "new", *new)
    assert code == 0 and "4 of 9 explicit checks could be made" in said


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_a_check_stands_in_the_place_of_the_instruction(browser: Any, tmp_path: Path, locale: str) -> None:
    items = rate_items(tmp_path, 1)
    (check,) = explicit_checks(items, (IQ, IF), 1)
    made = study(tmp_path, [*items, check], attention=1, gold=0)
    rater = made.raters.add()
    with serving(made) as server:
        page = browser.new_context(viewport={"width": 1440, "height": 900}, locale=locale).new_page()
        page.goto(server.rater_url(str(rater.token)))
        page.wait_for_selector("main[data-ready]")
        text = page.text_content("section.texts")
        assert ("choose 3 for everything" if locale == "en-US" else "请所有项目都选择 3") in text
        assert check.instruction not in page.text_content("main")
        before = page.get_attribute("main", "data-ready")
        for key in ("3", "3", "Enter"):
            page.keyboard.press(key)
        page.wait_for_selector(f"main[data-ready]:not([data-ready='{before}'])")
        for key in ("4", "4", "Enter"):
            page.keyboard.press(key)
        page.wait_for_selector("main[data-page=finished]")
        page.context.close()
    made.marks.refresh()
    (mark,) = (mark for mark in made.marks.given() if mark.item == check.id)
    assert check.right(mark.values)
