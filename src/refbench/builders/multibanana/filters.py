"""Filters: which pictures and sets are not used, as data; and the figures of pictures that they are about, measured by
networks, each picture once however often it is built."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from refbench.builders.kit.replies import package_text
from refbench.builders.kit.store import Store
from refbench.builders.multibanana.pictures import PoolPicture
from refbench.failure import Failure
from refbench.machine import cores
from refbench.networks import load_network, networks, why_not
from refbench.networks.cache import weights_key
from refbench.pictures import Pixels, read_pixels
from refbench.record import Record, RefBenchError, content_key
from refbench.text.files import toml_file

OBJECT_FILTERS = ("object_box", "object_mask", "object_name")
"""In the order in which an object has to pass them."""


class Filter(Record):
    """The range of a figure, and who gives it."""

    use: bool = True
    predictor: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None

    def fault(self, name: str, value: float) -> str:
        """In which direction the value is outside, "" when it is not."""
        if self.least is not None and value < self.least:
            return f"{name} below {self.least:g}"
        if self.most is not None and value > self.most:
            return f"{name} above {self.most:g}"
        return ""

    def words(self) -> str:
        if not self.use:
            return "off"
        ends = [] if self.least is None else [f"at least {self.least:g}"]
        ends += [] if self.most is None else [f"at most {self.most:g}"]
        return ", ".join(ends) or "no limit"


Filters: TypeAlias = Mapping[str, Filter]


class ObjectFigures(Record):
    """An object that a detector found; a figure is None where it was not asked for or nobody could give it."""

    label: str
    sure: float
    box: float
    mask: float | None = None
    name: float | None = None

    def fault(self, filters: Filters) -> tuple[int, str, str]:
        """How many filters it passed, the one that stopped it, and the figure; ("", "") when none did."""
        for passed, filter_name in enumerate(OBJECT_FILTERS):
            value = getattr(self, filter_name.removeprefix("object_"))
            if value is None or not filters[filter_name].use:
                continue
            if fault := filters[filter_name].fault(filter_name.replace("_", " "), value):
                return passed, fault, f"{self.label}: {value:.3g}"
        return len(OBJECT_FILTERS), "", ""


class PictureFigures(Record):
    """The figures of a picture. `objects` is None where no detector runs, empty where it finds none."""

    size: int
    aesthetic: float | None = None
    unsafe: float | None = None
    objects: tuple[ObjectFigures, ...] | None = None
    unmeasured: Mapping[str, str] = {}
    """Filters whose network gave no figure for this picture, and why."""

    @property
    def scenery_only(self) -> bool:
        """Without an object that could be taken out of it, a picture gives its surroundings and its looks."""
        return self.objects == ()


def load_filters(path: Path | None = None) -> Filters:
    """The shipped filters, with what a user's TOML file says of any of them in its place, field by field."""
    shipped = tomllib.loads(package_text("refbench.builders.multibanana", "data/filters.toml"))
    found = {name: Filter.model_validate(said) for name, said in shipped.items()}
    if path is None:
        return found
    for name, said in toml_file(path, "--filters").items():
        if name not in found or not isinstance(said, dict):
            raise RefBenchError(f"--filters {path}: {name} is no table of a filter: there are {', '.join(found)}")
        try:
            found[name] = Filter.model_validate({**found[name].model_dump(), **said})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, (name, *first["loc"])))
            raise RefBenchError(f"--filters {path}: {where}: {first['msg']}") from error
        for network in found[name].predictor:
            if network not in networks():
                raise RefBenchError(f"--filters {path}: {name}: no network is called {network}: refbench list networks")
    return found


def picture_fault(seen: PictureFigures, filters: Filters) -> tuple[str, str] | None:
    """Why a picture is not used, and the figure; None where it passes all filters that could be measured."""
    if seen.unmeasured:
        name, detail = min(seen.unmeasured.items())
        return f"{name} could not be measured", detail
    figures = {"size": float(seen.size), "aesthetic": seen.aesthetic, "unsafe": seen.unsafe}
    for name, value in figures.items():
        if filters[name].use and value is not None and (fault := filters[name].fault(name, value)):
            return fault, f"{name} {value:.4g}"
    if not seen.objects:
        return None
    _, fault, detail = max((one.fault(filters) for one in seen.objects), key=lambda told: told[0])
    return (fault, detail) if fault else None


# --- the figures -----------------------------------------------------------------------------------------------

VERSION = 1
"""Bumped when the same picture would get other figures."""
_MARGIN = 0.1
"""Of a box, on each side: what is cut out with nothing around it has no outline that a saliency network could find."""
_MOST_OBJECTS = 5
"""Objects of a picture that are looked at closely, the surest first, until one passes."""
_SHOWN = 50


@dataclass(frozen=True)
class FilterNetworks:
    """The network behind each filter, and the filters that have none here."""

    filters: Filters
    chosen: Mapping[str, str]
    missing: Mapping[str, str]
    device: str = "cpu"
    load: Callable[[str, str], Any] = field(default=load_network, repr=False)

    @property
    def key(self) -> str:
        """Other networks, weights or limits give other figures: which objects are looked at depends on the limits."""
        weights = {name: [network, weights_key(network)] for name, network in self.chosen.items()}
        limits = {name: self.filters[name].model_dump() for name in ("object", *OBJECT_FILTERS)}
        return content_key([VERSION, weights, limits])

    def network(self, name: str) -> Any | None:
        """The network of a filter, None where it is off or missing."""
        return self.load(self.chosen[name], self.device) if name in self.chosen else None


