"""Where things are: boxes, masks and semantic maps, drawn as pictures or found in an output by networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Box, Grey, Value, metric
from refbench.metrics.overlap import DRAWN, Region, box_iou, drawn_lines, region_iou
from refbench.metrics.regions import MIN_REGION, MIN_SHARE, Labels, colour_regions, exact_colours, match_regions
from refbench.networks import Feature, Network
from refbench.networks.large.sam2 import DEFAULT, STRICT, MaskSettings
from refbench.pictures import Pixels, resize

_iou = partial(metric, better="higher", range=(0, 1))
_RELEASED: Any = {"protocol": "paper", "turned": ("reference",), "version": 2}
"""MultiRef-Bench's release reads the reference with OpenCV and the output with Pillow."""
_NO_BOX = Failure(kind="no_detection", detail="no box is drawn in the output and none was given")


@_iou("bbox_iou", **_RELEASED)
def bbox_iou_paper(output: Pixels, reference: Pixels, box: Box | None = None, output_box: Box | None = None) -> Value:
    """IoU of the output's box and what MultiRef-Bench reads from the reference: on black, always the whole picture."""
    # The release thresholds the reference against its surroundings and so takes flat black for a drawing; it ignores
    # the `box` in the data, and compares pixels of pictures of two sizes.
    detected = output_box or drawn_box(output)
    wanted = thresholded_box(reference)
    if detected is None:
        return _NO_BOX
    if wanted is None:
        return Failure(kind="undefined", detail="no pixel of the reference is brighter than its surroundings less 2")
    return box_iou(detected, wanted)


@_iou("bbox_iou", protocol="corrected")
def bbox_iou(output: Pixels, reference: Pixels, box: Box | None = None, output_box: Box | None = None) -> Value:
    """IoU of the output's box and the reference's, at the output's size; boxes are given or read from the drawings."""
    detected = output_box or outlined_box(output)
    wanted = box or outlined_box(reference)
    if detected is None:
        return _NO_BOX
    if wanted is None:
        return Failure(kind="undefined", detail="no box is drawn in the reference")
    return box_iou(detected, scaled_box(wanted, reference.shape, output.shape))


def drawn_box(pixels: Pixels) -> Box | None:
    """The box around all that is drawn on black, from its first pixel to its last."""
    return _around(pixels.max(axis=2) > DRAWN)


def outlined_box(pixels: Pixels) -> Box | None:
    """The box whose outline is drawn on black: the middle of its lines, which is where it was drawn, whatever their
    width. A filled box is taken as it is."""
    region = drawn_lines(pixels)
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


@_iou("mask_iou", **_RELEASED)
def mask_iou_paper(output: Grey, reference: Grey) -> float:
    """IoU of two masks as MultiRef-Bench computes it: the reference resized to the output, 0 when both are empty."""
    wanted = (reference > 127).view(np.uint8)
    return region_iou(is_set(output), _nearest(wanted, output.shape) > 0) or 0.0


@_iou("mask_iou", protocol="corrected")
def mask_iou(output: Grey, reference: Grey) -> Value:
    """IoU of two masks; the reference is resized to the output by nearest pixels."""
    score = region_iou(is_set(output), is_set(resize(reference, (output.shape[1], output.shape[0]), "nearest")))
    return Failure(kind="undefined", detail="both masks are empty") if score is None else score


@_iou("semantic_iou", **_RELEASED)
def semantic_iou_paper(output: Pixels, reference: Grey) -> float:
    """Mean IoU of matched regions as MultiRef-Bench has it: reference read as grey, unmatched regions cost nothing."""
    return _mean_iou(exact_colours(output, MIN_REGION), reference)


def _mean_iou(regions: Labels, reference: Grey) -> float:
    pairs = match_regions(regions, exact_colours(_nearest(reference, regions.of.shape), MIN_REGION))
    return sum(iou for _, _, iou in pairs) / len(pairs) if pairs else 0.0


