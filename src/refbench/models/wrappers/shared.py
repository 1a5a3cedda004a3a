"""What wrappers share: which pictures are references, texts that lie beside the code, records and costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import resources
from string import Template
from typing import Any

from refbench.chat import ChatRequest
from refbench.chat.vlm import VLM
from refbench.failure import Failure
from refbench.models.model import ImageModel, Painted, Shown, Startable, Traits
from refbench.record import canonical_json, content_key
from refbench.specs import Spec

BASES = ("previous", "source")
"""Roles of a picture that is worked on, most important first; `previous` is an agent's last result."""


class Wrapper(Startable):
    """A model around a model: its own name, and the traits of the model inside unless it can take more."""

    def __init__(self, spec: Spec, model: ImageModel, vlm: VLM | None = None, **able: Any) -> None:
        self.name = spec.name
        self.model = model
        self._own_vlm = vlm
        self.traits: Traits = model.traits.model_copy(update=able)

    async def start(self) -> None:
        if isinstance(self.model, Startable):
            await self.model.start()

    async def close(self) -> None:
        await self.model.close()
        if self._own_vlm is not None:
            await self._own_vlm.close()


def is_reference(shown: Shown) -> bool:
    """Whether the picture is there to be followed: neither the picture to be worked on nor its mask."""
    return shown.role != "mask" and shown.role not in BASES


def wording(package: str, name: str, **values: str) -> str:
    """A text that lies beside the code, with its places filled."""
    text = resources.files(package).joinpath(name).read_text("utf-8").strip()
    return Template(text).substitute(values) if values else text


def wording_key(package: str, *names: str) -> str:
    """Of the texts as they are shipped: other words are another wrapper."""
    return content_key([wording(package, name) for name in names])[:16]


def inside(model: ImageModel) -> dict[str, str]:
    """The wrapped model's record, as part of the wrapper's."""
    return {f"model.{key}": value for key, value in model.canonical().items()}


def asked_of(vlm: VLM) -> str:
    """Who a VLM is, with its settings: its record of an empty question."""
    record: dict[str, Any] = vlm.canonical(ChatRequest(parts=()), 0)
    return canonical_json({k: v for k, v in record.items() if k not in ("parts", "repeat")}).decode()


def noted(painted: Painted, notes: Mapping[str, str]) -> Painted:
    """The same result with the wrapper's notes on it."""
    return replace(painted, provenance={**painted.provenance, **notes})


def broken_off(painted: Painted) -> Painted:
    """The end of several steps at one that is not the last: part of its pictures is not the result."""
    failure = painted.failure or Failure(kind="missing_output", detail="the model gave no picture")
    return replace(painted, pictures=(), failure=failure)


def known_sum(amounts: Iterable[float | None]) -> float | None:
    """The sum of what is known, None when nothing is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def whole_cost(painted: Painted) -> float | None:
    """Of the result and of all steps before it."""
    return known_sum([painted.cost_usd, *(step.cost_usd for step in painted.steps)])


def whole_seconds(painted: Painted) -> float | None:
    return known_sum([painted.seconds, *(step.seconds for step in painted.steps)])
