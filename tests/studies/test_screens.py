"""The screens as raters use them: by keys alone, on a phone, in Chinese, with the connection lost and found; what the
words say to who does not see them; and that a mark is called saved only when it is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from refbench.studies.design import write_design
from refbench.studies.items import Item, write_items
from refbench.studies.marks import Mark
from refbench.studies.study import Study
from support.axe import axe_source, serious
from support.campaigns import slow
from support.study_raters import answer_all, marks_by
from support.study_screens import ALIGNMENT, QUALITY, screen_study
from support.study_server import KilledServer, serving

CLIENT = Path(__file__).resolve().parents[2] / "src/refbench/studies/client"
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 360, "height": 740}
SCREENS = ("rate", "set", "questions", "pair", "reference", "review")
KEYS = {
    "rate": ["7", "4", "0", "9", "1"],
    "set": ["4", "0", "5", "2"],
    "questions": ["y", "1", "n", "u"],
    "pair": ["1"],
    "reference": ["5", "3"],
    "review": ["1"],
}
"""The keys that mark one item of each screen."""
_PATIENCE_MS = 20_000


class Page:
    """A rater's page, with everything that it complained about."""

    def __init__(self, browser: Any, address: str, viewport: dict[str, int] = WIDE, **options: Any) -> None:
        self.context = browser.new_context(viewport=viewport, **{"locale": "en-US", **options})
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.set_default_timeout(_PATIENCE_MS)
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)

    def _heard(self, said: Any) -> None:
        # A connection that the test has cut is a complaint of the browser's own.
        if said.type in ("error", "warning") and "Failed to load resource" not in said.text:
            self.complaints.append(said.text)

    def ready(self) -> str:
        """Waits for the next item, all of its pictures decoded; its opaque name."""
        self.page.wait_for_selector("main[data-ready]")
        return str(self.page.get_attribute("main", "data-ready"))

    def after(self, item: str) -> str:
        """The item that comes after this one."""
        self.page.wait_for_selector(f"main[data-ready]:not([data-ready='{item}'])")
        return self.ready()

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def until_saved(self) -> None:
        self.page.wait_for_selector("#saved.saved:not(.busy):not(.bad)")

    def close(self) -> None:
        assert self.complaints == []
        self.context.close()


def given(study: Study) -> list[Mark]:
    study.marks.refresh()
    return list(study.marks.given())


# --- by keys alone ----------------------------------------------------------------------------------------------------


def test_twenty_items_are_marked_by_keys_alone_with_six_keys_each_and_no_scrolling(
    browser: Any, tmp_path: Path
) -> None:
    study = screen_study(tmp_path, "rate", 20)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        item, wanted = page.ready(), []
        scrolls = "document.documentElement.scrollHeight > innerHeight || document.querySelector('main').scrollHeight > document.querySelector('main').clientHeight || document.querySelector('.panel').scrollHeight > document.querySelector('.panel').clientHeight"
        for number in range(20):
            assert not page.page.evaluate(scrolls), "five criteria fit on 1440 x 900"
            marks = [str((number * k) % 10) for k in (1, 3, 7, 9, 2)]
            page.keys(*marks, "Enter")
            wanted.append([10.0 if mark == "0" else float(mark) for mark in marks])
            if number < 19:
                item = page.after(item)
        page.page.wait_for_selector("main[data-page=finished]")
        page.keys("Enter")
        code = page.page.text_content("#code")
        page.close()
    assert [list(mark.values.values()) for mark in given(study)] == wanted
    assert all(0 < mark.active <= mark.wall < 60 for mark in given(study))
    rater = study.raters.all["r01"]
    assert code == study.finish_code(rater) and rater.finished > 0


@pytest.mark.parametrize("screen", SCREENS)
def test_every_screen_is_marked_by_keys_and_says_what_was_meant(browser: Any, tmp_path: Path, screen: str) -> None:
    study = screen_study(tmp_path, screen, 2)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        item = page.ready()
        page.keys("Enter")  # nothing is marked yet
        assert "still open" in str(page.page.text_content("#said")) and page.ready() == item
        page.keys(*KEYS[screen], "Enter")
        page.after(item)
        page.until_saved()
        page.close()
    (mark,) = given(study)
    said = dict(mark.values)
    if screen == "rate":
        assert list(said.values()) == [7, 4, 10, 9, 1]
    elif screen == "set":  # by the places on the screen, which are not those that the owner knows
        assert [said[f"{owner}.overall"] for owner in mark.order] == [4, 0, 5, 2]
    elif screen == "questions":  # the third was answered with no, which closes the last two; unsure closes them as well
        assert said == {"Q1": 1, "Q2": 1, "Q3": 0, "Q4": "unsure"}
    elif screen == "pair":
        assert len(said) == 1 and mark.order in ((0, 1), (1, 0))
    elif screen == "reference":
        assert said == {"alignment": 5, "quality": 3}
    else:
        assert said == {"decision": "accept"}


