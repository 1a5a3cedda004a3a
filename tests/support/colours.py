"""Colours of the pages as people see them who lack one kind of cone: how far apart they are, and from the ground."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np

from refbench.stats import Array
from support.site_fixture import ASSETS

CONTRAST = 3.0
"""What WCAG 2.2 asks of graphics against their ground."""
DISTANCE = 15.0
"""In CIELAB, for each kind of sight: colours side by side are told apart from about 2 on, small dots need more."""

_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_SIGHT = (
    np.eye(3),
    # Protanopia, deuteranopia and tritanopia, on linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
    np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
)


def model_colours(scheme: int) -> tuple[str, list[str]]:
    """The ground of a chart and the colours of models, light (0) or dark (1)."""
    style = (ASSETS / "theme.css").read_text("utf-8")
    pairs = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}), #\w{6}\)", style))
    darks = dict(re.findall(r"--([\w-]+): light-dark\(#\w{6}, (#\w{6})\)", style))
    found = (pairs, darks)[scheme]
    return found["surface"], [found[name] for name in sorted(found) if re.fullmatch(r"m\d", name)]


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG."""
    light, dark = sorted((float(_XYZ[1] @ _linear(colour)) for colour in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def distances(colours: Sequence[str]) -> Iterator[float]:
    """Of every two colours, for every kind of sight."""
    for sight in _SIGHT:
        seen = [_lab(sight @ _linear(colour)) for colour in colours]
        yield from (float(np.linalg.norm(one - other)) for one, other in itertools.combinations(seen, 2))


def _linear(colour: str) -> Array:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear: Array = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear


def _lab(linear: Array) -> Array:
    xyz = _XYZ @ np.clip(linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
