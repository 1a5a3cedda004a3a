"""Whether the person of a reference is the person in the output."""

from __future__ import annotations

import numpy as np

from refbench.failure import Failure
from refbench.metrics.metric import Value, metric
from refbench.networks import Feature


@metric(better="higher", range=(0, 1), of={"output": "dlib_face", "reference": "dlib_face"})
def face_match(output: Feature, reference: Feature) -> Value:
    """1 minus the distance of dlib's face vectors, 0 from a distance of 1 on; the same person is above 0.4.

    The largest face of the reference against the face of the output that is nearest to it. dlib's network was
    trained for this distance (same person below 0.6); cosines of its vectors lie between 0.66 and 0.97 even for
    strangers.
    """
    for side, faces in (("output", output), ("reference", reference)):
        if not len(faces["vectors"]):
            return Failure(kind="no_detection", detail=f"no face was found in the {side}")
    wanted = np.asarray(reference["vectors"][0], dtype=np.float64)
    away = np.linalg.norm(np.asarray(output["vectors"], dtype=np.float64) - wanted, axis=1)
    if not np.isfinite(away).all():
        return Failure(kind="undefined", detail="the network gave no finite distance")
    return max(0.0, 1 - float(away.min()))