def test_a_pair_is_judged_by_side_and_kept_by_model(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "pair", 4)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        item = page.ready()
        for number, key in enumerate(["ArrowLeft", "2", "3", "u"]):
            page.keys(key, "Enter")
            if number < 3:
                item = page.after(item)
        page.page.wait_for_selector("main[data-page=finished]")
        page.close()
    left, right, tie, unsure = given(study)
    assert [one.values["preference"] for one in (left, right, tie, unsure)] == [
        str(left.order[0]),
        str(right.order[1]),
        "tie",
        "unsure",
    ]


def test_undo_takes_the_last_mark_back_then_the_item_before_also_after_a_reload(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "reference", 4)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        first = page.ready()
        page.keys("5", "4", "z", "3", "Enter")
        second = page.after(first)
        page.keys("1")
        page.until_saved()
        page.keys("z", "z")  # the mark, then the item before
        assert page.after(second) == first
        assert page.page.evaluate("[...document.querySelectorAll('input:checked')].map(one => one.value)") == ["5", "3"]
        page.keys("z", "2", "Enter")
        assert page.after(first) == second
        page.until_saved()
        page.page.reload()
        assert page.ready() == second
        page.keys("z")
        assert page.after(second) == first
        page.keys("z", "1", "Enter")
        assert page.after(first) == second
        page.until_saved()
        page.close()
    (mark,) = given(study)
    assert mark.values == {"alignment": 5, "quality": 1}


def test_what_is_skipped_comes_back_and_comments_and_reports_arrive(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "reference", 3)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        skipped = page.ready()
        page.keys("s")
        second = page.after(skipped)
        page.keys("c")
        page.page.keyboard.type("seams, 1 5 s z")  # typing marks nothing
        page.keys("Escape", "r")
        page.page.check("dialog.report input[type=radio] >> nth=1")
        page.page.click("dialog.report .main-button")
        page.keys("5", "5", "Enter")
        third = page.after(second)
        page.keys("4", "4", "Enter")
        assert page.after(third) == skipped
        page.keys("3", "3", "Enter")
        page.page.wait_for_selector("main[data-page=finished]")
        page.close()
    marks = sorted(given(study), key=lambda one: -len(one.comment))
    commented, others = marks[0], marks[1:]
    assert (
        commented.comment == "seams, 1 5 s z"
        and len(commented.reported) == 1
        and commented.values == {"alignment": 5, "quality": 5}
    )
    assert [one.comment for one in others] == ["", ""] and sorted(one.values["alignment"] for one in others) == [3, 4]


def test_pictures_are_looked_at_closely_and_marked_meanwhile(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "reference", 2)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        item = page.ready()
        page.keys("f")
        page.page.wait_for_selector("dialog.viewer[open]")
        shown = "document.querySelector('.lens').dataset.shown"
        one = page.page.evaluate(shown)
        page.keys("f")
        other = page.page.evaluate(shown)
        page.keys(" ")
        assert one != other and page.page.evaluate(shown) == one
        page.keys("+", "+")
        assert "scale(2.25)" in str(page.page.get_attribute(".stage", "style"))
        page.keys("4")
        assert "Alignment: 4 · nearly all of it" in str(page.page.text_content("#said"))
        page.keys("Escape")
        page.page.wait_for_selector("dialog.viewer", state="detached")
        page.keys("5", "Enter")
        page.after(item)
        page.until_saved()
        page.close()
    assert given(study)[0].values == {"alignment": 4, "quality": 5}


