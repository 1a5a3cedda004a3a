"""Poses: skeletons as they are drawn, and the people that networks find in an output."""

from __future__ import annotations

from functools import partial
from typing import Any

import cv2
import numpy as np

from refbench.extractors.pose import LIMBS, Keypoints, draw_coco, draw_openpose, draw_skeletons
from refbench.failure import Failure
from refbench.metrics.colour import luma_agreement
from refbench.metrics.keypoints import Poses, average_precision, person_area, scaled_keypoints
from refbench.metrics.metric import Value, both, metric
from refbench.metrics.overlap import Region, drawn_lines, tolerance_at, tolerant_f1
from refbench.metrics.pixels import fitted
from refbench.networks import Feature, Network
from refbench.pictures import Pixels, resize

TOLERANCE = 5.0
"""Pixels that a line may lie off, in a picture whose longer side is 1024: half a percent."""
LIMB_TOLERANCE = 0.02
"""How far off a limb may lie, as a share of the drawing's longer side. A choice, not a measurement: 10 pixels at
512, where the network's own joints move by less than 6 between two sizes of a picture."""
HEAT = 0.1
"""A joint of OpenPose's or HigherHRNet's counts from this heat on: it is what both call a peak."""
_RAINBOW = 0.3
_CANVAS = 512

_share = partial(metric, better="higher", range=(0, 1))
_RELEASED: Any = {"protocol": "paper", "turned": ("reference",), "version": 2}
"""MultiRef-Bench's release reads the reference with OpenCV and the output with Pillow."""


@_share("pose_pixel", **_RELEASED)
def pose_pixel_paper(output: Pixels, reference: Pixels) -> float:
    """Precision times recall of non-black pixels of two drawn skeletons, which MultiRef-Bench calls mAP."""
    found, wanted = _not_black(output), _not_black(reference)
    if wanted.shape != found.shape:
        wanted = cv2.resize(wanted.view(np.uint8), found.shape[::-1], interpolation=cv2.INTER_NEAREST) > 0
    drawn, asked = int(np.count_nonzero(found)), int(np.count_nonzero(wanted))
    shared = int(np.count_nonzero(found & wanted))
    return shared / drawn * shared / asked if drawn and asked else 0.0


@_share("pose_pixel", protocol="corrected")
def pose_pixel(output: Pixels, reference: Pixels) -> Value:
    """F1 of the lines of two drawn skeletons within five pixels at 1024; JPEG noise is no line."""
    return skeleton_f1(output, reference)


def skeleton_f1(output: Pixels, reference: Pixels, tolerance: float | None = None) -> Value:
    """F1 of two skeletons drawn on black; `tolerance` in pixels of the output, half a percent of its longer side when
    not given. Of two sizes, the reference is resized to the output."""
    resized = resize(reference, (output.shape[1], output.shape[0]), "bilinear")
    allowed = tolerance_at(output.shape, TOLERANCE) if tolerance is None else tolerance
    score = tolerant_f1(drawn_lines(output), drawn_lines(resized), allowed)
    return Failure(kind="undefined", detail="no skeleton is drawn in either picture") if score is None else score


def _not_black(pixels: Pixels) -> Region:
    return np.asarray(pixels.max(axis=2) > 0)


@_share(of=both("blazepose"))
def pose_ap(output: Feature, reference: Feature) -> Value:
    """COCO's keypoint AP of the people in the output, those in the reference photograph being the truth.

    Nobody in the output is 0: the reference's people are missing. Nobody in the reference is no measurement.
    """
    if not len(reference["keypoints"]):
        return Failure(kind="no_detection", detail="no person was found in the reference")
    areas = np.array([person_area((float(a), float(b), float(c), float(d))) for a, b, c, d in reference["boxes"]])
    there = scaled_keypoints(output["keypoints"], tuple(output["size"]), tuple(reference["size"]))
    return average_precision([Poses(there, output["scores"], reference["keypoints"], areas)])


