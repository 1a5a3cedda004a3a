"""The gate: which references a judge's marks keep and drop, and which are for people to decide, with the file that says
so, `judge.toml`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from refbench.builders.filter_judge.dataset import Sample, prompts
from refbench.builders.refblend.screening import LOWEST, Marks
from refbench.builders.refblend.types import Type
from refbench.chat.adapters import Trained, trained_in
from refbench.chat.vlm import VLM, ChatRequest
from refbench.record import Record, RefBenchError, canonical_json, content_key
from refbench.runs.disk import disk_error, write_whole
from refbench.specs import Spec
from refbench.stats.cuts import BOUND, LEVEL, SHARE, highest
from refbench.stats.isotonic import isotonic_map
from refbench.text.files import toml_file, users_path

FILE = "judge.toml"
ENOUGH = 100
"""Marks of an axis from which it has a map of its own."""
POOLED = "all"
Verdict = Literal["keep", "drop", "people"]
Said = Mapping[str, Mapping[str, float]]
"""A judge's marks, by sample and axis."""


class Cuts(Record):
    """The two cuts of a type, on the lowest mark of its axes; None where none holds what it promises."""

    n: int
    """Groups of references (by their originals) that people and the judge marked."""
    keep: float | None = None
    keep_bound: float | None = None
    keep_n: int | None = None
    drop: float | None = None
    drop_bound: float | None = None
    drop_n: int | None = None


class AxisMap(Record):
    """A judge's marks on people's scale: a never falling curve."""

    n: int
    at: tuple[float, ...]
    to: tuple[float, ...]
    offset: float = 0.0
    """What is added where the curve is that of all axes together."""

    def __call__(self, mark: float) -> float:
        return min(5.0, max(1.0, float(np.interp(mark, self.at, self.to)) + self.offset))


class Gate(Record):
    """A judge with its cuts and maps, as `judge.toml` has it."""

    judge: str
    """The judge's spec."""
    model: str
    parameters: Mapping[str, Any]
    """What really answers, and how: another model or temperature needs another calibration."""
    prompts: Mapping[str, str]
    """The hash of the request about each type."""
    set_sha256: str
    share: float = SHARE
    bound: float = BOUND
    level: float = LEVEL
    cuts: Mapping[str, Cuts] = {}
    maps: Mapping[str, AxisMap] = {}
    """By type and axis, `canny alignment`."""

    @property
    def id(self) -> str:
        """Short, of all that its decisions depend on."""
        return content_key(self.model_dump(mode="json"))[:16]

    def decide(self, kind: Type, marks: Marks | Mapping[str, float]) -> Verdict:
        """What becomes of a reference with these marks."""
        cuts, lowest = self.cuts.get(kind), min(marks.values())
        if cuts is not None and cuts.keep is not None and lowest >= cuts.keep:
            return "keep"
        return "drop" if cuts is not None and cuts.drop is not None and lowest <= cuts.drop else "people"

    def check(self, vlm: VLM, where: str) -> None:
        """Refuse a judge or a request other than those that were calibrated."""
        asked = asked_of(vlm)
        if (asked["model"], asked["parameters"]) != (self.model, dict(self.parameters)):
            raise RefBenchError(
                f"{where} was calibrated for {self.model} {dict(self.parameters)}, and {vlm.name} is "
                f"{asked['model']} {asked['parameters']}: run refbench calibrate again"
            )
        if changed := [kind for kind, sha in prompts().items() if self.prompts.get(kind) != sha]:
            raise RefBenchError(f"{where}: the request about {changed[0]} has changed: run refbench calibrate again")


def asked_of(vlm: VLM) -> dict[str, Any]:
    """The model and parameters of a judge, as its evidence has them."""
    request = vlm.canonical(ChatRequest(parts=(), max_tokens=1000), 0)
    said = request.get("parameters", {})
    return {"model": str(request.get("model")), "parameters": {k: v for k, v in said.items() if v is not None}}


def fitted(samples: Sequence[Sample], said: Said) -> tuple[dict[str, Cuts], dict[str, AxisMap]]:
    """Cuts and maps from references that people and a judge have marked; those the judge failed on are none."""
    judged = [sample for sample in samples if sample.id in said]
    cuts = {str(kind): _cuts([s for s in judged if s.type == kind], said) for kind in sorted({s.type for s in judged})}
    pairs: dict[str, list[tuple[float, float]]] = {}
    for sample in judged:
        for axis, mean in sample.means().items():
            pairs.setdefault(f"{sample.type} {axis}", []).append((said[sample.id][axis], mean))
    return cuts, _maps(pairs)


def is_good(sample: Sample) -> bool:
    """Whether people would keep it: the mean mark is at least 3 on every axis."""
    return all(mean >= LOWEST - 1e-9 for mean in sample.means().values())


