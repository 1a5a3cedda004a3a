"""The doctor: a few small real calls that tell whether a judge, or an image model, can do its work."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from refbench.benchmarks import Benchmark, Dataset
from refbench.benchmarks.kit.definition import Material
from refbench.calls.prices import FREE
from refbench.calls.transport import RetryPolicy, Transport
from refbench.chat.pictures import PicturePolicy, SentPicture, prepare, store_in
from refbench.chat.vlm import VLM, ChatPicture, ChatRequest, ChatText, Pictures, make_vlm
from refbench.engine.judging import pictures_of
from refbench.evidence import Evidence
from refbench.failure import Failure
from refbench.machine import scratch_folder
from refbench.models import ImageModel
from refbench.models.build import ModelSetup, is_given, make_model
from refbench.models.model import Commission, Painted, Shown, Startable
from refbench.models.wrappers.wrapper import whole_cost
from refbench.pictures import encode, verified
from refbench.record import Record, RefBenchError
from refbench.specs import Spec, family_of

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
    needs_schema: bool
    """Whether any request about the case wants its reply in a JSON schema."""


def largest_request(
    bench: Benchmark, dataset: Dataset, folder: Path, settings: Mapping[str, str] | None = None
) -> Largest | None:
    """The request about the case with the most pictures, None where it cannot be made.

    Pictures that have to be re-encoded are put into `folder`, which must last until the request is sent.
    """
    if bench.asking.judging is None:
        return None
    case = max(dataset.cases, key=lambda case: len(case.request.pictures) + len(case.targets))
    store, pictures = store_in(folder), (*case.request.pictures, *case.targets)
    sent = [prepare(dataset.path(picture), PicturePolicy(), store) for picture in pictures]
    ready = [picture for picture in sent if isinstance(picture, SentPicture)]
    if not ready or len(ready) < len(sent):
        return None
    inputs = len(case.request.pictures)
    material = Material(tuple(ready[:inputs]), (ready[0],), tuple(ready[inputs:]))
    judging = bench.asking.judging(dataset.root, bench.asking.chosen(settings or {}, bench.title))
    if judging.compose is not None:
        material = judging.compose(case, material, store)
    asked = [item.request for item in judging.ask(case, material) if item.settled is None]
    if not asked:
        return None
    schema = any(request.json_schema is not None for request in asked)
    return Largest(case.id, asked[0], pictures_of(material), schema)


async def examine(judges: Sequence[str], n_pictures: int, largest: Largest | None = None) -> list[Report]:
    """Try each judge with as many pictures as are needed; fewer, when it does not take them."""
    async with Transport(timeout=120, policy=RetryPolicy(attempts=2)) as transport:
        return [await _examine(text, n_pictures, largest, transport) for text in judges]


async def _examine(text: str, n_pictures: int, largest: Largest | None, transport: Transport) -> Report:
    spec = Spec.parse(text, "--judge")
    family = spec.options.get("family") or family_of(spec.what)
    findings: dict[str, str] = {}
    try:
        judge = make_vlm(spec, transport)
        family = judge.family
        try:
            with scratch_folder() as folder:
                pictures = [_picture(folder, n) for n in range(n_pictures)]
                usable = await _try(judge, pictures, findings, schema=largest is None or largest.needs_schema)
                if usable and largest is not None:
                    usable = await _try_largest(judge, largest, findings)
                findings |= await _weights(judge)
        finally:
            await judge.close()
    except RefBenchError as error:
        findings["reachable"] = f"no: {error}"
        usable = False
    findings["family"] = family
    return Report(judge=spec.name, usable=usable, findings=findings)


async def _try(judge: VLM, pictures: list[SentPicture], findings: dict[str, str], *, schema: bool) -> bool:
    whole = await _count(judge, pictures, schema=False)
    if whole.failure is not None:
        findings["pictures"] = f"{len(pictures)} in a request failed ({whole.failure})"
        most = await _most(judge, pictures)
        findings["pictures"] += f"; it takes {most}" if most >= 0 else ""
        findings["reachable"] = "yes" if most >= 0 else f"no: {whole.failure}"
        return False
    findings["reachable"] = "yes"
    findings["pictures"] = f"takes {len(pictures)} in a request; it says: {(whole.reply or '').strip()[:60]}"
    if schema:
        formatted = await _count(judge, pictures, schema=True)
        kept = formatted.failure is None and (formatted.reply or "").strip().startswith("{")
        findings["json schema"] = "kept" if kept else f"not kept ({formatted.failure or (formatted.reply or '')[:60]})"
    else:
        findings["json schema"] = "the benchmark needs none"
    price = judge.price
    if price is FREE:
        findings["price"] = price.source
    elif price is not None:
        findings["price"] = f"{price.input_usd:g} and {price.output_usd:g} usd a million tokens ({price.source})"
    else:
        findings["price"] = "not known: --budget would need ?price=IN,OUT"
    return True


async def _weights(judge: VLM) -> dict[str, str]:
    """What is known of the model behind the name, where it is on a server of one's own."""
    told = await judge.served()
    if told is None:
        return {}
    told |= {"system_fingerprint": ", ".join(sorted(judge.system_fingerprints))} if judge.system_fingerprints else {}
    said = ", ".join(f"{name} {value}" for name, value in told.items())
    remedy = "say what you know by ?revision=, ?quantization=, ?template="
    return {"weights": said or f"unverified: the server tells nothing of what is behind the name; {remedy}"}


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


