"""The doctor: a few small real calls that tell whether a judge can do its work."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refbench.benchmarks import Benchmark, Dataset
from refbench.benchmarks.benchmark import Material
from refbench.calls import Transport
from refbench.calls.retry import RetryPolicy
from refbench.chat.build import make_vlm
from refbench.chat.families import family_of
from refbench.chat.request import ChatPicture, ChatRequest, ChatText
from refbench.chat.sent import PicturePolicy, SentPicture, prepare
from refbench.chat.spec import Spec
from refbench.chat.vlm import VLM, Pictures
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.pictures import encode
from refbench.record import Record, RefBenchError

_SCHEMA = {
    "type": "object",
    "properties": {"pictures": {"type": "integer"}},
    "required": ["pictures"],
    "additionalProperties": False,
}


class Report(Record):
    """What was found out about one judge, in the order in which it was tried."""

    judge: str
    usable: bool
    findings: Mapping[str, str]


@dataclass(frozen=True)
class Largest:
    """The largest request that a benchmark makes, with its real pictures; the output is played by the first input."""

    case: str
    request: ChatRequest
    pictures: Pictures


def largest_request(bench: Benchmark, dataset: Dataset, folder: Path) -> Largest | None:
    """The request about the case with the most pictures, None where it cannot be made.

    Pictures that have to be re-encoded are put into `folder`, which must last until the request is sent.
    """
    if bench.judging is None:
        return None
    case = max(dataset.cases, key=lambda case: len(case.request.pictures) + len(case.targets))

    def store(data: bytes, picture_format: str) -> Path:
        path = folder / f"{hashlib.sha256(data).hexdigest()}.{picture_format}"
        path.write_bytes(data)
        return path

    inputs, targets = (
        [prepare(dataset.path(p), PicturePolicy(), store) for p in group]
        for group in (case.request.pictures, case.targets)
    )
    ready = [picture for picture in (*inputs, *targets) if isinstance(picture, SentPicture)]
    if not ready or len(ready) < len(inputs) + len(targets):
        return None
    settings = {name: values[0] for name, values in bench.settings.items()}
    material = Material(tuple(ready[: len(inputs)]), (ready[0],), tuple(ready[len(inputs) :]))
    judging = bench.judging(dataset.root, settings)
    if judging.compose is not None:
        material = judging.compose(case, material, store)
    ready += [picture for picture in material.composed.values() if isinstance(picture, SentPicture)]
    asked = [item.request for item in judging.ask(case, material) if item.settled is None]
    if not asked:
        return None
    return Largest(case.id, asked[0], {picture.sha256: picture for picture in ready})


async def examine(judges: Sequence[str], n_pictures: int, largest: Largest | None = None) -> list[Report]:
    """Try each judge with as many pictures as are needed; fewer, when it does not take them."""
    async with Transport(timeout=120, policy=RetryPolicy(attempts=2)) as transport:
        return [await _examine(text, n_pictures, largest, transport) for text in judges]


async def _examine(text: str, n_pictures: int, largest: Largest | None, transport: Transport) -> Report:
    spec = Spec.parse(text, "--judge")
    findings: dict[str, str] = {}
    try:
        judge = make_vlm(spec, transport)
        with tempfile.TemporaryDirectory(prefix="refbench-") as folder:
            pictures = [_picture(Path(folder), n) for n in range(n_pictures)]
            usable = await _try(judge, pictures, findings)
            if usable and largest is not None:
                usable = await _try_largest(judge, largest, findings)
    except RefBenchError as error:
        findings["reachable"] = f"no: {error}"
        usable = False
    findings["family"] = spec.options.get("family") or family_of(spec.what)
    return Report(judge=spec.name, usable=usable, findings=findings)


async def _try(judge: VLM, pictures: list[SentPicture], findings: dict[str, str]) -> bool:
    whole = await _count(judge, pictures, schema=False)
    if whole.failure is None:
        findings["reachable"] = "yes"
        findings["pictures"] = f"takes {len(pictures)} in a request; it says: {(whole.reply or '').strip()[:60]}"
    else:
        findings["pictures"] = f"{len(pictures)} in a request failed ({whole.failure})"
        most = await _most(judge, pictures)
        if most < 0:
            findings["reachable"] = f"no: {whole.failure}"
            return False
        findings["reachable"] = "yes"
        findings["pictures"] += f"; it takes {most}"
        return False
    formatted = await _count(judge, pictures, schema=True)
    kept = formatted.failure is None and (formatted.reply or "").strip().startswith("{")
    findings["json schema"] = "kept" if kept else f"not kept ({formatted.failure or (formatted.reply or '')[:60]})"
    price = getattr(judge, "price", None)
    if price is not None:
        findings["price"] = f"{price.input_usd:g} and {price.output_usd:g} usd a million tokens ({price.source})"
    else:
        findings["price"] = "not known: --budget would need ?price=IN,OUT"
    return True


async def _try_largest(judge: VLM, largest: Largest, findings: dict[str, str]) -> bool:
    evidence = await judge.ask(largest.request, largest.pictures, 0)
    if evidence.failure is not None and evidence.failure.kind != "refused":
        findings["context"] = f"the request about {largest.case} failed ({evidence.failure})"
        return False
    tokens = f", {evidence.input_tokens} tokens in" if evidence.input_tokens else ""
    findings["context"] = f"the request about {largest.case}, one of the largest, went through{tokens}"
    return True


async def _most(judge: VLM, pictures: list[SentPicture]) -> int:
    """The largest number of pictures that goes through, -1 when not even a text does."""
    low, high = -1, len(pictures)
    if (await _count(judge, [], schema=False)).failure is None:
        low = 0
    while low >= 0 and high - low > 1:
        middle = (low + high) // 2
        worked = (await _count(judge, pictures[:middle], schema=False)).failure is None
        low, high = (middle, high) if worked else (low, middle)
    return low


async def _count(judge: VLM, pictures: list[SentPicture], *, schema: bool) -> Evidence:
    words = "How many pictures did I send you? Answer with the number" + (
        " in the required JSON." if schema else " alone."
    )
    request = ChatRequest(
        parts=(*(ChatPicture(sha256=p.sha256) for p in pictures), ChatText(text=words)),
        max_tokens=1000,
        json_schema=_SCHEMA if schema else None,
    )
    return await judge.ask(request, {p.sha256: p for p in pictures}, 0)


def _picture(folder: Path, number: int) -> SentPicture:
    path = folder / f"{number}.png"
    pixels = np.zeros((64, 64, 3), dtype=np.uint8)
    pixels[:, :, number % 3] = 255 - number * 20
    path.write_bytes(encode(pixels))
    sent = prepare(path, PicturePolicy(), lambda data, name: path)
    assert not isinstance(sent, Failure)
    return sent
