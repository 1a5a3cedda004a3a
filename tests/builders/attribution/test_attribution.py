"""Which references an output uses: asked of planted judges over loopback, read, resumed, and named where people look."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import orjson
import pytest

from refbench.analysis.attribution.read import attributions
from refbench.analysis.attribution.records import OutputUse
from refbench.engine import evaluate
from refbench.pictures import Pixels, decode, encode
from refbench.report.site.boards import open_boards
from refbench.report.site.cases import cases_chunk
from refbench.report.site.pictures import PictureStore
from support.five_criteria import FIVE
from support.judge_server import JudgeServer

Refbench = Callable[..., tuple[int, str, str]]
COLOURS = ((220, 30, 30), (30, 200, 40), (40, 60, 230), (230, 210, 40))
"""Of image 1, 2, 3 and 4: what a planted judge knows a reference by."""
USES = {"A": (0, 1, 2, 3), "B": (0, 2)}
"""Which references the outputs of each model show."""


COUNTS = {"case0": 2, "case1": 3, "case2": 4}


def shown(colours: tuple[int, ...], number: int) -> bytes:
    """A picture of stripes; the number makes its file its own."""
    pixels = np.full((32, 16 * max(1, len(colours)), 3), 255, np.uint8)
    for place, colour in enumerate(colours):
        pixels[:, 16 * place : 16 * place + 16] = COLOURS[colour]
    pixels[0, 0] = number
    return encode(pixels)


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four cases, of two, three, four and one reference; the last is nothing to tell apart."""
    root = tmp_path_factory.mktemp("composed")
    lines = []
    for number, count in enumerate((2, 3, 4, 1)):
        for place in range(count):
            (root / f"{number}_{place}.png").write_bytes(shown((place,), number))
        for model, uses in USES.items():
            (root / model).mkdir(exist_ok=True)
            kept = tuple(place for place in uses if place < count)
            (root / model / f"case{number}.png").write_bytes(shown(kept, number))
        references = [{"path": f"{number}_{place}.png", "role": "subject"} for place in range(count)]
        lines.append(json.dumps({"id": f"case{number}", "instruction": "All of them.", "references": references}))
    (root / "cases.jsonl").write_text("\n".join(lines))
    evaluate(
        str(root / "cases.jsonl"),
        models=[f"A=folder:{root / 'A'}", f"B=folder:{root / 'B'}"],
        judges={"other": lambda prompt: json.dumps(dict.fromkeys(FIVE, 7))},
        out=root / "run",
        rubric="five_criteria",
    )
    return root / "run"


def sees(body: str) -> str:
    """A judge that looks: a reference is there where the output, the last picture, has its colour."""
    files = [decode(base64.b64decode(data)) for data in re.findall(r"base64,([A-Za-z0-9+/=]+)", body)]
    assert all(isinstance(one, np.ndarray) for one in files)
    *references, output = [_colours(one) for one in files if isinstance(one, np.ndarray)]
    numbers = [int(n) for n in re.findall(r"Image (\d+) \(subject\):", body)]
    there = {n: bool(seen & output) for n, seen in zip(numbers, references, strict=True)}
    asked = re.findall(r"(Q\d+): Image (\d+): (can|is)", body)
    answers = {q: ("Yes" if there[int(image)] else "No") if verb == "can" else "No" for q, image, verb in asked}
    return json.dumps(answers)


def _colours(pixels: Pixels) -> set[int]:
    return {n for n, one in enumerate(COLOURS) if (np.abs(pixels.astype(int) - one).sum(axis=2) < 30).mean() > 0.1}


def server(reply: Callable[[str], str]) -> JudgeServer:
    return JudgeServer(reply=reply, with_pictures=True)


@pytest.fixture
def run(composed: Path, tmp_path: Path) -> Path:
    shutil.copytree(composed, tmp_path / "run")
    return tmp_path / "run"


def missing(found: list[OutputUse]) -> dict[tuple[str, str], list[int]]:
    return {(one.case, one.model): one.images("missing") for one in found}


EXPECTED = {
    (case, model): [place + 1 for place in range(count) if place not in uses]
    for case, count in COUNTS.items()
    for model, uses in USES.items()
}


@pytest.mark.parametrize(("way", "calls"), [("call", 6), ("each", 18)])
def test_each_reference_has_a_state_and_nothing_is_asked_twice(
    run: Path, way: str, calls: int, run_cli: Refbench
) -> None:
    with server(sees) as judge:
        words = ["attribute", run, "--judge", f"j=openai:m?base_url={judge.url}/v1&price=1,1", "--way", way, "--json"]
        plan = orjson.loads(run_cli(*words, "--plan")[1])
        assert (plan["calls"], len(judge.requests)) == (calls, 0)
        code, out, _ = run_cli(*words)
        assert (code, len(judge.requests)) == (0, calls)
        assert run_cli(*words)[0] == 0
        assert len(judge.requests) == calls, "the same command resumes, and asks nothing twice"
    found = attributions(run)
    assert missing(found) == EXPECTED
    assert all(one.known == len(one.references) for one in found)
    told = {(one["case"], one["model"]): one for one in orjson.loads(out)["outputs"]}
    assert (told["case2", "B"]["used"], told["case2", "B"]["of"]) == (2, 4)
    assert told["case2", "B"]["said"] == "used 2 of 4 references; missing: images 2, 4"


