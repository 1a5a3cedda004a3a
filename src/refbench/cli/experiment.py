"""Experiment files: a run as TOML, with the argument names of `refbench.evaluate` as its keys."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

import orjson
from pydantic import ValidationError

from refbench.record import Record, RefBenchError
from refbench.specs import Spec


class Experiment(Record):
    """What a file may say. Paths are relative to where the command is run, as they are on the command line."""

    benchmark: str | None = None
    models: tuple[str, ...] | None = None
    judges: tuple[str, ...] | None = None
    out: str | None = None
    data: str | None = None
    subset: str | None = None
    settings: Mapping[str, str] | None = None
    protocol: Literal["paper", "corrected", "both"] | None = None
    limit: int | None = None
    shard: str | None = None
    seeds: int | None = None
    repeats: int | None = None
    retry: tuple[str, ...] | None = None
    replace: bool | None = None
    budget: str | None = None
    concurrency: int | None = None
    timeout: float | None = None
    repair: bool | None = None
    rubric: str | None = None
    batch: bool | None = None
    wait: bool | None = None
    metrics: tuple[str, ...] | None = None
    device: str | None = None
    dtype: Literal["float32", "bfloat16"] | None = None
    making: int | None = None
    engine: Literal["embedded", "ray"] | None = None
    address: str | None = None
    refusals: Literal["conditional", "worst", "worst,unsupported"] | None = None


def read_experiment(path: Path) -> Experiment:
    """The file, checked: every mistake is a sentence that names the key."""
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RefBenchError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RefBenchError(f"{path} is no TOML: {error}") from error
    for key in said:
        if key not in Experiment.model_fields:
            alike = {"name": "benchmark", "cases": "benchmark", "model": "models", "judge": "judges", "set": "settings"}
            near = [alike[key]] if key in alike else difflib.get_close_matches(key, Experiment.model_fields, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(Experiment.model_fields)}"
            raise RefBenchError(f"{path}: {key}: there is no such key: {hint}")
    if "models" in said:
        said["models"] = _models(said["models"], path)
    if "judges" in said:
        said["judges"] = _named(said["judges"], f"{path}: judges")
    if isinstance(said.get("settings"), dict):
        said["settings"] = {key: _setting(value, f"{path}: settings.{key}") for key, value in said["settings"].items()}
    try:
        return Experiment.model_validate(said, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Input should be ")
        raise RefBenchError(f"{path}: {key}: it should be {message}, not {first['input']!r}") from error


def _models(said: Any, path: Path) -> list[str]:
    """Specs in one line: a list of them, or by name specs without one and tables."""
    if isinstance(said, list):
        return [_model(one, "", f"{path}: models[{number}]") for number, one in enumerate(said)]
    if not isinstance(said, dict):
        raise RefBenchError(f"{path}: models: it should be a list of specs, or a table of them by name")
    return [_model(one, name, f"{path}: models.{name}") for name, one in said.items()]


def _model(said: Any, name: str, where: str) -> str:
    if isinstance(said, str):
        return f"{name}={said}" if name else said
    if not isinstance(said, dict):
        raise RefBenchError(f"{where}: a model is a spec in one line or a table with kind = ...")
    tree = Spec.from_table(said, name, where)
    text = one_line(tree)
    if Spec.parse(text, where) != tree:
        raise RefBenchError(f"{where}: it cannot be written as a spec in one line ({text}): leave ? out of what")
    return text


def one_line(tree: Spec) -> str:
    """The text that `Spec.parse` reads as this spec."""
    if tree.model is None:
        query = f"?{urlencode(tree.options)}" if tree.options else ""
        return f"{tree.name}={tree.kind}:{tree.what}{query}"
    arguments = [orjson.dumps(one_line(tree.model)).decode()]
    if tree.vlm is not None:
        key = "vlm" if tree.kind == "rephrase" else "planner"
        arguments.append(f"{key}={orjson.dumps(one_line(tree.vlm)).decode()}")
    arguments += [f"{key}={orjson.dumps(value).decode()}" for key, value in tree.options.items()]
    return f"{tree.name}={tree.kind}({'; '.join(arguments)})"


def _named(said: Any, where: str) -> list[str]:
    """Judges: a list of specs, or specs by name."""
    if isinstance(said, dict):
        said = [f"{name}={spec}" if isinstance(spec, str) else spec for name, spec in said.items()]
    if not isinstance(said, list) or not all(isinstance(one, str) for one in said):
        raise RefBenchError(f"{where}: it should be a list of specs, or a table of them by name")
    return list(said)


def _setting(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str | int | float):
        raise RefBenchError(f"{where}: {value!r} is no text and no number")
    return str(value)
