"""Measuring: many metrics of many pictures, with every picture decoded once and every feature computed once.

A `Job` is one metric of one output. `Measurer` takes jobs by the chunk: it collects the distinct features that they
ask for, takes those that are cached, computes the others in batches, and then calls the small functions.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from refbench.calls.functions import raised
from refbench.failure import Failure
from refbench.metrics.metric import Box, Input, Metric, Of, find_metric
from refbench.metrics.views import VIEWS
from refbench.networks import Feature, dtype_of, load_network, network_info, why_not
from refbench.networks.cache import FeatureCache, cache_folder
from refbench.pictures import PictureFacts, Pixels, decode, facts_of, named, picture_bytes
from refbench.pictures.pixels import decoded_by_opencv
from refbench.record import Record, RefBenchError, content_key

Array: TypeAlias = NDArray[np.uint8]

_TOLERANCE = 1e-5
"""How far outside of its range rounding may carry a value."""


def decodes_alike(facts: PictureFacts) -> bool:
    """Whether both protocols see the same pixels: `paper` ignores EXIF turns, drops alpha and has 16 bits as Pillow
    has them; `corrected` does not."""
    return facts.orientation == 1 and not facts.deep and facts.mode in ("RGB", "L", "1", "CMYK")


class DecodedPictures:
    """The pictures of one piece of work, each read and decoded once.

    `paper` sees the stored orientation, no alpha, and 16 bits as Pillow has them; greyscale is OpenCV's. `turned` is
    what it sees of a picture that the released code reads with OpenCV, which turns it.
    """

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
        way = "paper" if self.alike(path) else protocol if protocol in ("paper", "turned") else "corrected"
        place = path, way, kind
        if place not in self._decoded:
            read = self._file(path)
            if isinstance(read, Failure):
                return read
            decoded = self._decode(*read, way) if kind == "pixels" else self._decode_grey(*read, way)
            self._decoded[place] = named(path, decoded)
        return self._decoded[place]

    def _decode(self, data: bytes, facts: PictureFacts, way: str) -> Array | Failure:
        alpha: Literal["white", "drop"] = "white" if way == "corrected" else "drop"
        return decode(
            data, exif=way != "paper", alpha=alpha, deep="pillow" if way == "paper" else "scaled", facts=facts
        )

    def _decode_grey(self, data: bytes, facts: PictureFacts, way: str) -> Array | Failure:
        if way == "corrected":
            rgb = self._decode(data, facts, way)
            return rgb if isinstance(rgb, Failure) else np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY))
        flags = cv2.IMREAD_GRAYSCALE | (cv2.IMREAD_IGNORE_ORIENTATION if way == "paper" else 0)
        grey = decoded_by_opencv(data, facts, flags)
        return grey if isinstance(grey, Failure) else np.asarray(grey, dtype=np.uint8)

    def _file(self, path: Path) -> tuple[bytes, PictureFacts] | Failure:
        if path not in self._read:
            self._read[path] = _read(path)
        return self._read[path]


def _read(path: Path) -> tuple[bytes, PictureFacts] | Failure:
    data = picture_bytes(path)
    if isinstance(data, Failure):
        return data
    facts = named(path, facts_of(data))
    return facts if isinstance(facts, Failure) else (data, facts)


class Job(Record):
    """One metric of one output: where the pictures are by the names of the metric's arguments, and what is told."""

    metric: str
    protocol: str = ""
    """The protocol whose variant of the metric is meant; empty when both measure alike."""
    decoding: str = ""
    """The protocol that the pictures are decoded by, where that makes a difference."""
    pictures: Mapping[str, str]
    facts: Mapping[str, Any] = {}
    hashes: Mapping[str, str] = {}
    """What pictures were when they were recorded: another one under the same name is not measured in their place."""

    def gives(self, argument: str) -> bool:
        return argument in self.pictures or argument in self.facts

    def decoded_by(self, argument: Input) -> str:
        """How a picture is decoded: by a protocol, or `turned`."""
        protocol = self.decoding or self.protocol
        return "turned" if protocol == "paper" and argument.turned else protocol


class Measurement(Record):
    """A value, or why there is none. `sizes` (width, height) is given when the pictures differ in size, and one of them
    was resized as the metric's protocol says."""

    value: float | None = None
    failure: Failure | None = None
    sizes: Mapping[str, tuple[int, int]] = {}


