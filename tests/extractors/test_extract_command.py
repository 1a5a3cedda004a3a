"""`refbench extract`, called as the command calls it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import orjson
import pytest

from refbench.cli.extract import extract_command
from refbench.pictures import encode
from refbench.record import RefBenchError
from support.judge_server import JudgeServer


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    rng = np.random.default_rng(0)
    paths = [tmp_path / "in" / name for name in ("a.png", "b.png")]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_bytes(encode(rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)))
    return paths


def test_edges_are_written_for_each_picture(pictures: list[Path], tmp_path: Path, capsys: Any) -> None:
    assert extract_command("canny", pictures, out=tmp_path / "out") == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a.png", "b.png"]
    assert cv2.imread(str(tmp_path / "out/a.png"), cv2.IMREAD_UNCHANGED).shape == (40, 50)
    assert "2 of 2 pictures" in capsys.readouterr().out


def test_a_broken_picture_is_said_and_the_others_are_made(pictures: list[Path], tmp_path: Path, capsys: Any) -> None:
    pictures[0].write_bytes(b"")
    assert extract_command("sketch_dodge", pictures, out=tmp_path / "out", json=True) == 1
    rows = orjson.loads(capsys.readouterr().out)
    assert "empty" in rows[0]["failure"] and rows[1]["file"].endswith("b.png")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["b.png"]


def test_captions_are_written_by_a_vlm(pictures: list[Path], tmp_path: Path) -> None:
    with JudgeServer(reply=lambda _: "Coloured noise.") as server:
        assert (
            extract_command("caption", pictures, out=tmp_path / "out", vlm=f"openai:tiny?base_url={server.url}/v1") == 0
        )
        assert len(server.requests) == 2
    assert (tmp_path / "out/b.txt").read_text() == "Coloured noise.\n"


@pytest.mark.parametrize(
    "name, change, says",
    [
        ("cany", {}, "did you mean canny"),
        ("caption", {}, "add --vlm"),
        ("canny", {"pictures": [Path("nowhere.png")]}, "nowhere.png is not there"),
        ("canny", {"out": "in"}, "would be overwritten"),
        ("canny", {"out": "in/a.png"}, "is a file"),
    ],
)
def test_a_users_mistake_is_one_sentence(
    name: str, change: dict[str, Any], says: str, pictures: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / change.get("out", "out")
    with pytest.raises(RefBenchError, match=says):
        extract_command(name, change.get("pictures", pictures), out=out)


def test_two_pictures_of_one_name_are_not_written_over_each_other(pictures: list[Path], tmp_path: Path) -> None:
    twin = tmp_path / "a.jpg"
    twin.write_bytes(pictures[0].read_bytes())
    with pytest.raises(RefBenchError, match="two pictures would be written"):
        extract_command("canny", [*pictures, twin], out=tmp_path / "out")
