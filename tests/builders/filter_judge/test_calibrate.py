"""A judge that is left as it is, calibrated by people's marks: what it keeps and drops, and what people decide."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from scipy.stats import binomtest

from refbench.builders.filter_judge.dataset import FilterSet, Sample, write_set
from refbench.builders.filter_judge.gate import Cuts, Gate, fitted, gate_of, read_gate, write_gate
from refbench.builders.refblend.types import Type
from refbench.record import RefBenchError
from support.blend import built, write_drawings
from support.commands import called
from support.filter_marks import write_marks
from support.judge_server import JudgeServer

DAMAGE = (0, 0, 1, 0, 2, 0, 3, 4)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def reply(text: str) -> str:
    """Captions are marked as people mark them, edge maps all alike."""
    caption = re.search(r"The caption: .*?(\d+)", text)
    if caption is None:
        return '{"alignment": 4, "quality": 4}'
    return json.dumps({"alignment": 5 - DAMAGE[int(caption[1]) % 8]})


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("marked")
    write_set(write_marks(root, 160), root / "pictures", root / "set")
    return root / "set"


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(reply=reply) as started:
        yield started


def test_a_judge_is_calibrated_once_and_a_build_keeps_drops_and_asks_people(
    marked: Path, server: JudgeServer, tmp_path: Path
) -> None:
    spec = f"seer=openai:tiny?base_url={server.url}/v1"
    code, out, _ = called("calibrate", marked, "--judge", spec, "--out", tmp_path / "judge")
    assert code == 0
    assert "No cut holds for canny" in out
    gate = read_gate(tmp_path / "judge")
    assert (gate.cuts["caption"].keep, gate.cuts["caption"].drop) == (3, 2)
    captions = [s for s in FilterSet(marked).samples if s.type == "caption" and s.part != "test" and not s.made]
    kept = [s for s in captions if DAMAGE[int(s.caption.split()[-1]) % 8] <= 2]
    good = [s for s in kept if s.means()["alignment"] >= 3]
    assert (gate.cuts["caption"].keep_n, gate.cuts["caption"].n) == (len(kept), len(captions))
    low = binomtest(len(good), len(kept), alternative="greater").proportion_ci(0.95, "exact").low
    assert gate.cuts["caption"].keep_bound == pytest.approx(low, abs=1e-5)
    assert len(good) < len(kept), "people are of two minds about some"
    assert (gate.cuts["canny"].keep, gate.cuts["canny"].drop) == (None, None)
    asked = len(server.requests)
    assert asked == 2 * 144, "the test part is not looked at"
    assert called("calibrate", marked, "--judge", spec, "--out", tmp_path / "judge")[0] == 0
    assert len(server.requests) == asked

    drawings = write_drawings(tmp_path / "in", 8)
    built(drawings, tmp_path / "out", judge=str(tmp_path / "judge"), types=("canny", "caption"), samples=8)
    rows = [orjson.loads(line) for line in (tmp_path / "out" / "review.jsonl").read_bytes().splitlines()]
    dropped = {row["picture"]: row["dropped"] for row in rows if row["dropped"]}
    assert dropped == dict.fromkeys(["drawing 006.png", "drawing 007.png"], "Caption Alignment at most 2")
    assert all(row["needs_review"] for row in rows), "no mark of an edge map is trusted"
    about = json.loads(called("blend", "stats", tmp_path / "out", "--json")[1])
    assert about["needs_review"] == 6
    assert gate.id in json.dumps(about)


def test_a_judge_or_a_request_that_was_not_calibrated_is_refused(
    marked: Path, server: JudgeServer, tmp_path: Path
) -> None:
    spec = f"seer=openai:tiny?base_url={server.url}/v1"
    called("calibrate", marked, "--judge", spec, "--out", tmp_path / "judge")
    gate = read_gate(tmp_path / "judge")
    drawings = write_drawings(tmp_path / "in", 4)
    for change, said in [
        ({"judge": f"{spec}&temperature=1"}, "was calibrated for tiny"),
        ({"prompts": {**gate.prompts, "canny": "another"}}, "the request about canny has changed"),
    ]:
        write_gate(tmp_path / "other", gate.model_copy(update=change))
        with pytest.raises(RefBenchError, match=said):
            built(drawings, tmp_path / "out", judge=str(tmp_path / "other"), types=("canny", "caption"))
    (tmp_path / "empty").mkdir()
    for judge in (str(tmp_path / "empty"), "nowhere/"):
        with pytest.raises(RefBenchError, match=r"there is no judge.toml"):
            built(drawings, tmp_path / "out", judge=judge, types=("canny", "caption"))


def test_other_judges_are_none_that_was_calibrated() -> None:
    assert [
        gate_of(judge) for judge in ("openai:gpt-4o-mini", "local:weights/", "a=openai:x?base_url=http://h/v1")
    ] == [None] * 3


def test_replies_that_are_none_are_counted_and_never_become_marks(marked: Path, tmp_path: Path) -> None:
    with JudgeServer(reply=lambda text: reply(text) if "The caption" in text else "I would rather not say") as server:
        spec = f"seer=openai:tiny?base_url={server.url}/v1"
        code, _, err = called("calibrate", marked, "--judge", spec, "--out", tmp_path / "judge")
    assert (code, "144 references have no mark" in err) == (1, True)
    assert list(read_gate(tmp_path / "judge").cuts) == ["caption"]


def sample(number: int, kind: Type, mark: float) -> Sample:
    low = int(mark)
    labels = [0.0] * 5
    labels[low - 1] = 1 - (mark - low)
    labels[min(low, 4)] += mark - low
    plain = {"id": f"{kind}{number}", "part": "calibration", "type": kind, "group": number}
    return Sample(**plain, original="a", reference="b", labels={"alignment": tuple(labels)})


def test_what_lies_between_the_cuts_goes_to_people_and_so_does_what_was_never_calibrated() -> None:
    cuts = {"mask": Cuts(n=99, keep=4, drop=2)}
    gate = Gate(judge="x", model="x", parameters={}, prompts={}, set_sha256="", cuts=cuts)
    verdicts = [gate.decide("mask", {"Mask Alignment": mark}) for mark in (5, 4, 3, 2, 1)]
    assert verdicts == ["keep", "keep", "people", "drop", "drop"]
    assert gate.decide("pose", {"Pose Alignment": 5}) == "people"


def test_an_axis_with_enough_marks_has_a_map_of_its_own_and_others_an_offset() -> None:
    """A judge a mark too high about masks, and another one and a half too low about poses."""
    many = [sample(n, "mask", 1 + n % 4) for n in range(120)]
    few = [sample(n, "pose", 3 + 0.5 * (n % 2)) for n in range(20)]
    said = {s.id: {"alignment": s.means()["alignment"] + 1} for s in many}
    said |= {s.id: {"alignment": s.means()["alignment"] - 1.5} for s in few}
    _, maps = fitted([*many, *few], said)
    assert [maps["mask alignment"](mark) for mark in (2, 3, 4, 5)] == [1, 2, 3, 4]
    assert (maps["pose alignment"].n, maps["mask alignment"].offset) == (20, 0)
    corrected = [maps["pose alignment"](said[s.id]["alignment"]) - s.means()["alignment"] for s in few]
    assert np.mean(corrected) == pytest.approx(0, abs=1e-5)


def test_the_file_is_toml_that_reads_back_as_it_was(tmp_path: Path) -> None:
    gate = Gate(
        judge='a="b"\n=openai:x',
        model="é",
        parameters={"temperature": 0.5, "stop": ["a"], "deep": {"x y": True}},
        prompts={"mask": "1"},
        set_sha256="2",
        cuts={"mask": Cuts(n=3, keep=3.25), "pose": Cuts(n=1)},
    )
    write_gate(tmp_path, gate)
    assert read_gate(tmp_path) == gate
    (tmp_path / "judge.toml").write_text("judge = 3")
    with pytest.raises(RefBenchError, match=r"judge.toml: judge: .*string"):
        read_gate(tmp_path)


def test_the_test_part_is_never_calibrated_on(marked: Path) -> None:
    parts = {s.id: s.part for s in FilterSet(marked).samples}
    assert sum(part == "test" for part in parts.values()) == 32


def test_a_spent_budget_leaves_no_calibration_and_a_larger_one_goes_on(marked: Path, tmp_path: Path) -> None:
    with JudgeServer(reply=reply) as server:
        words = ["calibrate", marked, "--judge", f"seer=openai:tiny?base_url={server.url}/v1&price=1,1"]
        code, _, err = called(*words, "--out", tmp_path / "judge", "--budget", "0.02usd")
        asked = len(server.requests)
        assert (code, 0 < asked < 288, "the budget is spent" in err) == (3, True, True)
        assert not (tmp_path / "judge" / "judge.toml").exists()
        assert called(*words, "--out", tmp_path / "judge", "--budget", "5usd")[0] == 0
        assert len(server.requests) == 288
    assert read_gate(tmp_path / "judge").cuts["caption"].n == 144
