"""Opened: pictures read and decoded once, however many metrics look at them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Box, Input, Metric, Of, find_metric
from refbench.metrics.views import VIEWS
from refbench.networks import Feature, dtype_of, load_network, network_info, why_not
from refbench.networks.cache import FeatureCache, cache_folder
from refbench.pictures import PictureFacts, Pixels, decode, facts_of
from refbench.record import Record, RefBenchError, content_key

Array: TypeAlias = NDArray[np.uint8]


def decodes_alike(facts: PictureFacts) -> bool:
    """Whether both protocols see the same pixels: `paper` ignores EXIF turns and drops alpha, `corrected` does not."""
    return facts.orientation == 1 and facts.mode in ("RGB", "L", "1", "CMYK", "I;16")


class Opened:
    """The pictures of one piece of work. `paper` sees stored orientation and no alpha; greyscale is OpenCV's."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[bytes, PictureFacts] | Failure] = {}
        self._given: dict[Path, str] = {}
        self._decoded: dict[tuple[Path, str, str], Array | Failure] = {}

    def add(self, name: str, pixels: Array) -> Path:
        """A picture that is in memory already, under a name that serves as its path."""
        path = Path(name)
        rgb = np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else pixels
        grey = pixels if pixels.ndim == 2 else cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
        self._given[path] = hashlib.sha256(repr(pixels.shape).encode() + pixels.tobytes()).hexdigest()
        for protocol in ("paper", "corrected"):
            self._decoded[path, protocol, "pixels"] = np.ascontiguousarray(rgb)
            self._decoded[path, protocol, "grey"] = np.asarray(grey)
        return path

    def sha256(self, path: Path) -> str | Failure:
        """The hash of the file's bytes."""
        if path in self._given:
            return self._given[path]
        read = self._file(path)
        return read if isinstance(read, Failure) else read[1].sha256

    def alike(self, path: Path) -> bool:
        """Whether both protocols see the same pixels of this picture."""
        if path in self._given:
            return True
        read = self._file(path)
        return isinstance(read, Failure) or decodes_alike(read[1])

    def pixels(self, path: Path, protocol: str) -> Pixels | Failure:
        """The picture in RGB."""
        return self._get(path, protocol, "pixels")

    def grey(self, path: Path, protocol: str) -> Array | Failure:
        """The picture as one channel."""
        return self._get(path, protocol, "grey")

    def _get(self, path: Path, protocol: str, kind: str) -> Array | Failure:
        way = "paper" if protocol == "paper" or self.alike(path) else "corrected"
        place = path, way, kind
        if place not in self._decoded:
            read = self._file(path)
            if isinstance(read, Failure):
                return read
            decoded = self._decode(*read, way) if kind == "pixels" else self._decode_grey(*read, way)
            if isinstance(decoded, Failure):
                decoded = Failure(kind=decoded.kind, detail=f"{path.name}: {decoded.detail}")
            self._decoded[place] = decoded
        return self._decoded[place]

    def _decode(self, data: bytes, facts: PictureFacts, way: str) -> Array | Failure:
        return decode(data, exif=way == "corrected", alpha="white" if way == "corrected" else "drop", facts=facts)

    def _decode_grey(self, data: bytes, facts: PictureFacts, way: str) -> Array | Failure:
        if way == "corrected":
            rgb = self._decode(data, facts, way)
            return rgb if isinstance(rgb, Failure) else np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY))
        flags = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
        grey = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if grey is None:
            return Failure(kind="unreadable_picture", detail="the data is damaged")
        return np.asarray(grey, dtype=np.uint8)

    def _file(self, path: Path) -> tuple[bytes, PictureFacts] | Failure:
        if path not in self._read:
            self._read[path] = _read(path)
        return self._read[path]


def _read(path: Path) -> tuple[bytes, PictureFacts] | Failure:
    try:
        data = path.read_bytes()
    except OSError as error:
        return Failure(kind="unreadable_picture", detail=f"{path.name}: {error.strerror}")
    facts = facts_of(data)
    if isinstance(facts, Failure):
        return Failure(kind=facts.kind, detail=f"{path.name}: {facts.detail}")
    return data, facts


# Measuring: many metrics of many pictures, with every picture decoded once and every feature computed once.
#
# A `Job` is one metric of one output. `Measurer` takes jobs by the chunk: it collects the distinct features that they
# ask for, takes those that are cached, computes the others in batches, and then calls the small functions.

_TOLERANCE = 1e-5
"""How far outside of its range rounding may carry a value."""


class Job(Record):
    """One metric of one output: where the pictures are by the names of the metric's arguments, and what is told."""

    metric: str
    protocol: str = ""
    """The protocol whose variant of the metric is meant; empty when both measure alike."""
    decoding: str = ""
    """The protocol that the pictures are decoded by, where that makes a difference."""
    pictures: Mapping[str, str]
    facts: Mapping[str, Any] = {}


