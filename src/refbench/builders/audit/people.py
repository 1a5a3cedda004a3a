"""Damages of people: another face, a limb too many. Faces by dlib_face, joints by blazepose."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.builders.audit.scene import Away, Check, Made, Mask, Scene
from refbench.builders.audit.subjects import SEAM, wider
from refbench.networks.network import load_network
from refbench.networks.small.arcface import similarity
from refbench.pictures import Pixels

_Floats = NDArray[np.float32]

_LEAST_FACE = 40
"""Pixels a side of a face that can be exchanged for another one."""
_STRANGER = 0.55
"""dlib's distance from which on two faces are taken for two people's; 0.6 is its own threshold."""
_FACES_TRIED = 12

LIMBS = ((7, 9), (8, 10), (13, 15), (14, 16))
"""Joints between which a forearm or a lower leg lies, in COCO's order; arms come first."""
_SEEN = 0.5
_BEYOND = 1.75
"""Of the way from elbow to wrist, how far a hand reaches; a foot reaches less."""


def other_face(scene: Scene, strength: int) -> Made | Away:
    """The largest face exchanged for another person's, aligned by eyes and nose and blended in."""
    if lacking := scene.seeing.lacks("dlib_face"):
        return Away(lacking)
    face = _largest(scene)
    if face is None:
        return Away("no face is large enough")
    box, vector = face
    lender = _stranger(scene, box, vector)
    if lender is None:
        return Away("no other case has another person's face")
    points = load_network("dlib_face").corners(scene.output, box)
    theirs = load_network("dlib_face").corners(*lender)
    matrix = similarity(theirs, points)
    if matrix is None:
        return Away("the faces cannot be aligned")
    height, width = scene.output.shape[:2]
    moved = np.asarray(cv2.warpAffine(lender[0], matrix, (width, height), borderMode=cv2.BORDER_REFLECT_101), np.uint8)
    mask = _oval(points, (height, width))
    made = _cloned(scene.output, moved, mask)
    match = _match(made, box, vector)
    check = Check(name="fall of the face match", value=1.0 - match, least=0.25)
    return Made({0: made}, checks=(check,), inside=wider(mask, SEAM))


def _largest(scene: Scene) -> tuple[_Floats, _Floats] | None:
    """Box and vector of the largest face, where it is large enough to be known by."""
    seen = scene.seeing.feature("dlib_face", scene.output)
    if seen is None or not len(seen["boxes"]):
        return None
    box = seen["boxes"][0]
    return (box, seen["vectors"][0]) if min(box[2] - box[0], box[3] - box[1]) >= _LEAST_FACE else None


def _stranger(scene: Scene, box: _Floats, vector: _Floats) -> tuple[Pixels, _Floats] | None:
    """A picture and the place of a face in it that is another person's: of some other cases' the one whose skin is
    nearest in lightness, of those that are not much smaller, if there are any."""
    there = [other for other in scene.others if other.case.cluster != scene.case.cluster]
    found: list[tuple[bool, float, Pixels, _Floats]] = []
    for place in scene.draws("faces").permutation(len(there)):
        face, pixels = _largest(there[int(place)]), there[int(place)].output
        if face is not None and float(np.linalg.norm(face[1] - vector)) >= _STRANGER:
            small = (face[0][2] - face[0][0]) < 0.6 * (box[2] - box[0])
            found.append((bool(small), abs(_light(pixels, face[0]) - _light(scene.output, box)), pixels, face[0]))
        if len(found) >= _FACES_TRIED:
            break
    best = min(found, key=lambda one: one[:2], default=None)
    return None if best is None else best[2:]


def _light(pixels: Pixels, box: _Floats) -> float:
    """Mean lightness of the middle of a face."""
    left, top, right, bottom = (int(v) for v in np.clip(box, 0, None))
    x, y = (right - left) // 4, (bottom - top) // 4
    return float(pixels[top + y : max(bottom - y, top + y + 1), left + x : max(right - x, left + x + 1)].mean())


def _oval(points: _Floats, shape: tuple[int, int]) -> Mask:
    """From the brows to the chin, by five points: four corners of the eyes and the place below the nose."""
    eyes, nose = points[:4].mean(axis=0), points[4]
    span = max(float(np.linalg.norm(points[0] - points[2])), 1.0)
    down = nose - eyes
    length = max(float(np.linalg.norm(down)), 1.0)
    middle = eyes + down * 0.75
    angle = float(np.degrees(np.arctan2(down[1], down[0]))) - 90
    axes = max(2, round(0.78 * span)), max(2, round(max(1.85 * length, 0.95 * span)))
    canvas = np.zeros(shape, np.uint8)
    cv2.ellipse(canvas, (round(float(middle[0])), round(float(middle[1]))), axes, angle, 0, 360, 255, -1)
    return canvas > 0


