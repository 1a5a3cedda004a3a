"""Gemini's generateContent with pictures in the reply, over REST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from refbench.calls.prices import PictureUsage
from refbench.calls.said import UnknownShapeError, count, listed, table, tables, text, total
from refbench.calls.transport import Transport
from refbench.chat.gemini import GEMINI, REFUSALS, WRITTEN
from refbench.chat.http import json_body
from refbench.chat.pictures import SentPicture
from refbench.failure import Failure
from refbench.models.api.model import (
    Account,
    ApiModel,
    ImageRequest,
    WireFormat,
    WireReply,
    WireRequest,
    account_of,
)
from refbench.models.api.servers import nearest_shape
from refbench.models.model import Traits
from refbench.record import clean_text
from refbench.specs import Spec

_ASPECTS = ((1, 1), (2, 3), (3, 2), (3, 4), (4, 3), (4, 5), (5, 4), (9, 16), (16, 9), (21, 9))
_PICTURE_SETTINGS = ("aspectRatio", "imageSize")
_OUTSIDE = ("safetySettings", "systemInstruction", "tools")  # these stand beside generationConfig, not in it


def gemini_images(spec: Spec, transport: Transport, scratch: Path | None = None) -> ApiModel:
    """The model of a spec `gemini:MODEL`."""
    return ApiModel(spec, GEMINI_IMAGES, transport, scratch)


def _defaults(account: Account, settings: Mapping[str, str]) -> Traits:
    # Gemini 3 states a limit; of Gemini 2.5 none is enforced, and MultiBanana shows it eight references.
    limited = account.model.startswith(("gemini-3", "gemini-nano-banana"))
    return Traits(open_weights=False, max_references=14 if limited else None)


def _shape(order: ImageRequest) -> WireRequest:
    commission, notes = order.commission, dict[str, str]()
    given = {key: value for key, value in order.parameters.items() if value != ""}
    pictured = {key: given.pop(key) for key in _PICTURE_SETTINGS if key in given}
    outside = {key: given.pop(key) for key in _OUTSIDE if key in given}
    if commission.size and order.settings["size"] == "case" and not order.model.startswith("gemini-2.0"):
        wide, high = nearest_shape(commission.size, _ASPECTS)
        pictured.setdefault("aspectRatio", f"{wide}:{high}")
    if "aspectRatio" in pictured:
        notes["aspect_ratio"] = str(pictured["aspectRatio"])
    # Both are asked for: a model that may only draw cannot say why it does not.
    settings: dict[str, Any] = {"responseModalities": ["TEXT", "IMAGE"], **given}
    if pictured:
        settings["imageConfig"] = pictured
    if order.settings["seed"] == "send":
        settings["seed"] = order.seed
    else:
        notes["seed"] = "not sent"

    def shape(put: Callable[[SentPicture], str]) -> dict[str, Any]:
        text = [{"text": clean_text(commission.instruction)}]
        pictures = [{"inline_data": {"mime_type": picture.mime, "data": put(picture)}} for picture in order.pictures]
        parts = [*text, *pictures] if order.settings["text"] == "first" else [*pictures, *text]
        return {"contents": [{"role": "user", "parts": parts}], "generationConfig": settings, **outside}

    return WireRequest(GEMINI.url(order.base_url, order.model), "application/json", json_body(shape), notes)


def _read(body: Any) -> WireReply:
    usage = _usage(table(body, "usageMetadata"))
    notes = {"model_version": str(body["modelVersion"])[:200]} if body.get("modelVersion") else {}
    blocked = text(body, "promptFeedback", "blockReason")
    if blocked:
        failure = Failure(kind="refused", detail=f"prompt blocked: {blocked[:100]}")
        return WireReply(failure=failure, usage=usage, notes=notes)
    pictures: list[str] = []
    texts: list[str] = []
    reasons: list[str] = []
    for candidate in listed(body, "candidates"):
        reasons.append(text(candidate, "finishReason")[:100])
        for part in listed(candidate.get("content"), "parts"):
            if part.get("thought"):  # drafts on the way to the picture are no pictures of the reply
                continue
            inline = part.get("inlineData") or part.get("inline_data")
            if inline and not text(inline, "data"):
                raise UnknownShapeError("a picture has no data")
            if inline:
                pictures.append(text(inline, "data"))
            else:
                texts.append(text(part, "text"))
    if words := "".join(texts).strip():
        notes["said"] = words[:2000]
    refusals = [reason for reason in reasons if reason in REFUSALS]
    if refusals:
        message = f"finish reason {refusals[0]}" + (f": {words[:300]}" if words else "")
        return WireReply(tuple(pictures), Failure(kind="refused", detail=message), usage, notes=notes)
    if not pictures and not words:
        notes["said"] = f"nothing (finish reason {', '.join(reasons) or 'none: no candidate'})"
    return WireReply(tuple(pictures), None, usage, notes=notes)


def _usage(body: Mapping[str, Any]) -> PictureUsage | None:
    tokens_in, written = count(body, "promptTokenCount"), total(body, *WRITTEN)
    if tokens_in is None or written is None:
        return None
    # At Gemini's prices all that goes in costs the same.
    pictured = _pictured(body, "promptTokensDetails") or 0
    return PictureUsage(tokens_in, written, pictured, _pictured(body, "candidatesTokensDetails") if written else 0)


def _pictured(usage: Mapping[str, Any], name: str) -> int | None:
    """Tokens of pictures among the details; None without details, since theirs is another price."""
    details = tables(usage, name)
    counts = [count(item, "tokenCount") for item in details if item.get("modality") == "IMAGE"]
    return None if not details or None in counts else sum(number for number in counts if number is not None)


GEMINI_IMAGES = WireFormat(
    kind="gemini",
    settings=("size", "text", "seed", "extra"),
    account=lambda spec, options: account_of(spec, options, GEMINI),
    defaults=_defaults,
    shape=_shape,
    read=_read,
)
