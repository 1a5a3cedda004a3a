"""What wrappers and agents share: the model inside, which pictures are references, texts that lie beside the code,
records and costs; how a VLM is asked about pictures, and how a picture is kept on disk for the next model.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any, Protocol

from refbench.chat import ChatPicture, ChatRequest, ChatText
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare, store_in
from refbench.chat.vlm import VLM
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.models.model import ImageModel, Painted, Shown, Startable, Traits
from refbench.pictures import EXTENSIONS, sniff
from refbench.record import canonical_json, content_key
from refbench.specs import Spec

BASES = ("previous", "source")
"""Roles of a picture that is worked on, most important first; `previous` is an agent's last result."""
REPEATS = 100
"""Questions that one seed may ask of a VLM: a repeat is seed x REPEATS + number, so that none is taken for another."""

_FENCE = re.compile(r"```[\w-]*\s*\n?(.*?)\n?\s*```", re.DOTALL)
_REFUSAL = re.compile(
    r"(?:i['’]?m|i am) (?:very |really |so )?(?:sorry|unable|not able)|sorry\b|i (?:can['’]?t|cannot|won['’]?t)\b|"
    r"as an ai\b|unfortunately\b",
    re.IGNORECASE,
)
_FAILED_DECODINGS = 200


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


class Spent(Protocol):
    """Whatever cost something: a picture, a step, a VLM's reply."""

    @property
    def cost_usd(self) -> float | None: ...

    @property
    def worst_usd(self) -> float | None: ...


def worst_sum(spent: Iterable[Spent]) -> float | None:
    """The most that these can have cost together, None where all of it is known."""
    all_of_it = list(spent)
    if all(one.worst_usd is None for one in all_of_it):
        return None
    return sum(one.cost_usd or 0.0 if one.worst_usd is None else one.worst_usd for one in all_of_it)


def whole_worst(painted: Painted) -> float | None:
    """The most that a result and all steps before it can have cost, None where all of it is known."""
    return worst_sum([painted, *painted.steps])


def charged_usd(painted: Painted) -> float:
    """What a result counts for a budget, with all steps before it."""
    worst = whole_worst(painted)
    return (whole_cost(painted) or 0.0) if worst is None else worst


def whole_seconds(painted: Painted) -> float | None:
    return known_sum([painted.seconds, *(step.seconds for step in painted.steps)])


async def ask(vlm: VLM, parts: Sequence[str | Path], repeat: int, folder: Path) -> Evidence | Failure:
    """The VLM's reply to texts and pictures in this order; pictures that must be re-encoded are put into `folder`."""
    pictures: dict[str, SentPicture] = {}
    chat_parts: list[ChatText | ChatPicture] = []
    for part in parts:
        if isinstance(part, str):
            chat_parts.append(ChatText(text=part))
            continue
        sent = await asyncio.to_thread(prepare, part, PicturePolicy(), store_in(folder))
        if isinstance(sent, Failure):
            return sent
        pictures[sent.sha256] = sent
        chat_parts.append(ChatPicture(sha256=sent.sha256))
    return await vlm.ask(ChatRequest(parts=tuple(chat_parts)), pictures, repeat)


def reply_of(evidence: Evidence) -> str | Failure:
    """The reply, or why there is none that can be used: one that was cut off is not what the VLM meant to say."""
    if evidence.failure is not None:
        return evidence.failure
    if evidence.provenance.startswith("cut off"):
        return Failure(kind="unparsable", detail=f"the reply was {evidence.provenance}")
    return evidence.reply or ""


def seconds_of(evidence: Evidence) -> float | None:
    known = [attempt.seconds for attempt in evidence.attempts if attempt.seconds is not None]
    return sum(known) if known else None


def keep(pictures: Sequence[bytes], folder: Path, stem: str) -> tuple[Path, ...]:
    """The pictures as files, in order."""
    kept = []
    for number, data in enumerate(pictures, 1):
        name = stem if len(pictures) == 1 else f"{stem}-{number}"
        path = folder / f"{name}{EXTENSIONS.get(sniff(data) or '', '.png')}"
        path.write_bytes(data)
        kept.append(path)
    return tuple(kept)


def unfenced(reply: str) -> str:
    """The reply without a code fence around the whole of it."""
    fence = _FENCE.fullmatch(reply.strip())
    return (fence[1] if fence else reply).strip()


def is_refusal(reply: str) -> bool:
    """Whether a text that should be a prompt begins as refusals do: painted, it would be a picture of an excuse."""
    return _REFUSAL.match(reply.strip()) is not None


def json_objects(reply: str) -> Iterator[dict[str, Any]]:
    """The outermost JSON objects in a reply. Nothing is repaired."""
    decoder, at, failed = json.JSONDecoder(strict=False), 0, 0
    while failed < _FAILED_DECODINGS and (start := reply.find("{", at)) >= 0:
        try:
            value, at = decoder.raw_decode(reply, start)
        except (ValueError, RecursionError):
            failed, at = failed + 1, start + 1
            continue
        yield value
