"""ablate: a model without a part of its input (the text, a reference, a role) or with its references shuffled."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from refbench.models.model import Commission, ImageModel, Painted, unsupported
from refbench.models.wrappers.wrapper import Wrapper, inside, is_reference, noted
from refbench.record import RefBenchError
from refbench.specs import Spec, model_options


class Ablate(Wrapper):
    """What is left out depends on the request and the ablation's own seed alone, so that all models miss the same."""

    def __init__(self, spec: Spec, model: ImageModel) -> None:
        super().__init__(spec, model)
        options = model_options(spec)
        self.shuffle, self.which, self.seed = options["shuffle"], options["which"], options["seed"]
        self.text = options["text"]
        self.drop = options["drop"] or ("nothing" if self.shuffle else "")
        if not self.drop or (self.drop == "nothing" and not self.shuffle):
            raise RefBenchError(
                f"--model {spec.name}: ablate needs drop=text, drop=reference, drop=role or shuffle=yes: choose one"
            )
        self.role = options["role"] or ""
        if (self.drop == "role") != bool(self.role):
            raise RefBenchError(f"--model {spec.name}: write drop=role and role=..., for example role=style")

    def canonical(self) -> Mapping[str, str]:
        own = {"kind": "ablate", "drop": self.drop, "shuffle": "yes" if self.shuffle else "no", "seed": str(self.seed)}
        if self.drop == "text":
            own["text"] = self.text
        elif self.drop == "reference":
            own["which"] = "random" if self.which is None else str(self.which)
        elif self.drop == "role":
            own["role"] = self.role
        return {**own, **inside(self.model)}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        draw = random.Random(f"{self.seed}\0{commission.instruction}\0{len(commission.pictures)}")
        places = list(range(len(commission.pictures)))
        notes = []
        if self.drop in ("reference", "role"):
            gone = self._gone(commission, draw)
            if not gone:
                missing = f"in the role {self.role}" if self.drop == "role" else "to leave out"
                return _nothing(f"the request has no picture {missing}")
            places = [i for i in places if i not in gone]
            notes.append("without picture " + ", ".join(str(i + 1) for i in gone))
        if self.drop == "text":
            notes.append("without the text")
        if self.shuffle:
            order = _shuffled([i for i in places if is_reference(commission.pictures[i])], draw)
            if order is None:
                return _nothing("the request has no two references to shuffle")
            waiting = iter(order)
            places = [next(waiting) if is_reference(commission.pictures[i]) else i for i in places]
            notes.append("in the order " + " ".join(str(i + 1) for i in places))
        asked = replace(
            commission,
            instruction=self.text if self.drop == "text" else commission.instruction,
            pictures=tuple(commission.pictures[i] for i in places),
        )
        return noted(await self.model.generate(asked, seed), {"ablate": "; ".join(notes)})

    def _gone(self, commission: Commission, draw: random.Random) -> list[int]:
        if self.drop == "role":
            return [i for i, shown in enumerate(commission.pictures) if shown.role == self.role]
        references = [i for i, shown in enumerate(commission.pictures) if is_reference(shown)]
        if self.which is not None:
            return references[self.which - 1 : self.which]
        return [references[int(draw.random() * len(references))]] if references else []


def _shuffled(places: list[int], draw: random.Random) -> list[int] | None:
    """Another order than the given one; None where there is none."""
    if len(places) < 2:
        return None
    while True:
        # By keys of random(), the one method whose values Python promises to keep from version to version.
        order = [place for _, place in sorted((draw.random(), place) for place in places)]
        if order != places:
            return order


def _nothing(why: str) -> Painted:
    return Painted(failure=unsupported(f"nothing to ablate: {why}"), cost_usd=0.0, provenance={"ablate": "no"})


# suffix: a sentence added to every instruction, as MultiBanana's priority variants do.


class Suffix(Wrapper):
    """The model, told something more."""

    def __init__(self, spec: Spec, model: ImageModel) -> None:
        super().__init__(spec, model)
        self.text = (model_options(spec)["text"] or "").strip()
        if not self.text:
            raise RefBenchError(f"--model {spec.name}: suffix needs text=...")

    def canonical(self) -> Mapping[str, str]:
        return {"kind": "suffix", "text": self.text, **inside(self.model)}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        longer = f"{commission.instruction.rstrip()} {self.text}".strip()
        return await self.model.generate(replace(commission, instruction=longer), seed)