def test_a_review_changes_words_and_is_checked_while_they_are_written(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "review", 1)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        page.ready()
        page.page.fill("#field-questions", "Are there cups?\nIs it a blue poster?")
        page.page.wait_for_selector(".wrong:not([hidden])")
        assert "a list of 6 questions" in str(page.page.text_content(".wrong"))  # as the builder says it
        page.keys("Escape", "Enter")
        assert "cannot be taken" in str(page.page.text_content("#said"))
        page.page.fill("#field-questions", "Are there cups?\nIs it a poster?")
        page.page.fill("#field-instruction", "Turn the cups of image 1 into a blue poster.")
        page.page.wait_for_selector(".wrong", state="hidden")
        page.keys("Escape", "Enter")
        page.page.wait_for_selector("main[data-page=finished]")
        page.close()
    changed = {"instruction": "Turn the cups of image 1 into a blue poster."}
    assert given(study)[0].values == {"decision": "edit", "edit": changed}


def test_one_of_several_is_chosen_and_labels_are_changed_a_line_each(browser: Any, tmp_path: Path) -> None:
    row = {
        "id": "real-1",
        "request": "a fox",
        "instruction": "a fox",
        "inputs": ["a.png"],
        "outputs": ["x", "y", "z"],
        "output": "x",
        "category": 2,
    }
    item = Item(id="r", case="r", screen="review", row=row, editable=("output", "category"))
    study = screen_study(tmp_path, "review", 1)
    write_design(tmp_path, study.design.model_copy(update={"items_sha256": write_items(tmp_path, [item])}))
    with serving(Study.open(study.path)) as server:
        page = Page(browser, server.rater_url(str(server.study.raters.add().token)))
        page.ready()
        page.page.select_option("#field-output", "z")
        page.page.fill("#field-category", "3")
        page.keys("Escape", "Enter")
        page.page.wait_for_selector("main[data-page=finished]")
        page.close()
    assert given(Study.open(study.path))[0].values == {"decision": "edit", "edit": {"output": "z", "category": 3}}


def test_what_the_server_refuses_comes_back_with_what_was_written(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "review", 2)
    with serving(study) as server:
        page = Page(browser, "about:blank")
        page.page.clock.install()  # the check while one writes never comes
        page.page.goto(server.rater_url(str(study.raters.add().token)))
        item = page.ready()
        page.page.fill("#field-questions", "Is it blue?")
        page.keys("Escape", "Enter")
        after = page.after(item)
        page.page.wait_for_selector("#said:has-text('a list of 6 questions')")
        page.keys("1", "Enter")
        assert page.after(after) == item
        assert page.page.input_value("#field-questions") == "Is it blue?"
        page.page.fill("#field-questions", "Are there cups?\nIs it a poster?")
        page.keys("Escape", "1", "Enter")
        page.page.wait_for_selector("main[data-page=finished]")
        page.close()
    assert [mark.values["decision"] for mark in given(study)] == ["accept", "accept"]


_LATE = """
const fetched = window.fetch;
let told, marked;
const answered = new Promise((resolve) => { told = resolve; }), taken = new Promise((resolve) => { marked = resolve; });
window.fetch = async (address, options) => {
  const place = String(address).split("/").pop();
  if (place === "marks") {
    await answered;
    return fetched(address, options).finally(() => setTimeout(marked, 200));
  }
  const reply = await fetched(address, options);
  if (place === "items" && JSON.parse(options.body).held.length) {
    told();
    await taken;
  }
  return reply;
};
"""
"""What items there are is answered before the last mark is taken, and heard after it."""


def test_the_end_is_not_missed_when_an_older_answer_comes_late(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "reference", 1)
    with serving(study) as server:
        page = Page(browser, "about:blank")
        page.page.add_init_script(_LATE)
        page.page.goto(server.rater_url(str(study.raters.add().token)))
        page.ready()
        page.keys("5", "4", "Enter")
        page.page.wait_for_selector("main[data-page=finished]")
        page.close()
    assert len(given(study)) == 1


# --- consent, training, the end ---------------------------------------------------------------------------------------


