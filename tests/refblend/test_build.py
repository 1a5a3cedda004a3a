"""The build as a whole: the same bytes whatever happens on the way, and a sentence for whatever a user gets wrong."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.refblend.settings import Settings, owned_directory
from support.blend import built, drawing, tree, write_drawings
from support.judge_server import JudgeServer


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def refbench(*words: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "refbench", "blend", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def asked(folder: Path, out: Path) -> list[object]:
    return ["build", folder, "--out", out, "--types", "canny,sketch_dodge,caption", "--samples", "all"]


def entries(out: Path) -> list[dict[str, Any]]:
    return list(orjson.loads((out / "benchmark.json").read_bytes()))


@pytest.fixture(scope="module")
def drawings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_drawings(tmp_path_factory.mktemp("drawings"), 24)


@pytest.fixture(scope="module")
def whole(drawings: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a build that nobody disturbed."""
    out = tmp_path_factory.mktemp("whole") / "out"
    done = refbench(*asked(drawings, out))
    said, wrong = done.communicate()
    assert done.returncode == 0, wrong
    assert "samples of 24 pictures" in said
    return tree(out)


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from refbench.refblend.build import build
from refbench.refblend.settings import Settings

def tell(line):
    stage, _, rest = line.partition(": ")
    if stage == sys.argv[3] and int(rest.split()[0]) >= int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

settings = Settings(Path(sys.argv[1]), Path(sys.argv[2]), types=("canny", "sketch", "caption"), dodge=True, samples="all")
asyncio.run(build(settings, tell))
"""


@pytest.mark.parametrize("at", ["sources 1", "references 1", "references 20", "samples 1", "written 1"])
def test_a_build_that_is_killed_and_run_again_gives_the_same_bytes(
    drawings: Path, whole: dict[str, str], tmp_path: Path, at: str
) -> None:
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(drawings), str(out), *at.split()], check=False)
    assert killed.returncode == -signal.SIGKILL
    before = {path: path.stat().st_mtime_ns for path in (out / "work/references").rglob("*.png")}
    again = refbench(*asked(drawings, out))
    _, wrong = again.communicate()
    assert again.returncode == 0, wrong
    assert tree(out) == whole
    on_record = (out / "work/references.jsonl").read_text()
    kept = {path for path, time in before.items() if path.stat().st_mtime_ns == time}
    # Only what was written but not yet on record when it was killed may have been made again.
    assert len(before) - len(kept) <= 16
    assert all(path.stem in on_record for path in before)


def test_the_same_command_again_makes_nothing_anew(drawings: Path, whole: dict[str, str], tmp_path: Path) -> None:
    first = built(drawings, tmp_path / "out", types=("canny", "sketch", "caption"), samples="all", test_share=0.1)
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.suffix in (".png", ".tar")}
    assert tree(tmp_path / "out") == whole, "a process of one's own and another's give the same"
    again = built(drawings, tmp_path / "out", types=("canny", "sketch", "caption"), samples="all", test_share=0.1)
    assert again == first
    changed = {p.relative_to(tmp_path / "out").parts[0] for p, time in files.items() if p.stat().st_mtime_ns != time}
    assert changed <= {"contact_sheet.png", "card"}


def test_another_seed_is_another_dataset_from_the_same_references(drawings: Path, tmp_path: Path) -> None:
    built(drawings, tmp_path / "out", seed=0, samples=20)
    one = [(e["id"], e["instructions"]["original_prompts"]) for e in entries(tmp_path / "out")]
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out/work/references").rglob("*.png")}
    built(drawings, tmp_path / "out", seed=1, samples=20)
    assert [(e["id"], e["instructions"]["original_prompts"]) for e in entries(tmp_path / "out")] != one
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out/work/references").rglob("*.png")}


def test_broken_pictures_are_told_and_too_many_of_them_are_exit_code_1(tmp_path: Path) -> None:
    folder = write_drawings(tmp_path / "in", 8)
    (folder / "broken.png").write_bytes(encode(drawing(30))[:200])
    (folder / "twice.png").write_bytes(encode(drawing(0)))
    for most, code in (("0.2", 0), ("0.1", 1)):
        done = refbench(*asked(folder, tmp_path / "out"), "--max-failed", most, "--json")
        said, wrong = done.communicate()
        assert done.returncode == code, wrong
        assert ("more than --max-failed" in wrong) == bool(code)
    found = orjson.loads(said)
    assert found["pictures"]["skipped"] == {"duplicate": 1, "unreadable": 1}
    assert found["pictures"]["failed"] == 1
    dropped = [orjson.loads(line) for line in (tmp_path / "out/dropped.jsonl").read_bytes().splitlines()]
    assert {one["id"]: one["reason"] for one in dropped if one["what"] == "picture"} == {
        "broken.png": "unreadable",
        "twice.png": "duplicate",
    }
    stats = refbench("stats", tmp_path / "out", "--json")
    assert orjson.loads(stats.communicate()[0]) == found


def test_a_full_disk_is_one_sentence(drawings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(RefBenchError, match=r"the disk of .* is full: free some space and run the same command"):
            built(drawings, tmp_path / "out", samples=5)
    assert built(drawings, tmp_path / "out", samples=5).statistics["samples"] == 5


def test_a_directory_of_somebody_else_is_not_touched_and_two_builds_do_not_meet(drawings: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    with pytest.raises(RefBenchError, match="holds other files"):
        built(drawings, tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.txt"]
    with owned_directory(tmp_path / "out"), pytest.raises(RefBenchError, match="another build is writing"):
        built(drawings, tmp_path / "out")


def test_pictures_without_words_or_groups_are_told_what_is_missing(tmp_path: Path) -> None:
    folder = write_drawings(tmp_path / "in", 3, captions=False)
    with pytest.raises(RefBenchError, match=r"offer canny, sketch, of which table7 allows no set; give captions"):
        built(folder, tmp_path / "out", types=("canny", "sketch"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(RefBenchError, match="holds no picture that can be used"):
        built(tmp_path / "empty", tmp_path / "out2")


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"test_share": 1.5}, "--test-share 1.5"),
        ({"limit": 0}, "--limit 0"),
        ({"samples": 0}, "--samples 0"),
        ({"personas": Path("p.txt")}, "so add --rewriter"),
        ({"formats": ("csv",)}, "--formats csv: choose from json"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_computed(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        Settings(pictures=Path("a"), out=Path("b"), **wrong)


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
