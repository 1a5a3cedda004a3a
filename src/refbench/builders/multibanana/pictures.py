"""The pictures of a build: the user's and those made to fill gaps, one of each looks, as plain files."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from refbench.builders.kit import DroppedItems
from refbench.builders.kit.draws import pick
from refbench.builders.kit.pictures import distinct_pictures, plain_picture
from refbench.builders.kit.store import Store
from refbench.calls import Budget, BudgetSpentError
from refbench.failure import Failure
from refbench.judges.prompts import filled, placeholders
from refbench.models import ImageModel
from refbench.models.model import Commission
from refbench.models.wrappers.shared import whole_cost
from refbench.pictures import EXTENSIONS, sniff
from refbench.pictures.collection import SAME_LOOKS, Collection, Found, Skipped, look
from refbench.record import RefBenchError, content_key
from refbench.runs.disk import disk_error, write_whole


@dataclass(frozen=True)
class PlainPicture:
    """A picture that can be shown and shipped as it is. `sha256` is that of the file it comes from."""

    name: str
    sha256: str
    path: Path
    extension: str
    width: int
    height: int
    looks: int
    made_by: str = ""
    """The model that painted it; empty for a picture of the user's."""
    made_from: str = ""
    """What the model was told."""

    @property
    def origin(self) -> str:
        """The word for from_where.csv."""
        return "generated" if self.made_by else "real"

    @property
    def shown(self) -> str:
        """Its path in the source, for the card; one that was made does not lie there."""
        return "" if self.made_by else self.name

    @property
    def about(self) -> str:
        """What its replies are filed under."""
        return f"picture {self.sha256[:16]}"


def user_pictures(collection: Collection, work: Path, dropped: DroppedItems) -> list[PlainPicture]:
    """The usable pictures of a collection, the largest of those that look alike; the rest goes on record."""
    found: list[PlainPicture] = []
    for one in sorted(distinct_pictures(collection, dropped), key=lambda one: one.name):
        plain = plainly(collection.root, one, work, one.name)
        if isinstance(plain, Failure):
            dropped.add("pictures", "picture", one.name, "unreadable", plain.detail)
        else:
            found.append(plain)
    return found


def plainly(
    root: Path, one: Found, work: Path, name: str, made_by: str = "", made_from: str = ""
) -> PlainPicture | Failure:
    """The file itself, or a plain RGB copy of it in the work folder."""
    plain = plain_picture(root, one.name, one.sha256[:20], work / "pictures")
    if isinstance(plain, Failure):
        return plain
    width, height = plain.size
    return PlainPicture(name, one.sha256, plain.path, plain.extension, width, height, one.looks, made_by, made_from)


def lookalike(looks: int, others: Sequence[PlainPicture]) -> PlainPicture | None:
    """A picture among the others that looks the same."""
    return next((one for one in others if (one.looks ^ looks).bit_count() <= SAME_LOOKS), None)


# Filling: pictures painted for categories that have too few, from grids of attributes; each is paid for once.

SIZE = (1024, 1024)
_SPENT = "spent"
"""Under which the store has the dollars of all paintings so far."""
_UNPRICED = "unpriced"
"""Under which the store says that something was painted whose price nobody knows."""
_DRAWS = 50
"""Draws for a prompt that is not there yet; a grid that small is used up."""


@dataclass(frozen=True)
class Wish:
    """A picture to be painted: for which category, and the words."""

    category: str
    prompt: str


@cache
def grids() -> Mapping[str, Mapping[str, Any]]:
    """By category: the prompt and the words for its places."""
    text = resources.files("refbench.builders.multibanana").joinpath("data/grids.toml").read_text("utf-8")
    said = tomllib.loads(text)
    shared = said.pop("shared")
    return {name: {**shared, **grid} for name, grid in said.items()}


def wishes(counts: Mapping[str, int], enough: int, seed: int) -> list[Wish]:
    """What is to be painted so that every category of the grids has `enough` pictures; no prompt twice."""
    found: list[Wish] = []
    said: set[str] = set()
    for category, grid in grids().items():
        places = sorted(placeholders(grid["prompt"]))
        for number in range(max(0, enough - counts.get(category, 0))):
            for attempt in range(_DRAWS):
                words = {
                    place: grid[place][pick(len(grid[place]), seed, "fill", category, number, attempt, place)]
                    for place in places
                }
                text = filled(grid["prompt"], words)
                if text not in said:
                    said.add(text)
                    found.append(Wish(category, text))
                    break
    return found


@dataclass(frozen=True)
class Painting:
    """The model that fills, and what it has painted before."""

    model: ImageModel
    store: Store
    work: Path
    budget: Budget
    seed: int

    def __post_init__(self) -> None:
        if self.budget.cap is not None and self.model.traits.price is None:
            raise RefBenchError(
                f"--budget needs the price of {self.model.name}'s pictures: add ?price=USD (dollars a picture) to its "
                "spec"
            )

    async def paint(self, wish: Wish) -> PlainPicture | Failure:
        """The picture: on disk already, or painted now. A failure that another try could mend is not kept."""
        key = content_key([dict(self.model.canonical()), wish.prompt, self.seed, SIZE])[:20]
        known = self.store.get(key)
        if known is None:
            known = await self._painted(key, wish)
            if isinstance(known, Failure):
                return known
        if known.get("failure"):
            return Failure.model_validate(known["failure"])
        found = await asyncio.to_thread(look, self.work / "fill", known["file"])
        if isinstance(found, Skipped):
            return Failure(kind="unreadable_picture", detail=f"{found.kind}: {found.reason}")
        return await asyncio.to_thread(self._plain, found, wish)

    async def _painted(self, key: str, wish: Wish) -> dict[str, Any] | Failure:
        worst = self.model.traits.price or 0.0
        try:
            await self.budget.reserve(worst)
        except BudgetSpentError:
            return Failure(kind="budget", detail=f"{self.budget.cap:g} usd do not cover another picture")
        try:
            painted = await self.model.generate(Commission(instruction=wish.prompt, size=SIZE), self.seed)
            self.budget.pay(whole_cost(painted))
        finally:
            await self.budget.release(worst)
        cost = whole_cost(painted)
        self.store.put(_SPENT, spent_on(self.store) + (cost or 0.0))
        if cost is None and painted.pictures:
            self.store.put(_UNPRICED, True)
        failure = painted.failure or (None if painted.pictures else Failure(kind="missing_output", detail="no picture"))
        if failure is not None and failure.transient:
            return failure
        record: dict[str, Any] = {"prompt": wish.prompt}
        if failure is not None:
            record["failure"] = failure.model_dump()
        else:
            data = painted.pictures[0]
            record["file"] = f"{key}{EXTENSIONS.get(sniff(data) or '', '.png')}"
            try:
                await asyncio.to_thread(write_whole, self.work / "fill" / record["file"], data)
            except OSError as error:
                raise disk_error(error, self.work) from error
        self.store.put(key, record)
        return record

    def _plain(self, found: Found, wish: Wish) -> PlainPicture | Failure:
        return plainly(self.work / "fill", found, self.work, f"generated/{found.name}", self.model.name, wish.prompt)


def spent_on(store: Store) -> float:
    """Dollars of all paintings of a build, also of earlier runs."""
    return float(store.get(_SPENT) or 0.0)


def priced(store: Store) -> bool:
    """Whether the price of everything that was painted is known."""
    return not store.get(_UNPRICED)


def category_counts(categories: Sequence[frozenset[str]]) -> dict[str, int]:
    """Pictures for each category that can be filled."""
    return {name: sum(name in one for one in categories) for name in grids()}