class Measurement(Record):
    """A value, or why there is none. `sizes` (width, height) is there when the pictures differ in size, and something
    had to be resized as the metric's protocol says."""

    value: float | None = None
    failure: Failure | None = None
    sizes: Mapping[str, tuple[int, int]] = {}


@dataclass(frozen=True)
class _Wanted:
    """One feature: a network looking at a picture (through a view that may need others) or at a text."""

    of: Of
    pictures: tuple[tuple[str, Path], ...]
    text: str | None
    decoding: str


@dataclass
class Measurer:
    """Measures chunks of jobs. Values do not depend on how jobs are grouped.

    Pictures for networks are decoded by `decoders` threads at a time: a GPU would wait for one alone.
    """

    device: str = "cpu"
    dtype: str = "float32"
    batch: int = 16
    decoders: int = 1
    cache: FeatureCache = field(default_factory=lambda: FeatureCache(cache_folder()))

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.decoders) if self.decoders > 1 else None

    def __call__(self, jobs: Sequence[Job], opened: Opened | None = None) -> list[Measurement]:
        opened = opened or Opened()
        planned = [(job, find_metric(job.metric, job.protocol or "corrected")) for job in jobs]
        wanted = {w: None for job, metric in planned for w in _features(job, metric)}
        features = self._compute(list(wanted), opened)
        return [self._measure(job, metric, features, opened) for job, metric in planned]

    def features(self, network: str, paths: Sequence[Path]) -> list[Feature | Failure]:
        """What a network says of whole pictures, for metrics of sets and for whoever wants to look."""
        wanted = [_Wanted(Of(network), (("output", path),), None, "corrected") for path in paths]
        found = self._compute(wanted, Opened())
        return [found[w] for w in wanted]

    def _compute(self, wanted: Sequence[_Wanted], opened: Opened) -> dict[_Wanted, Feature | Failure]:
        """Every wanted feature, from the cache or from its network, network by network."""
        found: dict[_Wanted, Feature | Failure] = {}
        for name in dict.fromkeys(w.of.network for w in wanted):
            info = network_info(name)
            keys: dict[_Wanted, str] = {}
            for w in (w for w in wanted if w.of.network == name):
                key = _key(w, opened)
                if isinstance(key, Failure):
                    found[w] = key
                else:
                    keys[w] = key
            dtype = dtype_of(name, self.dtype)
            known = self.cache.get(info, dtype, list(keys.values()))
            new = {key: w for w, key in keys.items() if key not in known}
            order = list(new)
            for start in range(0, len(order), self.batch):
                part = order[start : start + self.batch]
                made = self._run(name, [new[key] for key in part], opened)
                fresh = dict(zip(part, made, strict=True))
                self.cache.put(info, dtype, fresh)
                known |= fresh
            found |= {w: known[key] for w, key in keys.items()}
        return found

    def _run(self, name: str, wanted: Sequence[_Wanted], opened: Opened) -> list[Feature | Failure]:
        def shown(w: _Wanted) -> Any:
            return w.text if w.text is not None else _view(w, opened)

        seen: list[Any] = list(self._pool.map(shown, wanted)) if self._pool else [shown(w) for w in wanted]
        good = [item for item in seen if not isinstance(item, Failure)]
        made = iter(load_network(name, self.device, self.dtype)(good) if good else [])
        return [item if isinstance(item, Failure) else next(made) for item in seen]

    def _measure(
        self, job: Job, metric: Metric, features: Mapping[_Wanted, Feature | Failure], opened: Opened
    ) -> Measurement:
        arguments: dict[str, Any] = {}
        sizes: dict[str, tuple[int, int]] = {}
        for given in metric.inputs:
            value = self._argument(given, job, metric, features, opened)
            if isinstance(value, Failure):
                return Measurement(failure=value)
            if value is None:
                continue
            arguments[given.name] = value
            if given.kind in ("pixels", "grey"):
                sizes[given.name] = (value.shape[1], value.shape[0])
        try:
            result = metric.function(**arguments)
        except RefBenchError:
            raise
        except Exception as error:  # noqa: BLE001 - one odd picture must not end a run; the state says what happened
            result = Failure(kind="undefined", detail=f"{metric.id} raised {type(error).__name__}: {error}")
        different = sizes if len(set(sizes.values())) > 1 else {}
        return _checked(metric, result, different)

    def _argument(
        self,
        given: Input,
        job: Job,
        metric: Metric,
        features: Mapping[_Wanted, Feature | Failure],
        opened: Opened,
    ) -> Any:
        if given.kind == "network":
            assert given.of is not None
            return load_network(given.of.network, self.device, self.dtype)
        there = given.name in job.pictures or given.name in job.facts
        if not there:
            if given.optional:
                return None
            return Failure(kind="undefined", detail=f"{metric.id} needs {given.name}, which this case has not")
        if given.kind == "feature":
            return features[_wanted(given, job)]
        if given.kind in ("pixels", "grey") and given.name in job.pictures:
            path = Path(job.pictures[given.name])
            way = job.decoding or job.protocol
            return opened.pixels(path, way) if given.kind == "pixels" else opened.grey(path, way)
        return job.facts[given.name]