def test_consent_comes_first_then_training_with_feedback_then_what_counts(browser: Any, tmp_path: Path) -> None:
    study = screen_study(
        tmp_path,
        "rate",
        2,
        training=2,
        consent={"en": "Your marks are published.\n\nYou may stop at any time.", "zh": "您的评分将公开。"},
        guidelines={"en": "Look at the references first.", "zh": "请先看参考图。"},
    )
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        page.page.wait_for_selector("main[data-page=consent]")
        assert "Your marks are published." in str(page.page.text_content("main"))
        assert study.raters.all["r01"].consented == 0
        page.page.click("#go")
        page.page.wait_for_selector("main[data-page=welcome]")
        assert "2 items for training" in str(page.page.text_content("main"))
        page.page.click("#go")
        item = page.ready()
        for number, mark in enumerate(["1", "8", "8", "8"]):  # the first attempt fails, the second does not
            assert page.page.query_selector(".phase")
            page.keys(mark, "5", "5", "5", "5", "Enter")
            page.page.wait_for_selector("main[data-page=feedback]")
            text = str(page.page.text_content("main"))
            assert ("Not quite" in text) == (number == 0) and "Everything that was asked for is there." in text
            assert f"– {mark}{' · very bad' if mark == '1' else ''}, {'not ' if number == 0 else ''}as expected" in text
            assert ("once more" in text) == (number == 1) and ("The training is over" in text) == (number == 3)
            page.keys("Enter")
            page.page.wait_for_selector("main[data-page=rate]")
            item = page.after(item)
        assert page.page.query_selector(".phase") is None
        for number in range(2):
            page.keys("8", "8", "8", "8", "8", "Enter")
            if number == 0:
                item = page.after(item)
        page.page.wait_for_selector("main[data-page=finished]")
        assert len(given(study)) == 6
        page.keys("Enter")
        page.page.wait_for_selector("#code")
        page.close()
    assert study.raters.all["r01"].consented > 0


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_who_comes_to_a_full_study_is_told_so_and_gets_no_code(browser: Any, tmp_path: Path, locale: str) -> None:
    words = {"en": "Marks are published.", "zh": "评分将公开。"}
    study = screen_study(tmp_path, "reference", 1, consent=words, guidelines=words, overlap=1)
    first, late = study.raters.add(), study.raters.add(name="Late")
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(late.token)), locale=locale)
        page.page.wait_for_selector("main[data-page=consent]")  # there is something to do as yet
        assert answer_all(study, first, marks_by(lambda item: 0.5)) == 1
        page.page.click("#go")
        page.page.wait_for_selector("main[data-page=full]")
        page.page.reload()
        page.page.wait_for_selector("main[data-page=full]")
        text = str(page.page.text_content("main"))
        assert ("all its raters" in text) == (locale == "en-US") and ("评分者已满" in text) == (locale == "zh-CN")
        assert page.page.query_selector("main button, #code") is None
        page.keys("Enter", "z")
        assert page.page.get_attribute("main", "data-page") == "full"
        page.page.goto(server.owner_url)
        page.page.wait_for_selector("main[data-page=owner]")
        row = page.page.text_content("tr:has-text('Late')")
        assert ("nothing left to mark" if locale == "en-US" else "已无可评条目") in row and "finished" not in row
        page.close()
    assert study.raters.all[late.id].finished == 0


def test_training_that_fails_twice_ends_the_part_kindly(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 2, training=1)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        item = page.ready()
        for number in range(2):
            page.keys("1", "5", "5", "5", "5", "Enter")
            page.page.wait_for_selector("main[data-page=feedback]")
            if number == 0:
                page.keys("Enter")
                page.page.wait_for_selector("main[data-page=rate]")
                item = page.after(item)
        assert "did not go well enough" in str(page.page.text_content("main"))
        page.page.reload()
        page.page.wait_for_selector("main[data-page=failed]")
        page.close()


def test_the_code_is_in_no_byte_of_the_page_before_the_end(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "pair", 1)
    rater = study.raters.add()
    code = study.raters.opaque("finish", rater.id)[:12].upper()
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(rater.token)))
        page.ready()
        held = "document.documentElement.outerHTML + JSON.stringify({...localStorage}) + document.cookie"
        assert code not in page.page.evaluate(held).upper()
        page.keys("1", "Enter")
        page.page.wait_for_selector("main[data-page=finished]")
        assert code not in page.page.evaluate(held).upper()
        page.page.click("#go")
        assert page.page.text_content("#code") == code
        page.page.reload()
        assert page.page.text_content("#code") == code
        page.close()


# --- several results, several questions -------------------------------------------------------------------------------


