"""overflow: what is done with more pictures than a model takes, or with roles that it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from refbench.failure import Failure
from refbench.machine import scratch_folder
from refbench.models.collage import all_pixels, grid
from refbench.models.model import (
    Commission,
    ImageModel,
    Painted,
    Shown,
    Traits,
    pictures_too_many,
    takes_role,
    unsupported,
)
from refbench.models.wrappers.wrapper import BASES, Wrapper, inside, noted, wording, wording_key
from refbench.pictures import encode
from refbench.record import RefBenchError
from refbench.specs import Spec, model_options


@dataclass(frozen=True)
class Fitted:
    """Which pictures, by their place in the request, go as they are, and which into one collage."""

    kept: tuple[int, ...]
    gathered: tuple[int, ...] = ()


class Overflow(Wrapper):
    """The model, and a policy for requests with more pictures than it takes."""

    def __init__(self, spec: Spec, model: ImageModel, folder: Path) -> None:
        self.policy = model_options(spec)["policy"]
        able = {"max_references": None, "roles": None} if self.policy in ("truncate", "collage") else {}
        super().__init__(spec, model, **able)
        self._folder = folder
        if self.policy == "collage" and model.traits.max_references == 0:
            raise RefBenchError(f"--model {spec.name}: {model.name} takes no pictures, so no collage: use rephrase")

    def canonical(self) -> Mapping[str, str]:
        words = {"words": wording_key("refbench.models.wrappers", "collage.txt")} if self.policy == "collage" else {}
        return {"kind": "overflow", "policy": self.policy, **words, **inside(self.model)}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        too_many = pictures_too_many(commission.pictures, self.model.traits)
        if not too_many:
            return await self.model.generate(commission, seed)
        if self.policy == "error":
            raise RefBenchError(
                f"--model {self.name}: a request is more than {self.model.name} can take ({too_many}): "
                "choose policy=skip, truncate or collage, or a subset of the benchmark"
            )
        if self.policy == "skip":
            return Painted(failure=unsupported(f"skipped: {too_many}"), cost_usd=0.0, provenance={"overflow": "skip"})
        fit = truncated if self.policy == "truncate" else gathered
        fitted = fit(commission.pictures, self.model.traits)
        if fitted.gathered:
            return await self._collage(commission, fitted, seed)
        short = replace(commission, pictures=tuple(commission.pictures[i] for i in fitted.kept))
        notes = {"overflow": f"{self.policy}: {_shown(fitted.kept)} as they are"}
        return noted(await self.model.generate(short, seed), notes)

    async def _collage(self, commission: Commission, fitted: Fitted, seed: int) -> Painted:
        with scratch_folder(self._folder) as folder:
            path = folder / "collage.png"
            failure = await asyncio.to_thread(_write, [commission.pictures[i].path for i in fitted.gathered], path)
            if failure is not None:
                return Painted(failure=failure)
            made = Shown(path, _role([commission.pictures[i].role for i in fitted.gathered], self.model.traits))
            # The collage stands where its first picture stood: an agent's last result stays the last picture.
            at = fitted.gathered[0]
            placed = sorted([*((i, commission.pictures[i]) for i in fitted.kept), (at, made)], key=lambda pair: pair[0])
            note = wording(
                "refbench.models.wrappers",
                "collage.txt",
                place=str(1 + [i for i, _ in placed].index(at)),
                numbers=", ".join(str(i + 1) for i in fitted.gathered),
            )
            asked = replace(
                commission,
                instruction=f"{commission.instruction}\n\n{note}",
                pictures=tuple(shown for _, shown in placed),
            )
            painted = await self.model.generate(asked, seed)
        notes = {"overflow": f"collage: {_shown(fitted.kept)} as they are, {_shown(fitted.gathered)} in one"}
        return noted(painted, notes)


def truncated(pictures: tuple[Shown, ...], traits: Traits) -> Fitted:
    """The first pictures, but the one that is worked on before all others; in the order of the request."""
    kept = _by_weight(pictures, traits)[: traits.max_references]
    return Fitted(tuple(sorted([*kept, *_masks(pictures, traits)])))


def gathered(pictures: tuple[Shown, ...], traits: Traits) -> Fitted:
    """As many pictures as they are as will go, and one collage of all others."""
    places = _by_weight(pictures, traits)
    foreign = any(s.role != "mask" and not takes_role(traits, s.role) for s in pictures)
    most = traits.max_references
    kept = places if most is None or len(places) + foreign <= most else places[: most - 1]
    rest = [i for i, shown in enumerate(pictures) if i not in kept and shown.role != "mask"]
    return Fitted(tuple(sorted([*kept, *_masks(pictures, traits)])), tuple(rest))


def _by_weight(pictures: tuple[Shown, ...], traits: Traits) -> list[int]:
    """Places of the pictures that the model can take, the most important first; masks travel apart."""
    places = [i for i, s in enumerate(pictures) if s.role != "mask" and takes_role(traits, s.role)]
    return sorted(places, key=lambda i: BASES.index(pictures[i].role) if pictures[i].role in BASES else len(BASES))


def _masks(pictures: tuple[Shown, ...], traits: Traits) -> list[int]:
    return [i for i, shown in enumerate(pictures) if shown.role == "mask" and takes_role(traits, "mask")]


def _role(roles: list[str], traits: Traits) -> str:
    """The role of the collage: that of its pictures where they share one, and one that the model takes."""
    role = roles[0] if len(set(roles)) == 1 else "reference"
    return role if traits.roles is None or role in traits.roles else traits.roles[0]


def _write(paths: list[Path], to: Path) -> Failure | None:
    pixels = all_pixels(paths)
    if isinstance(pixels, Failure):
        return pixels
    to.write_bytes(encode(grid(pixels)))
    return None


def _shown(places: tuple[int, ...]) -> str:
    return "pictures " + (", ".join(str(i + 1) for i in places) or "none")
