"""Where a laptop's networks see the subject of an output, against the box or mask that the model was given.

Of several detections the highest-scored one counts: the best match would flatter the model, the first in the list
would be chance.
"""

from __future__ import annotations

from refbench.failure import Failure
from refbench.metrics.metric import Box, Grey, Value, metric
from refbench.metrics.spatial import bbox_iou, bbox_iou_paper, is_set, mask_iou, mask_iou_paper
from refbench.networks import Feature, Network
from refbench.pictures import Pixels


@metric("bbox_iou", better="higher", range=(0, 1), of={"detector": "yolov4_tiny"}, protocol="paper")
def detected_bbox_iou_paper(output: Pixels, reference: Pixels, detector: Network, box: Box | None = None) -> Value:
    """IoU of the surest detection in the output and what MultiRef-Bench takes for the reference's box."""
    found = surest_box(output, detector)
    return found if isinstance(found, Failure) else bbox_iou_paper(output, reference, box, output_box=found)


@metric("bbox_iou", better="higher", range=(0, 1), of={"detector": "yolov4_tiny"}, protocol="corrected")
def detected_bbox_iou(output: Pixels, reference: Pixels, detector: Network, box: Box | None = None) -> Value:
    """IoU of the surest detection in the output and the reference's box, at the output's size."""
    found = surest_box(output, detector)
    return found if isinstance(found, Failure) else bbox_iou(output, reference, box, output_box=found)


def surest_box(picture: Pixels, detector: Network) -> Box | Failure:
    """The box that the detector is surest of, whatever it calls the thing in it."""
    (found,) = detector([picture])
    if isinstance(found, Failure):
        return found
    if not len(found["boxes"]):
        return Failure(kind="no_detection", detail="the detector finds no object in the output")
    x1, y1, x2, y2 = (float(value) for value in found["boxes"][found["scores"].argmax()])
    return x1, y1, x2, y2


@metric("mask_iou", better="higher", range=(0, 1), of={"output": "u2netp"}, protocol="paper")
def subject_mask_iou_paper(output: Feature, reference: Grey) -> Value:
    """IoU of the output's salient subject and the reference mask as MultiRef-Bench computes it: 0 for an empty one."""
    return mask_iou_paper(output["mask"], reference)


@metric("mask_iou", better="higher", range=(0, 1), of={"output": "u2netp"}, protocol="corrected")
def subject_mask_iou(output: Feature, reference: Grey) -> Value:
    """IoU of the output's salient subject and the reference mask."""
    if not is_set(reference).any():
        return Failure(kind="undefined", detail="the reference mask is empty")
    return mask_iou(output["mask"], reference)
