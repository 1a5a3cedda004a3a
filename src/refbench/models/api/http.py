"""`http:URL`: a server of one's own that speaks a protocol of one request and one reply (docs/api-models.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from refbench.calls.keys import checked_address, key_of, secrets_of
from refbench.calls.said import UnknownShapeError, amount, table, text
from refbench.calls.transport import Transport
from refbench.chat.http import json_body
from refbench.chat.pictures import SentPicture
from refbench.failure import Failure, FailureKind
from refbench.models.api.model import (
    Account,
    ApiModel,
    ImageRequest,
    WireFormat,
    WireReply,
    WireRequest,
)
from refbench.models.model import Traits
from refbench.record import clean_text
from refbench.specs import Options, Spec

VERSION = 1
KINDS: tuple[FailureKind, ...] = (
    "refused",
    "timeout",
    "worker_died",
    "missing_output",
    "unreadable_picture",
    "api_error",
)
"""The kinds of failure that a server may name; any other counts as `api_error`."""


def http_model(spec: Spec, transport: Transport, scratch: Path | None = None) -> ApiModel:
    """The model of a spec `http:URL` (`http://host:9000/paint`, or `http:` before a whole address)."""
    return ApiModel(spec, HTTP, transport, scratch)


def _account(spec: Spec, options: Options) -> Account:
    # `http://host/paint` is read as kind http and what //host/paint; `http:https://host` has the address whole.
    url = f"{spec.kind}:{spec.what}" if spec.what.startswith("//") else spec.what
    where = f"--model {spec.name}"
    url = checked_address(url, where)
    variables = (options["key_env"],) if options["key_env"] else ()
    key = key_of(variables, where, needed=bool(variables))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Account(url, "", False, headers, secrets_of(key), variables)


def _shape(order: ImageRequest) -> WireRequest:
    commission, setting = order.commission, order.settings["size"]
    size = list(commission.size) if commission.size else None
    if setting != "case":
        size = [int(side) for side in setting.split("x")]

    def shape(put: Callable[[SentPicture], str]) -> dict[str, Any]:
        pictures = [
            {"role": shown.role, "mime": picture.mime, "data": put(picture)}
            for shown, picture in zip(commission.pictures, order.pictures, strict=True)
        ]
        return {
            "version": VERSION,
            "instruction": clean_text(commission.instruction),
            "seed": order.seed,
            "size": size,
            "n_pictures": commission.n_pictures,
            "parameters": order.parameters,
            "pictures": pictures,
        }

    return WireRequest(order.base_url, "application/json", json_body(shape))


def _read(body: Any) -> WireReply:
    if body.get("version") != VERSION:
        detail = f"the reply does not say version {VERSION}, it has {', '.join(body) or 'nothing'}"
        return WireReply(failure=Failure(kind="api_error", detail=detail[:400]))
    notes = {key[:100]: str(value)[:2000] for key, value in table(body, "provenance").items()}
    pictures, failure = body.get("pictures") or [], None
    if not isinstance(pictures, list) or not all(isinstance(picture, str) for picture in pictures):
        raise UnknownShapeError("pictures is no list of base64 texts")
    if error := body.get("error"):
        kind, detail = text(error, "kind"), text(error, "detail") or ("" if isinstance(error, dict) else str(error))
        if kind not in KINDS:
            kind, detail = "api_error", f"{kind}: {detail}" if kind else detail
        failure = Failure.model_validate({"kind": kind, "detail": detail[:1000]})
    return WireReply(tuple(pictures), failure, cost_usd=amount(body, "cost_usd"), notes=notes)


HTTP = WireFormat(
    kind="http",
    account=_account,
    settings=("size", "extra"),
    defaults=lambda account, settings: Traits(),
    shape=_shape,
    read=_read,
    tells_errors=True,
)
