"""People and their joints: YOLOv4-tiny says where people are, BlazePose how they stand.

BlazePose's detector alone sees one person a window and takes birds, dogs and clocks for people at scores of 0.7 to
0.86 (measured on 123 pictures); the object detector does not, and finds every player in a stadium.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.networks.network import Feature
from refbench.networks.small.mediapipe import POSE, Floats, Hit, LiteModel, Square, SsdDetector, around, cut
from refbench.networks.small.yolov4_tiny import YoloV4Tiny
from refbench.pictures import Pixels

SIZE = 256
COCO = (0, 2, 5, 7, 8, 11, 12, 13, 14, 15, 16, 23, 24, 25, 26, 27, 28)
"""BlazePose's landmark for nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles (left first)."""

ENLARGE = 1.25
_WINDOW = 7
_CERTAIN = 0.5


@dataclass(frozen=True)
class Region:
    """A turned square on the picture: the person upright, hips in the middle."""

    square: Square
    angle: float


@dataclass(frozen=True, eq=False)
class Pose:
    """Landmarks in picture pixels (x, y), how sure the network is of each, and of the person as a whole."""

    points: Floats
    visible: Floats
    present: Floats
    score: float
    region: Region


def region_of(hit: Hit) -> Region:
    """The crop that the detector's points ask for: centre at the hips, size and turn by the second point."""
    return _region(hit.points[0], hit.points[1])


def region_of_body(body: Pose) -> Region:
    """The crop that the landmarks themselves ask for, by their two auxiliary points."""
    return _region(body.points[33], body.points[34])


def _region(centre: Floats, top: Floats) -> Region:
    dx, dy = float(top[0] - centre[0]), float(top[1] - centre[1])
    side = 2 * float(np.hypot(dx, dy)) * ENLARGE
    square = Square(float(centre[0]) - side / 2, float(centre[1]) - side / 2, side)
    return Region(square, float(np.arctan2(dx, -dy)))


class Landmarks:
    """pose_landmark_full on turned crops."""

    def __init__(self, path: Path) -> None:
        self._model = LiteModel(path)

    def __call__(self, pixels: Pixels, region: Region) -> Pose:
        crop = cut(pixels, region.square, region.angle, SIZE).astype(np.float32) / np.float32(255)
        raw, flag, _, heat, _ = self._model(crop[None])
        rows = raw.reshape(39, 5)
        places = refined(rows[:, :2] / np.float32(SIZE), heat[0])
        return Pose(
            points=_on_picture(places, region),
            visible=_sigmoid(rows[:, 3]),
            present=_sigmoid(rows[:, 4]),
            score=float(flag.ravel()[0]),
            region=region,
        )


def refined(places: Floats, heat: Floats) -> Floats:
    """Places moved to the centre of mass of their heat map nearby, where the map is sure enough."""
    height, width = heat.shape[:2]
    moved = places.copy()
    reach = _WINDOW // 2
    for index, (x, y) in enumerate(places):
        column, row = int(x * width), int(y * height)
        if not (0 <= column < width and 0 <= row < height):
            continue
        top, bottom = max(0, row - reach), min(height, row + reach + 1)
        left, right = max(0, column - reach), min(width, column + reach + 1)
        sure = _sigmoid(heat[top:bottom, left:right, index])
        if sure.max() < _CERTAIN:
            continue
        ys, xs = np.mgrid[top:bottom, left:right]
        moved[index] = (sure * xs).sum() / sure.sum() / width, (sure * ys).sum() / sure.sum() / height
    return moved


def _on_picture(places: Floats, region: Region) -> Floats:
    side = region.square.side
    x, y = (places[:, 0] - 0.5) * side, (places[:, 1] - 0.5) * side
    cosine, sine = np.cos(region.angle), np.sin(region.angle)
    centre_x, centre_y = region.square.x + side / 2, region.square.y + side / 2
    return np.stack([x * cosine - y * sine + centre_x, x * sine + y * cosine + centre_y], axis=1).astype(np.float32)