@pytest.mark.parametrize("touch", [False, True], ids=["mouse", "touch"])
def test_a_set_with_several_criteria_turns_to_the_result_that_lacks_marks(
    browser: Any, tmp_path: Path, touch: bool
) -> None:
    study = screen_study(tmp_path, "set", 2, models=2, criteria=(ALIGNMENT, QUALITY))
    narrow = {"width": 390, "height": 844}
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)), narrow, has_touch=touch, is_mobile=touch)
        item = page.ready()
        press = page.page.tap if touch else page.page.click
        for result, (first, second) in {"A": (2, 3), "B": (4, 5)}.items():
            assert page.page.text_content(".which") == f"Result {result}"
            press("#next")
            assert f"Result {result}: 2 marks are still open." in str(page.page.text_content("#said"))
            slot = page.page.get_attribute(".now .picture", "data-slot")
            assert page.page.get_attribute(".cell.due .picture", "data-slot") == slot
            press(f".question >> nth=0 >> .levels label >> nth={first - 1}")
            press(f".question >> nth=1 >> .levels label >> nth={second - 1}")
            if result == "A":
                page.page.wait_for_selector(".which:has-text('Result B')")
                seen = page.page.evaluate(
                    "['.which', '.now img', '.question'].map(one => document.querySelector(one).getBoundingClientRect())"
                    ".every(box => box.top >= 0 && box.bottom <= innerHeight)"
                )
                assert seen, "the result, its picture and its first question are on one page"
        press("#next")
        page.after(item)
        page.until_saved()
        page.close()
    (mark,) = given(study)
    left, right = mark.order
    assert mark.values == {
        f"{left}.alignment": 2,
        f"{left}.quality": 3,
        f"{right}.alignment": 4,
        f"{right}.quality": 5,
    }


def test_a_click_that_changes_a_mark_stays_and_next_turns_to_what_is_open(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "set", 1, models=3, criteria=(ALIGNMENT, QUALITY))
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        page.ready()
        page.keys("1", "1")
        assert page.page.text_content(".which") == "Result B"
        page.page.click(".cell >> nth=0 >> figcaption")
        page.page.click(".question >> nth=0 >> .levels label >> nth=4")
        assert page.page.text_content(".which") == "Result A", "it had all its marks before"
        page.page.click("#next")
        assert "Result B: 2 marks are still open." in str(page.page.text_content("#said"))
        assert page.page.text_content(".which") == "Result B"
        page.close()


# --- who has not seen a picture cannot mark it ------------------------------------------------------------------------


def test_nothing_is_marked_before_its_pictures_are_there(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "pair", 1, references=0)
    held: list[Any] = []
    gates = [held.append]
    with serving(study) as server:
        page = Page(browser, "about:blank")
        page.page.route("**/pictures/*", lambda route: gates[-1](route))
        page.page.goto(server.rater_url(str(study.raters.add().token)))
        page.page.wait_for_selector("main[data-page=pair]")
        page.keys("1", "Enter")
        assert "still loading" in str(page.page.text_content("#said"))
        assert page.page.query_selector("#next.ready") is None
        gates.append(lambda route: route.continue_())
        for route in held:
            route.continue_()
        page.ready()
        page.page.wait_for_selector("#next.ready")
        page.keys("Enter")
        page.page.wait_for_selector("main[data-page=finished]")
        page.close()
    assert len(given(study)) == 1


@pytest.mark.parametrize("way", ["again", "report", "skip"])
def test_a_picture_that_does_not_load_is_asked_for_again_reported_or_skipped(
    browser: Any, tmp_path: Path, way: str
) -> None:
    study = screen_study(tmp_path, "pair", 1, references=0)
    with serving(study) as server:
        page = Page(browser, "about:blank")
        page.page.route("**/pictures/*", lambda route: route.abort())
        page.page.goto(server.rater_url(str(study.raters.add().token)))
        page.ready()
        for name in ("Left", "Right"):
            page.keys("1", "Enter")
            assert f"{name} does not load" in str(page.page.text_content("#said"))
            if way == "again":
                page.page.unroute("**/pictures/*")
                page.page.click(f"figure:has(img[alt={name}]) .lost button")
                page.page.wait_for_selector(f"figure:has(img[alt={name}]) .lost", state="hidden")
            elif way == "report":
                page.keys("r")
                page.page.check(f"dialog.report label:has-text('{name}') input")
                page.page.click("dialog.report .main-button")
            else:
                page.keys("s")
                page.until_saved()
                break
        if way != "skip":
            page.keys("Enter")
            page.page.wait_for_selector("main[data-page=finished]")
        page.close()
    marks = given(study)
    assert [len(mark.reported) for mark in marks] == {"again": [0], "report": [2], "skip": []}[way]


