"""What a spec says of an API model: address and key, our own settings, parameters for the server, and traits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from refbench.chat.families import family_of
from refbench.chat.http import base_url_of, key_of
from refbench.chat.provider import Provider
from refbench.chat.spec import Spec
from refbench.models.api_cost import usd_a_picture
from refbench.models.model import Traits
from refbench.record import RefBenchError

A_SIZE = "WIDTHxHEIGHT"
EXTRA = ("fail", "first", "last")
"""What becomes of more pictures than were asked for: a failure that keeps them all, or only some are taken."""

_OURS = frozenset(
    {"base_url", "key_env", "price", "family", "open", "max_side", "max_references", "max_pictures", "roles"}
)


@dataclass(frozen=True)
class Account:
    """Whom to ask: the address, the model there, and the headers that hold the key."""

    base_url: str
    model: str
    official: bool
    key: str | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    key_variables: tuple[str, ...] = ()


def no_password(spec: Spec, url: str) -> str:
    """The address, which is written into records and messages and therefore may hold no secret."""
    if "@" in urlsplit(url).netloc:
        raise RefBenchError(f"--model {spec.name}: the address holds a password: put the key into a variable, key_env=")
    return url


def account_of(spec: Spec, provider: Provider) -> Account:
    """The address and key that the provider's chat models have too, from the same variables."""
    base_url = no_password(spec, base_url_of(spec, provider))
    key = key_of(spec, provider, base_url)
    variables = (spec.options["key_env"],) if "key_env" in spec.options else provider.key_variables
    return Account(base_url, spec.what, base_url == provider.base_url, key, provider.headers(key), variables)


def settings_of(spec: Spec, settings: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Our own settings with their values, the default where the spec says nothing."""
    found: dict[str, str] = {}
    for key, values in settings.items():
        value = spec.options.get(key, values[0])
        sized = A_SIZE in values and re.fullmatch(r"[1-9]\d*x[1-9]\d*", value)
        if value not in values and not sized:
            raise RefBenchError(f"--model {spec.name}: {key}={value} is not known, there are {', '.join(values)}")
        found[key] = value
    return found


def parameters_of(spec: Spec, settings: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Everything else goes to the server as it is, numbers as numbers; an empty value takes a default of ours back."""
    found: dict[str, Any] = {}
    for key, value in spec.options.items():
        if key in _OURS or key in settings:
            continue
        try:
            found[key] = orjson.loads(value)
        except orjson.JSONDecodeError:
            found[key] = value
    return found


def traits_of(spec: Spec, known: Traits, model: str) -> Traits:
    """What is known by the model's name, with what the spec says instead."""
    options = spec.options
    changes: dict[str, Any] = {
        "family": options.get("family") or known.family or family_of(model or spec.name),
        "usd_a_picture": usd_a_picture(spec),
    }
    for key in ("max_references", "max_pictures"):
        if key in options:
            changes[key] = a_whole_number(spec, key)
    if "open" in options:
        if options["open"] not in ("true", "false"):
            raise RefBenchError(f"--model {spec.name}: open={options['open']}: write true or false")
        changes["open_weights"] = options["open"] == "true"
    if "roles" in options:
        changes["roles"] = tuple(role for role in options["roles"].split(",") if role)
    if (size := options.get("size", "")) and re.fullmatch(r"\d+x\d+", size):
        width, height = size.split("x")
        changes["size"] = (int(width), int(height))
    return known.model_copy(update=changes)


def a_whole_number(spec: Spec, key: str) -> int | None:
    """An option that is a number of things; None without it."""
    text = spec.options.get(key)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise RefBenchError(f"--model {spec.name}: {key}={text}: write a whole number")
    return int(text)
