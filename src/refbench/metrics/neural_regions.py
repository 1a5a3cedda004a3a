"""Where the papers' networks see things in an output, against the box, mask or semantic map that the model was given.

What is looked for is what the case's caption names; without a caption, what the network itself would call the output.
The release asks a chat model for a new caption of the output instead, and so for whatever that names first.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Box, Grey, Value, metric
from refbench.metrics.regions import MIN_REGION, MIN_SHARE, Labels, colour_regions, exact_colours, match_regions
from refbench.metrics.spatial import bbox_iou, bbox_iou_paper, is_set, mask_iou, mask_iou_paper
from refbench.networks import Feature, Network
from refbench.networks.neural.sam2_settings import DEFAULT, STRICT, MaskSettings
from refbench.pictures import Pixels

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
    """The box that comes first: of the caption's first phrase that is found, or of the surest detection."""
    found = grounder([picture])[0] if caption is None else cast("Grounder", grounder).ground(picture, caption)
    if isinstance(found, Failure):
        return found
    if not len(found["boxes"]):
        return Failure(kind="no_detection", detail="nothing that the caption names is found in the output")
    x1, y1, x2, y2 = (float(value) for value in found["boxes"][0])
    return x1, y1, x2, y2


def grounded_bbox_iou_paper(
    output: Pixels, reference: Pixels, grounder: Network, caption: str | None = None, box: Box | None = None
) -> Value:
    """IoU of the first box that the caption names in the output and what MultiRef-Bench takes for the reference's."""
    found = first_box(output, grounder, caption)
    return found if isinstance(found, Failure) else bbox_iou_paper(output, reference, box, output_box=found)


def grounded_bbox_iou(
    output: Pixels, reference: Pixels, grounder: Network, caption: str | None = None, box: Box | None = None
) -> Value:
    """IoU of the first box that the caption names in the output and the reference's box, at the output's size."""
    found = first_box(output, grounder, caption)
    return found if isinstance(found, Failure) else bbox_iou(output, reference, box, output_box=found)


for _network in ("florence2_large", "grounding_dino_base"):
    _of = {"grounder": _network}
    metric("bbox_iou", better="higher", range=(0, 1), of=_of, protocol="paper")(grounded_bbox_iou_paper)
    metric("bbox_iou", better="higher", range=(0, 1), of=_of, protocol="corrected")(grounded_bbox_iou)

_MASKED: dict[str, Any] = {"segmenter": "sam2_1_large", "grounder": "florence2_large"}


@metric("mask_iou", better="higher", range=(0, 1), of=_MASKED, protocol="paper")
def grounded_mask_iou_paper(
    output: Pixels, reference: Grey, segmenter: Network, grounder: Network, caption: str | None = None
) -> Value:
    """IoU of the mask in the first box that the caption names and the reference mask, as MultiRef-Bench has it."""
    found = _first_mask(output, segmenter, grounder, caption)
    return found if isinstance(found, Failure) else mask_iou_paper(found, reference)


@metric("mask_iou", better="higher", range=(0, 1), of=_MASKED, protocol="corrected")
def grounded_mask_iou(
    output: Pixels, reference: Grey, segmenter: Network, grounder: Network, caption: str | None = None
) -> Value:
    """IoU of the mask in the first box that the caption names and the reference mask; an empty one has no value."""
    if not is_set(reference).any():
        return Failure(kind="undefined", detail="the reference mask is empty")
    found = _first_mask(output, segmenter, grounder, caption)
    return found if isinstance(found, Failure) else mask_iou(found, reference)


def _first_mask(output: Pixels, segmenter: Network, grounder: Network, caption: str | None) -> Grey | Failure:
    box = first_box(output, grounder, caption)
    return box if isinstance(box, Failure) else cast("Segmenter", segmenter).in_box(output, box)


@metric("semantic_iou", better="higher", range=(0, 1), of={"segmenter": "sam2_1_large"}, protocol="paper")
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
    found = Labels(seen["map"].astype(np.int32) + 1, int(seen["map"].max()) + 1).without_small(MIN_REGION)
    size = output.shape[1], output.shape[0]
    resized = np.asarray(cv2.resize(reference, size, interpolation=cv2.INTER_NEAREST), dtype=np.uint8)
    pairs = match_regions(found, exact_colours(resized, MIN_REGION))
    return sum(iou for _, _, iou in pairs) / len(pairs) if pairs else 0.0


@metric("semantic_iou", better="higher", range=(0, 1), of={"output": "sam2_1_large"}, protocol="corrected")
def segmented_iou(output: Feature, reference: Pixels) -> Value:
    """Sum of the matched regions' IoU over the larger number of regions: missing and surplus regions cost.

    Both maps are made in the strict setting: the release uses a laxer one for outputs than for its references.
    """
    regions = output["map"]
    least = round(MIN_SHARE * regions.size)
    wanted = colour_regions(reference).at(*regions.shape).without_small(least)
    if not wanted.count:
        return Failure(kind="undefined", detail="the reference map has no region")
    found = Labels(regions.astype(np.int32), int(regions.max())).without_small(least)
    return sum(iou for _, _, iou in match_regions(found, wanted)) / max(found.count, wanted.count)