# --- saved means saved ------------------------------------------------------------------------------------------------


def test_marks_wait_in_the_browser_for_a_server_that_was_killed_and_are_saved_once(
    browser: Any, tmp_path: Path
) -> None:
    study = screen_study(tmp_path, "reference", 6)
    token = str(study.raters.add().token)
    with KilledServer(tmp_path) as server:
        page = Page(browser, f"{server.address}/r/{token}")
        item = page.ready()
        page.page.wait_for_load_state("networkidle")  # three items are ahead
        server.kill()
        for _ in range(2):
            page.keys("5", "4", "Enter")
            item = page.after(item)
        page.page.wait_for_selector("#saved.bad")
        assert "2 marks are not saved yet" in str(page.page.text_content("#saved"))
        assert len(page.page.evaluate("Object.keys(localStorage).filter(key => key.includes(' mark '))")) == 2
        server.start()
        page.page.evaluate("window.dispatchEvent(new Event('online'))")
        page.until_saved()
        assert page.page.evaluate("Object.keys(localStorage).filter(key => key.includes(' mark '))") == []
        page.close()
    assert len(given(study)) == 2
    assert len((tmp_path / "marks.jsonl").read_bytes().splitlines()) == 2


def test_marks_of_a_page_that_was_closed_offline_are_sent_by_the_next_one(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "reference", 3)
    token = str(study.raters.add().token)
    with KilledServer(tmp_path) as server:
        page = Page(browser, f"{server.address}/r/{token}")
        item = page.ready()
        page.page.wait_for_load_state("networkidle")
        server.kill()
        page.keys("2", "2", "Enter")
        page.after(item)
        page.page.wait_for_selector("#saved.bad")
        page.page.on("dialog", lambda dialog: dialog.accept())
        page.page.goto("about:blank")
        server.start()
        page.page.goto(f"{server.address}/r/{token}")
        page.ready()
        page.until_saved()
        page.close()
    assert [mark.values for mark in given(study)] == [{"alignment": 2, "quality": 2}]


def test_time_runs_only_while_somebody_looks(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "reference", 2)
    with serving(study) as server:
        page = Page(browser, "about:blank")
        page.page.clock.install()
        page.page.goto(server.rater_url(str(study.raters.add().token)))
        item = page.ready()
        page.page.clock.run_for(10_000)
        page.keys("5")
        page.page.clock.run_for(300_000)  # asleep: one minute of it counts
        page.keys("4")
        hide = "hidden => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true }); document.dispatchEvent(new Event('visibilitychange')); }"
        page.page.evaluate(hide, True)
        page.page.clock.run_for(40_000)
        page.page.evaluate(hide, False)
        page.page.clock.run_for(5_000)
        page.keys("Enter")
        page.page.clock.run_for(2_000)
        page.after(item)
        page.until_saved()
        page.close()
    (mark,) = given(study)
    assert 74 < mark.active < 78 and 354 < mark.wall < 358


# --- a phone, Chinese, who does not see --------------------------------------------------------------------------------


@pytest.mark.parametrize("screen", ["rate", *(slow(name) for name in SCREENS if name != "rate")])
def test_every_screen_is_marked_by_fingers_on_a_small_phone(browser: Any, tmp_path: Path, screen: str) -> None:
    study = screen_study(tmp_path, screen, 2, models=3)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)), PHONE, has_touch=True, is_mobile=True)
        item = page.ready()
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 360
        labels = "fieldset.choices label:first-child .face, .question .levels label:last-child .face"
        if screen == "questions":  # they unfold one after another
            for _ in range(6):
                page.page.tap(".question.due .levels label:last-child .face")
        else:
            for label in page.page.query_selector_all(labels):
                if label.is_visible():
                    label.tap()
        page.page.tap("#next")
        page.after(item)
        page.until_saved()
        small = page.page.evaluate(
            "[...document.querySelectorAll('button, .level')].filter(one => one.offsetParent && (one.getBoundingClientRect().height < 24)).map(one => one.className || one.id)"
        )
        assert small == [], "every target is at least 24 px high"
        page.close()
    assert len(given(study)) == 1


