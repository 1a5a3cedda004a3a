"""Poses of the people that the papers' networks find in an output, against a photograph or a drawn skeleton."""

from __future__ import annotations

import cv2
import numpy as np

from refbench.extractors.line_skeleton import draw_skeletons
from refbench.failure import Failure
from refbench.metrics.colour import pillow_luma
from refbench.metrics.metric import Value, metric
from refbench.metrics.network_poses import found_pose_pixel_paper, pose_ap, pose_f1
from refbench.metrics.pixels import fitted
from refbench.networks import Feature, Network
from refbench.pictures import Pixels

HEAT = 0.1
"""A joint of OpenPose's or HigherHRNet's counts from this heat on: it is what both call a peak."""

metric("pose_ap", better="higher", range=(0, 1), of={"output": "vitpose_base", "reference": "vitpose_base"})(pose_ap)
metric("pose_pixel", better="higher", range=(0, 1), of={"output": "higherhrnet_w32"}, protocol="paper")(
    found_pose_pixel_paper
)


@metric("pose_l1", better="higher", range=(0, 1), of={"network": "openpose_body"}, protocol="paper")
def openpose_l1_paper(output: Pixels, source: Pixels, network: Network) -> Value:
    """1 - L1 of the output's skeletons as OpenPose draws them and the source drawing, both grey, as ICE-Bench has it.

    Both are mostly black, so an output without anybody still scores near 1: `pose_f1` is the corrected measure.
    """
    (found,) = network([fitted(output, source)])
    if isinstance(found, Failure):
        return found
    drawn = cv2.cvtColor(draw_skeletons(found["keypoints18"], source.shape), cv2.COLOR_RGB2GRAY)
    wanted = pillow_luma(source)
    return 1 - float(cv2.norm(drawn, wanted, cv2.NORM_L1)) / (255 * wanted.size)


def sure_pose_f1(output: Feature, reference: Pixels | None = None, source: Pixels | None = None) -> Value:
    """F1 of the output's skeletons, drawn in the style of the drawing it was given, within two percent of its size.

    The drawing is the `reference` or, as in ICE-Bench, the `source`. Nobody in the output is 0.
    """
    people = output["keypoints"]
    # Heat is no visibility: a peak of 0.2 is a joint all the same.
    seen = np.concatenate([people[:, :, :2], (people[:, :, 2:] > HEAT).astype(people.dtype)], axis=2)
    return pose_f1({**output, "keypoints": seen}, reference, source)


for _network in ("openpose_body", "higherhrnet_w32", "vitpose_base"):
    metric("pose_f1", better="higher", range=(0, 1), of={"output": _network})(sure_pose_f1)