@_iou(protocol="corrected")
def semantic_iou(output: Pixels, reference: Pixels) -> Value:
    """Sum of the matched regions' IoU over the larger number of regions: missing and surplus regions cost."""
    return _matched_iou(colour_regions(output), reference)


def _matched_iou(regions: Labels, reference: Pixels) -> Value:
    least = round(MIN_SHARE * regions.of.size)
    wanted = colour_regions(reference).at(*regions.of.shape).without_small(least)
    if not wanted.count:
        return Failure(kind="undefined", detail="the reference map has no region")
    large = regions.without_small(least)
    return sum(iou for _, _, iou in match_regions(large, wanted)) / max(large.count, wanted.count)


@_iou("bbox_iou", of={"detector": "yolov4_tiny"}, **_RELEASED)
def detected_bbox_iou_paper(output: Pixels, reference: Pixels, detector: Network, box: Box | None = None) -> Value:
    """IoU of the surest detection in the output and what MultiRef-Bench takes for the reference's box."""
    return _iou_of(surest_box(output, detector), partial(bbox_iou_paper, output, reference, box))


@_iou("bbox_iou", of={"detector": "yolov4_tiny"}, protocol="corrected")
def detected_bbox_iou(output: Pixels, reference: Pixels, detector: Network, box: Box | None = None) -> Value:
    """IoU of the surest detection in the output and the reference's box, at the output's size."""
    return _iou_of(surest_box(output, detector), partial(bbox_iou, output, reference, box))


def _iou_of(detected: Box | Failure, iou: Callable[[Box], Value]) -> Value:
    return detected if isinstance(detected, Failure) else iou(detected)


def surest_box(picture: Pixels, detector: Network) -> Box | Failure:
    """The box that the detector is surest of, whatever it calls the thing in it.

    The best match among several detections would flatter the model, the first in the list would be chance.
    """
    (found,) = detector([picture])
    if isinstance(found, Failure):
        return found
    if not len(found["boxes"]):
        return Failure(kind="no_detection", detail="the detector finds no object in the output")
    return _as_box(found["boxes"][found["scores"].argmax()])


def _as_box(values: NDArray[Any]) -> Box:
    x1, y1, x2, y2 = (float(value) for value in values)
    return x1, y1, x2, y2


@_iou("mask_iou", of={"output": "u2netp"}, **_RELEASED)
def subject_mask_iou_paper(output: Feature, reference: Grey) -> Value:
    """IoU of the output's salient subject and the reference mask as MultiRef-Bench computes it: 0 for an empty one."""
    return mask_iou_paper(output["mask"], reference)


@_iou("mask_iou", of={"output": "u2netp"}, protocol="corrected")
def subject_mask_iou(output: Feature, reference: Grey) -> Value:
    """IoU of the output's salient subject and the reference mask."""
    if not is_set(reference).any():
        return Failure(kind="undefined", detail="the reference mask is empty")
    return mask_iou(output["mask"], reference)


LONGEST_DEFAULT = 2000
"""MultiRef-Bench segments outputs of up to this side in the default setting, larger ones in the strict one."""


class Grounder(Protocol):
    """A network that finds what a caption names."""

    def ground(self, picture: Pixels, caption: str) -> Feature | Failure: ...


class Segmenter(Protocol):
    """A network that finds regions, and masks in boxes."""

    def regions(self, picture: Pixels, settings: MaskSettings) -> Feature | Failure: ...

    def in_box(self, picture: Pixels, box: Box) -> NDArray[np.uint8] | Failure: ...


def first_box(picture: Pixels, grounder: Network, caption: str | None) -> Box | Failure:
    """The box of the first phrase of the caption that is found; without a caption, of the network's first detection.

    The release asks a chat model for a new caption of the output instead, and so for whatever that names first.
    """
    found = grounder([picture])[0] if caption is None else cast("Grounder", grounder).ground(picture, caption)
    if isinstance(found, Failure):
        return found
    if not len(found["boxes"]):
        return Failure(kind="no_detection", detail="nothing that the caption names is found in the output")
    return _as_box(found["boxes"][0])


