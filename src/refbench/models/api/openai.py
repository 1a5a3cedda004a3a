"""OpenAI's image generations and edits, as OpenAI and compatible servers speak them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from refbench.calls.errors import read_error
from refbench.calls.keys import Secrets
from refbench.calls.prices import PictureUsage
from refbench.calls.said import count, listed, table, tables, text
from refbench.calls.transport import Call, CallFailedError, Transport
from refbench.chat.http import json_body
from refbench.chat.openai import OPENAI
from refbench.chat.pictures import SentPicture
from refbench.failure import Failure
from refbench.models.api.model import (
    Account,
    ApiModel,
    ImageRequest,
    Link,
    WireFormat,
    WireReply,
    WireRequest,
    account_of,
)
from refbench.models.api.pictures import FormBody, transparent_where_white
from refbench.models.api.servers import SERVERS, Server, Sizes, check_server, nearest_shape, server_at
from refbench.models.model import Traits, unsupported
from refbench.record import RefBenchError, clean_text
from refbench.specs import Spec

_GPT = ("gpt-image", "chatgpt-image")
_OWNERS = {"vllm": "vllm-omni", "vllm-omni": "vllm-omni", "sglang": "sglang"}
"""What servers write as the owner of the models that they list, and who they are."""


class OpenAIModel(ApiModel):
    """A model behind OpenAI's image paths. Before the first picture it looks whether the server is one that drops what
    the spec asks for."""

    async def start(self) -> None:
        await super().start()
        if _server_name(self.settings, self.account.official) != "other":
            return
        if self.settings["mask"] == "field" or self.parameters:
            call = Call(self.endpoint, f"{self.base_url}/models", self.account.headers, bytes, 0, "GET")
            try:
                answer = await self.transport.send(replace(call, secrets=self.account.secrets))
            except CallFailedError:
                return  # it may list nothing and paint all the same
            owners = {text(model, "owned_by") for model in tables(answer.said(), "data")}
            for name in sorted({_OWNERS[owner] for owner in owners if owner in _OWNERS}):
                check_server(name, self.settings["mask"], self.parameters, f"--model {self.name}")


def openai_images(spec: Spec, transport: Transport, scratch: Path | None = None) -> ApiModel:
    """The model of a spec `openai:MODEL`."""
    return OpenAIModel(spec, OPENAI_IMAGES, transport, scratch)


def _settle(account: Account, given: Mapping[str, str], parameters: Mapping[str, Any], where: str) -> dict[str, str]:
    """The settings as they will be: `auto` is what suits the server. Only what is not OpenAI's own way is added."""
    name = given["server"]
    if name == "auto":
        name = "openai" if account.official else server_at(account.base_url)
    server, settings = SERVERS[name], {key: given[key] for key in ("size", "mask", "seed", "extra")}
    pictures = server.pictures if given["pictures"] == "auto" else given["pictures"]
    if settings["mask"] == "auto":
        settings["mask"] = "field" if name == "openai" and pictures == "form" else "picture"
    if pictures == "json" and settings["mask"] == "field":
        raise RefBenchError(f"{where}: pictures=json has no field for a mask: write mask=picture")
    if pictures == "form" and (given["path"], given["field"]) != ("auto", "image"):
        raise RefBenchError(f"{where}: path= and field= are for pictures=json")
    if server.ratios and settings["size"] == "exact":
        raise RefBenchError(f"{where}: {name} takes a ratio of sides, no size: leave size=exact out")
    if name == "openai" and account.model.startswith("gpt-image-2") and "input_fidelity" in parameters:
        raise RefBenchError(f"{where}: {account.model} has no input_fidelity: leave it out")
    check_server(name, settings["mask"], parameters, where)
    if pictures == "json":
        path = server.path if server.pictures == "json" else "generations"
        settings |= {"pictures": "json", "path": path if given["path"] == "auto" else given["path"]}
        settings |= {"field": given["field"]} if given["field"] != "image" else {}
    if name != ("openai" if account.official else "other"):
        settings["server"] = name
    return settings


def _server_name(settings: Mapping[str, str], official: bool) -> str:
    return settings.get("server") or ("openai" if official else "other")


def _defaults(account: Account, settings: Mapping[str, str]) -> Traits:
    name = _server_name(settings, account.official)
    most_in, most_out = SERVERS[name].limits
    return Traits(open_weights=False if most_in is not None else None, max_references=most_in, max_pictures=most_out)


