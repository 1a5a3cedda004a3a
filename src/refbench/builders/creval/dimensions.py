"""The nine dimensions: what each asks for, our examples, and those a user adds."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from refbench.benchmarks.creval.details import DIMENSIONS
from refbench.record import RefBenchError, clean_text
from refbench.refblend.draws import shuffled

_SHOWN_OF_THEIRS = 5


@dataclass(frozen=True)
class Dimension:
    """One kind of creative edit."""

    id: int
    name: str
    definition: str
    examples: tuple[str, ...]
    theirs: tuple[str, ...] = ()
    """Examples of the user."""

    def shown(self, seed: int, stem: str) -> tuple[str, ...]:
        """The examples for one picture: some of the user's, in an order of the picture's own, then ours."""
        return (*shuffled(self.theirs, seed, "examples", stem)[:_SHOWN_OF_THEIRS], *self.examples)


def dimensions(examples: Path | None = None) -> dict[int, Dimension]:
    """All nine, with the examples of a user's file added."""
    text = resources.files("refbench.builders.creval").joinpath("dimensions.toml").read_text("utf-8")
    written = tomllib.loads(text)
    found = {
        number: Dimension(number, name, written[str(number)]["definition"], tuple(written[str(number)]["examples"]))
        for number, (_, name) in DIMENSIONS.items()
    }
    for number, theirs in _read_examples(examples).items() if examples else ():
        found[number] = replace(found[number], theirs=theirs)
    return found


def _read_examples(path: Path) -> dict[int, tuple[str, ...]]:
    """From a JSON list or JSON lines of `class_id` (or `dimension`) and `input_prompt`: instruction.json will do."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise RefBenchError(f"--examples {path} cannot be read ({error})") from error
    try:
        whole = text.lstrip().startswith("[")
        rows = orjson.loads(text) if whole else [orjson.loads(line) for line in text.splitlines() if line.strip()]
    except orjson.JSONDecodeError as error:
        raise RefBenchError(f"--examples {path} is neither a JSON list nor JSON lines: {error}") from error
    found: dict[int, list[str]] = {}
    for place, row in enumerate(rows, 1):
        number, prompt = _example(row, f"--examples {path}, entry {place}")
        found.setdefault(number, []).append(prompt)
    return {number: tuple(dict.fromkeys(prompts)) for number, prompts in found.items()}


def _example(row: Any, where: str) -> tuple[int, str]:
    if not isinstance(row, Mapping):
        raise RefBenchError(f"{where} is no JSON object: write class_id (1 to 9) and input_prompt")
    by_name = {name.casefold(): number for number, (_, name) in DIMENSIONS.items()}
    number = row.get("class_id", by_name.get(str(row.get("dimension", "")).strip().casefold()))
    prompt = row.get("input_prompt")
    if isinstance(number, bool) or number not in DIMENSIONS:
        raise RefBenchError(f"{where}: class_id is not one of 1 to 9, and dimension names none of them")
    if not isinstance(prompt, str) or not prompt.strip():
        raise RefBenchError(f"{where}: input_prompt is no text")
    return int(number), " ".join(clean_text(prompt).split())