_GROUNDED = {"grounder": "florence2_large"}


@_iou("bbox_iou", of=_GROUNDED, **_RELEASED)
def grounded_bbox_iou_paper(
    output: Pixels, reference: Pixels, grounder: Network, caption: str | None = None, box: Box | None = None
) -> Value:
    """IoU of the first box that the caption names in the output and what MultiRef-Bench takes for the reference's."""
    return _iou_of(first_box(output, grounder, caption), partial(bbox_iou_paper, output, reference, box))


@_iou("bbox_iou", of=_GROUNDED, protocol="corrected")
def grounded_bbox_iou(
    output: Pixels, reference: Pixels, grounder: Network, caption: str | None = None, box: Box | None = None
) -> Value:
    """IoU of the first box that the caption names in the output and the reference's box, at the output's size."""
    return _iou_of(first_box(output, grounder, caption), partial(bbox_iou, output, reference, box))


_MASKED = {"segmenter": "sam2_1_large", "grounder": "florence2_large"}


@_iou("mask_iou", of=_MASKED, **_RELEASED)
def grounded_mask_iou_paper(
    output: Pixels, reference: Grey, segmenter: Network, grounder: Network, caption: str | None = None
) -> Value:
    """IoU of the mask in the first box that the caption names and the reference mask, as MultiRef-Bench has it."""
    segmented = _first_mask(output, segmenter, grounder, caption)
    return segmented if isinstance(segmented, Failure) else mask_iou_paper(segmented, reference)


@_iou("mask_iou", of=_MASKED, protocol="corrected")
def grounded_mask_iou(
    output: Pixels, reference: Grey, segmenter: Network, grounder: Network, caption: str | None = None
) -> Value:
    """IoU of the mask in the first box that the caption names and the reference mask; an empty one has no value."""
    if not is_set(reference).any():
        return Failure(kind="undefined", detail="the reference mask is empty")
    segmented = _first_mask(output, segmenter, grounder, caption)
    return segmented if isinstance(segmented, Failure) else mask_iou(segmented, reference)


def _first_mask(output: Pixels, segmenter: Network, grounder: Network, caption: str | None) -> Grey | Failure:
    box = first_box(output, grounder, caption)
    return box if isinstance(box, Failure) else cast("Segmenter", segmenter).in_box(output, box)


@_iou("semantic_iou", of={"segmenter": "sam2_1_large"}, **_RELEASED)
def segmented_iou_paper(output: Pixels, reference: Grey, segmenter: Network) -> Value:
    """Mean IoU of matched regions as MultiRef-Bench has it: reference read as grey, unmatched regions cost nothing."""
    # The release paints regions in random colours and takes every colour for a region, black too: the colours
    # themselves do not matter.
    settings = DEFAULT if max(output.shape[:2]) <= LONGEST_DEFAULT else STRICT
    seen = cast("Segmenter", segmenter).regions(output, settings)
    if isinstance(seen, Failure):
        return seen
    if not seen["map"].any():
        return Failure(kind="no_detection", detail="no region is found in the output")
    regions = Labels(seen["map"].astype(np.int32) + 1, int(seen["map"].max()) + 1)
    return _mean_iou(regions.without_small(MIN_REGION), reference)


@_iou("semantic_iou", of={"output": "sam2_1_large"}, protocol="corrected")
def segmented_iou(output: Feature, reference: Pixels) -> Value:
    """Sum of the matched regions' IoU over the larger number of regions: missing and surplus regions cost.

    Both maps are made in the strict setting: the release uses a laxer one for outputs than for its references.
    """
    return _matched_iou(Labels(output["map"].astype(np.int32), int(output["map"].max())), reference)
