"""Metric: a function that states what it is and what it reads; decoding, batching and caching are not its business.

@metric(better="higher", range=(0, 1))
def ssim(output: Pixels, source: Pixels) -> float: ...

@metric(better="higher", range=(-1, 1), of={"output": "mobilenet_v2", "reference": "mobilenet_v2"})
def image_match(output: Feature, reference: Feature) -> float: ...
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from refbench.calls.functions import digest
from refbench.calls.identity import identity_of
from refbench.failure import Failure
from refbench.metrics.views import VIEWS
from refbench.networks import Feature, Network, PairNetwork, network_info
from refbench.pictures import Pixels
from refbench.record import RefBenchError
from refbench.specs import entry_points
from refbench.text.console import printable

Grey: TypeAlias = Annotated[NDArray[np.uint8], "grey"]
"""Height x width, 8 bit: a map or mask. `paper` reads it as OpenCV reads a file in greyscale."""
Box: TypeAlias = tuple[float, float, float, float]
"""x1, y1, x2, y2 in pixels."""

Kind = Literal["pixels", "grey", "text", "box", "feature", "network"]
Value: TypeAlias = float | Failure

ENTRY_POINTS = "refbench.metrics"
OF_SETS = ("fid", "frechet", "kid")
"""Names of measures that sets of pictures have, and no picture by itself: see `sets.py`."""
OUTPUT = "output"
"""The argument that is the picture under test."""


@dataclass(frozen=True)
class Of:
    """The feature of a picture by a network, seen through a view (see `views.py`)."""

    network: str
    view: str = "whole"


def both(network: str, view: str = "whole") -> dict[str, Of]:
    """What `of` says where output and reference are looked at alike."""
    return {"output": Of(network, view), "reference": Of(network, view)}


class Input(NamedTuple):
    """One argument of a metric: pictures by their role, a text, a box, or a network to call."""

    name: str
    kind: Kind
    optional: bool = False
    of: Of | None = None
    turned: bool = False
    """Whether `paper` too sees this picture turned as EXIF says."""


@dataclass(frozen=True)
class Metric:
    """What a metric is, as data. `id` carries the network, so that values of two networks are never taken for one."""

    name: str
    protocol: str
    """The protocol that measures this way; empty when both do."""
    better: Literal["higher", "lower"]
    range: tuple[float | None, float | None]
    version: int
    summary: str
    inputs: tuple[Input, ...]
    function: Callable[..., Value]
    code: str = ""
    """A hash of the file of a metric that is not shipped, as it was when it was registered."""

    def pictures(self) -> frozenset[str]:
        """The pictures of a case that it may be given, by the names of its arguments; the output is the model's."""
        seen = {g.name for g in self.inputs if g.kind in ("pixels", "grey", "feature")}
        return frozenset((seen | self.viewed) - {OUTPUT})

    def facts(self) -> frozenset[str]:
        """The texts and boxes that it may be given; a feature may be that of a text."""
        return frozenset(g.name for g in self.inputs if g.kind in ("text", "box", "feature")) - {OUTPUT}

    def needs(self) -> frozenset[str]:
        """The arguments that every case must have."""
        return frozenset(g.name for g in self.inputs if not g.optional and g.kind != "network") - {OUTPUT}

    @property
    def viewed(self) -> frozenset[str]:
        """Further pictures that the views of its networks look at."""
        return frozenset(name for g in self.inputs if g.of is not None for name in VIEWS[g.of.view].inputs)

    @property
    def networks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(i.of.network for i in self.inputs if i.of is not None))

    @property
    def id(self) -> str:
        return "@".join((self.name, "+".join(self.networks))) if self.networks else self.name


_METRICS: dict[tuple[str, str], Metric] = {}
_KINDS: tuple[tuple[Any, Kind], ...] = (
    (Grey, "grey"),
    (Pixels, "pixels"),
    (np.ndarray, "pixels"),
    (NDArray[Any], "pixels"),
    (str, "text"),
    (Box, "box"),
    (Feature, "feature"),
    (Network, "network"),
    (PairNetwork, "network"),
)

FunctionT = TypeVar("FunctionT", bound=Callable[..., Value])


def metric(
    name: str = "",
    *,
    better: Literal["higher", "lower"],
    range: tuple[float | None, float | None],  # noqa: A002 - the word for it
    of: Mapping[str, str | Of] | None = None,
    protocol: Literal["", "paper", "corrected"] = "",
    turned: Collection[str] = (),
    version: int = 1,
) -> Callable[[FunctionT], FunctionT]:
    """Register a function as a metric; the function stays what it was.

    Arguments are inputs by name: `output` is the picture under test, `source`, `mask`, `reference` the case's.
    Their types say what is read: Pixels (or numpy's ndarray without a dtype: RGB, 8 bit), Grey, str (a caption), Box,
    Feature or Network, PairNetwork (both named in `of`). An argument with a default may be left out; one of another
    type must have a default and is a setting of the function's own. `turned` names the pictures that `paper` turns as
    EXIF says, since the released code reads them with OpenCV. Bump `version` when the values change; of a metric that
    is not shipped the file is part of what it is.
    """

    def register(function: FunctionT) -> FunctionT:
        made = Metric(
            name=name or function.__name__,
            protocol=protocol,
            better=better,
            range=range,
            version=version,
            summary=(inspect.getdoc(function) or "").split("\n")[0],
            inputs=tuple(g._replace(turned=g.name in turned) for g in _inputs(function, of or {})),
            function=function,
            code=_code(function),
        )
        if home_of(made) is not None:
            _load_shipped()
            if any(taken == made.id and home_of(other) is None for (taken, _), other in _METRICS.items()):
                raise RefBenchError(f"{made.id} is a metric of RefBench: give yours another name")
        _METRICS[made.id, protocol] = made
        return function

    return register


