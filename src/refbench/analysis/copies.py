"""Flags: outputs that are nearly the source or a reference, so that a model which changes nothing is seen for what it
is; measures of consistency alone reward it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refbench.case import AnyCase, Picture
from refbench.failure import Failure
from refbench.machine import cores
from refbench.output import Output, StoredPicture
from refbench.pictures import Pixels, decode, read_pixels, resize
from refbench.record import Record, RefBenchError
from refbench.runs import Run
from refbench.tables.result import Result

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


@dataclass(frozen=True)
class Look:
    """What a picture is compared by: its cells, and those of its middle in other aspects, where that is less than the
    whole."""

    cells: NDArray[np.uint8]
    aspect: float
    aspects: frozenset[float]
    """Those that it can be compared with."""
    cuts: Mapping[float, NDArray[np.uint8]]


Given = tuple[FlagName, str, Look | Failure]
"""A picture that a model was given: what a copy of it is flagged as, its name, and how it looks."""


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
    mine = look_at(read_pixels(output))
    aspects = aspects_of([mine])
    given: list[Given] = [("near_source", path.name, look_at(read_pixels(path), aspects)) for path in sources]
    given += [("near_reference", path.name, look_at(read_pixels(path), aspects)) for path in references]
    return nearest_copy(mine, given)


def look_at(pixels: Pixels | Failure, aspects: Collection[float] = ()) -> Look | Failure:
    """How a picture looks, to be compared with others of these aspects."""
    if isinstance(pixels, Failure):
        return pixels
    cuts = {aspect: _cut(pixels, aspect) for aspect in aspects}
    return Look(
        cells=_cells(pixels),
        aspect=pixels.shape[1] / pixels.shape[0],
        aspects=frozenset(aspects),
        cuts={aspect: _cells(cut) for aspect, cut in cuts.items() if cut.shape != pixels.shape},
    )


def aspects_of(looks: Iterable[Look | Failure]) -> set[float]:
    """The aspects of outputs, for looking at what they are compared with."""
    return {look.aspect for look in looks if isinstance(look, Look)}


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
        looks = [[look_at(_stored(run, picture)) for picture in output.pictures] for output in of_case[case.id]]
        aspects = aspects_of(one for of_output in looks for one in of_output)
        given: list[Given] = [
            (
                "near_source" if p.role == "source" else "near_reference",
                p.name,
                look_at(read_pixels(path_of(p)), aspects),
            )
            for p in case.request.pictures
        ]
        return [(output, _of_output(mine, given)) for output, mine in zip(of_case[case.id], looks, strict=True)]

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


def copies_of(result: Result, run: Run, pictures: Path | None) -> CopyCheck | str:
    """The flags of a run that has been scored; a sentence where there is nothing to compare outputs with. `pictures` is
    where the cases' pictures lie, None where nobody knows."""
    outputs = [output for output in run.outputs() if output.pictures and output.step is None]
    if not outputs:
        return "not checked: the run holds no outputs"
    if not any(case.request.pictures for case in result.cases):
        return "nothing to check: no case has a source or reference"
    if pictures is None:
        return "not checked: where the sources and references lie is not known; give --data DIR"
    return near_copies(run, result.cases, lambda picture: pictures / picture.name, outputs=outputs)


def distance(first: Pixels, second: Pixels) -> float:
    """The greatest difference of a cell, after resizing, or after cutting the second to the first's aspect if that is
    nearer: models give back a square either way."""
    mine = look_at(first)
    other = look_at(second, aspects_of([mine]))
    assert isinstance(mine, Look) and isinstance(other, Look)
    return _apart(mine, other)


def _apart(output: Look, given: Look) -> float:
    fitted = [given.cells, *([given.cuts[output.aspect]] if output.aspect in given.cuts else [])]
    mine = output.cells.astype(np.float64) / 255
    return min(float(np.abs(mine - one.astype(np.float64) / 255).mean(axis=2).max()) for one in fitted)


def _of_output(looks: Sequence[Look | Failure], given: Sequence[Given]) -> Copy | Failure | None:
    """The nearest copy among the pictures of an output: one of several is enough."""
    nearest = [nearest_copy(look, given) for look in looks]
    copies = [one for one in nearest if isinstance(one, Copy)]
    if copies:
        return min(copies, key=lambda copy: copy.distance)
    return next((one for one in nearest if isinstance(one, Failure)), None)


def nearest_copy(output: Look | Failure, given: Sequence[Given]) -> Copy | Failure | None:
    """The nearest of the pictures, which were looked at for the output's aspect, if it is near enough; a Failure where
    one cannot be opened and none is near."""
    if isinstance(output, Failure):
        return output
    copies = [
        Copy(flag=flag, against=name, distance=round(_apart(output, look), 4))
        for flag, name, look in given
        if not isinstance(look, Failure)
    ]
    near = [copy for copy in copies if copy.distance <= NEAR]
    if near:
        return min(near, key=lambda copy: copy.distance)
    return next((look for _, _, look in given if isinstance(look, Failure)), None)


def _stored(run: Run, picture: StoredPicture) -> Pixels | Failure:
    try:
        return decode(run.blobs.get(picture.sha256, picture.format))
    except RefBenchError as error:
        return Failure(kind="unreadable_picture", detail=str(error))


def _cells(pixels: Pixels) -> NDArray[np.uint8]:
    return resize(pixels, (SIDE, SIDE), "box")


def _cut(pixels: Pixels, aspect: float) -> Pixels:
    """The middle of the picture, as wide and high as the aspect of another allows."""
    height, width = pixels.shape[:2]
    wide, high = max(1, min(width, round(height * aspect))), max(1, min(height, round(width / aspect)))
    left, top = (width - wide) // 2, (height - high) // 2
    return np.ascontiguousarray(pixels[top : top + high, left : left + wide])