def test_a_call_for_each_reference_shows_that_one_and_the_output_alone(run: Path, run_cli: Refbench) -> None:
    with server(sees) as judge:
        run_cli("attribute", run, "--judge", f"j=openai:m?base_url={judge.url}/v1", "--way", "each")
        pictures = [str(seen.body).count("base64,") for seen in judge.requests]
        assert set(pictures) == {2}
        assert any("Image 4 (subject):" in json.dumps(seen.body) for seen in judge.requests), "it keeps its number"


def test_what_cannot_be_read_or_is_refused_is_unknown_and_no_zero(run: Path, run_cli: Refbench) -> None:
    def half(body: str) -> str:
        """Does not answer the first question about the second reference, and says others are distorted or doubled."""
        said = json.loads(sees(body))
        said.pop("Q4", None)
        return json.dumps({**said, "Q3": "Yes", **({"Q8": "Yes"} if "Q8" in said else {})})

    with server(half) as judge:
        code, _, _ = run_cli("attribute", run, "--judge", f"j=openai:m?base_url={judge.url}/v1")
    assert code == 1, "a reply with a question left open is a failure"
    found = {(one.case, one.model): one for one in attributions(run)}
    one = found["case1", "A"]
    assert [use.state for use in one.references] == ["doubled", None, "distorted"]
    assert one.references[1].why
    assert (one.used, one.known) == (2, 2)
    assert (
        one.said()
        == "used 2 of the 2 of 3 references that are known; distorted: image 3; doubled: image 1; unknown: image 2"
    )
    assert "no value for Q4" in one.references[1].why


def test_the_table_the_items_and_the_case_page_name_what_is_missing(
    run: Path, tmp_path: Path, run_cli: Refbench
) -> None:
    run_cli("table", run, "--items", tmp_path / "before.jsonl")
    assert '"references"' not in (tmp_path / "before.jsonl").read_text()
    with server(sees) as judge:
        run_cli("attribute", run, "--judge", f"j=openai:m?base_url={judge.url}/v1")
    out = " ".join(run_cli("table", run, "--items", tmp_path / "items.jsonl")[1].split())
    assert (
        "B uses 5 of 9 references, by j, one call; 9 of 9 references of 3 outputs are known, and 3 outputs lack" in out
    )
    rows = [orjson.loads(line) for line in (tmp_path / "items.jsonl").read_text().splitlines()]
    of = {(row["case"], row["model"]): row["references"] for row in rows}
    assert of["case2", "B"] == {"j, one call": "used 2 of 4 references; missing: images 2, 4"}
    assert of["case3", "B"] == {}, "nobody asked: not a zero"
    (board,) = open_boards([run], draws=0)
    shown_outputs = [
        (case["id"], output["model"], output["references"])
        for case in cases_chunk(board, PictureStore(tmp_path / "site"), 0)["cases"]
        for output in case["outputs"]
    ]
    assert ("case2", 1, {"j, one call": "used 2 of 4 references; missing: images 2, 4"}) in shown_outputs
    assert ("case3", 1, {}) in shown_outputs


def test_a_run_may_grow_between_two_commands(composed: Path, run: Path, tmp_path: Path, run_cli: Refbench) -> None:
    """First one case and one model, later all of both: what was asked is not asked again."""
    root = composed.parent
    words = ["run", root / "cases.jsonl", "--rubric", "five_criteria", "--out", tmp_path / "grows"]
    words += ["--model", f"A=folder:{root / 'A'}"]
    with server(sees) as judge, JudgeServer(reply=lambda text: json.dumps(dict.fromkeys(FIVE, 7))) as marks:
        words += ["--judge", f"m=openai:m?base_url={marks.url}/v1"]
        asks = ["attribute", tmp_path / "grows", "--judge", f"j=openai:m?base_url={judge.url}/v1"]
        assert run_cli(*words, "--limit", 2)[0] == 0
        assert run_cli(*asks)[0] == 0
        first = len(judge.requests)
        assert 0 < first <= 2
        assert run_cli(*words, "--model", f"B=folder:{root / 'B'}")[0] == 0
        assert run_cli(*asks)[0] == 0
        assert len(judge.requests) == 6
    assert missing(attributions(tmp_path / "grows")) == EXPECTED


def test_wrong_usage_is_said_before_anything_is_asked(run: Path, tmp_path: Path, run_cli: Refbench) -> None:
    assert "holds no attribution yet" in run_cli("attribute", run)[2]
    assert "give one of the two" in run_cli("attribute", run, "--way", "offline", "--judge", "openai:m")[2]
    assert "counts calls to a judge" in run_cli("attribute", run, "--plan")[2]
