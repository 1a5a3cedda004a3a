"""The build as a whole: the same bytes whatever happens on the way, and a sentence for whatever a user gets wrong."""

from __future__ import annotations

import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from refbench.builders.refblend.settings import Settings
from refbench.builders.refblend.writing import owned_directory
from refbench.pictures import encode
from refbench.record import RefBenchError
from support.blend import built, drawing, tree, write_drawings
from support.campaigns import slow


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
from refbench.builders.refblend.build import build
from refbench.builders.refblend.settings import Settings

def tell(line):
    stage, _, rest = line.partition(": ")
    if stage == sys.argv[3] and int(rest.split()[0]) >= int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)

settings = Settings(Path(sys.argv[1]), out=Path(sys.argv[2]), types=("canny,sketch_dodge,caption",), samples="all")
asyncio.run(build(settings, tell))
"""


@pytest.mark.parametrize(
    "at", [slow("sources 1"), slow("references 1"), "references 20", slow("samples 1"), slow("written 1")]
)
def test_a_build_that_is_killed_and_run_again_gives_the_same_bytes(
    drawings: Path, whole: dict[str, str], tmp_path: Path, at: str
) -> None:
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(drawings), str(out), *at.split()], check=False)
    assert killed.returncode == -signal.SIGKILL
    before = {path: path.stat().st_mtime_ns for path in (out / "work/references").rglob("*.png")}
    built(drawings, out, types=("canny", "sketch_dodge", "caption"), samples="all", test_share=0.1)
    assert tree(out) == whole
    on_record = (out / "work/references.jsonl").read_text()
    kept = {path for path, time in before.items() if path.stat().st_mtime_ns == time}
    # Only what was written but not yet on record when it was killed may have been made again.
    assert len(before) - len(kept) <= 16
    assert all(path.stem in on_record for path in before)


def test_the_same_command_again_makes_nothing_anew(drawings: Path, whole: dict[str, str], tmp_path: Path) -> None:
    first = built(drawings, tmp_path / "out", types=("canny", "sketch_dodge", "caption"), samples="all", test_share=0.1)
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").rglob("*") if p.suffix in (".png", ".tar")}
    assert tree(tmp_path / "out") == whole, "a process of one's own and another's give the same"
    again = built(drawings, tmp_path / "out", types=("canny", "sketch_dodge", "caption"), samples="all", test_share=0.1)
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


def test_the_looks_of_all_pictures_are_compared_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number squared: five times, for the split and twice for each kind of groups, would be felt."""
    from refbench.builders.refblend import split

    calls: list[int] = []
    real = split.lookalikes
    monkeypatch.setattr(split, "lookalikes", lambda looks: calls.append(len(looks)) or real(looks))
    for number, name in enumerate(("cup", "hat")):
        write_drawings(tmp_path / "in" / name, 3, start=700 + 10 * number)
    built(tmp_path / "in", tmp_path / "out", layout="subjects", types=("canny", "subject", "style"))
    assert calls == [6]


def test_broken_pictures_are_told_and_too_many_of_them_are_exit_code_1(
    tmp_path: Path, run_cli: Callable[..., tuple[int, str, str]]
) -> None:
    folder = write_drawings(tmp_path / "in", 8)
    (folder / "broken.png").write_bytes(encode(drawing(30))[:200])
    (folder / "twice.png").write_bytes(encode(drawing(0)))
    for most, code in (("0.2", 0), ("0.1", 1)):
        ended, said, wrong = run_cli("blend", *asked(folder, tmp_path / "out"), "--max-failed", most, "--json")
        assert ended == code, wrong
        assert ("more than --max-failed" in wrong) == bool(code)
    found = orjson.loads(said)
    assert found["pictures"]["skipped"] == {"duplicate": 1, "unreadable": 1}
    assert found["pictures"]["failed"] == 1
    dropped = [orjson.loads(line) for line in (tmp_path / "out/dropped.jsonl").read_bytes().splitlines()]
    assert {one["id"]: one["reason"] for one in dropped if one["what"] == "picture"} == {
        "broken.png": "unreadable",
        "twice.png": "duplicate",
    }
    assert orjson.loads(run_cli("blend", "stats", tmp_path / "out", "--json")[1]) == found


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
        built(folder, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RefBenchError, match="holds no picture that can be used"):
        built(tmp_path / "empty", tmp_path / "out2")


def test_samples_with_one_picture_alone_are_said_with_the_way_to_more(tmp_path: Path) -> None:
    """A caption is text: `canny+caption` shows a model one picture."""
    folder, told = write_drawings(tmp_path / "in", 3), list[str]()
    built(folder, tmp_path / "single", told.append, types=("canny,sketch_dodge,caption",))
    (said,) = [line for line in told if line.startswith("no sample has two references that are pictures")]
    assert "subject (left out by --types)" in said
    told.clear()
    built(folder, tmp_path / "ungrouped", told.append, types=("canny,caption,style",))
    assert any("style (the source does not say which pictures share a style (--layout styles" in line for line in told)
    grouped = write_drawings(tmp_path / "styles" / "one", 3)
    told.clear()
    built(grouped.parent, tmp_path / "several", told.append, types=("canny,caption,style",), layout="styles")
    assert not any("no sample has two" in line for line in told)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"test_share": 1.5}, "--test-share 1.5"),
        ({"limit": 0}, "--limit 0"),
        ({"samples": 0}, "--samples 0"),
        ({"personas": Path("p.txt")}, "so add --rewriter"),
        ({"formats": ("csv",)}, "--formats csv: choose from json"),
        ({"several": ("canny=2",)}, "2 references of type canny in one sample: table7 allows several of pose, subject"),
        ({"several": ("subject=0",)}, "0 references of type subject"),
        ({"types": ("canny", "sketch")}, "--types canny, sketch: table7 allows no set of these"),
        ({"budget": "much"}, "--budget much"),
        ({"concurrency": 0}, "--concurrency"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_computed(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(RefBenchError, match=said):
        Settings(pictures=Path("a"), out=Path("b"), **wrong)


def test_other_keypoints_are_another_picture_in_the_shards_too(tmp_path: Path) -> None:
    """The entry of a sample says nothing of keypoints: a shard that looked at entries alone would keep the old pose."""
    folder = write_drawings(tmp_path / "in", 2)
    for shift in (0, 20):
        person = [[10.0 + shift + 3 * n, 20.0 + 2 * n, 2.0] for n in range(17)]
        rows = [{"image": f"drawing {n:03d}.png", "caption": "a person", "people": [person]} for n in range(2)]
        (folder / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
        built(folder / "rows.jsonl", tmp_path / "out", types=("pose", "caption"), test_share=0.0)
    with tarfile.open(tmp_path / "out/webdataset/train-00000.tar") as tar:
        for entry in entries(tmp_path / "out"):
            file = tar.extractfile(f"{entry['id']}.pose_image.png")
            assert file is not None
            assert file.read() == (tmp_path / "out" / entry["conditions"]["pose_path"]).read_bytes()
