"""The pictures of a build: the user's, and those that a model paints, each once, for categories that have too few."""

from __future__ import annotations

import asyncio
import contextlib
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from refbench.builders.kit.draws import pick
from refbench.builders.kit.dropped import DroppedItems, Subject
from refbench.builders.kit.folder import write_file
from refbench.builders.kit.pictures import SourcePicture, distinct_pictures, no_pictures, plain_picture
from refbench.builders.kit.replies import package_text
from refbench.builders.kit.store import Store
from refbench.calls.prices import Budget, BudgetSpentError
from refbench.calls.transport import Transport
from refbench.chat.vlm import make_vlm
from refbench.failure import Failure
from refbench.judges.prompts import filled, placeholders
from refbench.models import ImageModel
from refbench.models.api.job_journal import JobJournal
from refbench.models.build import ModelSetup, is_given, make_model
from refbench.models.model import Commission
from refbench.models.wrappers.wrapper import charged_usd, whole_cost
from refbench.pictures import EXTENSIONS, sniff
from refbench.pictures.collection import SAME_LOOKS, Found, Skipped, look
from refbench.record import RefBenchError, content_key
from refbench.specs import Spec


@dataclass(frozen=True)
class PoolPicture(SourcePicture):
    """A picture that references may be taken from: the user's, or painted to fill a gap."""

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

    @property
    def review_id(self) -> str:
        """What it is called in a review file, so that no set is called the same."""
        return f"picture:{self.name}"

    @property
    def subject(self) -> Subject:
        return Subject("picture", self.name, self.shown)


def user_pictures(source: Path, folder: Path, dropped: DroppedItems) -> list[PoolPicture]:
    """The usable pictures below the source, the largest of those that look alike; the rest goes on record."""
    pictures: list[PoolPicture] = []
    for one in sorted(distinct_pictures(source, dropped), key=lambda one: one.name):
        picture = _pool_picture(source, one, folder)
        if isinstance(picture, Failure):
            dropped.add("pictures", "picture", one.name, "unreadable", picture.detail)
        else:
            pictures.append(picture)
    if not pictures:
        raise no_pictures(source, dropped)
    return pictures


def _pool_picture(root: Path, found: Found, folder: Path) -> PoolPicture | Failure:
    """The file itself, or a plain RGB copy of it in the work folder."""
    plain = plain_picture(root, found, found.sha256[:20], folder / "pictures")
    return plain if isinstance(plain, Failure) else PoolPicture(**vars(plain))


def lookalike(looks: int, others: Sequence[PoolPicture]) -> PoolPicture | None:
    """A picture among the others that looks the same."""
    return next((one for one in others if (one.looks ^ looks).bit_count() <= SAME_LOOKS), None)


# --- pictures to fill gaps ------------------------------------------------------------------------------------

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
    said = tomllib.loads(package_text("refbench.builders.multibanana", "data/grids.toml"))
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


@contextlib.asynccontextmanager
async def opened_painter(
    spec: str | None, painter: ImageModel | None, transport: Transport, work: Path
) -> AsyncIterator[ImageModel | None]:
    """The model that fills gaps, made before anything is asked: what is wrong with its spec is said at once."""
    model = painter or (_made(spec, transport, work) if spec else None)
    try:
        yield model
    finally:
        if model is not None:
            await model.close()


def _made(fill: str, transport: Transport, work: Path) -> ImageModel:
    spec = Spec.parse(fill, "--fill")
    if is_given(spec.innermost):
        raise RefBenchError(f"--fill {fill}: give a model that paints, not pictures that are there already")
    jobs = JobJournal(work / "ledger.sqlite")  # beside where a ledger would be: a build that is killed pays once, too
    setup = ModelSetup(transport, lambda vlm: make_vlm(vlm, transport), work / "painting", jobs=jobs)
    try:
        model = make_model(spec, setup)
    except RefBenchError as error:  # models are told of as --model everywhere else
        raise RefBenchError(str(error).replace("--model", "--fill")) from error
    assert isinstance(model, ImageModel)
    return model


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

    async def paint(self, wish: Wish) -> PoolPicture | Failure:
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
        picture = await asyncio.to_thread(_pool_picture, self.work / "fill", found, self.work)
        if isinstance(picture, Failure):
            return picture
        name = f"generated/{found.name}"
        return replace(picture, name=name, made_by=self.model.name, made_from=wish.prompt)

    async def _painted(self, key: str, wish: Wish) -> dict[str, Any] | Failure:
        try:
            held = await self.budget.reserve(self.model.traits.price or 0.0)
        except BudgetSpentError:
            return Failure(kind="budget", detail=f"{self.budget.cap:g} usd do not cover another picture")
        async with held:
            painted = await self.model.generate(Commission(instruction=wish.prompt, size=SIZE), self.seed)
            self.budget.pay(charged_usd(painted))
        cost = whole_cost(painted)
        self.store.put(_SPENT, spent_on(self.store) + charged_usd(painted))
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
            await asyncio.to_thread(write_file, self.work / "fill" / record["file"], data)
        self.store.put(key, record)
        return record


def spent_on(store: Store) -> float:
    """Dollars of all paintings of a build, also of earlier runs."""
    return float(store.get(_SPENT) or 0.0)


def priced(store: Store) -> bool:
    """Whether the price of everything that was painted is known."""
    return not store.get(_UNPRICED)


def category_counts(categories: Sequence[frozenset[str]]) -> dict[str, int]:
    """Pictures for each category that can be filled."""
    return {name: sum(name in one for one in categories) for name in grids()}