@_share(of={"output": "blazepose"})
def pose_f1(output: Feature, reference: Pixels | None = None, source: Pixels | None = None) -> Value:
    """F1 of the output's skeletons, drawn in the style of the drawing it was given, within two percent of its size.

    The drawing is the `reference` or, as in ICE-Bench, the `source`. Nobody in the output is 0.
    """
    drawing = reference if reference is not None else source
    if drawing is None or not drawn_lines(drawing).any():
        missing = "none was given" if drawing is None else "it is black"
        return Failure(kind="undefined", detail=f"the drawing holds no skeleton: {missing}")
    people = _on(output, drawing.shape)
    if not len(people):
        return 0.0
    drawn = draw_openpose(people, drawing.shape) if _is_rainbow(drawing) else draw_coco(people, drawing.shape)
    return skeleton_f1(drawn, drawing, LIMB_TOLERANCE * max(drawing.shape[:2]))


@_share("pose_pixel", of={"output": "blazepose"}, **_RELEASED)
def found_pose_pixel_paper(output: Feature, reference: Pixels) -> float:
    """MultiRef-Bench's pixel precision times recall, with skeletons of the output drawn as its code draws them.

    Lines two pixels wide on 512 x 512, enlarged to the output's size. The release draws each person in a random
    colour; only black or not black counts, so here all are of the mean of its colours.
    """
    canvas = np.zeros((_CANVAS, _CANVAS, 3), dtype=np.uint8)
    grey = (127, 127, 127)
    for person in _on(output, canvas.shape):
        at = [(int(x), int(y)) if v > 0 else None for x, y, v in person]
        for place in at:
            if place is not None:
                cv2.circle(canvas, place, 1, grey, 2)
        for a, b in LIMBS:
            start, end = at[a], at[b]
            if start is not None and end is not None:
                cv2.line(canvas, start, end, grey, 2)
    height, width = (int(side) for side in output["size"])
    drawn = np.asarray(cv2.resize(canvas, (width, height), interpolation=cv2.INTER_LINEAR), dtype=np.uint8)
    return pose_pixel_paper(drawn, reference)


@_share("pose_l1", of={"output": "blazepose"}, protocol="paper")
def found_pose_l1_paper(output: Feature, source: Pixels) -> float:
    """1 - L1 of the output's skeletons in OpenPose's style and the source drawing, both grey, as ICE-Bench has it.

    Both are mostly black, so an output without anybody still scores near 1: `pose_f1` is the corrected measure.
    """
    return _drawing_l1(draw_openpose(_on(output, source.shape), source.shape), source)


def _drawing_l1(drawn: Pixels, source: Pixels) -> float:
    return luma_agreement(np.asarray(cv2.cvtColor(drawn, cv2.COLOR_RGB2GRAY), dtype=np.uint8), source)


def _on(people: Feature, shape: tuple[int, ...]) -> Keypoints:
    """The people's joints on a picture of that shape."""
    return scaled_keypoints(people["keypoints"], tuple(people["size"]), shape)


def _is_rainbow(drawing: Pixels) -> bool:
    """Whether limbs are in OpenPose's pure hues; COCO drawings have a light colour or white for each person."""
    drawn = drawing[drawn_lines(drawing)].astype(np.float64)
    return bool(np.median(drawn.min(axis=1) / drawn.max(axis=1)) < _RAINBOW)


_share("pose_pixel", of={"output": "higherhrnet_w32"}, **_RELEASED)(found_pose_pixel_paper)


@_share("pose_l1", of={"network": "openpose_body"}, protocol="paper")
def openpose_l1_paper(output: Pixels, source: Pixels, network: Network) -> Value:
    """1 - L1 of the output's skeletons as OpenPose draws them and the source drawing, both grey, as ICE-Bench has it.

    Both are mostly black, so an output without anybody still scores near 1: `pose_f1` is the corrected measure.
    """
    (found,) = network([fitted(output, source)])
    if isinstance(found, Failure):
        return found
    return _drawing_l1(draw_skeletons(found["keypoints18"], source.shape), source)


def sure_pose_f1(output: Feature, reference: Pixels | None = None, source: Pixels | None = None) -> Value:
    """F1 of the output's skeletons, drawn in the style of the drawing it was given, within two percent of its size.

    The drawing is the `reference` or, as in ICE-Bench, the `source`. Nobody in the output is 0.
    """
    people = output["keypoints"]
    # Heat is no visibility: a peak of 0.2 is a joint all the same.
    seen = np.concatenate([people[:, :, :2], (people[:, :, 2:] > HEAT).astype(people.dtype)], axis=2)
    return pose_f1({**output, "keypoints": seen}, reference, source)


for _network in ("openpose_body", "higherhrnet_w32"):
    _share("pose_f1", of={"output": _network})(sure_pose_f1)