def _inputs(function: Callable[..., Value], of: Mapping[str, str | Of]) -> tuple[Input, ...]:
    name = getattr(function, "__name__", "the metric")
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise RefBenchError(f"{name}: a type of its arguments cannot be looked up: {error}") from error
    inputs = []
    for parameter in inspect.signature(function).parameters.values():
        optional = parameter.default is not inspect.Parameter.empty
        kind = _kind(name, parameter, hints.get(parameter.name), optional)
        if kind is None:
            continue
        asked = of.get(parameter.name)
        if (asked is not None) != (kind in ("feature", "network")):
            wrong = "comes from a network, which `of` must name" if asked is None else f"is a {kind} and has no network"
            raise RefBenchError(f"{name}: the argument {parameter.name} {wrong}")
        inputs.append(Input(parameter.name, kind, optional, Of(asked) if isinstance(asked, str) else asked))
    if unknown := sorted(set(of) - {given.name for given in inputs}):
        raise RefBenchError(f"{name}: `of` names a network for {unknown[0]!r}, which is no argument of it")
    if OUTPUT not in {given.name for given in inputs}:
        raise RefBenchError(f"{name}: a metric needs the argument {OUTPUT}, the picture under test")
    return tuple(inputs)


def _kind(name: str, parameter: inspect.Parameter, hint: Any, optional: bool) -> Kind | None:
    """What an argument reads, by its type; None for a setting of the function's own, which has a default."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        raise RefBenchError(f"{name}: arguments are given by name: {parameter} cannot be")
    if optional and type(None) in get_args(hint):
        hint = next(a for a in get_args(hint) if a is not type(None))
    for known, kind in _KINDS:
        if hint == known:
            return kind
    if optional and hint is not None:
        return None
    typed = "no type" if hint is None else f"the type {hint.__name__ if isinstance(hint, type) else hint}"
    raise RefBenchError(
        f"{name}: the argument {parameter.name} has {typed}: write Pixels (RGB, 8 bit), Grey, str, Box, "
        "Feature, Network or PairNetwork, or give it a default if it is no input"
    )


@lru_cache(maxsize=1)
def _load_shipped() -> None:
    for module in pkgutil.iter_modules(importlib.import_module("refbench.metrics").__path__):
        importlib.import_module(f"refbench.metrics.{module.name}")


@lru_cache(maxsize=1)
def _load_all() -> None:
    _load_shipped()
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 - whatever somebody's package raises; the other metrics go on
            said = f"Warning: the plug-in {point.value} cannot be loaded, and its metrics are missing: {error}"
            print(printable(said), file=sys.stderr)


def home_of(metric: Metric) -> tuple[str, str] | None:
    """Module and file of a metric that does not live in `metrics/`, so that another process can register it too."""
    name = metric.function.__module__
    return None if name.startswith("refbench.metrics.") else (name, _file(name))


def _file(module: str) -> str:
    return str(getattr(sys.modules.get(module), "__file__", "") or "")


def _code(function: Callable[..., Value]) -> str:
    """What tells one state of a metric that is not shipped from another: its file, or its source where it has none."""
    if function.__module__.startswith("refbench."):
        return ""
    try:
        return digest(Path(_file(function.__module__)))
    except OSError:
        return identity_of(function, "").get("source", "")


def register_from(name: str, file: str) -> None:
    """Run the module that a metric lives in, unless it was run already."""
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, file) if file else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise RefBenchError(f"the metrics of {name} cannot be loaded: put them into a file that can be imported")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    if file.endswith(".py"):
        # Not the loader's: it may take bytecode of an older file that has the same size and second.
        exec(compile(Path(file).read_bytes(), file, "exec"), module.__dict__)
    else:
        spec.loader.exec_module(module)


def metrics() -> list[Metric]:
    """All metrics, each protocol's variant apart, in alphabetical order."""
    _load_all()
    return [_METRICS[key] for key in sorted(_METRICS)]


def find_metric(name: str, protocol: str = "corrected") -> Metric:
    """The metric as the protocol measures it. A name without a network means the first network there is for it."""
    _load_all()
    ids = [name, *(id_ for id_, _ in _METRICS if id_.startswith((f"{name}@", f"{name}+")))]
    for wanted in ids:
        for kind in (protocol, ""):
            if (wanted, kind) in _METRICS:
                return _METRICS[wanted, kind]
    there = [p for id_, p in _METRICS if id_ in ids]
    if there:
        raise RefBenchError(f"{name} is measured by the protocol {there[0]} only: add --protocol {there[0]}")
    if name.partition("@")[0] in OF_SETS:
        raise RefBenchError(
            f"{name} compares two sets of pictures and has no value of a single one: refbench measure {name} --output "
            "DIR --reference DIR (refbench export RUN --pictures DIR writes the pictures of a run)"
        )
    if "@" in name:
        network_info(name.partition("@")[2].split("+")[0])
    known = dict.fromkeys(word for id_, _ in _METRICS for word in (id_, id_.partition("@")[0]))
    near = difflib.get_close_matches(name, known, n=1) or [word for word in known if name.startswith(word)]
    hint = f"did you mean {near[0]}?" if near else "refbench list metrics names them"
    raise RefBenchError(f"no metric is called {name!r}: {hint}")