def _sigmoid(values: NDArray[np.float32]) -> Floats:
    return (1 / (1 + np.exp(-np.clip(values, -60, 60)))).astype(np.float32)


LEAST_JOINTS = 4
"""Fewer joints than this do not make a skeleton: a hand that holds a telephone is a person to the object detector."""
VISIBLE = 0.5
"""A joint counts when the network holds it for visible and present with at least this, inside the picture."""

_WINDOWS = (1.0, 1.5, 2.0)  # around a box, by its longer side: each misses people that another finds
_BOX = 0.25
_BOX_SURE = 0.5  # below, hedges and blurred spectators have been given full bodies
_LARGE = 0.3
_ALONE = 0.85  # without a box from the object detector; the best animal had 0.73 in a whole picture
_FLAG = 0.5
_FLAG_UNALIGNED, _FLAG_BEST = 0.8, 0.9  # at both looks and at the better one: the upright crop is a guess
_SAME = 0.3
_HIT_FAIR, _HIT_SURE, _TURNED = 0.6, 0.75, np.radians(40)
_FILLED = 0.5

_HEAD = slice(0, 5)
_LEGS = ((11, 13), (13, 15), (12, 14), (14, 16))
_EDGE, _BONE, _TORSO = 0.12, 2.5, 2.6

_Look = Literal["first", "either", "both"]


@dataclass(frozen=True, eq=False)
class _Person:
    joints: Floats
    score: float
    box: Floats


class BlazePose:
    """COCO joints of everybody in the picture; nobody is an empty array."""

    def __init__(self, paths: Mapping[str, Path], device: str) -> None:
        self._boxes = YoloV4Tiny(paths, device)
        self._detector = SsdDetector(paths["pose_detection.tflite"], POSE)
        self._landmarks = Landmarks(paths["pose_landmark_full.tflite"])

    def __call__(self, pictures: Sequence[Pixels]) -> list[Feature | Failure]:
        return [self._one(pixels) for pixels in pictures]

    def _one(self, pixels: Pixels) -> Feature | Failure:
        # One at a time: a box that moves by rounding in a batch moves the crop, and a score at a threshold.
        (objects,) = self._boxes([pixels])
        return objects if isinstance(objects, Failure) else self._people(pixels, objects)

    def _people(self, pixels: Pixels, objects: Feature) -> Feature:
        whole = self._detector(pixels, around(pixels))
        people = []
        claimed: list[Hit] = []
        for label, score, box in zip(objects["labels"], objects["scores"], objects["boxes"], strict=True):
            if label != "person" or score < _BOX:
                continue
            near = [hit for share in _WINDOWS for hit in self._detector(pixels, _window(box, share))]
            hit = _hit_in(box, [*whole, *near])
            if score < _BOX_SURE and not _is_large(box, pixels) and (hit is None or hit.score < _HIT_FAIR):
                continue  # a spectator out of focus, of whom nobody can tell the legs
            claimed += [hit] if hit is not None else []
            body = self._body_in(pixels, box, float(score), hit)
            if body is not None and _fits(body.region, box):
                people.append(_person(body, max(float(score), hit.score if hit else 0.0), box, pixels))
        for hit in whole:
            if hit.score >= _ALONE and hit not in claimed:
                body = self._body(pixels, region_of(hit), _FLAG, "first")
                people += [_person(body, hit.score, None, pixels)] if body is not None else []
        return _feature(_apart([person for person in people if person is not None]), pixels)

    def _body_in(self, pixels: Pixels, box: Floats, score: float, hit: Hit | None) -> Pose | None:
        """The body in a box: as the detector's hit has it turned, else upright.

        Weak hits that turn a body were wrong in three of four cases: they count where nobody stands upright, and then
        only for a body that fills the box.
        """
        look: _Look = "either" if score >= _BOX_SURE else "first"
        doubtful = hit is not None and hit.score < _HIT_SURE and abs(region_of(hit).angle) > _TURNED
        if hit is not None and not doubtful:
            body = self._body(pixels, region_of(hit), _FLAG, look)
            if body is not None:
                return body
        if score >= _BOX_SURE or _is_large(box, pixels):
            body = self._body(pixels, _region_of_box(box), _FLAG_UNALIGNED, "both")
            if body is not None:
                return body
        if hit is not None and doubtful:
            body = self._body(pixels, region_of(hit), _FLAG, look)
            return body if body is not None and _fills(body, box, pixels) else None
        return None

    def _body(self, pixels: Pixels, region: Region, flag: float, look: _Look) -> Pose | None:
        """The body in the region, looked at twice, the second time centred on itself as when tracking.

        `look` says when the network must take it for a person; a painted face had 0.89, then 0.27.
        """
        first = self._landmarks(pixels, region)
        if first.score < flag and look != "either":
            return None
        again = self._landmarks(pixels, region_of_body(first))
        body = again if again.score >= first.score - 0.05 else first
        if look == "both":
            return body if min(first.score, again.score) >= flag and body.score >= _FLAG_BEST else None
        return body if body.score >= flag else None


