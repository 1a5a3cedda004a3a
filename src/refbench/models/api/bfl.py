"""`bfl:MODEL`: Black Forest Labs' API: a request is handed in, asked for by its own address, and fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from refbench.calls.said import amount, text
from refbench.calls.transport import Transport
from refbench.chat.http import json_body
from refbench.chat.pictures import SentPicture
from refbench.failure import Failure
from refbench.models.api.job_journal import JobJournal
from refbench.models.api.jobs import HandedIn, JobFormat, JobModel, JobState, words_of
from refbench.models.api.model import Account, ImageRequest, Link, WireFormat, WireReply, WireRequest, account_of
from refbench.models.api.servers import Sizes, nearest_shape
from refbench.models.model import Traits, unsupported
from refbench.record import clean_text
from refbench.specs import Spec

_RATIOS = ((1, 1), (4, 3), (3, 2), (16, 9), (21, 9), (3, 4), (2, 3), (9, 16), (9, 21))
_SIZES = Sizes(step=16, pixels=(64 * 64, 4_000_000))
_MODERATED = ("Request Moderated", "Content Moderated")


@dataclass(frozen=True)
class _Place:
    """BFL's address and key, as `account_of` wants them."""

    base_url: str = "https://api.bfl.ai/v1"
    base_url_variable: str = "BFL_BASE_URL"
    key_variables: tuple[str, ...] = ("BFL_API_KEY",)
    headers: Callable[[str | None], dict[str, str]] = lambda key: {"x-key": key} if key else {}


BFL = _Place()


def bfl_model(
    spec: Spec, transport: Transport, scratch: Path | None = None, jobs: JobJournal | None = None
) -> JobModel:
    """The model of a spec `bfl:MODEL`."""
    return JobModel(spec, BFL_IMAGES, transport, scratch, jobs)


def _most(model: str) -> int:
    return 4 if model.startswith("flux-kontext") else 8


def _defaults(account: Account, settings: Mapping[str, str]) -> Traits:
    return Traits(open_weights=False, max_references=_most(account.model), max_pictures=1)


def _shape(order: ImageRequest) -> WireRequest | Failure:
    commission, notes = order.commission, dict[str, str]()
    if len(order.pictures) > _most(order.model):
        return unsupported(f"{order.model} takes {_most(order.model)} pictures, masks among them")
    size = _size(order)
    notes |= {key: str(value) for key, value in size.items()}
    fields = {"prompt": clean_text(commission.instruction), "seed": order.seed, "output_format": "png", **size}
    if order.model == "flux-2-flex":  # it would rewrite the instruction that is tested
        fields["prompt_upsampling"] = False
    fields = {key: value for key, value in {**fields, **order.parameters}.items() if value != ""}
    masks = [number for number, shown in enumerate(commission.pictures, 1) if shown.role == "mask"]
    if masks:
        notes["mask"] = f"sent as picture {', '.join(map(str, masks))} of {len(commission.pictures)}"

    def shape(put: Callable[[SentPicture], str]) -> dict[str, Any]:
        shown = {
            "input_image" if number == 1 else f"input_image_{number}": put(picture)
            for number, picture in enumerate(order.pictures, 1)
        }
        return {**fields, **shown}

    return WireRequest(f"{order.base_url}/{order.model}", "application/json", json_body(shape), notes)


def _size(order: ImageRequest) -> dict[str, Any]:
    """The size in the model's own words; nothing to leave it to the model, which follows the first picture."""
    setting, wanted = order.settings["size"], order.commission.size
    if "x" in setting:
        wide, _, high = setting.partition("x")
        wanted = int(wide), int(high)
    if wanted is None or setting == "omit":
        return {}
    if order.model.startswith("flux-kontext"):
        ratio = nearest_shape(wanted, _RATIOS)
        return {"aspect_ratio": f"{ratio[0]}:{ratio[1]}"}
    width, height = _SIZES.nearest(wanted)
    return {"width": width, "height": height}


def _taken(body: Any) -> HandedIn | None:
    cents = amount(body, "cost")
    if not text(body, "id"):
        return None
    return HandedIn(text(body, "id"), text(body, "polling_url"), None if cents is None else cents / 100)


def _state(body: Any) -> JobState | None:
    word = text(body, "status")
    if word == "Ready":
        link = text(body, "result", "sample")
        failure = None if link else Failure(kind="api_error", detail="the job is done and names no picture")
        return JobState("ended", WireReply((Link(link),) if link else (), failure), word)
    if word in _MODERATED:
        return JobState("ended", WireReply(failure=Failure(kind="refused", detail=word)), word)
    if word in ("Error", "Failed"):
        said = words_of(body, "details") or words_of(body, "result")
        detail = f"the job failed: {word}" + (f" ({said})" if said else "")
        return JobState("ended", WireReply(failure=Failure(kind="api_error", detail=detail)), word)
    if word == "Task not found":
        return JobState("unknown", word=word)
    return JobState("pending", word=word[:100]) if word else None


BFL_IMAGES = WireFormat(
    kind="bfl",
    account=lambda spec, options: account_of(spec, options, BFL),
    settings=("size", "extra"),
    defaults=_defaults,
    shape=_shape,
    read=lambda body: WireReply(),
    links=lambda settings: ("bfl.ai", "bfldeliverysc.blob.core.windows.net"),
    job=JobFormat(
        taken=_taken,
        state=_state,
        address=lambda base_url, job: f"{base_url}/get_result?id={quote(job, safe='')}",
        own_hosts=("bfl.ai",),
    ),
)
