"""The nine dimensions: what each asks for, with our examples and a user's; and which picture gets which."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from refbench.benchmarks.creval.cases import DIMENSIONS
from refbench.builders.kit.draws import draw, shuffled
from refbench.builders.kit.replies import package_text
from refbench.record import RefBenchError, clean_text
from refbench.text.files import file_text, json_lines, json_value

_SHOWN_OF_THEIRS = 5


@dataclass(frozen=True)
class Dimension:
    """One kind of creative edit."""

    name: str
    definition: str
    examples: tuple[str, ...]
    """Ours."""
    theirs: tuple[str, ...] = ()
    """The user's."""

    def shown(self, seed: int, stem: str) -> tuple[str, ...]:
        """The examples for one picture: some of the user's, in an order of the picture's own, then ours."""
        return (*shuffled(self.theirs, seed, "examples", stem)[:_SHOWN_OF_THEIRS], *self.examples)


def dimensions(examples: Path | None = None) -> dict[int, Dimension]:
    """All nine, with the examples of a user's file added."""
    written = tomllib.loads(package_text("refbench.builders.creval", "dimensions.toml"))
    found = {
        number: Dimension(name, written[str(number)]["definition"], tuple(written[str(number)]["examples"]))
        for number, (_, name) in DIMENSIONS.items()
    }
    for number, theirs in _read_examples(examples).items() if examples else ():
        found[number] = replace(found[number], theirs=theirs)
    return found


def _read_examples(path: Path) -> dict[int, tuple[str, ...]]:
    """From a JSON list or JSON lines of `class_id` (or `dimension`) and `input_prompt`: instruction.json will do."""
    remedy = "--examples takes a JSON list or JSON lines, in UTF-8"
    text = file_text(path, remedy)
    whole = text.lstrip().startswith("[")
    rows = json_value(text, str(path), remedy) if whole else [row for _, row in json_lines(path, remedy)]
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
    if not isinstance(number, int) or isinstance(number, bool) or number not in DIMENSIONS:
        raise RefBenchError(f"{where}: class_id is not one of 1 to 9, and dimension names none of them")
    if not isinstance(prompt, str) or not prompt.strip():
        raise RefBenchError(f"{where}: input_prompt is no text")
    return int(number), " ".join(clean_text(prompt).split())


def deal(suits: Mapping[str, Collection[int]], places: Mapping[int, int]) -> dict[str, int]:
    """A dimension for as many pictures as can have one, in their order, none beyond its open places.

    A picture goes where most places are open; where none is, an earlier one moves if it suits elsewhere.
    """
    seated: dict[int, list[str]] = {number: [] for number, many in places.items() if many > 0}

    def seat(picture: str, tried: set[int]) -> bool:
        fitting = [number for number in suits[picture] if number in seated and number not in tried]
        fitting.sort(key=lambda number: (len(seated[number]) - places[number], number))
        for number in fitting:
            if len(seated[number]) < places[number]:
                seated[number].append(picture)
                return True
        for number in fitting:
            tried.add(number)
            for place, other in enumerate(seated[number]):
                if seat(other, tried):
                    seated[number][place] = picture
                    return True
        return False

    for picture in suits:
        seat(picture, set())
    found = {picture: number for number, pictures in seated.items() for picture in pictures}
    return {picture: found[picture] for picture in suits if picture in found}


class Splits:
    """Who goes to the test split: a share of every dimension, decided when a picture is dealt.

    What is dropped later moves nobody, and of pictures that look alike only one is ever dealt, so that no two splits
    hold the same.
    """

    def __init__(self, test_share: float | None, seed: int) -> None:
        self._share = test_share
        # Dimensions start at different places of the count: with few items each, all would round the same way.
        order = shuffled(tuple(DIMENSIONS), seed, "split")
        first = draw(seed, "split") / 2**64
        self._start = {number: (order.index(number) / len(order) + first) % 1.0 for number in order}
        self._dealt: Counter[int] = Counter()

    def of_next(self, class_id: int) -> str:
        """The split of the next item of a dimension; empty where there is only one."""
        if self._share is None:
            return ""
        at = self._start[class_id] + self._share * self._dealt[class_id]
        self._dealt[class_id] += 1
        return "test" if int(at + self._share) > int(at) else "dev"
