"""Whether the person of a reference is the person in the output."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Value, both, metric
from refbench.metrics.similarity import cosine
from refbench.networks import Feature


@metric(better="higher", range=(0, 1), of=both("dlib_face"))
def face_match(output: Feature, reference: Feature) -> Value:
    """1 minus the distance of dlib's face vectors, 0 from a distance of 1 on; the same person is above 0.4.

    The largest face of the reference against the face of the output that is nearest to it. dlib's network was
    trained for this distance (same person below 0.6); cosines of its vectors lie between 0.66 and 0.97 even for
    strangers.
    """
    if (missing := _nobody(output, reference)) is not None:
        return missing
    wanted = np.asarray(reference["vectors"][0], dtype=np.float64)
    away = np.linalg.norm(np.asarray(output["vectors"], dtype=np.float64) - wanted, axis=1)
    if not np.isfinite(away).all():
        return Failure(kind="undefined", detail="the network gave no finite distance")
    return max(0.0, 1 - float(away.min()))


def arcface_match(output: Feature, reference: Feature) -> Value:
    """Cosine of ArcFace's vectors: the largest face of the reference and the output's most alike."""
    if (missing := _nobody(output, reference)) is not None:
        return missing
    return _most_alike(output, reference["vectors"][0])


def arcface_match_paper(output: Feature, reference: Feature) -> Value:
    """Cosine of ArcFace's vectors as ICE-Bench has it: the detector's first face, red and blue exchanged.

    The detector's first face is the one it is surest of, not the largest. No face on either side is 0 in the
    released code; that is the aggregate's to impute.
    """
    if (missing := _nobody(output, reference)) is not None:
        return missing
    return _most_alike(output, reference["vectors"][int(np.argmin(reference["order"]))])


_match = partial(metric, "face_match", better="higher", range=(-1, 1))
for _network in ("arcface_buffalo_l", "arcface_mbf"):
    _match(of=both(_network), protocol="corrected")(arcface_match)
    _match(of=both(_network, "channels_swapped"), protocol="paper")(arcface_match_paper)


def _nobody(output: Feature, reference: Feature) -> Failure | None:
    for side, faces in (("output", output), ("reference", reference)):
        if not len(faces["vectors"]):
            return Failure(kind="no_detection", detail=f"no face was found in the {side}")
    return None


def _most_alike(output: Feature, wanted: NDArray[Any]) -> Value:
    cosines: list[float] = []
    for vector in output["vectors"]:
        alike = cosine(vector, wanted)
        if isinstance(alike, Failure):
            return alike
        cosines.append(alike)
    return max(cosines)