def _person(body: Pose, score: float, box: Floats | None, pixels: Pixels) -> _Person | None:
    joints = uncompleted(gated(body, pixels), box, pixels)
    if np.count_nonzero(joints[:, 2]) < LEAST_JOINTS:
        return None
    return _Person(joints, score * body.score, _extent(joints, box, pixels))


def gated(body: Pose, pixels: Pixels) -> Floats:
    """COCO's joints, x, y and visibility; visibility 0 where the network is unsure or the place is off the picture.

    A landmark network completes every body: without this a portrait has legs below its frame.
    """
    height, width = pixels.shape[:2]
    points = body.points[list(COCO)]
    sure = np.minimum(body.visible, body.present)[list(COCO)]
    inside = (points >= 0).all(axis=1) & (points[:, 0] < width) & (points[:, 1] < height)
    kept = np.where(inside & (sure >= VISIBLE), sure, 0)
    return np.concatenate([points, kept[:, None]], axis=1).astype(np.float32)


def uncompleted(joints: Floats, box: Floats | None, pixels: Pixels) -> Floats:
    """The joints without a lower body that was squeezed into a picture which ends above it.

    Of a body that is cut off by the lower edge the network draws small legs inside the frame, and is sure of them. A
    head tells them: thigh and shin are some three times as long as a head is wide, of people, in almost any pose.
    """
    lowest = joints[joints[:, 2] > 0, 1].max(initial=0)
    whole = box is not None and max(lowest, box[3]) < (1 - _EDGE) * pixels.shape[0]
    head = _widest(joints[_HEAD])
    if whole or not head:
        return joints
    bones = [np.linalg.norm(joints[a, :2] - joints[b, :2]) for a, b in _LEGS if joints[a, 2] and joints[b, 2]]
    kept = joints.copy()
    if max(bones, default=0.0) < _BONE * head:
        kept[13:, 2] = 0
        if joints[11:13, 2].any() and _torso(joints) < _TORSO * head:
            kept[11:13, 2] = 0
    return kept


def _widest(joints: Floats) -> float:
    seen = joints[joints[:, 2] > 0, :2]
    return float(max((np.linalg.norm(a - b) for a in seen for b in seen), default=0.0))


def _torso(joints: Floats) -> float:
    """From the middle of the shoulders to the middle of the hips, as far as they are seen."""
    shoulders, hips = (part[part[:, 2] > 0, :2] for part in (joints[5:7], joints[11:13]))
    return float(np.linalg.norm(shoulders.mean(axis=0) - hips.mean(axis=0))) if len(shoulders) and len(hips) else 0.0


def _is_large(box: Floats, pixels: Pixels) -> bool:
    return bool(max(box[2] - box[0], box[3] - box[1]) >= _LARGE * max(pixels.shape[:2]))