def _cuts(samples: Sequence[Sample], said: Said) -> Cuts:
    lowest = np.array([min(said[sample.id].values()) for sample in samples], dtype=np.float64)
    good = np.array([is_good(sample) for sample in samples], dtype=np.bool_)
    group = np.array([sample.group for sample in samples], dtype=np.intp)
    keep, drop = highest(lowest, good, group), highest(-lowest, ~good, group)
    if keep is not None and drop is not None and -drop.at >= keep.at:  # people are few and of two minds
        drop = None
    return Cuts(
        n=len(np.unique(group)),
        keep=keep and keep.at,
        keep_bound=keep and round(keep.bound, 6),
        keep_n=keep and keep.n,
        drop=None if drop is None else -drop.at,
        drop_bound=drop and round(drop.bound, 6),
        drop_n=drop and drop.n,
    )


def _maps(pairs: Mapping[str, Sequence[tuple[float, float]]]) -> dict[str, AxisMap]:
    """A curve for each axis with enough marks; the others share one, each moved by its own mean error."""
    together = [pair for of_axis in pairs.values() for pair in of_axis]
    if not together:
        return {}
    pooled = _map(together)
    maps = {}
    for name, of_axis in pairs.items():
        if len(of_axis) >= ENOUGH:
            maps[name] = _map(of_axis)
            continue
        off = float(np.mean([mean - np.interp(mark, pooled.at, pooled.to) for mark, mean in of_axis]))
        maps[name] = pooled.model_copy(update={"offset": round(off, 6), "n": len(of_axis)})
    return {**maps, POOLED: pooled}


def _map(pairs: Sequence[tuple[float, float]]) -> AxisMap:
    x, y = np.array(pairs, dtype=np.float64).T
    at, to = isotonic_map(x, y)
    return AxisMap(n=len(pairs), at=tuple(at.tolist()), to=tuple(to.round(6).tolist()))


# --- judge.toml ---------------------------------------------------------------------------------------------------


def write_gate(folder: Path, gate: Gate) -> None:
    try:
        write_whole(folder / FILE, _toml(gate.model_dump(mode="json", exclude_none=True)).encode())
    except OSError as error:
        raise disk_error(error, folder / FILE) from error


def read_gate(folder: Path) -> Gate:
    path = folder / FILE
    try:
        return Gate.model_validate(toml_file(path))
    except ValidationError as error:
        what = error.errors()[0]
        where = ".".join(map(str, what["loc"]))
        raise RefBenchError(f"{path}: {where}: {what['msg']}; write it again with refbench calibrate") from error


def gate_of(judge: str, option: str = "--judge") -> tuple[Path, Gate] | None:
    """The gate that a user's judge names: a folder with a `judge.toml`, or the file. None for any other judge."""
    path = users_path(judge, option) if judge.startswith("~") else Path(judge)
    folder = path.parent if path.name == FILE else path
    try:
        there, is_folder = (folder / FILE).is_file(), path.is_dir()
    except (OSError, ValueError):  # a spec that no file can be called
        return None
    if there:
        return folder, read_gate(folder)
    if is_folder or path.name == FILE or (judge.endswith("/") and ":" not in judge):
        raise RefBenchError(f"{option} {judge}: there is no {FILE}: give a folder that refbench calibrate has written")
    return None


def trained_of(judge: str, option: str = "--judge") -> Trained | None:
    """The training of a judge that refbench filter train has made; refused where it learnt other requests."""
    spec = Spec.parse(judge, option)
    trained = trained_in(users_path(spec.what, judge)) if spec.kind == "local" else None
    changed = [] if trained is None else [kind for kind, sha in prompts().items() if trained.prompts.get(kind) != sha]
    if changed:
        raise RefBenchError(f"{judge}: the request about {changed[0]} has changed: run refbench filter train again")
    return trained


def _toml(value: Mapping[str, Any], name: str = "") -> str:
    plain = {key: item for key, item in value.items() if not isinstance(item, dict)}
    lines = [f"[{name}]"] if name and (plain or not value) else []
    lines += [f"{_quoted(key)} = {_value(item)}" for key, item in plain.items()]
    text = "\n".join(lines) + "\n\n" if lines else ""
    for key, item in value.items():
        if isinstance(item, dict):
            text += _toml(item, f"{name}.{_quoted(key)}" if name else _quoted(key))
    return text


def _value(item: Any) -> str:
    if isinstance(item, list):
        return f"[{', '.join(map(_value, item))}]"
    if isinstance(item, float) and not math.isfinite(item):
        return "nan" if math.isnan(item) else f"{'-' if item < 0 else ''}inf"
    return canonical_json(item).decode()  # strings, numbers and truth values are spelt as in JSON


def _quoted(key: str) -> str:
    return canonical_json(key).decode()