def test_the_words_of_a_level_do_not_move_it_away_from_the_finger(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "rate", 1)
    with serving(study) as server:
        address = server.rater_url(str(study.raters.add().token))
        page = Page(browser, address, {"width": 390, "height": 844}, has_touch=True, is_mobile=True)
        page.ready()
        for number in range(5):
            page.page.tap(f".question >> nth={number} >> .levels label >> nth=6")
        page.page.tap("#next")
        page.page.wait_for_selector("main[data-page=finished]")
        page.close()
    assert set(given(study)[0].values.values()) == {7}


def test_many_results_side_by_side_ask_for_a_larger_screen(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "set", 2, models=4)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)), PHONE)
        page.page.wait_for_selector(".too-small")
        assert page.page.is_visible(".too-small") and not page.page.is_visible(".screen")
        page.page.set_viewport_size({"width": 768, "height": 1024})  # a tablet held upright
        assert not page.page.is_visible(".too-small") and page.page.is_visible(".screen")
        lefts = "[...document.querySelectorAll('.made .cell')].map(one => one.getBoundingClientRect().left)"
        assert len(set(page.page.evaluate(lefts))) == 2
        assert page.page.evaluate("document.documentElement.scrollWidth") == 768
        page.page.set_viewport_size(WIDE)
        assert not page.page.is_visible(".too-small") and page.page.is_visible(".screen")
        page.close()


def test_both_languages_say_the_same_things() -> None:
    strings = {name: json.loads((CLIENT / f"{name}.json").read_text("utf-8")) for name in ("en", "zh-CN")}
    assert strings["en"].keys() == strings["zh-CN"].keys()
    for key, text in strings["en"].items():
        other = strings["zh-CN"][key]
        assert text.strip() and other.strip(), key
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", other)), key
        assert re.search(r"[\u4e00-\u9fff]", other), key
    scripts = "".join(path.read_text("utf-8") for path in sorted(CLIENT.glob("*.js")))
    asked = set(re.findall(r"\bt\(\s*\"([\w.-]+)\"", scripts))
    assert asked <= strings["en"].keys() and len(asked) > 60


SEEN = r"""() => {
  const words = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) if (!walk.currentNode.parentElement.closest("noscript")) words.push(walk.currentNode.data);
  for (const node of document.querySelectorAll('[aria-label], [title], [placeholder], [alt]'))
    for (const name of ['aria-label', 'title', 'placeholder', 'alt']) if (node.hasAttribute(name)) words.push(node.getAttribute(name));
  return words.filter(text => text.trim());
}"""
THEIRS = re.compile(r"English|\b(Z|S|C|R|F|U|Y|N|Esc|Enter|U)\b|[A-F]$|JavaScript")
"""Latin letters that stand on a Chinese page: the other language's name, keys, the letters of results."""


@pytest.mark.parametrize("screen", ["questions", *(slow(name) for name in SCREENS if name != "questions")])
def test_in_chinese_no_word_is_left_in_english(browser: Any, tmp_path: Path, screen: str) -> None:
    guidelines = {"en": "Look.", "zh": "请看。"}
    study = screen_study(tmp_path, screen, 2, consent=guidelines, guidelines=guidelines)
    content = " ".join(item.model_dump_json() for item in study.items.values()) + study.design.model_dump_json()
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)), locale="zh-CN")
        seen: list[str] = []
        for name in ("consent", "welcome"):
            page.page.wait_for_selector(f"main[data-page={name}]")
            seen += page.page.evaluate(SEEN)
            page.page.click("#go")
        item = page.ready()
        assert page.page.get_attribute("html", "lang") == "zh-CN"
        for key in ("Enter", "f", "Escape", "?", "Escape", "r", "Escape", "c", "Escape"):
            page.keys(key)
            seen += page.page.evaluate(SEEN)
        page.keys(*KEYS[screen], "Enter")
        item = page.after(item)
        page.until_saved()
        seen += page.page.evaluate(SEEN)
        page.keys(*KEYS[screen], "Enter")
        page.page.wait_for_selector("main[data-page=finished]")
        seen += page.page.evaluate(SEEN)
        page.keys("Enter")
        page.page.wait_for_selector("#code")
        seen += [text for text in page.page.evaluate(SEEN) if not re.fullmatch(r"[\w-]{12}", text)]
        page.close()
    # What the study itself says in English (a rubric word for word, an instruction) is shown as it is.
    english = {
        text
        for text in seen
        if re.search(r"[A-Za-z]{2}", THEIRS.sub("", text))
        and json.dumps(text.split(" – ")[-1].strip(), ensure_ascii=False)[1:-1] not in content
    }
    assert english == set()