def _window(box: Floats, share: float) -> Square:
    side = share * float(max(box[2] - box[0], box[3] - box[1]))
    return Square(float(box[0] + box[2] - side) / 2, float(box[1] + box[3] - side) / 2, side)


def _region_of_box(box: Floats) -> Region:
    side = 1.25 * float(max(box[2] - box[0], box[3] - box[1]))
    return Region(Square(float(box[0] + box[2] - side) / 2, float(box[1] + box[3] - side) / 2, side), 0.0)


def _hit_in(box: Floats, hits: Sequence[Hit]) -> Hit | None:
    """The hit of the person in the box: head and shoulders inside, and as large as the box makes plausible."""
    longest = float(max(box[2] - box[0], box[3] - box[1]))
    fitting = []
    for hit in hits:
        head = (hit.box[:2] + hit.box[2:]) / np.float32(2)
        # The shoulders of a close portrait lie below its frame, and so below the box.
        inside = _inside(head, box, 0.1 * longest) and _inside(hit.points[2], box, 0.35 * longest)
        if inside and _fits(region_of(hit), box):
            fitting.append(hit)
    return max(fitting, key=lambda hit: hit.score, default=None)


def _fits(region: Region, box: Floats) -> bool:
    """Whether a body of this size can be the one in the box; that of a portrait was up to four times as large."""
    longest = float(max(box[2] - box[0], box[3] - box[1]))
    return 0.6 * longest <= region.square.side / ENLARGE <= 8 * longest


def _fills(body: Pose, box: Floats, pixels: Pixels) -> bool:
    joints = gated(body, pixels)
    if not joints[:, 2].any():
        return False
    seen = joints[joints[:, 2] > 0, :2]
    area = float(np.prod(seen.max(axis=0) - seen.min(axis=0)))
    return area >= _FILLED * float((box[2] - box[0]) * (box[3] - box[1]))


def _inside(point: Floats, box: Floats, margin: float) -> bool:
    x, y = float(point[0]), float(point[1])
    return bool(box[0] - margin <= x <= box[2] + margin and box[1] - margin <= y <= box[3] + margin)


def _extent(joints: Floats, box: Floats | None, pixels: Pixels) -> Floats:
    seen = joints[joints[:, 2] > 0, :2]
    corners = np.concatenate([seen.min(axis=0), seen.max(axis=0)])
    if box is not None:
        corners = np.concatenate([np.minimum(corners[:2], box[:2]), np.maximum(corners[2:], box[2:])])
    height, width = pixels.shape[:2]
    return np.asarray(np.clip(corners, 0, [width, height, width, height]), dtype=np.float32)


def _apart(people: Sequence[_Person]) -> list[_Person]:
    """One skeleton a person: two boxes of the object detector often hold the same one."""
    kept: list[_Person] = []
    for person in sorted(people, key=lambda p: -p.score):
        if not any(_same(person, other) for other in kept):
            kept.append(person)
    return kept


def _same(a: _Person, b: _Person) -> bool:
    both = (a.joints[:, 2] > 0) & (b.joints[:, 2] > 0)
    if both.sum() < 3:
        return False
    gaps = np.linalg.norm(a.joints[both, :2] - b.joints[both, :2], axis=1)
    size = min(np.linalg.norm(p.joints[both, :2].max(axis=0) - p.joints[both, :2].min(axis=0)) for p in (a, b))
    return bool(np.median(gaps) < _SAME * size)


def _feature(people: Sequence[_Person], pixels: Pixels) -> Feature:
    return {
        "keypoints": np.array([p.joints for p in people], dtype=np.float32).reshape(-1, 17, 3),
        "scores": np.array([p.score for p in people], dtype=np.float32),
        "boxes": np.array([p.box for p in people], dtype=np.float32).reshape(-1, 4),
        "size": np.array(pixels.shape[:2], dtype=np.int32),  # height, width: people of two pictures are compared in one
    }
