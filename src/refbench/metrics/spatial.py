"""Where things are: agreement of boxes, masks and semantic maps drawn as pictures."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Box, Grey, Value, metric
from refbench.metrics.overlap import Region, box_iou, region_iou
from refbench.metrics.regions import MIN_REGION, MIN_SHARE, colour_regions, exact_colours, match_regions
from refbench.pictures import Pixels, resize

DRAWN = 10
"""A pixel of a box drawn on black is one whose strongest channel is above this."""
_LINE = 0.35
"""And, where JPEG's ringing must not count, above this share of the picture's strongest."""

_NO_BOX = Failure(kind="no_detection", detail="no box is drawn in the output and none was given")


@metric("bbox_iou", better="higher", range=(0, 1), protocol="paper")
def bbox_iou_paper(output: Pixels, reference: Pixels, box: Box | None = None, output_box: Box | None = None) -> Value:
    """IoU of the output's box and what MultiRef-Bench reads from the reference: on black, always the whole picture."""
    # The release thresholds the reference against its surroundings and so takes flat black for a drawing; it ignores
    # the `box` in the data, and compares pixels of pictures of two sizes.
    found = output_box or drawn_box(output)
    wanted = thresholded_box(reference)
    if found is None:
        return _NO_BOX
    if wanted is None:
        return Failure(kind="undefined", detail="no pixel of the reference is brighter than its surroundings less 2")
    return box_iou(found, wanted)


@metric("bbox_iou", better="higher", range=(0, 1), protocol="corrected")
def bbox_iou(output: Pixels, reference: Pixels, box: Box | None = None, output_box: Box | None = None) -> Value:
    """IoU of the output's box and the reference's, at the output's size; boxes are given or read from the drawings."""
    found = output_box or outlined_box(output)
    wanted = box or outlined_box(reference)
    if found is None:
        return _NO_BOX
    if wanted is None:
        return Failure(kind="undefined", detail="no box is drawn in the reference")
    return box_iou(found, scaled_box(wanted, reference.shape, output.shape))


def drawn_box(pixels: Pixels) -> Box | None:
    """The box around all that is drawn on black, from its first pixel to its last."""
    return _around(pixels.max(axis=2) > DRAWN)


def outlined_box(pixels: Pixels) -> Box | None:
    """The box whose outline is drawn on black: the middle of its lines, which is where it was drawn, whatever their
    width. A filled box is taken as it is. What JPEG leaves beside the lines is not part of them."""
    strongest = pixels.max(axis=2)
    region = strongest > max(DRAWN, _LINE * int(strongest.max()))
    if not region.any():
        return None
    (left, right), (top, bottom) = (_middles(region.sum(axis=axis)) for axis in (0, 1))
    return left, top, right, bottom


def _middles(profile: NDArray[np.int64]) -> tuple[float, float]:
    """Where along an axis the first and the last line of an outline run: lines are the pixels that are full across."""
    drawn = np.flatnonzero(profile)
    full = np.flatnonzero(profile > profile.max() / 2)
    first, last = full[0], full[-1]
    width = int(np.argmin(np.append(profile[first:] > profile.max() / 2, False)))
    if width > (last - first) / 2:  # filled
        return float(drawn[0]), float(drawn[-1] + 1)
    back = int(np.argmin(np.append(profile[last::-1] > profile.max() / 2, False)))
    return float(first + (width - 1) / 2), float(last - (back - 1) / 2)


def thresholded_box(pixels: Pixels) -> Box | None:
    """The box that the released code finds in a drawing: around what is brighter than its neighbourhood, less 2."""
    strongest = np.ascontiguousarray(pixels.max(axis=2))
    bright = cv2.adaptiveThreshold(strongest, 255, cv2.ADAPTIVE_THRESH_GAUSSIAN_C, cv2.THRESH_BINARY, 11, 2)
    return _around(cv2.dilate(bright, np.ones((3, 3), np.uint8)) > 0)


def _around(region: Region) -> Box | None:
    columns, rows = np.flatnonzero(region.any(axis=0)), np.flatnonzero(region.any(axis=1))
    if not columns.size:
        return None
    return float(columns[0]), float(rows[0]), float(columns[-1]), float(rows[-1])


def scaled_box(box: Box, from_shape: tuple[int, ...], to_shape: tuple[int, ...]) -> Box:
    """The box in a picture of another size; shapes are height, width as arrays have them."""
    across, down = to_shape[1] / from_shape[1], to_shape[0] / from_shape[0]
    return box[0] * across, box[1] * down, box[2] * across, box[3] * down


def is_set(mask: Grey) -> Region:
    """The region of a mask of 0 and 255 (JPEG noise forgiven), or of 0 and 1."""
    return mask > 127 if mask.max() > 1 else mask > 0


def _nearest(grey: Grey, shape: tuple[int, ...]) -> Grey:
    """Another size by nearest pixels as OpenCV takes them, half a pixel off Pillow's."""
    resized = cv2.resize(grey, (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST)
    return np.asarray(resized, dtype=np.uint8)


@metric("mask_iou", better="higher", range=(0, 1), protocol="paper")
def mask_iou_paper(output: Grey, reference: Grey) -> float:
    """IoU of two masks as MultiRef-Bench computes it: the reference resized to the output, 0 when both are empty."""
    wanted = (reference > 127).view(np.uint8)
    return region_iou(is_set(output), _nearest(wanted, output.shape) > 0) or 0.0


@metric("mask_iou", better="higher", range=(0, 1), protocol="corrected")
def mask_iou(output: Grey, reference: Grey) -> Value:
    """IoU of two masks; the reference is resized to the output by nearest pixels."""
    score = region_iou(is_set(output), is_set(resize(reference, (output.shape[1], output.shape[0]), "nearest")))
    return Failure(kind="undefined", detail="both masks are empty") if score is None else score


@metric("semantic_iou", better="higher", range=(0, 1), protocol="paper")
def semantic_iou_paper(output: Pixels, reference: Grey) -> float:
    """Mean IoU of matched regions as MultiRef-Bench has it: reference read as grey, unmatched regions cost nothing."""
    wanted = exact_colours(_nearest(reference, output.shape), MIN_REGION)
    pairs = match_regions(exact_colours(output, MIN_REGION), wanted)
    return sum(iou for _, _, iou in pairs) / len(pairs) if pairs else 0.0


@metric("semantic_iou", better="higher", range=(0, 1), protocol="corrected")
def semantic_iou(output: Pixels, reference: Pixels) -> Value:
    """Sum of the matched regions' IoU over the larger number of regions: missing and surplus regions cost."""
    least = round(MIN_SHARE * output.shape[0] * output.shape[1])
    found = colour_regions(output).without_small(least)
    wanted = colour_regions(reference).at(*output.shape[:2]).without_small(least)
    if not wanted.count:
        return Failure(kind="undefined", detail="the reference map has no region")
    return sum(iou for _, _, iou in match_regions(found, wanted)) / max(found.count, wanted.count)
