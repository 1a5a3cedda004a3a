"""Whether an output follows the edges or lines it was given: its Canny edges or sketch against the map."""

from __future__ import annotations

import cv2
import numpy as np

from refbench.extractors.canny import HIGH, LOW, canny
from refbench.extractors.sketch import sketch_dodge
from refbench.failure import Failure
from refbench.metrics.colour import luma_agreement
from refbench.metrics.metric import Grey, Value, metric
from refbench.metrics.overlap import tolerance_at, tolerant_f1
from refbench.metrics.pixels import fitted, map_mse, squared_sum
from refbench.networks import Feature
from refbench.pictures import Pixels

TOLERANCE = 2.0
"""Pixels that an edge may lie off, in a picture whose longer side is 1024."""


@metric("canny_l1", better="higher", range=(0, 1), protocol="paper")
def canny_l1_paper(output: Pixels, source: Pixels) -> float:
    """1 - L1 of the output's Canny edges and the source edge map; edges of the colour picture, as ICE-Bench has it."""
    edges = np.asarray(cv2.Canny(np.ascontiguousarray(fitted(output, source)), LOW, HIGH), dtype=np.uint8)
    return luma_agreement(edges, source)


@metric("canny_l1", better="higher", range=(0, 1), protocol="corrected")
def canny_l1(output: Pixels, source: Pixels) -> float:
    """1 - L1 of the output's Canny edges (of its luma) and the source edge map; `edge_f1` tells models apart better."""
    return luma_agreement(canny(fitted(output, source)), source)


@metric(better="higher", range=(0, 1), protocol="corrected")
def edge_f1(output: Pixels, source: Grey) -> Value:
    """F1 of the output's Canny edges and the source edge map within two pixels at 1024: black areas earn nothing."""
    edges = canny(fitted(output, source)) > 0
    score = tolerant_f1(edges, source > 127, tolerance_at(source.shape, TOLERANCE))
    return Failure(kind="undefined", detail="neither picture has an edge") if score is None else score


@metric("canny_mse", better="lower", range=(0, 1), protocol="paper", turned=("output", "reference"), version=2)
def canny_mse_paper(output: Pixels, reference: Grey) -> float:
    """MSE of the output's Canny edges and the reference edge map, as MultiRef-Bench computes it."""
    return map_mse(canny(output), reference)


@metric(better="lower", range=(0, 1))
def dodge_mse(output: Pixels, reference: Grey) -> float:
    """MSE of the output's pencil sketch by colour dodge and the reference sketch that was drawn the same way."""
    drawn = sketch_dodge(output)
    if drawn.shape != reference.shape:
        height, width = reference.shape
        drawn = np.asarray(cv2.resize(drawn, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)
    return squared_sum(drawn, reference) / (255**2 * reference.size)


@metric("canny_mse", better="lower", range=(0, 1), protocol="corrected")
def canny_mse(output: Pixels, reference: Grey) -> float:
    """MSE of the output's Canny edges and the reference edge map; the output is resized before edges are taken."""
    # Resizing the map instead, as the released code does, smears its lines: a faithful output then loses.
    edges = canny(fitted(output, reference))
    return squared_sum(edges, reference) / (255**2 * reference.size)


@metric(better="lower", range=(0, 1), of={"output": "informative_drawings"}, turned=("reference",), version=2)
def sketch_mse(output: Feature, reference: Grey) -> float:
    """MSE of the output's line drawing (shorter side 256) and the reference sketch, as MultiRef-Bench computes it."""
    return map_mse(output["map"], reference)
