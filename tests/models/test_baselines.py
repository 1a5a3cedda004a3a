"""copy, collage and blend: the floor under every benchmark, and what each does with odd requests."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import numpy as np
import pytest

from refbench.case import Case, Picture, Request
from refbench.failure import Failure
from refbench.models.baselines.blend import TONE, Cut, background_of, cut_out, feathered, matched_tone, paste
from refbench.models.baselines.model import BaselineModel, TruthModel
from refbench.models.model import Commission, ImageModel, Painted, Shown
from refbench.networks import why_not
from refbench.pictures import Pixels, decode, encode, facts_of
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.recording_model import flat, write_pictures


def run(what: str, pictures: tuple[Shown, ...], size: tuple[int, int] | None = None, n_pictures: int = 1) -> Painted:
    model: ImageModel = BaselineModel(Spec.parse(f"baseline:{what}", "--model"))
    return asyncio.run(model.generate(Commission("ignored", pictures, size, n_pictures), 0))


def pixels_of(painted: Painted) -> Pixels:
    assert painted.failure is None, painted.failure
    found = decode(painted.pictures[0])
    assert not isinstance(found, Failure)
    return found


def disc(colour: tuple[int, int, int], ground: tuple[int, int, int]) -> tuple[Pixels, np.ndarray]:
    y, x = np.mgrid[:240, :320]
    inside = (x - 200) ** 2 + (y - 120) ** 2 < 60**2
    return np.where(inside[..., None], np.uint8(colour), np.uint8(ground)).astype(np.uint8), inside


def test_copy_gives_the_first_source_else_the_first_picture_byte_for_byte(tmp_path: Path) -> None:
    assert run("copy", write_pictures(tmp_path, "subject", "source")).pictures == (flat(101),)
    assert run("copy", write_pictures(tmp_path, "subject", "style")).pictures == (flat(100),)
    assert run("copy", write_pictures(tmp_path, "mask", "style")).pictures == (flat(101),)


def test_as_many_pictures_as_asked_for(tmp_path: Path) -> None:
    painted = run("copy", write_pictures(tmp_path, "source"), n_pictures=3)
    assert painted.pictures == (flat(100),) * 3 and painted.cost_usd == 0


def test_copy_is_cut_to_a_size_that_is_fixed(tmp_path: Path) -> None:
    painted = run("copy", write_pictures(tmp_path, "source"), size=(31, 17))
    assert pixels_of(painted).shape == (17, 31, 3)
    assert run("copy", write_pictures(tmp_path, "source"), size=(12, 10)).pictures == (flat(100),)


def test_collage_shows_every_picture_but_masks(tmp_path: Path) -> None:
    made = pixels_of(run("collage", write_pictures(tmp_path, "source", "mask", "style"), size=(200, 100)))
    colours = [p[0, 0].tolist() for n in (100, 102) if not isinstance(p := decode(flat(n)), Failure)]
    assert made.shape == (100, 200, 3)
    assert [made[50, 50].tolist(), made[50, 150].tolist()] == colours


@pytest.mark.parametrize("what", ["copy", "collage"])
def test_a_request_without_pictures_has_no_floor(what: str, tmp_path: Path) -> None:
    for pictures in ((), write_pictures(tmp_path, "mask")):
        painted = run(what, pictures)
        assert painted.pictures == () and painted.failure is not None and not painted.failure.transient


@pytest.mark.parametrize("what", ["copy", "collage"])
def test_a_broken_picture_is_a_failure_that_names_it(what: str, tmp_path: Path) -> None:
    (shown,) = write_pictures(tmp_path, "source")
    shown.path.write_bytes(flat(1)[:40])
    painted = run(what, (shown,))
    assert painted.failure is not None and painted.failure.kind == "unreadable_picture"
    assert "0.png" in painted.failure.detail
    shown.path.unlink()
    painted = run(what, (shown,))
    assert painted.failure is not None and painted.failure.kind == "unreadable_picture"


def test_an_unknown_baseline_names_the_others() -> None:
    with pytest.raises(RefBenchError, match="no baseline 'paste', there are truth, copy, collage, blend"):
        BaselineModel(Spec.parse("baseline:paste", "--model"))
    with pytest.raises(RefBenchError, match="there are truth, copy"):
        TruthModel(Spec.parse("baseline:copy", "--model"), [], lambda picture: Path(picture.name))


def test_the_truth_is_the_golden_picture_as_before(tmp_path: Path) -> None:
    (tmp_path / "gold.png").write_bytes(flat(1))
    case = Case[None](
        id="a",
        request=Request(instruction="x"),
        cluster="a",
        targets=(Picture(name="gold.png", role="target"),),
        details=None,
    )
    truth = TruthModel(Spec.parse("baseline:truth", "--model"), [case], lambda picture: tmp_path / picture.name)
    assert truth.find(case) == (tmp_path / "gold.png",)


def test_blend_without_its_network_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFBENCH_WEIGHTS", str(tmp_path))
    with pytest.raises(RefBenchError, match=r"refbench fetch u2netp|pip install"):
        BaselineModel(Spec.parse("baseline:blend", "--model"))


def blended(pictures: tuple[Shown, ...], size: tuple[int, int] | None = None) -> Painted:
    reason = why_not("u2netp")
    if reason:
        pytest.skip(reason)
    return run("blend", pictures, size)


def written(folder: Path, pictures: dict[str, Pixels]) -> tuple[Shown, ...]:
    found = []
    for name, pixels in pictures.items():
        path = folder / f"{name}.png"
        path.write_bytes(encode(pixels))
        found.append(Shown(path, name.partition("-")[0]))
    return tuple(found)


def test_the_subject_of_a_reference_stands_on_the_background_reference(tmp_path: Path) -> None:
    red, _ = disc((220, 60, 30), (90, 120, 140))
    ground = np.full((300, 400, 3), (70, 110, 60), np.uint8)
    painted = blended(written(tmp_path, {"subject": red, "background": ground}))
    made = pixels_of(painted)
    assert made.shape == ground.shape
    changed = (made != ground).any(axis=2)
    assert 0.2 < changed.mean() < 0.4, "a disc of 0.62 of the height covers 0.226 of 400 x 300"
    y, x = np.argwhere(changed).mean(axis=0)
    assert abs(x - 200) < 3 and abs(y - (0.96 - 0.31) * 300) < 4
    assert made[int(y), int(x), 0] > made[int(y), int(x), 1] + 30, "it is the red disc"
    assert painted.provenance["baseline"] == "background picture 2, subjects of pictures 1"


@pytest.mark.slow
def test_several_subjects_stand_side_by_side_in_order(tmp_path: Path) -> None:
    red, _ = disc((220, 60, 30), (90, 120, 140))
    blue, _ = disc((30, 60, 220), (200, 190, 170))
    ground = np.full((300, 600, 3), 120, np.uint8)
    made = pixels_of(blended(written(tmp_path, {"subject-1": red, "subject-2": blue, "background": ground})))
    line = made[200].astype(int)
    warmth = line[:, 0] - line[:, 2]
    assert warmth[100:200].max() > 60 and warmth[400:500].min() < -60
    assert (made[:60] == 120).all(), "nothing above them"


@pytest.mark.slow
def test_a_reference_without_a_subject_is_the_background_or_is_named(tmp_path: Path) -> None:
    red, _ = disc((220, 60, 30), (90, 120, 140))
    plain = np.full((300, 400, 3), 120, np.uint8)
    painted = blended(written(tmp_path, {"reference-1": plain, "reference-2": red}))
    assert painted.provenance["baseline"] == "background picture 1, subjects of pictures 2"
    painted = blended(written(tmp_path, {"background": plain, "style": plain, "subject": red}), (64, 48))
    assert painted.provenance["baseline"] == "background picture 1, subjects of pictures 3, no subject in 2"
    assert pixels_of(painted).shape == (48, 64, 3)


def test_one_picture_alone_is_its_own_background(tmp_path: Path) -> None:
    red, _ = disc((220, 60, 30), (90, 120, 140))
    painted = blended(written(tmp_path, {"reference": red}))
    assert np.array_equal(pixels_of(painted), red)
    assert painted.provenance["baseline"] == "background picture 1, subjects of pictures none"


@pytest.mark.parametrize(
    "roles, subjects, expected",
    [
        (("subject", "background", "source"), (True, True, True), 1),
        (("subject", "source", "style"), (True, True, False), 1),
        (("reference", "reference", "reference"), (True, False, True), 1),
        (("reference", "reference", "reference"), (True, True, True), 2),
    ],
)
def test_which_picture_is_the_background(roles: tuple[str, ...], subjects: tuple[bool, ...], expected: int) -> None:
    assert background_of(roles, subjects) == expected


def test_edges_are_soft_inwards_and_nothing_of_the_old_ground_comes_along() -> None:
    _, inside = disc((0, 0, 0), (0, 0, 0))
    alpha = feathered(inside.astype(np.uint8) * 255, 2.0)
    assert alpha[120, 200] == 1.0 and (alpha[~inside] == 0).all()
    row = alpha[120, 130:201]
    assert (np.diff(row) >= -1e-6).all(), "it rises from the edge to the middle"
    assert ((row > 0.05) & (row < 0.95)).sum() >= 4, "over several pixels"
    thin = np.zeros((50, 50), np.uint8)
    thin[25] = 255
    assert feathered(thin, 2.0).max() > 0.1, "a line is not drawn in to nothing"


def test_tone_moves_halfway_to_the_ground() -> None:
    subject = np.full((20, 20, 3), 200, np.uint8)
    ground = np.full((20, 20, 3), 40, np.uint8)
    toned = matched_tone(subject, np.ones((20, 20), bool), ground)
    # Of greys Lab has only L, and L* of a grey is 116 f(Y) - 16: halfway in L, back to sRGB by the inverse formula.
    assert toned.std() < 0.5
    assert TONE == 0.5 and _lightness(float(toned.mean())) == pytest.approx(
        (_lightness(200) + _lightness(40)) / 2, abs=0.5
    )


def _lightness(grey: float) -> float:
    value = grey / 255
    linear = value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
    return 116 * linear ** (1 / 3) - 16 if linear > 0.008856 else 903.3 * linear


def test_the_ground_is_untouched_where_no_subject_stands() -> None:
    rng = np.random.default_rng(0)
    ground = rng.integers(0, 256, (100, 150, 3), dtype=np.uint8)
    assert np.array_equal(paste(ground, []), ground)
    picture, inside = disc((220, 60, 30), (90, 120, 140))
    cut = cut_out(picture, inside.astype(np.uint8) * 255)
    assert cut.mask.shape == (119, 119) and not cut.cropped
    made = paste(ground, [cut])
    assert np.array_equal(made[:30], ground[:30]) and not np.array_equal(made, ground)


def test_a_bust_stands_on_the_lower_edge_and_not_in_the_air() -> None:
    ground = np.full((200, 200, 3), 90, np.uint8)
    full = np.full((80, 60), 255, np.uint8)
    pixels = np.full((80, 60, 3), (200, 50, 50), np.uint8)
    bust = paste(ground, [Cut(pixels, full, cropped=True)])
    assert bust[199, 100, 0] > bust[199, 100, 1] + 20
    standing = paste(ground, [Cut(pixels, full)])
    assert (standing[199] == 90).all()


@pytest.mark.slow
def test_equal_requests_give_equal_pictures(tmp_path: Path) -> None:
    red, _ = disc((220, 60, 30), (90, 120, 140))
    shown = written(tmp_path, {"subject": red, "background": red[:, ::-1]})
    for what in ("copy", "collage"):
        a, b = run(what, shown), run(what, shown)
        assert hashlib.sha256(a.pictures[0]).digest() == hashlib.sha256(b.pictures[0]).digest()
        assert not isinstance(facts_of(a.pictures[0]), Failure)
    assert blended(shown).pictures == blended(shown).pictures
