"""Damages of what a picture shows first: cut out, pasted, lifted, doubled, recoloured, smoothed. Masks are by u2netp,
what is under them by yolov4_tiny."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.builders.audit.filling import filled
from refbench.builders.audit.looks import fine
from refbench.builders.audit.scene import Away, Check, Made, Mask, Scene
from refbench.pictures import Pixels

SEAM = 6
"""Pixels around a mask in which a damage may still change something."""
LEAST_SUBJECT, MOST_SUBJECT = 0.015, 0.6
"""Shares of the picture between which something is a subject that can be taken out."""
MOST_SUBJECTS = 3
LARGER = 1.6
LIFT = 0.2
_TURN = 120.0
_LEAST_TEXTURE = 4.0
_LEAST_CHROMA, _STRONG_CHROMA = 5.0, 16.0
_SURE = 0.3
"""Score from which on an object counts as one."""
_SAME = 0.3
_HIDDEN = 0.3
"""Share of another subject from which on it counts as hidden."""


@dataclass(frozen=True)
class Subject:
    """One of the subjects of a picture: where it is, and what the detector calls it ("" where it says nothing)."""

    mask: Mask
    label: str
    box: tuple[int, int, int, int]
    """Left, top, right, bottom."""

    @property
    def share(self) -> float:
        return float(self.mask.mean())


def subjects(scene: Scene) -> list[Subject]:
    """What stands out in the output, largest first."""
    return scene.seeing.once("subjects", scene.output, lambda: _subjects(scene))


def _subjects(scene: Scene) -> list[Subject]:
    seen = scene.seeing.feature("u2netp", scene.output)
    if seen is None:
        return []
    mask = np.asarray(seen["mask"] > 0, np.uint8)
    wide = max(3, round(0.006 * max(mask.shape)) | 1)
    closed = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((wide, wide), np.uint8))
    count, labels = cv2.connectedComponents(_without_holes(closed))
    parts = [piece for n in range(1, count) for piece in _apart(scene, labels == n)]
    large = sorted((part for part in parts if part.mean() >= LEAST_SUBJECT), key=lambda part: -float(part.mean()))
    return [Subject(part, _label(scene, part), _box(part)) for part in large[:MOST_SUBJECTS]]


def _without_holes(mask: NDArray[Any]) -> NDArray[np.uint8]:
    """The mask with what it surrounds: an arch is part of its tower, and would be left hanging in the air."""
    padded = np.pad(mask, 1).astype(np.uint8)
    outside = np.zeros((padded.shape[0] + 2, padded.shape[1] + 2), np.uint8)
    cv2.floodFill(padded, outside, (0, 0), 2)
    return np.asarray(padded[1:-1, 1:-1] != 2, np.uint8)


def _objects(scene: Scene, pixels: Pixels) -> list[tuple[NDArray[np.float32], str, float]]:
    seen = scene.seeing.feature("yolov4_tiny", pixels)
    if seen is None:
        return []
    found = zip(seen["boxes"], seen["labels"], seen["scores"], strict=True)
    return [(box, str(label), float(score)) for box, label, score in found if score >= _SURE]


def _apart(scene: Scene, part: Mask) -> list[Mask]:
    """One piece of the mask, split where the detector sees several things in it that hardly overlap."""
    within: list[NDArray[np.float32]] = []
    for box, _, _ in _objects(scene, scene.output):
        left, top, right, bottom = (int(v) for v in np.clip(np.rint(box), 0, None))
        there = part[top:bottom, left:right]
        apart = all(_overlap(box, other) < _SAME for other in within)
        if there.size and there.mean() > 0.4 and there.sum() > 0.1 * part.sum() and apart:
            within.append(box)
    if len(within) < 2:
        return [part]
    rows, columns = np.indices(part.shape)
    away = []
    for left, top, right, bottom in within:
        x, y = (left + right) / 2, (top + bottom) / 2
        away.append(np.maximum(np.abs(columns - x) / (right - left), np.abs(rows - y) / (bottom - top)))
    nearest = np.argmin(away, axis=0)
    return [part & (nearest == n) for n in range(len(within))]


def _box(part: Mask) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
    return int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1


def _label(scene: Scene, part: Mask) -> str:
    box = np.array(_box(part), np.float32)
    found = [(_overlap(box, one), label) for one, label, _ in _objects(scene, scene.output)]
    best = max(found, default=(0.0, ""))
    return best[1] if best[0] >= _SAME else ""


def _overlap(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = float(width * height)
    return both / float((one[2] - one[0]) * (one[3] - one[1]) + (other[2] - other[0]) * (other[3] - other[1]) - both)


def _first(scene: Scene, most: float = MOST_SUBJECT) -> Subject | Away:
    """The largest subject, or why there is none to damage."""
    if lacking := scene.seeing.lacks("u2netp"):
        return Away(lacking)
    found = subjects(scene)
    if not found:
        return Away("no subject stands out")
    if found[0].share > most:
        return Away(f"the subject fills more than {most:.0%} of the picture")
    return found[0]


def wider(mask: Mask, pixels: int) -> Mask:
    """The mask with so many pixels more around it."""
    if pixels < 1:
        return mask
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * pixels + 1, 2 * pixels + 1))
    return cv2.dilate(mask.astype(np.uint8), disc) > 0


def _fringe(mask: Mask) -> int:
    """How far the edge of a subject may lie outside of its mask: that was found at 320 pixels a side."""
    return max(2, round(0.012 * float(max(mask.shape))))


def _emptied(scene: Scene, hole: Mask) -> Pixels:
    """The output with a hole filled, the same for whoever asks."""
    key = f"filled {int(hole.sum())} {_box(hole)}"
    return scene.seeing.once(key, scene.output, lambda: filled(scene.output, hole, scene.draws("filling")))


def gone(scene: Scene, strength: int) -> Made | Away:
    """The largest subject cut out and the hole filled; of strength n, the n largest."""
    first = _first(scene)
    if isinstance(first, Away):
        return first
    chosen = subjects(scene)[:strength]
    if len(chosen) < strength:
        return Away(f"it has {len(chosen)} subjects")
    mask = np.any([subject.mask for subject in chosen], axis=0)
    if mask.mean() > MOST_SUBJECT:
        return Away(f"the subjects fill more than {MOST_SUBJECT:.0%} of the picture")
    hole = wider(mask, _fringe(mask))
    made = _emptied(scene, hole)
    left = max(_still_seen(scene, made, subject) for subject in chosen)
    check = Check(name="what the detector still sees of it", value=left, most=0.5)
    return Made({0: made}, checks=(check,), inside=wider(hole, SEAM))


def _still_seen(scene: Scene, made: Pixels, subject: Subject) -> float:
    """The detector's overlap with the subject where it knew what it is, else how much of it still stands out."""
    if subject.label:
        box = np.array(subject.box, np.float32)
        return max(
            (_overlap(box, one) for one, label, _ in _objects(scene, made) if label == subject.label), default=0.0
        )
    after = scene.seeing.feature("u2netp", made)
    if after is None:
        return 0.0
    mask = after["mask"] > 0
    return float((mask & subject.mask).sum() / max(int((mask | subject.mask).sum()), 1))