def test_the_language_is_chosen_once_and_marks_stay(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "reference", 2)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        page.ready()
        page.keys("4")
        page.page.select_option("#language", "zh-CN")
        page.page.wait_for_selector("text=对应程度")
        assert page.page.evaluate("[...document.querySelectorAll('input:checked')].map(one => one.value)") == ["4"]
        page.page.reload()
        page.page.wait_for_selector("text=对应程度")
        page.close()


def test_every_level_has_its_words_for_who_hovers_and_for_who_listens(browser: Any, tmp_path: Path) -> None:
    study = screen_study(tmp_path, "reference", 2)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)))
        page.ready()
        page.page.hover(".question .levels label >> nth=1")
        assert page.page.text_content(".question .hint") == "2 · little of it"
        for number, words in enumerate(
            ["nothing of it", "little of it", "about half of it", "nearly all of it", "all of it, nothing to improve"],
            1,
        ):
            level = page.page.get_by_role("radio", name=re.compile(f"^{number} {words}")).first
            assert level.count() == 1, words
        assert page.page.get_by_role("radiogroup", name="Alignment").count() == 1
        page.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return axe_source(tmp_path_factory.mktemp("axe"))


@pytest.mark.slow
@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_axe_finds_nothing_serious(
    browser: Any, tmp_path: Path, axe: str, screen: str, scheme: str, viewport: dict[str, int]
) -> None:
    words = {"en": "Look at the references first.", "zh": "请看。"}
    study = screen_study(tmp_path, screen, 2, models=3, consent=words, guidelines=words)
    with serving(study) as server:
        page = Page(browser, server.rater_url(str(study.raters.add().token)), viewport, color_scheme=scheme)
        for name in ("consent", "welcome"):
            page.page.wait_for_selector(f"main[data-page={name}]")
            assert serious(page.page, axe) == [], name
            page.page.click("#go")
        item = page.ready()
        assert serious(page.page, axe) == []
        page.keys(*KEYS[screen])
        page.keys("f")
        assert serious(page.page, axe) == [], "looking closely"
        page.keys("Escape", "?")
        assert serious(page.page, axe) == [], "help"
        page.keys("Escape", "r")
        assert serious(page.page, axe) == [], "report"
        page.keys("Escape", *KEYS[screen], "Enter")
        page.after(item)
        page.close()
        owner = Page(browser, server.owner_url, viewport, color_scheme=scheme)
        owner.page.wait_for_selector("main[data-page=owner]")
        assert serious(owner.page, axe) == [], "the owner's page"
        owner.close()


# --- the owner's page -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("locale", ["en-US", slow("zh-CN")])
def test_the_owner_sees_coverage_and_raters(browser: Any, tmp_path: Path, locale: str) -> None:
    study = screen_study(tmp_path, "reference", 4)
    rater = study.raters.add(name="Rater of the owner")
    for number, shown in enumerate(study.next_items(rater, 3)):
        study.take(
            rater,
            {"id": f"mark-{number:04d}", "item": shown.item, "values": {"alignment": 5, "quality": 4}, "active": 6},
        )
    with serving(study) as server:
        page = Page(browser, "about:blank", locale=locale)
        page.page.clock.install()
        page.page.goto(server.owner_url)
        page.page.wait_for_selector("main[data-page=owner]")
        text = str(page.page.text_content("main"))
        assert "Rater of the owner" in text and "3 / 4" in text and "6.0" in text
        assert ("marking" in text) == (locale == "en-US")
        study.raters.add(name="a-rater-whose-name-is-as-long-as-an-address@" + "university." * 5 + "example")
        page.page.clock.run_for(10_000)
        page.page.wait_for_selector("td:has-text('r02')")  # who comes is seen without a reload
        for width in (1440, 800):
            page.page.set_viewport_size({"width": width, "height": 900})
            wide = "[...document.querySelectorAll('.frame')].map(one => one.scrollWidth - one.clientWidth)"
            assert not any(page.page.evaluate(wide)), width
        assert page.page.get_attribute(".frame", "role") == "region" and page.page.get_attribute(".frame", "aria-label")
        page.close()