@dataclass(frozen=True)
class _FeatureKey:
    """Which feature: a network looking at a picture (through a view that may need others) or at a text."""

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

    def __call__(self, jobs: Sequence[Job], decoded: DecodedPictures | None = None) -> list[Measurement]:
        decoded = decoded or DecodedPictures()
        planned = [(job, find_metric(job.metric, job.protocol or "corrected")) for job in jobs]
        wanted = dict.fromkeys(
            _feature_key(argument, job)
            for job, metric in planned
            for argument in metric.inputs
            if argument.kind == "feature" and job.gives(argument.name)
        )
        features = self._compute(list(wanted), decoded)
        return [self._measure(job, metric, features, decoded) for job, metric in planned]

    def features(self, network: str, paths: Sequence[Path]) -> list[Feature | Failure]:
        """What a network says of whole pictures, for metrics of sets and for whoever wants to look."""
        wanted = [_FeatureKey(Of(network), (("output", path),), None, "corrected") for path in paths]
        features = self._compute(wanted, DecodedPictures())
        return [features[key] for key in wanted]

    def _compute(self, wanted: Sequence[_FeatureKey], decoded: DecodedPictures) -> dict[_FeatureKey, Feature | Failure]:
        """Every wanted feature, from the cache or from its network, network by network."""
        features: dict[_FeatureKey, Feature | Failure] = {}
        for name in dict.fromkeys(each.of.network for each in wanted):
            info, dtype = network_info(name), dtype_of(name, self.dtype)
            hashes: dict[_FeatureKey, str] = {}
            for each in (each for each in wanted if each.of.network == name):
                sha256 = _hash(each, decoded)
                if isinstance(sha256, Failure):
                    features[each] = sha256
                else:
                    hashes[each] = sha256
            known = self.cache.get(info, dtype, list(hashes.values()))
            new = {sha256: each for each, sha256 in hashes.items() if sha256 not in known}
            order = list(new)
            for start in range(0, len(order), self.batch):
                part = order[start : start + self.batch]
                fresh = dict(zip(part, self._run(name, [new[sha256] for sha256 in part], decoded), strict=True))
                self.cache.put(info, dtype, fresh)
                known |= fresh
            features |= {each: known[sha256] for each, sha256 in hashes.items()}
        return features

    def _run(self, name: str, wanted: Sequence[_FeatureKey], decoded: DecodedPictures) -> list[Feature | Failure]:
        def shown(key: _FeatureKey) -> Any:
            return key.text if key.text is not None else _view(key, decoded)

        inputs: list[Any] = list(self._pool.map(shown, wanted)) if self._pool else [shown(key) for key in wanted]
        good = [item for item in inputs if not isinstance(item, Failure)]
        features = iter(load_network(name, self.device, self.dtype)(good) if good else [])
        return [item if isinstance(item, Failure) else next(features) for item in inputs]

    def _measure(
        self, job: Job, metric: Metric, features: Mapping[_FeatureKey, Feature | Failure], decoded: DecodedPictures
    ) -> Measurement:
        for name, sha256 in job.hashes.items():
            if decoded.sha256(Path(job.pictures[name])) != sha256:
                detail = f"{name} has changed since it was recorded: {Path(job.pictures[name]).name}"
                return Measurement(failure=Failure(kind="not_measured", detail=detail))
        arguments: dict[str, Any] = {}
        sizes: dict[str, tuple[int, int]] = {}
        for argument in metric.inputs:
            if argument.kind != "network" and not job.gives(argument.name):
                if argument.optional:
                    continue
                detail = f"{metric.id} needs {argument.name}, which this case has not"
                return Measurement(failure=Failure(kind="undefined", detail=detail))
            value = self._value(argument, job, features, decoded)
            if isinstance(value, Failure):
                return Measurement(failure=value)
            arguments[argument.name] = value
            if argument.kind in ("pixels", "grey"):
                sizes[argument.name] = (value.shape[1], value.shape[0])
        try:
            result = metric.function(**arguments)
        except RefBenchError:
            raise
        except Exception as error:  # noqa: BLE001 - one odd picture must not end a run; the state says what happened
            result = Failure(kind="undefined", detail=f"{metric.id} raised {raised(error)}")
        different = sizes if len(set(sizes.values())) > 1 else {}
        return _checked(metric, result, different)

    def _value(
        self, argument: Input, job: Job, features: Mapping[_FeatureKey, Feature | Failure], decoded: DecodedPictures
    ) -> Any:
        if argument.kind == "network":
            assert argument.of is not None
            return load_network(argument.of.network, self.device, self.dtype)
        if argument.kind == "feature":
            return features[_feature_key(argument, job)]
        if argument.kind in ("pixels", "grey") and argument.name in job.pictures:
            read = decoded.pixels if argument.kind == "pixels" else decoded.grey
            return read(Path(job.pictures[argument.name]), job.decoded_by(argument))
        return job.facts[argument.name]


