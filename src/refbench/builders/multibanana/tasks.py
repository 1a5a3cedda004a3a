"""Tasks: which pictures can make sets of each of the 36, and the order in which sets are tried.

The order of a task belongs to the seed and the pictures alone: what is dropped, reviewed or made elsewhere moves no
set, and a picture more or less changes only sets that it could be in.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from refbench.benchmarks.multibanana.cases import TASKS, Task
from refbench.builders.kit.draws import draw, shuffled
from refbench.builders.kit.dropped import Subject
from refbench.builders.kit.replies import package_text
from refbench.builders.multibanana.classify import Look
from refbench.builders.multibanana.pictures import PoolPicture
from refbench.record import Record, content_key

_NUMBER = 1_000_000
"""Sets of a task have numbers below this, by their content, so that one is called the same in every build."""


class Recipe(Record):
    """What the sets of a task are made of, and what the writer is told."""

    base: tuple[str, ...]
    giver: tuple[str, ...] = ()
    modified: bool = False
    says: str
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """A picture of the pool: what it shows and what it may be there for."""

    picture: PoolPicture
    look: Look
    categories: frozenset[str]

    def fits(self, wanted: Sequence[str]) -> bool:
        return not self.categories.isdisjoint(wanted)


@dataclass(frozen=True)
class Candidate:
    """A set that may be written: the references in their order."""

    task: Task
    references: tuple[Member, ...]

    @property
    def number(self) -> str:
        said = [self.task.name, *(one.picture.sha256 for one in self.references)]
        return f"{int(content_key(said)[:12], 16) % _NUMBER:06d}"

    @property
    def subject(self) -> Subject:
        shown = next((one.picture.shown for one in self.references if one.picture.shown), "")
        return Subject("set", self.id, shown)

    @property
    def id(self) -> str:
        return f"{self.task.name}/{self.number}"


@cache
def recipes() -> Mapping[str, Recipe]:
    """By the name of a task, or of its structure where it stands for several numbers of references."""
    return {name: Recipe.model_validate(said) for name, said in tomllib.loads(recipes_text()).items()}


def recipes_text() -> str:
    return package_text("refbench.builders.multibanana", "data/tasks.toml")


def recipe_of(task: Task) -> Recipe:
    known = recipes()
    return known[task.name] if task.name in known else known[task.name.partition("_")[2]]


def why_not(task: Task, pool: Sequence[Member]) -> str:
    """Why no set of the task can be made of these pictures, "" when one can."""
    recipe = recipe_of(task)
    base = [one for one in pool if one.fits(recipe.base)]
    givers = [one for one in pool if one.fits(recipe.giver)]
    wanted = task.n_refs - bool(recipe.giver)
    if recipe.giver and not givers:
        return f"no picture is there for {_listed(recipe.giver)}"
    alone = recipe.giver and len(base) == wanted and all(one in base for one in givers)
    if len(base) < wanted or alone:
        more = f" besides the one for {_listed(recipe.giver)}" if recipe.giver else ""
        return f"it needs {wanted} pictures of {_listed(recipe.base)}{more}, there are {len(base)}"
    return ""


def candidates(task: Task, pool: Sequence[Member], seed: int) -> Iterator[Candidate]:
    """Sets of the task without end in sight, none twice: givers (or first subjects) take turns, and each turn has the
    companions that the draws give it. It ends when a whole round of turns brings nothing new."""
    if why_not(task, pool):
        return
    recipe = recipe_of(task)
    anchors = [one for one in pool if one.fits(recipe.giver or recipe.base)]
    anchors.sort(key=lambda one: draw(seed, task.name, one.picture.sha256))
    companions = [one for one in pool if one.fits(recipe.base)]
    seen: set[frozenset[str]] = set()
    numbers: set[str] = set()
    turn, idle = 0, 0
    while idle < _IDLE_ROUNDS:
        fresh = False
        for anchor in anchors:
            others = [one for one in companions if one is not anchor]
            if len(others) < task.n_refs - 1:
                continue
            first = anchor.picture.sha256
            others.sort(key=lambda one: draw(seed, task.name, first, turn, one.picture.sha256))
            chosen = [anchor, *others[: task.n_refs - 1]]
            content = frozenset(one.picture.sha256 for one in chosen)
            # Where the writer goes first is not always the giver: the order of references is drawn too.
            candidate = Candidate(task, tuple(shuffled(chosen, seed, task.name, first, turn)))
            if content in seen or candidate.number in numbers:
                continue
            seen.add(content)
            numbers.add(candidate.number)
            fresh = True
            yield candidate
        turn, idle = turn + 1, 0 if fresh else idle + 1


_IDLE_ROUNDS = 5


def possible(pool: Sequence[Member]) -> tuple[list[Task], dict[str, str]]:
    """The tasks of which a set can be made, and why the others cannot."""
    reasons = {name: why_not(task, pool) for name, task in TASKS.items()}
    return [task for name, task in TASKS.items() if not reasons[name]], {n: why for n, why in reasons.items() if why}


_SAID = {"tone": "one tone", "light": "a clear light", "style": "a drawn or painted style", "text": "words"}
_SAID |= {"pose": "a clear pose", "hairstyle": "a distinctive hairstyle", "makeup": "makeup", "background": "a place"}
_SAID |= {"expression": "a strong expression", "industrial": "a telling material", "clothing": "patterned cloth"}
_SAID |= {"person": "one person", "object": "one object"}


def _listed(categories: Sequence[str]) -> str:
    return " or ".join(_SAID.get(name, name) for name in categories)