def _shape(order: ImageRequest) -> WireRequest | Failure:
    commission, notes = order.commission, dict[str, str]()
    name = _server_name(order.settings, order.official)
    server = SERVERS[name]
    fields: dict[str, Any] = {"model": order.model, "prompt": clean_text(commission.instruction), **server.sends}
    if server.counts:
        fields["n"] = min(commission.n_pictures, server.limits[1] or commission.n_pictures)
    size = _size(order, server)
    if isinstance(size, Failure):
        return size
    fields |= size
    notes |= {key: str(value) for key, value in size.items()}
    if not order.model.startswith(_GPT):
        # Others answer with links unless told otherwise; the gpt-image models refuse to be told.
        fields["response_format"] = "b64_json"
    if _seeded(order, server):
        fields["seed"] = order.seed
    else:
        notes["seed"] = "not sent"
    fields = {key: value for key, value in {**fields, **order.parameters}.items() if value != ""}
    if name == "other" and order.parameters:
        notes["options"] = (
            f"{', '.join(order.parameters)}: sent as they are; whether the server reads them is not known"
        )
    if not order.pictures:
        url = f"{order.base_url}/images/generations"
        return WireRequest(url, "application/json", json_body(lambda put: fields), notes)
    split = _split(order)
    if isinstance(split, Failure):
        return split
    pictures, mask = split
    masks = [number for number, shown in enumerate(commission.pictures, 1) if shown.role == "mask"]
    if masks:
        among = f"sent as picture {', '.join(map(str, masks))} of {len(commission.pictures)}"
        notes["mask"] = among if mask is None else "sent as the mask of the first picture"
    if order.settings.get("pictures") == "json":
        return _json_request(order, server, fields, notes)
    # A single picture is `image`, as the SDK sends it: servers that take only one know no other name.
    files = [("image" if len(pictures) == 1 else "image[]", picture) for picture in pictures]
    if mask is not None:
        files.append(("mask", mask))
    body = FormBody.of([(key, _text(value)) for key, value in fields.items()], files)
    return WireRequest(f"{order.base_url}/images/edits", f"multipart/form-data; boundary={body.boundary}", body, notes)


def _json_request(
    order: ImageRequest, server: Server, fields: Mapping[str, Any], notes: Mapping[str, str]
) -> WireRequest:
    """Pictures as data URLs: one alone, several as a list."""
    one, several = len(order.pictures) == 1, order.settings.get("field", "image")
    if server.objects and not one:
        several = "images"

    def shape(put: Callable[[SentPicture], str]) -> dict[str, Any]:
        urls = [f"data:{picture.mime};base64,{put(picture)}" for picture in order.pictures]
        shown: list[Any] = [{"type": "image_url", "url": url} for url in urls] if server.objects else list(urls)
        return {**fields, several: shown[0] if one else shown}

    url = f"{order.base_url}/images/{order.settings['path']}"
    return WireRequest(url, "application/json", json_body(shape), notes)


def _seeded(order: ImageRequest, server: Server) -> bool:
    """OpenAI's models know no seeds and refuse them, behind a gateway too; others draw the same again without one."""
    setting = order.settings["seed"]
    return setting == "send" or (setting == "auto" and server.seeds and not order.model.startswith((*_GPT, "dall-e")))


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


def _size(order: ImageRequest, server: Server) -> dict[str, str] | Failure:
    """The size as the server is told it; nothing to leave it to the server."""
    setting, wanted = order.settings["size"], order.commission.size
    if setting.endswith("K"):
        return {"resolution": setting.lower()} if server.ratios else {"size": setting}
    if setting in ("case", "exact"):
        if wanted is None:
            return {}
        sizes = server.sizes_of(order.model) or Sizes()
        fitted = sizes.exact(wanted) if setting == "exact" else sizes.nearest(wanted)
        if fitted is None:
            return unsupported(f"{order.model} does not make {wanted[0]}x{wanted[1]}: size=case asks for the nearest")
    elif setting == "auto":
        return {} if server.ratios else {"size": "auto"}
    else:
        wide, _, high = setting.partition("x")
        fitted = int(wide), int(high)
    if server.ratios:
        ratio = nearest_shape(fitted, server.ratios)
        return {"aspect_ratio": f"{ratio[0]:g}:{ratio[1]:g}"}
    return {"size": f"{fitted[0]}x{fitted[1]}"}


def _read(body: Any) -> WireReply:
    pictures: list[str | Link | Failure] = []
    notes: dict[str, str] = {}
    failure = None
    for item in listed(body, "data"):
        if data := text(item, "b64_json"):
            pictures.append(data)
        elif url := text(item, "url"):
            pictures.append(Link(url))
        elif item.get("error"):  # of this picture; others of the reply may be there
            pictures.append(read_error(200, item, Secrets()).failure)
        elif item.get("respect_moderation") is False:  # a gateway's way of saying that the picture was blocked
            failure = Failure(kind="refused", detail="the picture did not pass moderation")
        else:
            words = "the reply has an unknown shape (a picture has neither b64_json nor url)"
            failure = Failure(kind="api_error", detail=words)
        if revised := text(item, "revised_prompt"):
            notes["revised_prompt"] = revised[:2000]
    return WireReply(tuple(pictures), failure, _usage(table(body, "usage")), notes=notes)


def _usage(body: Mapping[str, Any]) -> PictureUsage | None:
    tokens_in, tokens_out = count(body, "input_tokens"), count(body, "output_tokens")
    if tokens_in is None or tokens_out is None:
        return None
    # These endpoints write nothing but pictures, so without details all that came out is picture.
    made = count(body, "output_tokens_details", "image_tokens")
    shown = count(body, "input_tokens_details", "image_tokens")
    return PictureUsage(tokens_in, tokens_out, shown, tokens_out if made is None else made)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


OPENAI_IMAGES = WireFormat(
    kind="openai",
    account=lambda spec, options: account_of(spec, options, OPENAI),
    settings=("size", "mask", "seed", "extra", "server", "pictures", "path", "field"),
    settle=_settle,
    defaults=_defaults,
    links=lambda settings: SERVERS[settings.get("server", "other")].links,
    shape=_shape,
    read=_read,
)