def _feature_key(argument: Input, job: Job) -> _FeatureKey:
    assert argument.of is not None
    if argument.name not in job.pictures:
        return _FeatureKey(argument.of, (), str(job.facts[argument.name]), "")
    names = (argument.name, *(name for name in VIEWS[argument.of.view].inputs if name in job.pictures))
    pictures = tuple((name, Path(job.pictures[name])) for name in names)
    return _FeatureKey(argument.of, pictures, None, job.decoded_by(argument))


def _hash(key: _FeatureKey, decoded: DecodedPictures) -> str | Failure:
    if key.text is not None:
        if not key.text.strip():
            return Failure(kind="undefined", detail="the caption is empty")
        return content_key({"text": key.text})
    hashes = []
    for _, path in key.pictures:
        sha256 = decoded.sha256(path)
        if isinstance(sha256, Failure):
            return sha256
        hashes.append(sha256)
    alike = decoded.alike(key.pictures[0][1])
    return content_key({"view": key.of.view, "pictures": hashes, "decoding": "" if alike else key.decoding})


def _view(key: _FeatureKey, decoded: DecodedPictures) -> NDArray[Any] | Failure:
    (_, first), *rest = key.pictures
    pixels = decoded.pixels(first, key.decoding)
    if isinstance(pixels, Failure):
        return pixels
    others = {}
    for name, path in rest:
        other = decoded.pixels(path, key.decoding)
        if isinstance(other, Failure):
            return other
        others[name] = other
    return VIEWS[key.of.view].apply(pixels, others)


def _checked(metric: Metric, result: Any, sizes: Mapping[str, tuple[int, int]]) -> Measurement:
    """No value leaves that is no number, not finite or not in the range that the metric declares."""
    if isinstance(result, Failure):
        return Measurement(failure=result, sizes=sizes)
    try:
        if result is None or isinstance(result, str | bytes | bytearray):  # float reads text
            raise TypeError
        value = float(result)
    except (TypeError, ValueError):
        given = "None" if result is None else f"{str(result)[:40]!r} ({type(result).__name__})"
        detail = f"{metric.id} gave {given}, which is not a number"
        return Measurement(failure=Failure(kind="undefined", detail=detail), sizes=sizes)
    if not math.isfinite(value):
        return Measurement(failure=Failure(kind="undefined", detail=f"{metric.id} gave {value}"), sizes=sizes)
    low, high = metric.range
    least, most = -math.inf if low is None else low, math.inf if high is None else high
    if not least - _TOLERANCE <= value <= most + _TOLERANCE:
        detail = f"{metric.id} gave {value:g}, outside of {low} to {high}"
        return Measurement(failure=Failure(kind="out_of_range", detail=detail), sizes=sizes)
    return Measurement(value=min(max(value, least), most), sizes=sizes)


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
    facts = {"caption": caption, "box": box, "output_box": output_box}
    facts = {key: value for key, value in facts.items() if value is not None}
    _check_given(metric, pictures, facts)
    decoded = DecodedPictures()
    paths = {
        name: str(picture if isinstance(picture, str | Path) else decoded.add(f"{name} in memory", picture))
        for name, picture in pictures.items()
    }
    job = Job(metric=metric.id, protocol=metric.protocol, decoding=protocol, pictures=paths, facts=facts)
    return Measurer(device=device, dtype=dtype)([job], decoded)[0]


def _check_given(metric: Metric, pictures: dict[str, Any], facts: Mapping[str, Any]) -> None:
    """Refuse what is missing or not looked at. A source serves as the reference, and the other way round: both are
    "the picture to compare with"."""
    known = {argument.name for argument in metric.inputs}
    needed = [argument.name for argument in metric.inputs if not argument.optional and argument.kind != "network"]
    for wanted, instead in (("source", "reference"), ("reference", "source")):
        if wanted in needed and wanted not in pictures and instead in pictures and instead not in known:
            pictures[wanted] = pictures.pop(instead)
    if missing := [name for name in needed if name not in pictures and name not in facts]:
        raise RefBenchError(f"{metric.id} needs {' and '.join('--' + name for name in missing)}")
    if unused := [name for name in (*pictures, *facts) if name not in known | metric.viewed]:
        raise RefBenchError(f"{metric.id} does not look at {' or '.join(unused)}: it reads {', '.join(known)}")
