"""Gemini's generateContent with pictures in the reply, over REST."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from refbench.calls.prices import PictureUsage
from refbench.calls.transport import Transport
from refbench.chat.gemini import GEMINI, REFUSALS
from refbench.chat.http import json_body
from refbench.chat.pictures import SentPicture
from refbench.failure import Failure
from refbench.models.api.model import (
    ApiModel,
    ImageRequest,
    WireFormat,
    WireReply,
    WireRequest,
    account_of,
    nearest_shape,
)
from refbench.models.api.pictures import token_count
from refbench.models.model import Traits
from refbench.record import clean_text
from refbench.specs import Spec

_ASPECTS = ((1, 1), (2, 3), (3, 2), (3, 4), (4, 3), (4, 5), (5, 4), (9, 16), (16, 9), (21, 9))
_PICTURE_SETTINGS = ("aspectRatio", "imageSize")
_OUTSIDE = ("safetySettings", "systemInstruction", "tools")  # these stand beside generationConfig, not in it


def gemini_images(spec: Spec, transport: Transport, scratch: Path | None = None) -> ApiModel:
    """The model of a spec `gemini:MODEL`."""
    return ApiModel(spec, GEMINI_IMAGES, transport, scratch)


def _defaults(model: str, official: bool) -> Traits:
    # Gemini 3 states a limit; of Gemini 2.5 none is enforced, and MultiBanana shows it eight references.
    return Traits(open_weights=False, max_references=14 if model.startswith("gemini-3") else None)


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
    usage = _usage(body.get("usageMetadata") or {})
    notes = {"model_version": str(body["modelVersion"])} if body.get("modelVersion") else {}
    blocked = (body.get("promptFeedback") or {}).get("blockReason")
    if blocked:
        return WireReply(failure=Failure(kind="refused", detail=f"prompt blocked: {blocked}"), usage=usage, notes=notes)
    pictures: list[str] = []
    texts: list[str] = []
    reasons: list[str] = []
    for candidate in body.get("candidates") or []:
        reasons.append(str(candidate.get("finishReason") or ""))
        for part in (candidate.get("content") or {}).get("parts") or []:
            if part.get("thought"):  # drafts on the way to the picture are no pictures of the reply
                continue
            inline = part.get("inlineData") or part.get("inline_data")
            if inline:
                pictures.append(str(inline["data"]))
            elif part.get("text"):
                texts.append(str(part["text"]))
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
    tokens_in = token_count(body.get("promptTokenCount"))
    if tokens_in is None:
        return None
    written = (token_count(body.get("candidatesTokenCount")) or 0) + (token_count(body.get("thoughtsTokenCount")) or 0)
    return PictureUsage(
        tokens_in,
        written,
        _pictured(body.get("promptTokensDetails")) or 0,  # at Gemini's prices all that goes in costs the same
        _pictured(body.get("candidatesTokensDetails")) if written else 0,
    )


def _pictured(details: Any) -> int | None:
    """Tokens of pictures among the details; None without details, since theirs is another price."""
    if not details:
        return None
    return sum(token_count(item.get("tokenCount")) or 0 for item in details if item.get("modality") == "IMAGE")


GEMINI_IMAGES = WireFormat(
    kind="gemini",
    settings=("size", "text", "seed", "extra"),
    account=lambda spec, options: account_of(spec, options, GEMINI),
    defaults=_defaults,
    shape=_shape,
    read=_read,
)
