"""Copies are flagged and edits are not, as measured on real pictures; what cannot be opened is said."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

import refbench
from refbench.analysis.copies import NEAR, Copy, distance, flag_of, near_copies
from refbench.cli.precision import precision_command
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.output import Output, StoredPicture
from refbench.pictures import Pixels, decode, encode, facts_of, resize
from refbench.runs import Run
from support.checkout import METRICS, plain_items, reply_text, write_checkout


@pytest.fixture(scope="module")
def photographs(creval_mini: Path) -> list[Pixels]:
    """Every sixth of CREval's real source pictures."""
    found = [decode(path.read_bytes()) for path in sorted((creval_mini / "bench/image").iterdir())[::6]]
    return [picture for picture in found if not isinstance(picture, Failure)]


def again(picture: Pixels, quality: int) -> Pixels:
    found = decode(encode(picture, "jpeg", quality=quality))
    assert not isinstance(found, Failure)
    return found


def scene(seed: int = 0) -> Pixels:
    """A smooth picture of random colours."""
    small = np.random.default_rng(seed).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    return resize(small, (320, 240), "bicubic")


def test_the_same_picture_stored_otherwise_is_a_copy(photographs: list[Pixels]) -> None:
    for picture in photographs:
        height, width = picture.shape[:2]
        others = {
            "jpeg 50": again(picture, 50),
            "half size": again(resize(picture, (width // 2, height // 2), "bicubic"), 80),
            "a square": resize(picture, (768, 768), "lanczos"),
            "brighter by 3 %": np.clip(picture * 1.03, 0, 255).astype(np.uint8),
            "noise": np.clip(picture + np.random.default_rng(1).normal(0, 8, picture.shape), 0, 255).astype(np.uint8),
        }
        for name, other in others.items():
            assert distance(other, picture) <= NEAR, name


def test_a_slight_edit_is_no_copy(photographs: list[Pixels]) -> None:
    rng = np.random.default_rng(2)
    for n, picture in enumerate(photographs):
        height, width = picture.shape[:2]
        high, wide = int(height * 0.05**0.5), int(width * 0.05**0.5)
        top, left = rng.integers(0, height - high), rng.integers(0, width - wide)
        put_in = picture.copy()
        put_in[top : top + high, left : left + wide] = resize(photographs[n - 1], (wide, high))
        assert distance(put_in, picture) > NEAR
        assert distance(np.clip(picture * 1.2, 0, 255).astype(np.uint8), picture) > NEAR
        assert distance(photographs[n - 1], picture) > NEAR


def test_the_hue_of_a_quarter_is_seen_unless_there_was_no_colour(photographs: list[Pixels]) -> None:
    missed = 0
    for picture in photographs:
        height, width = picture.shape[:2]
        turned = picture.copy()
        part = cv2.cvtColor(picture[: height // 2, : width // 2], cv2.COLOR_RGB2HSV)
        part[..., 0] = (part[..., 0].astype(int) + 60) % 180
        turned[: height // 2, : width // 2] = cv2.cvtColor(part, cv2.COLOR_HSV2RGB)
        missed += distance(turned, picture) <= NEAR
    assert missed <= 0.1 * len(photographs)


def test_a_thumbnail_is_flagged_as_its_picture_is(photographs: list[Pixels]) -> None:
    for picture in photographs:
        scale = 320 / max(picture.shape[:2])
        small = resize(picture, (round(picture.shape[1] * scale), round(picture.shape[0] * scale)), "lanczos")
        assert distance(again(small, 85), picture) <= NEAR


def test_the_middle_cut_to_another_aspect_is_a_copy() -> None:
    picture = scene()
    assert distance(np.ascontiguousarray(picture[:, 40:280]), picture) <= NEAR


def test_the_nearest_picture_is_named(tmp_path: Path) -> None:
    for name, picture in (("source", scene(1)), ("other", scene(2)), ("out", again(scene(2), 90))):
        (tmp_path / f"{name}.png").write_bytes(encode(picture))
    found = flag_of(tmp_path / "out.png", [tmp_path / "source.png"], [tmp_path / "other.png"])
    assert isinstance(found, Copy)
    assert (found.flag, found.against) == ("near_reference", "other.png")
    assert flag_of(tmp_path / "out.png", [tmp_path / "source.png"], []) is None
    assert flag_of(tmp_path / "out.png", [], []) is None


def test_a_picture_that_cannot_be_opened_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "out.png").write_bytes(encode(scene(1)))
    (tmp_path / "cut.png").write_bytes(encode(scene(1))[:200])
    said = flag_of(tmp_path / "out.png", [tmp_path / "gone.png"], [])
    assert isinstance(said, Failure)
    assert "gone.png" in said.detail
    assert isinstance(flag_of(tmp_path / "cut.png", [tmp_path / "out.png"], []), Failure)
    # What can be opened may still show a copy.
    found = flag_of(tmp_path / "out.png", [tmp_path / "gone.png"], [tmp_path / "out.png"])
    assert isinstance(found, Copy)


@pytest.fixture
def painted(tmp_path: Path) -> tuple[Run, Path]:
    """Three CREval items: `lazy` gives the source back (once damaged on disk), `busy` paints something else."""
    root = write_checkout(tmp_path / "creval", plain_items(3))
    cases = refbench.load("creval", root).cases
    run = Run.create(tmp_path / "run", "creval", cases)
    with run.writer() as writer:
        for n, case in enumerate(cases):
            source = (root / "bench" / case.request.pictures[0].name).read_bytes()
            for model, data in (("lazy", source), ("busy", encode(scene(n)))):
                facts = facts_of(data)
                assert not isinstance(facts, Failure)
                run.blobs.put(data, facts.format)
                writer.add_output(Output(case=case.id, model=model, pictures=(StoredPicture.of(facts),)))
                for metric in METRICS:
                    reply = reply_text([(f"Q{q}", "Yes") for q in range(1, 6)])
                    purpose = Purpose(case=case.id, model=model, judge="j", part=metric)
                    writer.add(Evidence(kind="chat", request={"for": [case.id, model, metric]}, reply=reply), purpose)
    return run, root


def test_a_model_that_gives_the_source_back_is_flagged(painted: tuple[Run, Path]) -> None:
    run, root = painted
    dataset = refbench.load("creval", root)
    found = near_copies(run, dataset.cases, dataset.path)
    assert {(flag.model, flag.flag) for flag in found.flags} == {("lazy", "near_source")}
    assert len(found.flags) == 3
    assert {flag.distance for flag in found.flags} == {0.0}
    assert found.checked == {"lazy": 3, "busy": 3}
    assert not found.not_checked


def test_outputs_without_their_source_are_said_to_be_unchecked(painted: tuple[Run, Path]) -> None:
    run, root = painted
    dataset = refbench.load("creval", root)
    dataset.path(dataset.cases[0].request.pictures[0]).unlink()
    found = near_copies(run, dataset.cases, dataset.path)
    assert {(one.case, one.model) for one in found.not_checked} == {
        (dataset.cases[0].id, "lazy"),
        (dataset.cases[0].id, "busy"),
    }
    assert found.checked == {"lazy": 2, "busy": 2}


def test_the_command_names_the_copies(painted: tuple[Run, Path], capsys: pytest.CaptureFixture[str]) -> None:
    run, root = painted
    assert precision_command(run.path, data=root) == 0
    assert "lazy: 3 of 3 outputs are nearly the source" in capsys.readouterr().out