_SIDE = 256
"""Small, but above the least that image models are known to take."""
_ROLES = ("source", "subject", "style", "background")
_ASK = (
    "Draw a plain red circle on a white background.",
    "Draw the shape of the picture in blue on a white background.",
    "Draw the shapes of all pictures side by side on a white background.",
)


class ModelReport(Record):
    """What was found out about one model, in the order in which it was tried."""

    model: str
    usable: bool
    findings: Mapping[str, str]
    seconds: float | None = None
    cost_usd: float | None = None


async def examine_models(
    models: Sequence[str], *, n_pictures: int = 1, n_back: int = 1, timeout: float = 300.0
) -> list[ModelReport]:
    """Ask each model for a picture once, with so many references; once more without any when that fails."""
    async with Transport(timeout=timeout, policy=RetryPolicy(attempts=2)) as transport:
        return [await _examine_model(text, n_pictures, n_back, transport) for text in models]


async def _examine_model(text: str, n_pictures: int, n_back: int, transport: Transport) -> ModelReport:
    spec = Spec.parse(text)
    findings: dict[str, str] = {}
    if is_given(spec):
        raise RefBenchError(f"--model {text}: pictures that are there need no doctor: name a model that paints")
    with scratch_folder() as folder:
        place = folder
        try:
            model = make_model(spec, ModelSetup(transport, lambda vlm: make_vlm(vlm, transport), place / "work"))
            assert isinstance(model, ImageModel)
            try:
                if isinstance(model, Startable):
                    await model.start()
                return await _try_model(model, _pictures(place, n_pictures), n_back, findings)
            finally:
                await model.close()
        except RefBenchError as error:
            # What no request would succeed with: a wrong key, a model or an address that is not there.
            return ModelReport(model=spec.name, usable=False, findings={"reachable": f"no: {error}", **findings})


async def _try_model(model: ImageModel, pictures: list[Shown], n_back: int, findings: dict[str, str]) -> ModelReport:
    traits = model.traits
    most = traits.max_references
    if most is not None and len(pictures) > most:
        findings["references"] = (
            f"it takes {most} at most, {len(pictures)} are needed: wrap it, for example truncate({model.name}), or "
            "requests with more will be failures"
        )
    asked = pictures if most is None else pictures[:most]
    painted, seconds = await _paint(model, asked, n_back)
    usable = bool(painted.pictures)
    if usable:
        findings["reachable"] = "yes"
        if asked == pictures:
            findings["references"] = f"took {len(asked)} in a request" + (f", {most} at most" if most else "")
        why = f" ({painted.failure})" if painted.failure else ""
        findings["pictures back"] = f"{len(painted.pictures)} of {n_back} asked for{why}"
        facts = [verified(data) for data in painted.pictures]
        broken = [one.detail for one in facts if isinstance(one, Failure)]
        sizes = [f"{one.width}x{one.height} {one.format}" for one in facts if not isinstance(one, Failure)]
        findings["size"] = f"not to be told: {broken[0]}" if broken else ", ".join(dict.fromkeys(sizes))
        usable = not broken and len(painted.pictures) >= n_back
    elif asked and (await _paint(model, [], n_back))[0].pictures:
        findings["reachable"] = "yes"
        findings["references"] = f"{len(asked)} in a request failed ({painted.failure}); without any it works"
    else:
        findings["reachable"] = _unreached(painted)
    findings["seconds"] = f"{seconds:.1f}"
    cost = whole_cost(painted)
    if cost is not None:
        findings["cost"] = f"{cost:.4f} usd for this request"
    elif traits.price is not None:
        findings["cost"] = f"{traits.price:g} usd a picture by its spec"
    else:
        findings["cost"] = "not known: --budget would need ?price=USD (dollars a picture)"
    short = most is not None and len(pictures) > most
    return ModelReport(
        model=model.name, usable=usable and not short, findings=findings, seconds=round(seconds, 3), cost_usd=cost
    )


async def _paint(model: ImageModel, pictures: Sequence[Shown], n_back: int) -> tuple[Painted, float]:
    started = time.monotonic()
    words = _ASK[min(len(pictures), 2)]
    painted = await model.generate(Commission(words, tuple(pictures), None, n_back), 0)
    return painted, painted.seconds if painted.seconds is not None else time.monotonic() - started


def _unreached(painted: Painted) -> str:
    failure = painted.failure or Failure(kind="missing_output", detail="it gave no picture")
    if failure.kind == "refused":
        return f"yes, but it declined a harmless request ({failure})"
    return f"no picture: {failure}"


def _pictures(folder: Path, count: int) -> list[Shown]:
    """Plain shapes, no two alike."""
    shown = []
    for number in range(count):
        pixels = np.full((_SIDE, _SIDE, 3), 255, dtype=np.uint8)
        inset = 40 + 8 * (number % 8)
        pixels[inset:-inset, inset:-inset] = ((number * 70) % 200, 60, (number * 40 + 90) % 256)
        path = folder / f"reference_{number}.png"
        path.write_bytes(encode(pixels))
        shown.append(Shown(path, _ROLES[number % len(_ROLES)]))
    return shown
