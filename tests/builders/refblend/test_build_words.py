"""A build with VLMs and people in it: what they say is asked for once, checked, honoured, and missed where it fails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from refbench.record import RefBenchError
from support.blend import built, tree, write_drawings
from support.judge_server import JudgeServer


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture(scope="module")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_drawings(tmp_path_factory.mktemp("drawings"), 6)


def entries(out: Path) -> list[dict[str, Any]]:
    return list(orjson.loads((out / "benchmark.json").read_bytes()))


def writer(text: str) -> str:
    """A VLM of all trades: captions, marks, and rewritings that keep what has to stay."""
    if "Write one caption" in text:
        return "Some discs beside lines"
    if "Word it anew" in text:
        request = text.split("----\n")[1].strip()
        return request.replace("Generate an image", "Paint me a picture")
    axes = re.findall(r'"(alignment|quality|accuracy)"', text)
    return orjson.dumps(dict.fromkeys(axes, 4)).decode()


def test_captions_marks_and_rewritings_of_a_vlm_are_asked_for_once(tmp_path: Path) -> None:
    folder = write_drawings(tmp_path / "in", 6, captions=False)
    with JudgeServer(reply=writer) as server:
        spec = f"seer=openai:tiny?base_url={server.url}/v1"
        more = {"captions": spec, "judge": spec, "rewriter": spec, "samples": 6, "types": ("canny", "caption")}
        built(folder, tmp_path / "out", **more)
        asked = len(server.requests)
        first = tree(tmp_path / "out")
        built(folder, tmp_path / "out", **more)
        assert len(server.requests) == asked == 6 + 2 * 6 + 6, "a caption, two marked references, a rewriting each"
    assert tree(tmp_path / "out") == first
    for entry in entries(tmp_path / "out"):
        assert entry["conditions"]["caption"] == "Some discs beside lines"
        assert entry["judge"] == {"Canny Alignment": 4, "Canny Quality": 4, "Caption Alignment": 4}
        assert entry["instructions"]["enhance_prompts"][0].startswith("Paint me a picture")
        assert entry["persona"]


def test_a_caption_of_too_many_words_is_asked_for_again_and_then_dropped(tmp_path: Path) -> None:
    folder = write_drawings(tmp_path / "in", 2, captions=False)

    def wordy(text: str) -> str:
        return "Short enough now" if "could not be used" in text and "drawing" not in text else "word " * 21

    with JudgeServer(reply=wordy) as server:
        built(folder, tmp_path / "out", captions=f"openai:tiny?base_url={server.url}/v1", types=("canny", "caption"))
        assert "21 words" in str(server.requests[-1].body)
    assert {e["conditions"]["caption"] for e in entries(tmp_path / "out")} == {"Short enough now"}


def test_one_mark_below_three_drops_the_sample_and_a_person_can_take_it_back(tmp_path: Path) -> None:
    folder = write_drawings(tmp_path / "in", 4)

    def strict(text: str) -> str:
        axes = dict.fromkeys(re.findall(r'"(alignment|quality|accuracy)"', text), 3)
        return orjson.dumps(axes | ({"quality": 2} if "quality" in axes else {})).decode()

    with JudgeServer(reply=strict) as server:
        more = {"judge": f"openai:tiny?base_url={server.url}/v1", "types": ("canny", "caption", "style")}
        out = tmp_path / "out"
        done = built(folder, out, **more)
        assert done.statistics["samples"] == 0
        assert done.statistics["dropped"]["judge"] == {"Canny Quality below 3": 4}
        assert done.failed_share == 0, "a low mark is a verdict, not a failure"
        lines = [orjson.loads(line) for line in (out / "review.jsonl").read_bytes().splitlines()]
        assert [line["dropped"] for line in lines] == ["Canny Quality below 3"] * 4
        new = lines[1]["instruction"].replace("Generate", "Please generate")
        decided = [
            {**lines[0], "decision": "accept"},
            {**lines[1], "decision": "edit", "edit": {"instruction": new}},
            {**lines[2], "decision": "reject", "comment": "blurred"},
            lines[3],
        ]
        (out / "review.jsonl").write_bytes(b"\n".join(map(orjson.dumps, decided)))
        again = built(folder, out, **more)
    kept = {entry["id"]: entry for entry in entries(out)}
    assert set(kept) == {lines[0]["id"], lines[1]["id"]}
    assert kept[lines[1]["id"]]["instructions"]["original_prompts"] == new
    assert [kept[line["id"]]["review"] for line in lines[:2]] == ["accept", "edit"]
    assert again.statistics["dropped"]["review"] == {"rejected": 1}
    assert (out / "review.jsonl").read_bytes() == b"\n".join(map(orjson.dumps, decided)), "what people wrote stays"


def test_an_edit_that_asks_for_other_references_is_refused(drawings: Path, tmp_path: Path) -> None:
    more = {"types": ("canny", "caption"), "samples": 3}
    built(drawings, tmp_path / "out", **more)
    wrong = orjson.loads((tmp_path / "out/review.jsonl").read_bytes().splitlines()[0])
    wrong |= {"decision": "edit", "edit": {"instruction": "Just make something nice."}}
    (tmp_path / "r.jsonl").write_bytes(orjson.dumps(wrong))
    with pytest.raises(RefBenchError, match="asks for something else: it lacks <canny_image>"):
        built(drawings, tmp_path / "out", review=tmp_path / "r.jsonl", **more)


def test_a_vlm_that_is_down_costs_samples_now_and_none_later(tmp_path: Path) -> None:
    folder = write_drawings(tmp_path / "in", 3, captions=False)
    write_drawings(folder, 1, start=50)
    with JudgeServer(reply=writer, status=400, error={"error": {"message": "down"}}) as server:
        more = {"captions": f"openai:tiny?base_url={server.url}/v1", "types": ("canny", "caption")}
        with pytest.raises(RefBenchError, match="no sample can be made"):
            built(folder, tmp_path / "out", **more)
        server.status = None
        assert built(folder, tmp_path / "out", **more).failed_share == 0
    assert len(entries(tmp_path / "out")) == 4


@pytest.mark.parametrize("down", [True, False])
def test_a_rewriter_that_is_down_is_a_failure_and_one_that_breaks_the_placeholders_is_told(
    tmp_path: Path, *, down: bool
) -> None:
    folder = write_drawings(tmp_path / "in", 3)
    trouble: dict[str, Any] = {"status": 400, "error": {"error": {"message": "down"}}} if down else {}
    with JudgeServer(reply=lambda text: "Paint <something_else> for me.", **trouble) as server:
        more = {"rewriter": f"openai:tiny?base_url={server.url}/v1", "types": ("canny", "caption")}
        done = built(folder, tmp_path / "out", **more)
    assert done.statistics["samples"] == 3, "the originals stay"
    assert done.statistics["rewritten"] == 0
    assert sum(done.statistics["dropped"]["rewriting"].values()) == 3
    assert done.failed_share == (1.0 if down else 0.0)


def test_a_spent_budget_of_the_rewriter_is_said(tmp_path: Path) -> None:
    folder = write_drawings(tmp_path / "in", 3)
    with JudgeServer(reply=writer) as server:
        spec = f"openai:tiny?base_url={server.url}/v1&price=1,1"
        done = built(folder, tmp_path / "out", rewriter=spec, budget="0usd", types=("canny", "caption"))
        assert server.requests == []
    assert done.stopped == "budget"


def test_what_an_accepted_sample_brings_as_an_edit_is_not_taken(drawings: Path, tmp_path: Path) -> None:
    more = {"types": ("canny", "caption"), "samples": 3}
    built(drawings, tmp_path / "out", **more)
    line = orjson.loads((tmp_path / "out/review.jsonl").read_bytes().splitlines()[0])
    line |= {"decision": "accept", "edit": {"enhanced": "No reference is named here."}}
    (tmp_path / "r.jsonl").write_bytes(orjson.dumps(line))
    built(drawings, tmp_path / "out", review=tmp_path / "r.jsonl", **more)
    assert not any(entry["instructions"]["enhance_prompts"] for entry in entries(tmp_path / "out"))


def test_a_spent_budget_is_said_and_the_rest_comes_later(tmp_path: Path) -> None:
    folder = write_drawings(tmp_path / "in", 5, captions=False)
    with JudgeServer(reply=writer) as server:
        spec = f"openai:tiny?base_url={server.url}/v1&price=1,1"
        more = {"captions": spec, "types": ("canny", "caption"), "concurrency": 1}
        first = built(folder, tmp_path / "out", budget="0.001usd", **more)
        assert first.stopped == "budget"
        assert 0 < first.statistics["samples"] < 5
        assert built(folder, tmp_path / "out", **more).statistics["samples"] == 5
        assert len(server.requests) == 5
