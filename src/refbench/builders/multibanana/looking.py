"""Looking at pictures with networks: the figures that filters are about, each picture once however often it is built.

Which network gives which figure is chosen at the start; a filter that none can serve here is named with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refbench.builders.multibanana.filters import OBJECT_FILTERS, Filters, Seen, SeenObject
from refbench.builders.multibanana.picture import PlainPicture
from refbench.failure import Failure
from refbench.machine import cores
from refbench.networks import load_network, why_not
from refbench.networks.cache import weights_key
from refbench.pictures import Pixels, decode
from refbench.record import content_key
from refbench.refblend.store import Store

VERSION = 1
"""Bumped when the same picture would get other figures."""
_MARGIN = 0.1
"""Of a box, on each side: what is cut out with nothing around it has no outline that a saliency network could find."""
_MOST_OBJECTS = 5
"""Objects of a picture that are looked at closely, the surest first, until one passes."""
_SHOWN = 50


@dataclass(frozen=True)
class Eyes:
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


def open_eyes(filters: Filters, device: str = "cpu") -> Eyes:
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
    return Eyes(filters, chosen, missing, device)


def figures(
    pictures: Sequence[PlainPicture], eyes: Eyes, store: Store, show: Callable[[str], None] = lambda line: None
) -> dict[str, Seen]:
    """The figures of each picture by its hash; those in the store are taken from there."""
    keys = {one.sha256: content_key([eyes.key, one.sha256]) for one in pictures}
    todo = [one for one in pictures if keys[one.sha256] not in store]
    for name in eyes.chosen if todo else ():
        eyes.network(name)  # loaded here once, not by the first threads at the same time
    with ThreadPoolExecutor(cores()) as threads:
        measured = threads.map(lambda one: look(one, eyes), todo)
        for number, (picture, seen) in enumerate(zip(todo, measured, strict=True), 1):
            store.put(keys[picture.sha256], seen.model_dump(mode="json"))
            if number % _SHOWN == 0 or number == len(todo):
                show(f"{number} of {len(todo)} pictures measured")
    return {one.sha256: Seen.model_validate(store.get(keys[one.sha256])) for one in pictures}


def look(picture: PlainPicture, eyes: Eyes) -> Seen:
    """The figures of one picture."""
    size = max(picture.width, picture.height)
    if not eyes.chosen:
        return Seen(size=size)
    pixels = decode(picture.path.read_bytes())
    if isinstance(pixels, Failure):
        return Seen(size=size, unmeasured={"picture": str(pixels)})
    scores: dict[str, float] = {}
    unmeasured: dict[str, str] = {}
    for name in ("aesthetic", "unsafe"):
        network = eyes.network(name)
        if network is None:
            continue
        found = network([pixels])[0]
        if isinstance(found, Failure):
            unmeasured[name] = str(found)
        else:
            scores[name] = round(float(found["score"]), 6)
    objects: tuple[SeenObject, ...] | None = None
    detector = eyes.network("object")
    if detector is not None:
        detected = detector([pixels])[0]
        if isinstance(detected, Failure):
            unmeasured["object"] = str(detected)
        else:
            objects = tuple(_objects(pixels, detected, eyes))
    return Seen(size=size, objects=objects, unmeasured=unmeasured, **scores)


def _objects(pixels: Pixels, detected: Mapping[str, NDArray[Any]], eyes: Eyes) -> Iterator[SeenObject]:
    """What was found, the surest first. Masks and names cost a pass each: they end with the first object that passes,
    and an object whose box is too small is not looked at closely."""
    height, width = pixels.shape[:2]
    least = eyes.filters["object"].least or 0.0
    looked = 0
    for box, sure, label in zip(detected["boxes"], detected["scores"], detected["labels"], strict=True):
        if float(sure) < least:
            continue
        corners = np.clip(np.asarray(box, float), 0, [width, height, width, height])
        share = float((corners[2] - corners[0]) * (corners[3] - corners[1])) / (width * height)
        one = SeenObject(label=str(label), sure=round(float(sure), 4), box=round(share, 6))
        if not one.fault(eyes.filters)[1] and share > 0:
            if looked == _MOST_OBJECTS:
                return
            looked += 1
            figure = {"mask": _mask_share(pixels, corners, eyes), "name": _similarity(pixels, corners, one.label, eyes)}
            one = one.model_copy(update={k: None if v is None else round(v, 6) for k, v in figure.items()})
            if not one.fault(eyes.filters)[1]:
                yield one
                return
        yield one


def _mask_share(pixels: Pixels, box: NDArray[np.float64], eyes: Eyes) -> float | None:
    """How much of the box the object fills: by a segmenter that takes boxes, else by the salient part of the box with
    some room around it. Of 10 photographs whose object the saliency of the whole picture missed, this finds 5."""
    network = eyes.network("object_mask")
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


def _similarity(pixels: Pixels, box: NDArray[np.float64], label: str, eyes: Eyes) -> float | None:
    """100 x cosine of the class name and what is in the box."""
    network = eyes.network("object_name")
    if network is None:
        return None
    x1, y1, x2, y2 = (int(v) for v in (*np.floor(box[:2]), *np.ceil(box[2:])))
    shown, said = network([np.ascontiguousarray(pixels[y1:y2, x1:x2]), label])
    if isinstance(shown, Failure) or isinstance(said, Failure):
        return None
    a, b = np.asarray(shown["vector"], float), np.asarray(said["vector"], float)
    return float(100 * (a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)))