def pasted(scene: Scene, strength: int) -> Made | Away:
    """The subject pasted where it stood at another scale, with a hard edge and light from the wrong side: larger where
    the picture has room for that, else as much smaller on the filled ground."""
    subject = _first(scene)
    if isinstance(subject, Away):
        return subject
    height, width = subject.mask.shape
    left, top, right, bottom = subject.box
    fits = LARGER * (right - left) <= width and LARGER * (bottom - top) <= height
    scale, ground, hole = LARGER, scene.output, np.zeros_like(subject.mask)
    if not fits:
        hole = wider(subject.mask, _fringe(subject.mask))
        scale, ground = 1 / LARGER, _emptied(scene, hole)
    # It stands where it stood, and within the picture.
    middle = (left + right) / 2
    half = scale * (right - left) / 2
    to = min(max(middle, half), width - half)
    foot = max(float(bottom), scale * (bottom - top))
    matrix = np.array([[scale, 0, to - scale * middle], [0, scale, foot - scale * bottom]])
    size = width, height
    mask = cv2.warpAffine(subject.mask.astype(np.uint8), matrix, size, flags=cv2.INTER_NEAREST) > 0
    moved = cv2.warpAffine(scene.output, matrix, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    made = np.where(mask[..., None], _wrongly_lit(np.asarray(moved, np.uint8), mask), ground)
    check = Check(name="share of the picture that is pasted", value=float(mask.mean()), least=0.03)
    return Made({0: made}, checks=(check,), inside=wider(mask | hole, SEAM if hole.any() else 0))


def _wrongly_lit(pixels: Pixels, mask: Mask) -> Pixels:
    """Bright on the side where the subject is dark, and in another colour of light."""
    luma = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
    columns = np.nonzero(mask)[1]
    if not len(columns):
        return pixels
    middle = float(columns.mean())
    places = np.arange(mask.shape[1], dtype=np.float32)
    sides = [
        float(luma[mask & side].mean()) if (mask & side).any() else 0.0
        for side in ((places < middle)[None], (places >= middle)[None])
    ]
    across = np.clip((places - middle) / max(float(np.ptp(columns)) / 2, 1.0), -1, 1)
    gain = 1.0 + 0.5 * across * (1 if sides[0] >= sides[1] else -1)
    warm = float(pixels[..., 0].mean()) < float(pixels[..., 2].mean()) + 12
    cast = np.array([1.18, 1.0, 0.78] if warm else [0.78, 1.0, 1.2], np.float32)
    return np.asarray(np.clip(np.rint(pixels * gain[None, :, None] * cast), 0, 255), np.uint8)


def lifted(scene: Scene, strength: int) -> Made | Away:
    """The subject a fifth of the picture higher, the place where it stood filled."""
    subject = _first(scene, 0.4)
    if isinstance(subject, Away):
        return subject
    height = subject.mask.shape[0]
    _, top, _, bottom = subject.box
    lift = round(LIFT * height)
    if bottom >= height - 2:
        return Away("the subject is cut off by the lower edge")
    if top < lift / 2:
        return Away("there is no room above the subject")
    hole = wider(subject.mask, _fringe(subject.mask))
    made, place = _placed(scene, _emptied(scene, hole), subject.mask, (0, -lift))
    shift = Check(name="share of the height that it moved", value=lift / height, least=0.15)
    seen = Check(
        name="share of the subject that is still there", value=float(place.sum() / subject.mask.sum()), least=0.7
    )
    return Made({0: made}, checks=(shift, seen), inside=wider(hole | place, SEAM))


def _placed(scene: Scene, ground: Pixels, mask: Mask, step: tuple[int, int]) -> tuple[Pixels, Mask]:
    """What is under the mask put onto a picture, so far to the right and down, with a soft edge inside of it."""
    height, width = mask.shape
    matrix = np.array([[1.0, 0, step[0]], [0, 1.0, step[1]]])
    place = cv2.warpAffine(mask.astype(np.uint8), matrix, (width, height), flags=cv2.INTER_NEAREST) > 0
    moved = cv2.warpAffine(
        scene.output, matrix, (width, height), flags=cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE
    )
    soft = np.clip(cv2.distanceTransform(np.pad(place, 1).astype(np.uint8), cv2.DIST_L2, 3)[1:-1, 1:-1] / 3, 0, 1)
    mixed = moved * soft[..., None] + ground * (1 - soft[..., None])
    return np.where(place[..., None], np.rint(mixed), ground).astype(np.uint8), place


def twice(scene: Scene, strength: int) -> Made | Away:
    """The subject a second time, beside itself."""
    subject = _first(scene, 0.4)
    if isinstance(subject, Away):
        return subject
    left, _, right, _ = subject.box
    width, wide = subject.mask.shape[1], right - left
    room = {-1: left, 1: width - right}
    sides = [side for side in sorted(room, key=lambda one: -room[one]) if room[side] >= 0.85 * wide]
    if not sides:
        return Away("there is no room beside the subject")
    for side in sides:
        made, place = _placed(scene, scene.output, subject.mask, (side * min(wide, room[side]), 0))
        if not _covers_another(scene, subject, place):
            break
    else:  # one goes as the other comes: the picture would have as many as before
        return Away("it would cover another subject")
    if subject.label:
        before, after = (
            sum(label == subject.label for _, label, _ in _objects(scene, p)) for p in (scene.output, made)
        )
        there = np.array(_box(place), np.float32)
        # A second one may be seen where it stands and be called something else.
        found = any(_overlap(there, box) >= _SAME for box, _, _ in _objects(scene, made))
        more = max(after - before, int(found))
        check = Check(name=f"how many more of them the detector sees ({subject.label})", value=more, least=1)
    else:
        fresh = place & ~subject.mask
        check = Check(
            name="share of the second one that is seen", value=float(fresh.sum() / subject.mask.sum()), least=0.6
        )
    return Made({0: made}, checks=(check,), inside=wider(place, SEAM))


def _covers_another(scene: Scene, subject: Subject, place: Mask) -> bool:
    """Whether something put into this place hides another subject, or another thing that the detector knows."""
    others = [other.mask for other in subjects(scene) if other is not subject]
    own = np.array(subject.box, np.float32)
    for box, _, _ in _objects(scene, scene.output):
        if _overlap(own, box) < _SAME:
            left, top, right, bottom = (int(v) for v in np.clip(np.rint(box), 0, None))
            mask = np.zeros_like(place)
            mask[top:bottom, left:right] = ~subject.mask[top:bottom, left:right]
            others.append(mask)
    return any((place & mask).sum() > _HIDDEN * mask.sum() for mask in others)


def recoloured(scene: Scene, strength: int) -> Made | Away:
    """The subject's hue turned by 120 degrees, its lightness as it was."""
    subject = _first(scene, 0.8)
    if isinstance(subject, Away):
        return subject
    lab = cv2.cvtColor(scene.output.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    turn = np.deg2rad(_TURN)
    chroma = float(np.hypot(lab[..., 1], lab[..., 2])[subject.mask].mean())
    if chroma < _LEAST_CHROMA:
        return Away("the subject has hardly any colour")
    # Pale colours are made stronger as well: turned alone, they would hardly differ.
    a, b = lab[..., 1:].transpose(2, 0, 1) * min(max(_STRONG_CHROMA / chroma, 1.0), 2.5)
    turned = np.stack([lab[..., 0], a * np.cos(turn) - b * np.sin(turn), a * np.sin(turn) + b * np.cos(turn)], -1)
    rgb = np.clip(np.rint(cv2.cvtColor(turned.astype(np.float32), cv2.COLOR_LAB2RGB) * 255), 0, 255)
    made = _inside_softly(scene.output, rgb, subject.mask)
    after = cv2.cvtColor(made.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    moved = float(np.linalg.norm(after - lab, axis=-1)[subject.mask].mean())
    checks = (Check(name="delta E of the subject", value=moved, least=20), _outside(scene, made, subject.mask))
    return Made({0: made}, checks=checks, inside=wider(subject.mask, SEAM))


def _inside_softly(pixels: Pixels, changed: NDArray[np.float32], mask: Mask) -> Pixels:
    """The changed picture under the mask, with an edge of a few pixels around it."""
    away = cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, 3)
    soft = np.clip(1 - away / (SEAM - 1), 0, 1)[..., None]
    mixed = np.clip(np.rint(changed * soft + pixels * (1 - soft)), 0, 255).astype(np.uint8)
    return np.where(soft > 0, mixed, pixels)


def _outside(scene: Scene, made: Pixels, mask: Mask) -> Check:
    """How different the surroundings look to a network, the subject and its seam blackened in both."""
    around = ~wider(mask, SEAM)[..., None]
    before, after = scene.output * around, made * around
    same = np.array_equal(before, after) or scene.seeing.lacks("lpips_alex")
    return Check(name="LPIPS outside of it", value=0.0 if same else scene.seeing.distance(before, after), most=0.05)


def smoothed(scene: Scene, strength: int) -> Made | Away:
    """The subject without its texture: patterns, fur and lettering gone, outlines and colours kept."""
    subject = _first(scene, 0.8)
    if isinstance(subject, Away):
        return subject
    core = ~wider(~subject.mask, SEAM)
    if not core.any() or fine(scene.output, core) < _LEAST_TEXTURE:
        return Away("the subject has hardly any texture")
    reach = 0.025 * max(subject.mask.shape)
    # Around the subject stand its own colours, so that nothing of the background bleeds into it.
    inside = subject.mask.astype(np.float32)
    weight = np.maximum(cv2.GaussianBlur(inside, (0, 0), reach), 1e-3)[..., None]
    mean = cv2.GaussianBlur(scene.output * inside[..., None], (0, 0), reach) / weight
    plain = np.where(subject.mask[..., None], scene.output, np.clip(mean, 0, 255)).astype(np.uint8)
    for _ in range(3):
        smooth = cv2.edgePreservingFilter(plain, flags=cv2.RECURS_FILTER, sigma_s=reach, sigma_r=0.45)
        plain = np.asarray(smooth, np.uint8)
    made = _inside_softly(scene.output, plain.astype(np.float32), subject.mask)
    left = fine(made, core) / fine(scene.output, core)
    check = Check(name="fine detail left in the subject", value=left, most=0.6)
    return Made({0: made}, checks=(check, _outside(scene, made, subject.mask)), inside=wider(subject.mask, SEAM))
