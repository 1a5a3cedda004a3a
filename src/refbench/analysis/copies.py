"""Flags: outputs that are nearly the source or a reference, so that a model which changes nothing is seen for what it
is; measures of consistency alone reward it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import numpy as np

from refbench.case import AnyCase, Picture
from refbench.failure import Failure
from refbench.machine import cores
from refbench.output import Output
from refbench.pictures import Pixels, decode, resize
from refbench.record import Record
from refbench.runs import Run
from refbench.stats import Array

FlagName = Literal["near_source", "near_reference"]

SIDE = 16
"""Pictures are compared as 16 x 16 cells of mean colour: fine enough for an object of 2 % of the area, and coarse
enough that sizes, codecs and noise do not show."""
NEAR = 0.05
"""The greatest difference of any cell (0 to 1, mean of the channels) at which two pictures are nearly the same.

Measured on 123 source pictures of CREval: at 0.05, 99.9 % of copies are flagged (JPEG of quality 95, 50 and 20, half
and quarter size, squashed to a square, blurred, noisy, brighter by 3 %), no picture with an object of 2 % or more put
in, none brighter by 20 %, 2 % of those in a warmer tone, and no two different pictures. The table is in
docs/precision.md. Copies that are cropped or moved are not found, but for the centre crop to another aspect.
"""


class Copy(Record):
    """What an output is nearly equal to, and how nearly: the greatest difference of a cell."""

    flag: FlagName
    against: str
    distance: float


class CopyFlag(Copy):
    """A flagged output of a run."""

    case: str
    model: str
    seed: int


class NotChecked(Record):
    """An output that could not be compared with all it should be, and why: it is neither flagged nor cleared."""

    case: str
    model: str
    seed: int
    why: str


class CopyCheck(Record):
    """The flags of a run. `checked` counts the outputs of each model that were compared with everything."""

    flags: tuple[CopyFlag, ...]
    not_checked: tuple[NotChecked, ...]
    checked: Mapping[str, int]


def flag_of(output: Path, sources: Sequence[Path], references: Sequence[Path]) -> Copy | Failure | None:
    """The picture that the output is nearest to, if it is near enough; a Failure where a picture cannot be opened and
    nothing else says that it is a copy. Thumbnails of 128 pixels or more do as well as the pictures themselves."""
    opened: list[tuple[FlagName, str, Pixels | Failure]] = [("near_source", p.name, _pixels(p)) for p in sources]
    opened += [("near_reference", path.name, _pixels(path)) for path in references]
    return _nearest(_pixels(output), opened)


def near_copies(
    run: Run, cases: Iterable[AnyCase], path_of: Callable[[Picture], Path], *, outputs: Iterable[Output] | None = None
) -> CopyCheck:
    """Compare every final output of a run with the pictures its model was given, for the cases that have any.

    `path_of` says where an input picture lies (`Dataset.path`).
    """
    of_case: dict[str, list[Output]] = {}
    for output in run.outputs() if outputs is None else outputs:
        if output.step is None and output.pictures:
            of_case.setdefault(output.case, []).append(output)
    wanted = [case for case in cases if case.id in of_case and case.request.pictures]
    flags: list[CopyFlag] = []
    not_checked: list[NotChecked] = []
    checked: Counter[str] = Counter()

    def look(case: AnyCase) -> list[tuple[Output, Copy | Failure | None]]:
        given: list[tuple[FlagName, str, Pixels | Failure]] = [
            ("near_source" if p.role == "source" else "near_reference", p.name, _pixels(path_of(p)))
            for p in case.request.pictures
        ]
        return [(output, _of_output(run, output, given)) for output in of_case[case.id]]

    with ThreadPoolExecutor(cores()) as pool:
        for of_one_case in pool.map(look, wanted):
            for output, nearest in of_one_case:
                place = {"case": output.case, "model": output.model, "seed": output.seed}
                if isinstance(nearest, Failure):
                    not_checked.append(NotChecked(**place, why=nearest.detail or nearest.kind))
                    continue
                checked[output.model] += 1
                if nearest is not None:
                    flags.append(CopyFlag(**place, **nearest.model_dump()))
    return CopyCheck(flags=tuple(flags), not_checked=tuple(not_checked), checked=dict(checked))


def distance(first: Pixels, second: Pixels) -> float:
    """The greatest difference of a cell, after resizing, or after cutting the second to the first's aspect if that is
    nearer: models give back a square either way."""
    mine = _cells(first)
    return min(float(np.abs(mine - _cells(fitted)).mean(axis=2).max()) for fitted in (second, _cut(second, first)))


def _of_output(
    run: Run, output: Output, given: Sequence[tuple[FlagName, str, Pixels | Failure]]
) -> Copy | Failure | None:
    """The nearest copy among the pictures of an output: one of several is enough."""
    nearest = [_nearest(_pixels(run.blobs.path(p.sha256, p.format)), given) for p in output.pictures]
    copies = [one for one in nearest if isinstance(one, Copy)]
    if copies:
        return min(copies, key=lambda copy: copy.distance)
    return next((one for one in nearest if isinstance(one, Failure)), None)


def _nearest(
    output: Pixels | Failure, given: Sequence[tuple[FlagName, str, Pixels | Failure]]
) -> Copy | Failure | None:
    if isinstance(output, Failure):
        return output
    copies = [
        Copy(flag=flag, against=name, distance=round(distance(output, pixels), 4))
        for flag, name, pixels in given
        if not isinstance(pixels, Failure)
    ]
    near = [copy for copy in copies if copy.distance <= NEAR]
    if near:
        return min(near, key=lambda copy: copy.distance)
    return next((pixels for _, _, pixels in given if isinstance(pixels, Failure)), None)


def _pixels(path: Path) -> Pixels | Failure:
    try:
        pixels = decode(path.read_bytes())
    except OSError as error:
        pixels = Failure(kind="unreadable_picture", detail=error.strerror or str(error))
    if isinstance(pixels, Failure):
        return Failure(kind=pixels.kind, detail=f"{path.name}: {pixels.detail}")
    return pixels


def _cells(pixels: Pixels) -> Array:
    return resize(pixels, (SIDE, SIDE), "box").astype(np.float64) / 255


def _cut(pixels: Pixels, like: Pixels) -> Pixels:
    """The middle of the picture, as wide and high as the other's aspect allows."""
    height, width = pixels.shape[:2]
    aspect = like.shape[1] / like.shape[0]
    wide, high = max(1, min(width, round(height * aspect))), max(1, min(height, round(width / aspect)))
    left, top = (width - wide) // 2, (height - high) // 2
    return np.ascontiguousarray(pixels[top : top + high, left : left + wide])
