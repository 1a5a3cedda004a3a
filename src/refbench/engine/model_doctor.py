"""The doctor for image models: one small real request that tells whether a model can do its work."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from refbench.calls import Transport
from refbench.calls.retry import RetryPolicy
from refbench.chat.build import make_vlm
from refbench.chat.spec import Spec
from refbench.failure import Failure
from refbench.models import ImageModel
from refbench.models.build import make_model
from refbench.models.model import Commission, Painted, Shown
from refbench.models.nested import name_of, parse_model
from refbench.pictures import encode, facts_of
from refbench.record import Record, RefBenchError

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
        return [await _examine(text, n_pictures, n_back, transport) for text in models]


async def _examine(text: str, n_pictures: int, n_back: int, transport: Transport) -> ModelReport:
    tree = parse_model(text)
    findings: dict[str, str] = {}
    if isinstance(tree, Spec) and (tree.kind in ("folder", "steps") or (tree.kind, tree.what) == ("baseline", "truth")):
        raise RefBenchError(f"--model {text}: pictures that are there need no doctor: name a model that paints")
    with tempfile.TemporaryDirectory(prefix="refbench-") as folder:
        place = Path(folder)
        try:
            model = make_model(
                tree,
                cases=(),
                names=lambda case: [],
                path=lambda picture: place / picture.name,
                transport=transport,
                make_vlm=lambda vlm: make_vlm(vlm, transport),
                folder=place / "work",
            )
        except RefBenchError as error:
            return ModelReport(model=name_of(tree), usable=False, findings={"reachable": f"no: {error}"})
        assert isinstance(model, ImageModel)
        try:
            return await _try(model, _pictures(place, n_pictures), n_back, findings)
        except RefBenchError as error:
            # What no request would succeed with: a wrong key, a model or an address that is not there.
            return ModelReport(model=model.name, usable=False, findings={"reachable": f"no: {error}", **findings})
        finally:
            await model.close()


async def _try(model: ImageModel, pictures: list[Shown], n_back: int, findings: dict[str, str]) -> ModelReport:
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
    elif asked:
        bare, _ = await _paint(model, [], n_back)
        if bare.pictures:
            findings["reachable"] = "yes"
            findings["references"] = f"{len(asked)} in a request failed ({painted.failure}); without any it works"
        else:
            findings["reachable"] = _unreached(painted)
    else:
        findings["reachable"] = _unreached(painted)
    if usable:
        findings["pictures back"] = f"{len(painted.pictures)} of {n_back} asked for" + (
            f" ({painted.failure})" if painted.failure else ""
        )
        sizes, broken = _sizes(painted)
        findings["size"] = ", ".join(dict.fromkeys(sizes)) or "unknown"
        if broken:
            findings["size"] = f"not to be told: {broken}"
        usable = broken is None and len(painted.pictures) >= n_back
    findings["seconds"] = f"{seconds:.1f}"
    cost = _cost(painted)
    if cost is not None:
        findings["cost"] = f"{cost:.4f} usd for this request"
    elif traits.usd_a_picture is not None:
        findings["cost"] = f"{traits.usd_a_picture:g} usd a picture by its spec"
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


def _sizes(painted: Painted) -> tuple[list[str], str | None]:
    sizes: list[str] = []
    for data in painted.pictures:
        facts = facts_of(data)
        if isinstance(facts, Failure):
            return sizes, facts.detail
        sizes.append(f"{facts.width}x{facts.height} {facts.format}")
    return sizes, None


def _cost(painted: Painted) -> float | None:
    costs = [painted.cost_usd, *(step.cost_usd for step in painted.steps)]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def _pictures(folder: Path, count: int) -> list[Shown]:
    """Plain shapes, no two alike."""
    found = []
    for number in range(count):
        pixels = np.full((_SIDE, _SIDE, 3), 255, dtype=np.uint8)
        inset = 40 + 8 * (number % 8)
        pixels[inset:-inset, inset:-inset] = ((number * 70) % 200, 60, (number * 40 + 90) % 256)
        path = folder / f"reference_{number}.png"
        path.write_bytes(encode(pixels))
        found.append(Shown(path, _ROLES[number % len(_ROLES)]))
    return found