def _cloned(pixels: Pixels, moved: Pixels, mask: Mask) -> Pixels:
    """The other picture under the mask, in the light of this one: its colours brought to this one's, its edge soft."""
    inside = mask[..., None]
    deep = cv2.distanceTransform(mask.astype(np.uint8), cv2.DIST_L2, 3)
    core = deep > 0.4 * float(deep.max())  # the face alone, not what is beside it
    mine, theirs = pixels[core].astype(np.float32), moved[core].astype(np.float32)
    spread = np.clip(mine.std(axis=0) / np.maximum(theirs.std(axis=0), 1.0), 0.6, 1.6)
    lit = (moved - theirs.mean(axis=0)) * spread + mine.mean(axis=0)
    soft = np.clip(deep / max(2.0, 0.22 * float(deep.max())), 0, 1)[..., None]
    mixed = np.clip(np.rint(lit * soft + pixels * (1 - soft)), 0, 255).astype(np.uint8)
    return np.where(inside, mixed, pixels)


def _match(made: Pixels, box: _Floats, vector: _Floats) -> float:
    """How far the face in that place is still the same person's, as the metric face_match has it."""
    network: Any = load_network("dlib_face")
    after = network.vector(made, box)
    return max(0.0, 1.0 - float(np.linalg.norm(after - vector)))


def limb_twice(scene: Scene, strength: int) -> Made | Away:
    """A forearm with its hand a second time, turned about the elbow; a lower leg where no arm is seen."""
    if lacking := scene.seeing.lacks("blazepose", "u2netp"):
        return Away(lacking)
    limb = _limb(scene)
    if limb is None:
        return Away("no forearm or lower leg is seen")
    joint, end, person = limb
    reach = (end - joint) * _BEYOND
    length = float(np.linalg.norm(end - joint))
    shape = scene.output.shape[:2]
    cover = np.zeros(shape, np.uint8)
    tip = joint + reach
    ends = tuple(tuple(round(float(v)) for v in point) for point in (joint, tip))
    cv2.line(cover, ends[0], ends[1], 255, max(3, round(0.62 * length)))
    limb_mask = (cover > 0) & person
    if limb_mask.sum() < 0.001 * cover.size:
        return Away("no forearm or lower leg is seen")
    made, place = max(
        (_turned(scene.output, limb_mask, person, joint, angle) for angle in (-62, -42, 42, 62)), key=lambda one: one[2]
    )[:2]
    changed = np.abs(made.astype(np.int16) - scene.output.astype(np.int16)).mean(axis=-1) > 24
    check = Check(name="share of the picture that differs", value=float(changed.mean()), least=0.007)
    return Made({0: made}, checks=(check,), inside=wider(place, SEAM))


def _limb(scene: Scene) -> tuple[_Floats, _Floats, Mask] | None:
    """Elbow and wrist (or knee and ankle) that are seen best, and the mask of the person."""
    seen = scene.seeing.feature("blazepose", scene.output)
    stands_out = scene.seeing.feature("u2netp", scene.output)
    if seen is None or stands_out is None:
        return None
    best: tuple[float, _Floats, _Floats] | None = None
    height, width = scene.output.shape[:2]
    for joints in seen["keypoints"]:
        for joint, end in LIMBS:
            sure = float(min(joints[joint, 2], joints[end, 2]))
            a, b = joints[joint, :2], joints[end, :2]
            length = float(np.linalg.norm(b - a))
            inside = bool(((b >= 0) & (b < (width, height))).all() and ((a >= 0) & (a < (width, height))).all())
            if sure < _SEEN or not inside or length < 0.05 * max(height, width):
                continue
            worth = length * (1.6 if joint in (7, 8) else 1.0)
            if best is None or worth > best[0]:
                best = worth, a.astype(np.float32), b.astype(np.float32)
    return None if best is None else (best[1], best[2], wider(stands_out["mask"] > 0, 1))


def _turned(pixels: Pixels, limb: Mask, person: Mask, joint: _Floats, angle: float) -> tuple[Pixels, Mask, float]:
    """The limb a second time, turned by some degrees about its joint; how much of it lies where nobody was."""
    height, width = limb.shape
    matrix = cv2.getRotationMatrix2D((float(joint[0]), float(joint[1])), angle, 1.0)
    place = cv2.warpAffine(limb.astype(np.uint8), matrix, (width, height), flags=cv2.INTER_NEAREST) > 0
    moved = cv2.warpAffine(pixels, matrix, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    deep = cv2.distanceTransform(np.pad(place, 1).astype(np.uint8), cv2.DIST_L2, 3)[1:-1, 1:-1]
    soft = np.clip(deep / 2, 0, 1)[..., None]
    mixed = np.where(place[..., None], np.rint(moved * soft + pixels * (1 - soft)), pixels).astype(np.uint8)
    return mixed, place, float((place & ~person).sum())