def choose_networks(filters: Filters, device: str = "cpu") -> FilterNetworks:
    """Choose the networks. Nothing is loaded."""
    chosen: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name, one in filters.items():
        if not (one.use and one.predictor):
            continue
        reasons = {network: why_not(network) for network in one.predictor}
        runs = [network for network, reason in reasons.items() if reason is None]
        if runs:
            chosen[name] = runs[0]
        else:
            missing[name] = "; ".join(str(reason) for reason in reasons.values())
    if "object" not in chosen:  # there is nothing whose mask or name could be looked at
        for name in ("object_mask", "object_name"):
            chosen.pop(name, None)
    return FilterNetworks(filters, chosen, missing, device)


def measure_all(
    pictures: Sequence[PoolPicture],
    predictors: FilterNetworks,
    store: Store,
    show: Callable[[str], None] = lambda line: None,
) -> dict[str, PictureFigures]:
    """The figures of each picture by its hash; those in the store are taken from there."""
    keys = {one.sha256: content_key([predictors.key, one.sha256]) for one in pictures}
    todo = [one for one in pictures if keys[one.sha256] not in store]
    for name in predictors.chosen if todo else ():
        predictors.network(name)  # loaded here once, not by the first threads at the same time
    with ThreadPoolExecutor(cores()) as threads:
        measured = threads.map(lambda one: measure(one, predictors), todo)
        for number, (picture, seen) in enumerate(zip(todo, measured, strict=True), 1):
            store.put(keys[picture.sha256], seen.model_dump(mode="json"))
            if number % _SHOWN == 0 or number == len(todo):
                show(f"{number} of {len(todo)} pictures measured")
    return {one.sha256: PictureFigures.model_validate(store.get(keys[one.sha256])) for one in pictures}


def measure(picture: PoolPicture, predictors: FilterNetworks) -> PictureFigures:
    """The figures of one picture."""
    size = max(picture.size)
    if not predictors.chosen:
        return PictureFigures(size=size)
    pixels = read_pixels(picture.path)
    if isinstance(pixels, Failure):
        return PictureFigures(size=size, unmeasured={"picture": str(pixels)})
    figures: dict[str, Any] = {}
    unmeasured: dict[str, str] = {}
    for name in ("aesthetic", "unsafe", "object"):
        network = predictors.network(name)
        if network is None:
            continue
        found = network([pixels])[0]
        if isinstance(found, Failure):
            unmeasured[name] = str(found)
        elif name == "object":
            figures["objects"] = tuple(_objects(pixels, found, predictors))
        else:
            figures[name] = round(float(found["score"]), 6)
    return PictureFigures(size=size, unmeasured=unmeasured, **figures)


def _objects(
    pixels: Pixels, detected: Mapping[str, NDArray[Any]], predictors: FilterNetworks
) -> Iterator[ObjectFigures]:
    """What was found, the surest first. Masks and names cost a pass each: they end with the first object that passes,
    and an object whose box is too small is not looked at closely."""
    height, width = pixels.shape[:2]
    least = predictors.filters["object"].least or 0.0
    looked = 0
    for box, sure, label in zip(detected["boxes"], detected["scores"], detected["labels"], strict=True):
        if float(sure) < least:
            continue
        corners = np.clip(np.asarray(box, float), 0, [width, height, width, height])
        share = float((corners[2] - corners[0]) * (corners[3] - corners[1])) / (width * height)
        one = ObjectFigures(label=str(label), sure=round(float(sure), 4), box=round(share, 6))
        if not one.fault(predictors.filters)[1] and share > 0:
            if looked == _MOST_OBJECTS:
                return
            looked += 1
            figure = {
                "mask": _mask_share(pixels, corners, predictors),
                "name": _similarity(pixels, corners, one.label, predictors),
            }
            one = one.model_copy(update={k: None if v is None else round(v, 6) for k, v in figure.items()})
            if not one.fault(predictors.filters)[1]:
                yield one
                return
        yield one


def _mask_share(pixels: Pixels, box: NDArray[np.float64], predictors: FilterNetworks) -> float | None:
    """How much of the box the object fills: by a segmenter that takes boxes, else by the salient part of the box with
    some room around it. Of 10 photographs whose object the saliency of the whole picture missed, this finds 5."""
    network = predictors.network("object_mask")
    if network is None:
        return None
    x1, y1, x2, y2 = (int(v) for v in (*np.floor(box[:2]), *np.ceil(box[2:])))
    height, width = pixels.shape[:2]
    whole = np.zeros((height, width), bool)
    if hasattr(network, "in_box"):
        mask = network.in_box(pixels, tuple(map(float, box)))
        if not isinstance(mask, Failure):
            whole = mask > 0
    else:
        dx, dy = round(_MARGIN * (x2 - x1)), round(_MARGIN * (y2 - y1))
        left, top, right, bottom = max(0, x1 - dx), max(0, y1 - dy), min(width, x2 + dx), min(height, y2 + dy)
        found = network([np.ascontiguousarray(pixels[top:bottom, left:right])])[0]
        if not isinstance(found, Failure):  # nothing stands out in the box: nothing of it is filled
            whole[top:bottom, left:right] = found["mask"] > 0
    return float(whole[y1:y2, x1:x2].mean())


def _similarity(pixels: Pixels, box: NDArray[np.float64], label: str, predictors: FilterNetworks) -> float | None:
    """100 x cosine of the class name and what is in the box."""
    network = predictors.network("object_name")
    if network is None:
        return None
    x1, y1, x2, y2 = (int(v) for v in (*np.floor(box[:2]), *np.ceil(box[2:])))
    shown, said = network([np.ascontiguousarray(pixels[y1:y2, x1:x2]), label])
    if isinstance(shown, Failure) or isinstance(said, Failure):
        return None
    a, b = np.asarray(shown["vector"], float), np.asarray(said["vector"], float)
    return float(100 * (a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)))
