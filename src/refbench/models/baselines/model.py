"""Baselines: what any model is measured against. `truth` gives the golden picture of a case, where it has one; `copy`,
`collage` and `blend` make a picture out of what they are shown, without understanding any of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter

from refbench.case import AnyCase, Picture
from refbench.failure import Failure
from refbench.machine import cores
from refbench.models.collage import all_pixels, covering, grid
from refbench.models.model import Commission, Painted, Shown, Traits, unsupported
from refbench.networks import network_info, why_not
from refbench.pictures import decode, encode, facts_of, picture_bytes
from refbench.record import RefBenchError
from refbench.specs import Spec, model_options

NETWORK = "u2netp"
Given = tuple[bytes, str]
"""A picture, and a note on how it came about."""


class TruthModel:
    """The ceiling: the targets of the cases scored like a model's outputs."""

    def __init__(self, spec: Spec, cases: Sequence[AnyCase], path: Callable[[Picture], Path]) -> None:
        if spec.what != "truth":
            raise _unknown(spec)
        self.name = spec.name
        self.family = ""
        self.one_seed = "there is one golden output a case: leave --seeds out"
        self._path = path
        if not any(case.targets for case in cases):
            raise RefBenchError(f"--model {spec.name}: no case of this benchmark has a golden picture")

    def find(self, case: AnyCase, seed: int = 0) -> tuple[Path, ...] | Failure:
        """The golden pictures of the case, as many as are asked for."""
        paths = [self._path(picture) for picture in case.targets[: case.request.n_pictures]]
        if not paths or not all(path.is_file() for path in paths):
            return Failure(kind="missing_output", detail=f"{case.id} has no golden picture")
        return tuple(paths)


class BaselineModel:
    """The floor: `copy`, `collage` and `blend`. They see what every model sees and ignore the instruction."""

    def __init__(self, spec: Spec) -> None:
        if spec.what not in _PAINTERS:
            raise _unknown(spec)
        model_options(spec)  # there are none, and a misspelt one is said
        self.name = spec.name
        self.what = spec.what
        self.traits = Traits(price=0.0)
        # More at once than there are cores would only make each picture's time a number about the others.
        self._places = asyncio.Semaphore(cores())
        if spec.what == "blend" and (reason := why_not(NETWORK)) is not None:
            raise RefBenchError(f"--model {spec.name}: {reason}")

    def canonical(self) -> Mapping[str, str]:
        network = {NETWORK: str(network_info(NETWORK).version)} if self.what == "blend" else {}
        return {"kind": "baseline", "what": self.what, "version": "1", **network}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        # A mask is no picture to show: where it belongs to a source, the source is there too.
        shown = [picture for picture in commission.pictures if picture.role != "mask"]
        if not shown:
            return Painted(failure=unsupported(f"{self.what} needs a picture and the request has none"), cost_usd=0.0)
        async with self._places:
            start = perf_counter()
            given = await asyncio.to_thread(_PAINTERS[self.what], shown, commission.size)
            seconds = perf_counter() - start
        if isinstance(given, Failure):
            return Painted(failure=given, cost_usd=0.0)
        picture, note = given
        return Painted(
            pictures=(picture,) * commission.n_pictures,
            seconds=seconds,
            cost_usd=0.0,
            provenance={"baseline": note},
        )

    async def close(self) -> None:
        """Nothing is held."""


def _copy(shown: Sequence[Shown], size: tuple[int, int] | None) -> Given | Failure:
    """The first source, else the first reference: the file itself, unless another size is asked for."""
    chosen = next((picture for picture in shown if picture.role == "source"), shown[0])
    data = picture_bytes(chosen.path)
    if isinstance(data, Failure):
        return data
    facts = facts_of(data)
    if isinstance(facts, Failure):
        return Failure(kind="unreadable_picture", detail=f"{chosen.path.name}: {facts.detail}")
    note = f"copy of picture {shown.index(chosen) + 1}"
    if size is None or (size == (facts.width, facts.height) and facts.orientation == 1):
        return data, note
    pixels = decode(data, facts=facts)
    return pixels if isinstance(pixels, Failure) else (encode(covering(pixels, size)), f"{note}, cut to size")


def _collage(shown: Sequence[Shown], size: tuple[int, int] | None) -> Given | Failure:
    pixels = all_pixels([picture.path for picture in shown])
    return pixels if isinstance(pixels, Failure) else (encode(grid(pixels, size)), f"collage of {len(shown)} pictures")


def _blend(shown: Sequence[Shown], size: tuple[int, int] | None) -> Given | Failure:
    from refbench.models.baselines.blend import blend  # with all extractors behind it, which other commands do not need

    pixels = all_pixels([picture.path for picture in shown])
    if isinstance(pixels, Failure):
        return pixels
    blended, note = blend(pixels, [picture.role for picture in shown], size)
    return encode(blended), note


_PAINTERS: Mapping[str, Callable[[Sequence[Shown], tuple[int, int] | None], Given | Failure]] = {
    "copy": _copy,
    "collage": _collage,
    "blend": _blend,
}


def _unknown(spec: Spec) -> RefBenchError:
    known = ", ".join(["truth", *_PAINTERS])
    return RefBenchError(f"--model {spec.name}: there is no baseline {spec.what!r}, there are {known}")
