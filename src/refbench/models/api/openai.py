"""OpenAI's image generations and edits, as OpenAI and compatible servers speak them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import orjson

from refbench.calls.prices import PictureUsage
from refbench.calls.transport import Transport
from refbench.chat.http import json_body
from refbench.chat.openai import OPENAI
from refbench.chat.pictures import SentPicture
from refbench.failure import Failure
from refbench.models.api.model import (
    ApiModel,
    ImageRequest,
    Link,
    WireFormat,
    WireReply,
    WireRequest,
    account_of,
    nearest_shape,
)
from refbench.models.api.pictures import FormBody, token_count, transparent_where_white
from refbench.models.model import Traits
from refbench.record import clean_text
from refbench.specs import Spec

T = TypeVar("T")

_GPT = ("gpt-image", "chatgpt-image")
_MOST = 10  # pictures for one request
_SIZES = {  # what OpenAI's own models can make, by the beginning of their names
    "dall-e-3": ((1024, 1024), (1792, 1024), (1024, 1792)),
    "dall-e-2": ((1024, 1024),),
    "": ((1024, 1024), (1536, 1024), (1024, 1536)),
}
_LIMITS = {  # pictures in, pictures out
    "dall-e-3": (0, 1),
    "dall-e-2": (1, _MOST),
    "": (16, _MOST),
}


def openai_images(spec: Spec, transport: Transport, scratch: Path | None = None) -> ApiModel:
    """The model of a spec `openai:MODEL`."""
    return ApiModel(spec, OPENAI_IMAGES, transport, scratch)


def _defaults(model: str, official: bool) -> Traits:
    if not official:
        return Traits()
    pictures_in, pictures_out = _of(_LIMITS, model)
    return Traits(open_weights=False, max_references=pictures_in, max_pictures=pictures_out)


def _shape(order: ImageRequest) -> WireRequest | Failure:
    commission, notes = order.commission, dict[str, str]()
    fields: dict[str, Any] = {"model": order.model, "prompt": clean_text(commission.instruction)}
    most = _of(_LIMITS, order.model)[1] if order.official else commission.n_pictures
    fields["n"] = min(commission.n_pictures, most)
    if (size := _size(order)) is not None:
        fields["size"] = size
        notes["size"] = size
    if not order.model.startswith(_GPT):
        # Others answer with links unless told otherwise; the gpt-image models refuse to be told.
        fields["response_format"] = "b64_json"
    if _seeded(order):
        fields["seed"] = order.seed
    else:
        notes["seed"] = "not sent"
    fields = {key: value for key, value in {**fields, **order.parameters}.items() if value != ""}
    if not order.pictures:
        return WireRequest(
            f"{order.base_url}/images/generations", "application/json", json_body(lambda put: fields), notes
        )
    split = _split(order)
    if isinstance(split, Failure):
        return split
    pictures, mask = split
    # A single picture is `image`, as the SDK sends it: servers that take only one know no other name.
    name = "image" if len(pictures) == 1 else "image[]"
    files = [(name, picture) for picture in pictures]
    if mask is not None:
        files.append(("mask", mask))
        notes["mask"] = "sent as the mask of the first picture"
    body = FormBody.of([(key, _text(value)) for key, value in fields.items()], files)
    return WireRequest(f"{order.base_url}/images/edits", f"multipart/form-data; boundary={body.boundary}", body, notes)


def _seeded(order: ImageRequest) -> bool:
    """OpenAI's models know no seeds and refuse them, behind a gateway too; others draw the same again without one."""
    setting = order.settings["seed"]
    return setting == "send" or (
        setting == "auto" and not order.official and not order.model.startswith((*_GPT, "dall-e"))
    )


def _split(order: ImageRequest) -> tuple[tuple[SentPicture, ...], SentPicture | None] | Failure:
    """The pictures, and the mask apart where it can be: there is one, and the picture that it is for comes first.

    The API puts a mask on the first picture, so the mask of any other is sent as a picture among the pictures.
    """
    roles = [shown.role for shown in order.commission.pictures]
    others = tuple(picture for picture, role in zip(order.pictures, roles, strict=True) if role != "mask")
    first = next((role for role in roles if role != "mask"), None)
    if order.settings["mask"] == "picture" or roles.count("mask") != 1 or first != "source":
        return order.pictures, None
    mask = transparent_where_white(order.pictures[roles.index("mask")], others[0], order.store)
    return mask if isinstance(mask, Failure) else (others, mask)


def _size(order: ImageRequest) -> str | None:
    """The size as the server is told it; None to leave it to the server."""
    setting, wanted = order.settings["size"], order.commission.size
    if setting == "case":
        if wanted is None:
            return None
        shape = nearest_shape(wanted, _of(_SIZES, order.model)) if order.official else wanted
        return f"{shape[0]}x{shape[1]}"
    if setting == "exact":
        return None if wanted is None else f"{wanted[0]}x{wanted[1]}"
    return setting


def _read(body: Any) -> WireReply:
    pictures: list[str | Link] = []
    notes: dict[str, str] = {}
    failure = None
    for item in body.get("data") or []:
        if item.get("b64_json"):
            pictures.append(str(item["b64_json"]))
        elif item.get("url"):
            pictures.append(Link(str(item["url"])))
        elif item.get("respect_moderation") is False:  # a gateway's way of saying that the picture was blocked
            failure = Failure(kind="refused", detail="the picture did not pass moderation")
        else:
            raise ValueError("a picture has neither b64_json nor url")
        if item.get("revised_prompt"):
            notes["revised_prompt"] = str(item["revised_prompt"])[:2000]
    return WireReply(tuple(pictures), failure, _usage(body.get("usage") or {}), notes=notes)


def _usage(body: Mapping[str, Any]) -> PictureUsage | None:
    tokens_in, tokens_out = token_count(body.get("input_tokens")), token_count(body.get("output_tokens"))
    if tokens_in is None or tokens_out is None:
        return None
    details = body.get("input_tokens_details") or {}
    # These endpoints write nothing but pictures, so without details all that came out is picture.
    made = token_count((body.get("output_tokens_details") or {}).get("image_tokens"))
    return PictureUsage(
        tokens_in, tokens_out, token_count(details.get("image_tokens")), tokens_out if made is None else made
    )


def _of(table: Mapping[str, T], model: str) -> T:
    return next(value for prefix, value in table.items() if model.startswith(prefix))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


OPENAI_IMAGES = WireFormat(
    kind="openai",
    account=lambda spec, options: account_of(spec, options, OPENAI),
    settings=("size", "mask", "seed", "extra"),
    defaults=_defaults,
    shape=_shape,
    read=_read,
)
