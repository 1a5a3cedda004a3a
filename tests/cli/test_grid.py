"""Sheets of pictures: the right cases by the stated rule, the right pictures in the right places, nothing hidden."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from refbench.cli.grid import grid_command
from refbench.cli.view import view_command
from refbench.engine import evaluate
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.report.grid.choice import Chosen, marks_of, state_of
from refbench.report.grid.sheet import open_board, sheet_rows
from refbench.report.grid.text import TextStyle, plain
from support.five_criteria import FIVE
from support.judge_server import JudgeServer
from support.shown_numbers import site_chunk

COLOURS = {"A": (200, 30, 30), "B": (30, 160, 40), "reference": (40, 60, 220)}


def flat(colour: tuple[int, int, int], mark: int) -> bytes:
    """A plain picture, different for every case by one corner pixel."""
    pixels = np.full((32, 32, 3), colour, dtype=np.uint8)
    pixels[0, 0] = mark
    return encode(pixels)


def judged(text: str) -> str:
    """Marks that the instruction asks for: `mark 3` is 3 for all criteria."""
    return json.dumps(dict.fromkeys(FIVE, int(text.split("mark ")[1].split()[0])))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six cases marked 1 to 6 for both models; B has no picture of c2."""
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.delenv("REFBENCH_DATA", raising=False)
    lines = []
    for model in ("A", "B"):
        (tmp_path / model).mkdir()
    (tmp_path / "refs").mkdir()
    for n in range(6):
        (tmp_path / f"refs/{n}.png").write_bytes(flat(COLOURS["reference"], n))
        for model in ("A", "B"):
            if (model, n) != ("B", 2):
                (tmp_path / f"{model}/c{n}.png").write_bytes(flat(COLOURS[model], n))
        words = f"Paint it, mark {n + 1} of ten. 把猫变成雕像" if n else "Paint it, mark 1 of ten. <b>x</b>"
        lines.append(json.dumps({"id": f"c{n}", "instruction": words, "references": [{"path": f"refs/{n}.png", "role": "subject"}]}))  # fmt: skip
    (tmp_path / "cases.jsonl").write_text("\n".join(lines))
    with JudgeServer(reply=judged) as server:
        evaluate(
            str(tmp_path / "cases.jsonl"),
            models=[f"A=folder:{tmp_path / 'A'}", f"B=folder:{tmp_path / 'B'}"],
            judges=[f"j=openai:gpt-4o?base_url={server.url}/v1"],
            out=tmp_path / "run",
            rubric="five_criteria",
        )
    return tmp_path


def drawn(
    capsys: pytest.CaptureFixture[str], work: Path, out: str = "sheet.png", **options: object
) -> dict[str, object]:
    assert grid_command(work / "run", out=work / out, json=True, **options) == 0  # type: ignore[arg-type]
    said: dict[str, object] = json.loads(capsys.readouterr().out)
    return said


def has(picture: Image.Image, colour: tuple[int, int, int]) -> list[tuple[int, int]]:
    """Places of the colour."""
    found = np.argwhere((np.asarray(picture.convert("RGB")) == colour).all(axis=2))
    return [(int(x), int(y)) for y, x in found]


