"""The steps of a tour: each tries one thing and ends in a state."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

from refbench.benchmarks.kit.definition import Material
from refbench.benchmarks.own.cases import OwnDetails
from refbench.benchmarks.own.judge import request as own_request
from refbench.case import Case, Picture, Request
from refbench.chat.http import HttpVLM
from refbench.chat.pictures import SentPicture, made_picture, store_in
from refbench.chat.vlm import VLM, ChatPicture, ChatRequest, ChatText
from refbench.engine.doctor import Largest
from refbench.engine.tour.purse import Purse, SpentError
from refbench.engine.tour.records import State, Step
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.judges.contract import Contract
from refbench.judges.criteria import Criterion, Scale
from refbench.judges.rubric import load_rubric
from refbench.pictures import Pixels, decode, encode
from refbench.record import RefBenchError

COUNTS = (1, 2, 4, 8, 16)
"""Pictures in a request that are tried, until so many are too many."""
_SIDE, _SHORT = 128, 60
_TOKENS = 2000
COLOURS = {"png": ("red", (220, 20, 20)), "jpeg": ("green", (20, 160, 40)), "webp": ("blue", (20, 40, 220))}
AUDITED = 3
"""Photographs in the quick audit; each is shown clean, blurred, and exchanged for another."""
NAMES = (
    *("reachable", "model name", "pictures in a request", "PNG", "JPEG", "WebP", "JSON schema", "same request again"),
    *("official prompts", "batches", "quick audit"),
)


@dataclass
class Steps:
    """One judge on its tour. What was found is in `done`, in the order of `NAMES`, also when it ends early."""

    judge: VLM
    purse: Purse
    folder: Path
    official: Largest | str
    """The largest request in official words, or why there is none."""
    photographs: dict[str, bytes] | str
    """Of the quick audit, or why there are none."""
    done: list[Step] = field(default_factory=list)

    async def walk(self) -> None:
        """Try everything. A step that does not fit into the budget ends the tour; the rest is not tried."""
        first = await self._reachable()
        self.done.append(first)
        if first.state != "works":
            return
        async for step in self._rest():
            self.done.append(step)

    async def _rest(self) -> AsyncIterator[Step]:
        yield self._name_told()
        tries: Sequence[Callable[[], Awaitable[Step]]] = (
            self._pictures,
            *(lambda name=name: self._format(name) for name in COLOURS),
            self._schema,
            self._again,
            self._official,
            self._batches,
            self._audit,
        )
        for number, attempt in enumerate(tries, NAMES.index("pictures in a request")):
            try:
                yield await attempt()
            except RefBenchError as error:  # a key or a model that was fine a moment ago
                yield Step(name=NAMES[number], state="does not", said=str(error))

    def whole(self, why: str) -> tuple[Step, ...]:
        """Every step, those that were not come to with the reason."""
        there = {step.name: step for step in self.done}
        return tuple(there.get(name, Step(name=name, state="not tried", said=why)) for name in NAMES)

    # --- the steps ----------------------------------------------------------------------------------------------------

    async def _reachable(self) -> Step:
        try:
            evidence = await self._ask(["Reply with the one word: ready"])
        except RefBenchError as error:
            return Step(name="reachable", state="does not", said=str(error))
        if evidence.failure is not None:
            return Step(name="reachable", state="does not", said=str(evidence.failure))
        return Step(name="reachable", state="works", said=f"it says: {_short(evidence)}")

    def _name_told(self) -> Step:
        told = sorted(self.judge.models_told) if isinstance(self.judge, HttpVLM) else []
        if not told:
            return Step(name="model name", state="does not", said="its replies name no model")
        asked = self.judge.model if isinstance(self.judge, HttpVLM) else ""
        other = "" if told == [asked] else f", asked as {asked}"
        return Step(name="model name", state="works", said=f"{', '.join(told)}{other}")

    async def _pictures(self) -> Step:
        taken, counted, why = 0, 0, ""
        for count in COUNTS:
            pictures = [self._picture(_plain(number), "png") for number in range(count)]
            said = "How many pictures did I send you? Answer with the number alone."
            evidence = await self._ask([*pictures, said])
            if evidence.failure is not None:
                why = f"; with {count}: {evidence.failure}"
                break
            taken = count
            right = re.match(rf"{count}(?!\d|[.,]\d)", _short(evidence).strip(" .*\"'"))  # 1 is not the 1 of 16
            counted = count if right else counted
        state: State = "works" if taken else "does not"
        told = f", and counts them right up to {counted}" if counted else ", and counts none of them right"
        return Step(
            name="pictures in a request", state=state, said=f"takes {taken}{told if taken else ''}{why}".strip()
        )

    async def _format(self, name: str) -> Step:
        colour, pixels = COLOURS[name]
        title = {"png": "PNG", "jpeg": "JPEG", "webp": "WebP"}[name]
        picture = self._picture(np.full((_SIDE, _SIDE, 3), pixels, np.uint8), name)
        evidence = await self._ask([picture, "What colour is the picture? Answer with one word in English."])
        if evidence.failure is not None:
            return Step(name=title, state="does not", said=str(evidence.failure))
        seen = re.search(rf"\b{colour}\b", _short(evidence), re.IGNORECASE) is not None
        words = f"it says {_short(evidence)!r} to {colour}"
        return Step(name=title, state="works" if seen else "does not", said=words)

    async def _schema(self) -> Step:
        contract = Contract("json_object", (Criterion("brightness", Scale(1, 10)),))
        picture = self._picture(_plain(0), "png")
        text = f"Give the picture a mark for its brightness.\n\n{contract.format_text()}"
        evidence = await self._ask([picture, text], contract)
        if evidence.failure is not None:
            return Step(name="JSON schema", state="does not", said=str(evidence.failure))
        mark = contract.marks(evidence.reply or "")["brightness"]
        bare = (evidence.reply or "").strip().startswith("{")
        if isinstance(mark, Failure):
            return Step(name="JSON schema", state="does not", said=f"{mark}: {_short(evidence)}")
        return Step(name="JSON schema", state="works", said="kept" if bare else "readable, with words around the JSON")

    async def _again(self) -> Step:
        picture = self._picture(_plain(0), "png")
        said = []
        for repeat in (0, 1):
            evidence = await self._ask([picture, "Describe the picture in five words."], repeat=repeat)
            if evidence.failure is not None:
                return Step(name="same request again", state="does not", said=str(evidence.failure))
            said.append((evidence.reply or "").strip())
        told = "the same words" if said[0] == said[1] else "other words: marks will vary, ask more than once"
        return Step(name="same request again", state="works", said=told)

    async def _official(self) -> Step:
        if isinstance(self.official, str):
            return Step(name="official prompts", state="not tried", said=self.official)
        evidence = await self.purse.ask(self.judge, self.official.request, self.official.pictures)
        if evidence.failure is not None:
            return Step(name="official prompts", state="does not", said=str(evidence.failure))
        tokens = f", {evidence.input_tokens} tokens in" if evidence.input_tokens else ""
        words = f"the request about {self.official.case}, one of the largest, went through{tokens}"
        return Step(name="official prompts", state="works", said=words)

    async def _batches(self) -> Step:
        paths = {"openai": "/batches?limit=1", "anthropic": "/v1/messages/batches?limit=1"}
        judge = self.judge
        if not isinstance(judge, HttpVLM) or judge.kind not in paths:
            return Step(name="batches", state="not tried", said="RefBench hands in no batches to this kind of judge")
        there = await judge.has(paths[judge.kind])
        said = "the list of batches is there" if there else "no list of batches: --batch cannot be used"
        return Step(name="batches", state="works" if there else "does not", said=said)

    async def _audit(self) -> Step:
        """Is a clean photograph marked above a blurred one in quality, and above another thing in the instruction?"""
        if isinstance(self.photographs, str):
            return Step(name="quick audit", state="not tried", said=self.photographs)
        shown = {words: decode(data) for words, data in self.photographs.items()}
        pictures = [(words, pixels) for words, pixels in shown.items() if not isinstance(pixels, Failure)]
        higher: dict[str, list[bool]] = {"visual_quality": [], "instruction_alignment": []}
        unread: list[str] = []
        for number, (words, pixels) in enumerate(pictures):
            other = pictures[(number + 1) % len(pictures)][1]
            clean = await self._marks(words, pixels, pixels)
            for name, output in (("visual_quality", _blurred(pixels)), ("instruction_alignment", other)):
                marks = await self._marks(words, pixels, output)
                pair = clean[name], marks[name]
                unread += [str(one) for one in pair if isinstance(one, Failure)]
                if not any(isinstance(one, Failure) for one in pair):
                    higher[name].append(pair[0] > pair[1])  # type: ignore[operator]
        told = "; ".join(f"{name}: the clean one higher in {sum(of)} of {len(of)}" for name, of in higher.items() if of)
        if unread:
            told += f"{'; ' if told else ''}{len(unread)} marks without a value ({unread[0]})"
        right = all(of and all(of) for of in higher.values())
        return Step(name="quick audit", state="works" if right and not unread else "does not", said=told)

    # --- asking -------------------------------------------------------------------------------------------------------

    async def _marks(self, words: str, reference: Pixels, output: Pixels) -> dict[str, float | Failure]:
        rubric = load_rubric("five_criteria")
        (part,) = rubric.parts
        sent = [self._picture(one, "png") for one in (reference, output)]
        case = Case[OwnDetails](
            id="tour",
            cluster="tour",
            request=Request(
                instruction=f"A photograph of {words} of image 1.",
                pictures=(Picture(name="reference.png", role="subject"),),
            ),
            details=OwnDetails(),
        )
        request = own_request(rubric, part, case, Material((sent[0],), (sent[1],)))
        evidence = await self.purse.ask(self.judge, request, {one.sha256: one for one in sent})
        if evidence.failure is not None or evidence.reply is None:
            failed = evidence.failure or Failure(kind="empty_reply", detail="no reply")
            return dict.fromkeys((one.name for one in part.criteria), failed)
        return rubric.contract(part).marks(evidence.reply)

    async def _ask(
        self, parts: Sequence[str | SentPicture], contract: Contract | None = None, repeat: int = 0
    ) -> Evidence:
        asked = [ChatText(text=one) if isinstance(one, str) else ChatPicture(sha256=one.sha256) for one in parts]
        schema = contract.json_schema() if contract is not None else None
        request = ChatRequest(parts=tuple(asked), max_tokens=_TOKENS, json_schema=schema)
        pictures = {one.sha256: one for one in parts if isinstance(one, SentPicture)}
        return await self.purse.ask(self.judge, request, pictures, repeat)

    def _picture(self, pixels: Pixels, name: str) -> SentPicture:
        data = encode(pixels, name)  # type: ignore[arg-type]
        sent = made_picture(data, "made for the tour", store_in(self.folder))
        assert isinstance(sent, SentPicture)
        return sent


def _plain(number: int) -> Pixels:
    """A tiny picture unlike any other."""
    pixels = np.full((_SIDE, _SIDE, 3), 255, np.uint8)
    inset = 8 + 3 * number
    pixels[inset:-inset, inset:-inset] = ((number * 70) % 200, 60, (number * 40 + 90) % 256)
    return pixels


def _blurred(pixels: Pixels) -> Pixels:
    return np.asarray(cv2.GaussianBlur(pixels, (0, 0), max(pixels.shape[:2]) / 48), np.uint8)


def _short(evidence: Evidence) -> str:
    return " ".join((evidence.reply or "").split())[:_SHORT]


async def toured(steps: Steps) -> str:
    """Walk; why the steps that are left were not tried, "" where none is."""
    try:
        await steps.walk()
    except SpentError:
        return "the budget does not cover it"
    except asyncio.CancelledError:
        return "the tour was interrupted"
    return "it cannot be reached" if not steps.done or steps.done[0].state != "works" else ""
