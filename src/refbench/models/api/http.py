"""`http:URL`: a server of one's own that speaks a protocol of one request and one reply (docs/api-models.md)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from refbench.calls import Transport
from refbench.chat.pictures import SentPicture
from refbench.failure import Failure, FailureKind
from refbench.models.api.model import A_SIZE, EXTRA, Account, ApiModel, Gave, Letter, Order, Wire, no_password
from refbench.models.api.pictures import json_body
from refbench.models.model import Traits
from refbench.record import RefBenchError, clean_text
from refbench.specs import Spec

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


def http_model(spec: Spec, transport: Transport) -> ApiModel:
    """The model of a spec `http:URL` (`http://host:9000/paint`, or `http:` before a whole address)."""
    return ApiModel(spec, HTTP, transport)


def _account(spec: Spec) -> Account:
    # `http://host/paint` is read as kind http and what //host/paint; `http:https://host` has the address whole.
    url = f"{spec.kind}:{spec.what}" if spec.what.startswith("//") else spec.what
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RefBenchError(f"--model {spec.name}: {url!r} is no address: write it as http://host:9000/paint")
    no_password(spec, url)
    variable = spec.options.get("key_env")
    if variable and not os.environ.get(variable):
        raise RefBenchError(f"{spec.name} needs a key: set {variable} in the environment")
    key = os.environ[variable] if variable else None
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return Account(url, "", False, key, headers, (variable,) if variable else ())


def _shape(order: Order) -> Letter:
    commission, said = order.commission, order.settings["size"]
    size = list(commission.size) if commission.size else None
    if said != "case":
        size = [int(side) for side in said.split("x")]

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

    return Letter(order.base_url, "application/json", json_body(shape))


def _read(told: Any) -> Gave:
    if told.get("version") != VERSION:
        detail = f"the reply does not say version {VERSION}, it has {', '.join(map(str, told)) or 'nothing'}"
        return Gave(failure=Failure(kind="api_error", detail=detail[:400]))
    cost = told.get("cost_usd")
    if cost is not None and not (isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < math.inf):
        raise ValueError(f"cost_usd is {cost!r}")
    notes = {str(key): str(value)[:2000] for key, value in (told.get("provenance") or {}).items()}
    pictures = told.get("pictures") or []
    if not isinstance(pictures, list) or not all(isinstance(picture, str) for picture in pictures):
        raise TypeError("pictures is no list of base64 texts")
    failure = None
    if error := told.get("error"):
        kind, detail = str(error.get("kind")), str(error.get("detail") or "")
        if kind not in KINDS:
            kind, detail = "api_error", f"{kind}: {detail}"
        failure = Failure.model_validate({"kind": kind, "detail": detail[:1000]})
    return Gave(tuple(pictures), failure, cost_usd=None if cost is None else float(cost), notes=notes)


HTTP = Wire(
    kind="http",
    account=_account,
    settings={"size": ("case", A_SIZE), "extra": EXTRA},
    defaults=lambda model, official: Traits(),
    shape=_shape,
    read=_read,
    tells_errors=True,
)
