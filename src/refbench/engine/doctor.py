"""The doctor: a few small real calls that tell whether a judge can do its work."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from refbench.calls import Transport
from refbench.calls.retry import RetryPolicy
from refbench.chat.build import make_vlm
from refbench.chat.families import family_of
from refbench.chat.request import ChatPicture, ChatRequest, ChatText
from refbench.chat.sent import PicturePolicy, SentPicture, prepare
from refbench.chat.spec import Spec
from refbench.chat.vlm import VLM
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


async def examine(judges: Sequence[str], n_pictures: int) -> list[Report]:
    """Try each judge with as many pictures as are needed; fewer, when it does not take them."""
    async with Transport(timeout=120, policy=RetryPolicy(attempts=2)) as transport:
        return [await _examine(text, n_pictures, transport) for text in judges]


async def _examine(text: str, n_pictures: int, transport: Transport) -> Report:
    spec = Spec.parse(text, "--judge")
    findings: dict[str, str] = {}
    try:
        judge = make_vlm(spec, transport)
        with tempfile.TemporaryDirectory(prefix="refbench-") as folder:
            pictures = [_picture(Path(folder), n) for n in range(n_pictures)]
            usable = await _try(judge, pictures, findings)
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