def _features(job: Job, metric: Metric) -> list[_Wanted]:
    return [
        _wanted(given, job)
        for given in metric.inputs
        if given.kind == "feature" and (given.name in job.pictures or given.name in job.facts)
    ]


def _wanted(given: Input, job: Job) -> _Wanted:
    assert given.of is not None
    if given.name not in job.pictures:
        return _Wanted(given.of, (), str(job.facts[given.name]), "")
    names = (given.name, *(n for n in VIEWS[given.of.view].inputs if n in job.pictures))
    pictures = tuple((name, Path(job.pictures[name])) for name in names)
    return _Wanted(given.of, pictures, None, job.decoding or job.protocol)


def _key(wanted: _Wanted, opened: Opened) -> str | Failure:
    if wanted.text is not None:
        if not wanted.text.strip():
            return Failure(kind="undefined", detail="the caption is empty")
        return content_key({"text": wanted.text})
    hashes = []
    for _, path in wanted.pictures:
        sha256 = opened.sha256(path)
        if isinstance(sha256, Failure):
            return sha256
        hashes.append(sha256)
    plain = opened.alike(wanted.pictures[0][1])
    return content_key({"view": wanted.of.view, "pictures": hashes, "decoding": "" if plain else wanted.decoding})


def _view(wanted: _Wanted, opened: Opened) -> NDArray[Any] | Failure:
    (_, first), *rest = wanted.pictures
    pixels = opened.pixels(first, wanted.decoding)
    if isinstance(pixels, Failure):
        return pixels
    others = {}
    for name, path in rest:
        other = opened.pixels(path, wanted.decoding)
        if isinstance(other, Failure):
            return other
        others[name] = other
    return VIEWS[wanted.of.view].apply(pixels, others)


def _checked(metric: Metric, result: float | Failure, sizes: Mapping[str, tuple[int, int]]) -> Measurement:
    """No value leaves that is not finite or not in the range that the metric declares."""
    if isinstance(result, Failure):
        return Measurement(failure=result, sizes=sizes)
    value = float(result)
    if not math.isfinite(value):
        return Measurement(failure=Failure(kind="undefined", detail=f"{metric.id} gave {value}"), sizes=sizes)
    low, high = metric.range
    if (low is not None and value < low - _TOLERANCE) or (high is not None and value > high + _TOLERANCE):
        detail = f"{metric.id} gave {value:g}, outside of {low} to {high}"
        return Measurement(failure=Failure(kind="out_of_range", detail=detail), sizes=sizes)
    if low is not None:
        value = max(value, low)
    if high is not None:
        value = min(value, high)
    return Measurement(value=value, sizes=sizes)


def why_not_measured(name: str, protocol: str = "corrected") -> str | None:
    """Why the metric cannot be measured here, in one sentence with what to do; None when it can."""
    try:
        metric = find_metric(name, protocol)
    except RefBenchError as error:
        return str(error)
    return next((reason for network in metric.networks if (reason := why_not(network)) is not None), None)


def measure(
    name: str,
    *,
    protocol: str = "corrected",
    device: str = "cpu",
    dtype: str = "float32",
    caption: str | None = None,
    box: Box | None = None,
    output_box: Box | None = None,
    **pictures: Path | str | NDArray[Any],
) -> Measurement:
    """One metric of one output, from files or arrays (RGB, 8 bit): `measure("ssim", output=a, source=b)`."""
    metric = find_metric(name, protocol)
    reason = why_not_measured(metric.id, protocol)
    if reason is not None:
        raise RefBenchError(reason)
    facts = {
        key: value
        for key, value in {"caption": caption, "box": box, "output_box": output_box}.items()
        if value is not None
    }
    known = {given.name for given in metric.inputs}
    needed = [g.name for g in metric.inputs if not g.optional and g.kind != "network"]
    # A reference and a source are both "the picture to compare with": whichever was given serves.
    for wanted, instead in (("source", "reference"), ("reference", "source")):
        if wanted in needed and wanted not in pictures and instead in pictures and instead not in known:
            pictures[wanted] = pictures.pop(instead)
    missing = [n for n in needed if n not in pictures and n not in facts]
    if missing:
        raise RefBenchError(f"{metric.id} needs {' and '.join('--' + n for n in missing)}")
    unused = [n for n in (*pictures, *facts) if n not in known and not _viewed(metric, n)]
    if unused:
        raise RefBenchError(f"{metric.id} does not look at {' or '.join(unused)}: it reads {', '.join(known)}")
    opened = Opened()
    paths = {
        n: str(opened.add(f"{n} in memory", p) if not isinstance(p, str | Path) else p) for n, p in pictures.items()
    }
    job = Job(metric=metric.id, protocol=metric.protocol, decoding=protocol, pictures=paths, facts=facts)
    return Measurer(device=device, dtype=dtype)([job], opened)[0]


def _viewed(metric: Metric, name: str) -> bool:
    return any(given.of is not None and name in VIEWS[given.of.view].inputs for given in metric.inputs)