def test_worst_and_best_are_the_lowest_and_highest_marks(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worst = drawn(capsys, work, worst=2)
    assert worst["cases"] == ["c0", "c1"]
    assert "lowest total (corrected, judge j) on average over A, B" in str(worst["caption"])
    best = drawn(capsys, work, best=2, of="A")
    assert best["cases"] == ["c5", "c4"]
    assert "highest total (corrected, judge j) for A" in str(best["caption"])
    assert drawn(capsys, work, best=6, of="B")["cases"] == ["c5", "c4", "c3", "c1", "c0"], "what failed has no rank"


def test_a_lot_is_the_same_lot_for_the_same_seed(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (drawn(capsys, work, random=3, seed=seed)["cases"] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_output_of_another_seed_is_shown_when_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.delenv("REFBENCH_DATA", raising=False)
    (tmp_path / "A").mkdir()
    for seed, name in enumerate(("A", "B")):
        (tmp_path / f"A/c0-{seed}.png").write_bytes(flat(COLOURS[name], 0))
    (tmp_path / "A/c1-0.png").write_bytes(flat(COLOURS["A"], 0))
    asked = [json.dumps({"id": name, "instruction": "Paint it, mark 3 of ten."}) for name in ("c0", "c1")]
    (tmp_path / "cases.jsonl").write_text("\n".join(asked))
    models = [f"A=folder:{tmp_path / 'A'}/{{id}}-{{seed}}.png"]
    with JudgeServer(reply=judged) as server:
        evaluate(
            str(tmp_path / "cases.jsonl"),
            models=models,
            judges=[f"j=openai:gpt-4o?base_url={server.url}/v1"],
            seeds=2,
            out=tmp_path / "run",
            rubric="five_criteria",
        )
    for seed, (shown, hidden) in enumerate((("A", "B"), ("B", "A"))):
        said = drawn(capsys, tmp_path, cases="c0", size=64, output_seed=seed)
        sheet = Image.open(tmp_path / "sheet.png")
        assert has(sheet, COLOURS[shown])
        assert not has(sheet, COLOURS[hidden])
        assert f"mean of 2 seeds; the pictures are of seed {seed}" in str(said["caption"])
    said = drawn(capsys, tmp_path, cases="c1", size=64)
    assert "mean of the seeds that have a value, 2 at most; the pictures are of seed 0" in str(said["caption"])
    board = open_board([tmp_path / "run"], None)
    marks = marks_of(board.result)
    under = [state_of(marks, "A", case, n, None, seeds=2) for n, case in enumerate(board.cases)]
    board.close()
    assert [text.endswith(" (1 of 2 seeds)") for text in under] == [False, True]


def test_references_stand_left_of_the_models_in_their_order(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn(capsys, work, cases="c1", size=64)
    sheet = Image.open(work / "sheet.png")
    left, middle, right = (np.mean([x for x, _ in has(sheet, COLOURS[name])]) for name in ("reference", "A", "B"))
    assert left < middle < right
    drawn(capsys, work, cases="c1", size=64, models="B,A")
    turned = Image.open(work / "sheet.png")
    assert np.mean([x for x, _ in has(turned, COLOURS["B"])]) < np.mean([x for x, _ in has(turned, COLOURS["A"])])


def test_references_have_the_numbers_that_instructions_use(tmp_path: Path) -> None:
    """In the order the model gets them, the source among them; a single picture has its role alone."""
    for name in ("s", "a", "out/two", "out/one"):
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / f"{name}.png").write_bytes(flat(COLOURS["A"], len(name)))
    rows = [
        {"id": "two", "instruction": "The hat of image 2", "source": "s.png", "references": ["a.png"]},
        {"id": "one", "instruction": "Bluer", "source": "s.png"},
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "run"
    evaluate(tmp_path / "cases.jsonl", models=f"A=folder:{tmp_path / 'out'}", metrics="ssim", out=out)
    board = open_board([out], None)
    chosen = Chosen(board.cases, "all")
    sheet = sheet_rows(board, marks_of(board.result), chosen, ["A"], None)
    board.close()
    labels = {row.case: [tile.label for tile in row.references] for row in sheet}
    assert labels == {"two": ["1 source", "2 reference"], "one": ["source"]}


def test_a_failed_output_is_a_labelled_box(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn(capsys, work, cases="c1", size=200)
    whole = Image.open(work / "sheet.png")
    drawn(capsys, work, cases="c2", size=200)
    failed = Image.open(work / "sheet.png")
    alarm = (0xFD, 0xEC, 0xEA)
    assert not has(whole, alarm)
    assert len(has(failed, alarm)) > 20_000
    assert not has(failed, COLOURS["B"])


def test_the_same_sheet_has_the_same_bytes(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("sheet.png", "sheet.pdf"):
        drawn(capsys, work, out=name, worst=2, size=64)
        first = (work / name).read_bytes()
        drawn(capsys, work, out=name, worst=2, size=64)
        assert (work / name).read_bytes() == first
    assert first.startswith(b"%PDF")
    assert b"CreationDate" not in first


def test_a_pdf_of_many_cases_has_pages(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = drawn(capsys, work, out="sheet.pdf", random=6, size=200)
    assert int(str(said["pages"])) > 1
    assert len(re.findall(rb"/Type\s*/Page\b", (work / "sheet.pdf").read_bytes())) == said["pages"]


def test_references_that_are_not_at_hand_are_counted_and_empty(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (work / "refs").rename(work / "moved")
    said = drawn(capsys, work, cases="c1", size=64)
    assert said["references_not_at_hand"] == 1
    assert not has(Image.open(work / "sheet.png"), COLOURS["reference"])
    assert grid_command(work / "run", out=work / "sheet.png", cases="c1") == 0
    assert "not at hand" in capsys.readouterr().err


def test_a_reference_that_was_replaced_since_is_never_shown_in_place_of_the_one_that_was_judged(
    work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFBENCH_CACHE", str(tmp_path / "cache"))
    other = (250, 200, 10)
    for n in range(6):
        (work / f"refs/{n}.png").write_bytes(flat(other, n))
    said = drawn(capsys, work, cases="c1", size=64)
    assert not has(Image.open(work / "sheet.png"), other)
    assert said["broken"] == ["refs/1.png is not the picture that was recorded"]
    assert grid_command(work / "run", out=work / "sheet.png", cases="c1") == 0
    assert "refs/1.png is not the picture" in capsys.readouterr().err
    assert view_command(work / "run", out=work / "site") == 0
    assert "refs/1.png cannot be shown: it is not the picture that was recorded" in capsys.readouterr().err
    assert [p["thumb"] for p in site_chunk(work / "site", "b0/cases/0")["cases"][1]["references"]] == [""]
    assert view_command(work / "run", out=work / "b.html", brief=True) == 0
    assert "cannot be shown: it is not the picture that was recorded" in capsys.readouterr().err
    assert "reference 1 is not at hand, or is not the one that was used" in (work / "b.html").read_text()
    (work / "refs").rename(work / "moved")
    assert view_command(work / "run", out=work / "b.html", brief=True) == 0
    assert "pictures of the cases are not at hand (first: refs/" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"out": Path("x.gif")}, "name it .png or .pdf"),
        ({"cases": "c9"}, "--cases c9: there is no such case"),
        ({"models": "C"}, "--models C: there are A, B"),
        ({"worst": 1, "best": 1}, "--worst and --best exclude each other"),
        ({"worst": 0}, "--worst 0"),
        ({"of": "C", "worst": 1}, "--of C"),
        ({"metric": "beauty"}, "--metric beauty"),
        ({"judge": "k"}, "--judge k"),
        ({"disagree": 1, "models": "A"}, "at least two"),
        ({"font": Path("nofont.ttf")}, "--font nofont.ttf"),
    ],
)
def test_mistakes_are_said_in_a_sentence(work: Path, options: dict[str, object], said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        grid_command(work / "run", **{"out": work / "sheet.png", **options})  # type: ignore[arg-type]


def test_characters_without_a_font_are_reported_not_hidden(tmp_path: Path) -> None:
    letters = TextStyle(16)
    letters._fonts = [letters.base]  # a machine without any other fonts
    picture = Image.new("RGB", (200, 30), "white")
    letters.draw(ImageDraw.Draw(picture), (0, 0), "cat 猫", "black")
    assert list(letters.missing) == ["猫"]
    assert np.asarray(picture).min() < 50


def test_latin_needs_no_other_font_and_lines_fit() -> None:
    letters = TextStyle(15)
    lines = letters.wrap("Put the subject of the first picture into the second one, and keep its colours. " * 3, 240)
    assert all(letters.width(line) <= 240 for line in lines)
    assert " ".join(lines).split() == ("Put the subject of the first picture into the second one, and keep its colours. " * 3).split()  # fmt: skip
    assert not letters.missing
    cut = letters.wrap("word " * 200, 240, 2)
    assert len(cut) == 2
    assert cut[1].endswith("more characters)")
    assert letters.width(letters.fit("a_very_long_name_of_a_model_with_a_date_2025", 120)) <= 120


def test_marks_of_direction_and_control_characters_are_not_drawn() -> None:
    assert plain("a\u202eb\x07c\nd") == "abc d"
