"""A study in a folder: it opens by double click, keeps marks in the browser, and what it saves is taken once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from refbench.cli.study import study_command
from refbench.record import RefBenchError
from refbench.studies.pack import pack
from refbench.studies.study import Study
from support.campaigns import slow
from support.study_screens import MODELS, screen_study

KEYS = {"set": ["4", "0", "5", "2"], "pair": ["1"], "reference": ["5", "3"], "questions": ["y", "1", "n", "u"]}


def said(*words: object) -> int:
    """`refbench study WORDS`; its exit code."""
    return int(study_command([str(word) for word in words], result_action="return_value"))


class Packed:
    """A package that somebody has opened by double click."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.context = browser.new_context(
            viewport={"width": 1440, "height": 900}, accept_downloads=True, locale="en-US"
        )
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(f"file://{quote(str(folder))}/index.html")

    def ready(self, before: str = "") -> str:
        self.page.wait_for_selector(f"main[data-ready]:not([data-ready='{before}'])")
        return str(self.page.get_attribute("main", "data-ready"))

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def saved(self, to: Path, button: str = "#go") -> Path:
        with self.page.expect_download() as waiting:
            self.page.click(button)
        waiting.value.save_as(to)
        return to

    def close(self) -> None:
        assert self.complaints == []
        assert all(url.startswith(("file://", "blob:")) for url in self.asked), "it reaches for nothing outside"
        self.context.close()


@pytest.mark.parametrize("screen", ["set", *(slow(name) for name in KEYS if name != "set")])
def test_what_is_marked_offline_is_taken_once(
    browser: Any, tmp_path: Path, screen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    study = screen_study(tmp_path / "study", screen, 3, consent={"en": "You may stop.", "zh": "您可以停止。"})
    rater = study.raters.add()
    assert said("pack", study.path, "--rater", rater.id, "--out", tmp_path / "for r01") == 0
    page = Packed(browser, tmp_path / "for r01")
    page.page.wait_for_selector("main[data-page=consent]")
    page.keys("Enter")
    item = page.ready()
    page.keys(*KEYS[screen], "Enter")
    item = page.ready(item)
    page.keys("s")
    item = page.ready(item)
    assert len(json.loads(page.saved(tmp_path / "early.json", "#download").read_text("utf-8"))["marks"]) == 2
    page.page.reload()  # what was marked stays, what was skipped comes last
    assert page.ready() == item
    page.keys(*KEYS[screen], "Enter")
    item = page.ready(item)
    page.keys(*KEYS[screen], "Enter")
    page.page.wait_for_selector("main[data-page=ended]")
    page.keys("z")  # the last one is marked anew
    page.page.wait_for_selector("main:not([data-page=ended])")
    page.keys("z", KEYS[screen][-1], "Enter")
    page.page.wait_for_selector("main[data-page=ended]")
    saved = page.saved(tmp_path / "marks.json")
    page.close()
    capsys.readouterr()
    assert said("take", study.path, saved) == 0
    assert "5 marks read, 0 were there before" in capsys.readouterr().out
    marks = list(Study.open(study.path).marks.given())
    assert len(marks) == 3 and {mark.rater for mark in marks} == {rater.id}
    assert said("take", study.path, saved) == 0 and said("take", study.path, tmp_path / "early.json") == 0
    out = capsys.readouterr().out
    assert "0 marks read, 5 were there before" in out and "0 marks read, 2 were there before" in out
    again = Study.open(study.path)
    assert [mark.model_dump() for mark in again.marks.given()] == [mark.model_dump() for mark in marks]
    if screen == "set":
        assert all([mark.values[f"{owner}.overall"] for owner in mark.order] == [4, 0, 5, 2] for mark in marks)
    assert again.raters.all[rater.id].consented > 0


def test_no_byte_of_a_package_names_a_model_a_path_or_a_hash(tmp_path: Path) -> None:
    study = screen_study(tmp_path / "study", "set", 3)
    rater = study.raters.add()
    assert pack(study, rater, tmp_path / "out") == 3
    files = sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    pictures = [path for path in files if path.parent.name == "pictures"]
    assert len(pictures) == 3 * (3 + 4) and all(path.read_bytes().startswith(b"\xff\xd8") for path in pictures)
    words = {*MODELS, str(tmp_path), "of-the-owner", str(rater.token), rater.link}
    for item in study.items.values():
        words |= {item.id, item.case, *(one.sha256 for one in item.inputs)}
    for path in files:
        data = path.read_bytes()
        assert [word for word in words if word.encode() in data or word in path.name] == [], path.name


def test_a_package_holds_the_same_items_as_the_link_in_the_same_order(tmp_path: Path) -> None:
    study = screen_study(tmp_path / "study", "pair", 6)
    rater = study.raters.add()
    pack(study, rater, tmp_path / "out")
    text = (tmp_path / "out/client/pack.js").read_text("utf-8")
    packed = json.loads(text.removeprefix('refbench.put("pack", ').removesuffix(");\n"))
    online = [json.loads(shown.model_dump_json()) for shown in Study.open(study.path).next_items(rater, 6)]
    assert [item["item"] for item in packed["items"]] == [item["item"] for item in online]
    assert [item["pictures"] for item in packed["items"]] == [item["pictures"] for item in online]


def test_a_package_is_not_written_over_a_folder_or_for_who_is_done(tmp_path: Path) -> None:
    study = screen_study(tmp_path / "study", "pair", 1)
    rater = study.raters.add()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("mine")
    with pytest.raises(RefBenchError, match="is there already"):
        pack(study, rater, tmp_path / "mine")
    (shown,) = study.next_items(rater)
    study.take(rater, {"id": "mark-0001", "item": shown.item, "values": {"preference": "tie"}})
    with pytest.raises(RefBenchError, match="nothing is left"):
        pack(study, rater, tmp_path / "out")
    assert not (tmp_path / "out").exists()
