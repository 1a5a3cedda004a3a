"""What a picture cost: by the tokens of the reply, of which those of pictures have prices of their own, or by the
piece. Never a guess: where a reply does not tell its tokens apart and the prices differ, there is no cost.
"""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

import orjson

from refbench.calls import Answer, Call, CallFailedError, Transport, price_of
from refbench.chat.http import base_url_of, error_message, key_of
from refbench.chat.pictures import PicturePolicy, SentPicture
from refbench.chat.provider import Provider
from refbench.failure import Failure, redact
from refbench.machine import scratch_folder
from refbench.models.api.pictures import checked, decoded, enclose
from refbench.models.model import Commission, Painted, Traits
from refbench.models.wrappers.shared import pictures_too_many, unsupported
from refbench.record import RefBenchError, canonical_json
from refbench.specs import Spec, family_of

_SOURCES = {"openai": "openai", "gemini": "google"}


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. Those of pictures are part of the whole; None when the reply does not tell them apart."""

    input_tokens: int
    output_tokens: int
    input_picture_tokens: int | None = None
    output_picture_tokens: int | None = None


def usd_a_picture(spec: Spec) -> float | None:
    """The spec's `price=USD`, dollars for one picture. `price=IN,OUT` is for tokens, and checked here as well."""
    text = spec.options.get("price")
    if text is None:
        return None
    if "," in text:
        price_of(spec.kind, spec.what, spec.options)
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise RefBenchError(
            f"--model {spec.name}: price={text}: write dollars for one picture, for example price=0.04, "
            "or for a million input and output tokens, for example price=5,40"
        )
    return value


def token_cost(kind: str, model: str, usage: Usage, given: str | None, *, own_server: bool) -> float | None:
    """Dollars for the tokens, by the spec's `price=IN,OUT` or the price source; None when nobody knows."""
    if given is not None and "," in given:
        price = price_of(kind, model, {"price": given})
        return None if price is None else price.cost(usage.input_tokens, usage.output_tokens)
    if own_server or kind not in _SOURCES or usage.input_picture_tokens is None or usage.output_picture_tokens is None:
        return None
    try:
        source = importlib.import_module("genai_prices")
    except ImportError:
        return None
    try:
        found = source.calc_price(
            source.Usage(
                input_tokens=usage.input_tokens,
                input_image_tokens=usage.input_picture_tokens,
                output_tokens=usage.output_tokens,
                output_image_tokens=usage.output_picture_tokens,
            ),
            model_ref=model,
            provider_id=_SOURCES[kind],
        )
    except (LookupError, ValueError):  # a model that it does not know; counts that contradict each other
        return None
    return float(found.total_price)


def count(value: object) -> int | None:
    """A number of tokens as a reply tells it, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


# What a spec says of an API model: address and key, our own settings, parameters for the server, and traits.

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


# ApiModel: an image model behind an endpoint. What differs between OpenAI, Gemini and our own protocol is a `Wire`
# of pure functions; sending, failures, checking of pictures and money are here, once.

# How providers and gateways say that it was the content: in codes (content_policy_violation, moderation_blocked) and
# in sentences.
_POLICY = (
    *("content_policy", "content policy", "content_filter", "content filter", "moderation", "responsible ai"),
    *("safety system", "safety_violation", "safety filter", "safety polic", "image_safety", "prohibited_content"),
)
_BAD_KEY = ("api key not valid", "api_key_invalid", "invalid api key", "invalid_api_key")  # Gemini says it with a 400
_NO_PICTURES = ("response modalities", "not support image output", "not support image generation")


class Body(Protocol):
    """A request's body: its length is known at once, its pieces are made anew for every try."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class Order:
    """What is to be laid out: the commission with its pictures as they will be sent, in the commission's order."""

    model: str
    base_url: str
    official: bool
    commission: Commission
    seed: int
    pictures: tuple[SentPicture, ...]
    parameters: Mapping[str, Any]
    settings: Mapping[str, str]
    store: Callable[[bytes, str], Path]
    """Keeps a picture that is made for this request alone, until it is answered."""


@dataclass(frozen=True)
class Letter:
    """A request as it goes out. `notes` say what of the commission could not be said as it was."""

    url: str
    content_type: str
    body: Body
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Link:
    """A picture that the reply only points to."""

    url: str


@dataclass(frozen=True)
class Gave:
    """A reply as the provider tells it: pictures as base64 or as links, a failure, what it used."""

    pictures: tuple[str | Link, ...] = ()
    failure: Failure | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wire:
    """One wire format. `settings` are the options that we read ourselves, each with its values, the default first."""

    kind: str
    account: Callable[[Spec], Account]
    settings: Mapping[str, tuple[str, ...]]
    defaults: Callable[[str, bool], Traits]
    """What is known of a model by its name, at the provider's own address or elsewhere."""
    shape: Callable[[Order], Letter | Failure]
    read: Callable[[Any], Gave]
    tells_errors: bool = False
    """Whether `read` also reads errors, whatever the status; otherwise they are read as providers write them."""


class ApiModel:
    """One image model at one address. The key is read from the environment and appears in no message and no record.

    `generate` waits for a place of the transport's limiter itself, since agents make several calls for one case.
    """

    scratch: Path | None = None
    """Where pictures lie that are re-encoded for a request; None for the system's folder."""

    def __init__(self, spec: Spec, wire: Wire, transport: Transport) -> None:
        self.name = spec.name
        self.wire = wire
        self.transport = transport
        self.account = wire.account(spec)
        self.base_url = self.account.base_url
        self.model = self.account.model
        # Image calls are slow and must not take the places of a judge at the same address.
        self.endpoint = f"{self.base_url} {self.model} pictures"
        self.settings = settings_of(spec, wire.settings)
        self.parameters = parameters_of(spec, wire.settings)
        self.traits = traits_of(spec, wire.defaults(self.model, self.account.official), self.model)
        self._policy = PicturePolicy(max_side=a_whole_number(spec, "max_side"))
        self._price = spec.options.get("price")

    def canonical(self) -> dict[str, str]:
        found = {"kind": self.wire.kind, "endpoint": self.base_url, "model": self.model, **self.settings}
        if self._policy.max_side:
            found["max_side"] = str(self._policy.max_side)
        return {**found, "parameters": canonical_json(self.parameters).decode()}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        if why := pictures_too_many(commission.pictures, self.traits):
            return Painted(failure=unsupported(f"{self.name} cannot be asked: {why}"))
        async with self.transport.limiter(self.endpoint).place():
            # What is re-encoded for a request lives as long as the request.
            with scratch_folder(self.scratch) as folder:
                letter = await asyncio.to_thread(self._letter, commission, seed, folder)
                if isinstance(letter, Failure):
                    return Painted(failure=letter)
                return await self._deliver(letter, commission)

    async def close(self) -> None:
        """Nothing is held: the transport belongs to whoever made it."""

    def _letter(self, commission: Commission, seed: int, folder: Path) -> Letter | Failure:
        pictures: list[SentPicture] = []
        notes: dict[str, str] = {}

        def store(data: bytes, extension: str) -> Path:
            path = folder / f"{len(list(folder.iterdir()))}.{extension}"
            path.write_bytes(data)
            return path

        for number, shown in enumerate(commission.pictures, 1):
            sent = enclose(shown.path, self._policy, store)
            if isinstance(sent, Failure):
                return sent
            pictures.append(sent)
            if sent.changed:
                notes[f"picture {number}"] = sent.changed
        letter = self.wire.shape(
            Order(
                model=self.model,
                base_url=self.base_url,
                official=self.account.official,
                commission=commission,
                seed=seed,
                pictures=tuple(pictures),
                parameters=self.parameters,
                settings=self.settings,
                store=store,
            )
        )
        if isinstance(letter, Failure):
            return letter
        return Letter(letter.url, letter.content_type, letter.body, {**notes, **letter.notes})

    async def _deliver(self, letter: Letter, commission: Commission) -> Painted:
        call = Call(
            endpoint=self.endpoint,
            url=letter.url,
            headers={"Content-Type": letter.content_type, **self.account.headers},
            body=lambda: letter.body,
            size=len(letter.body),
        )
        try:
            answer = await self.transport.send(call)
        except CallFailedError as error:
            notes = {**letter.notes, "attempts": str(len(error.attempts))}
            return Painted(failure=self._hushed(error.failure), seconds=error.attempts[-1].seconds, provenance=notes)
        gave = await asyncio.to_thread(self._read, answer, letter)
        notes = {**letter.notes, **gave.notes}
        if len(answer.attempts) > 1:
            notes["attempts"] = str(len(answer.attempts))
        if request_id := answer.headers.get("x-request-id"):
            notes["request_id"] = request_id
        came = [await self._bytes(picture) for picture in gave.pictures]
        pictures, failure = checked(came, commission.n_pictures, self.settings["extra"], notes.get("said", ""))
        return Painted(
            pictures=pictures,
            failure=self._hushed(gave.failure or failure),
            seconds=answer.attempts[-1].seconds,
            cost_usd=self._cost(gave),
            provenance=notes,
        )

    def _read(self, answer: Answer, letter: Letter) -> Gave:
        try:
            told: Any = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            told = None
        failed = isinstance(told, dict) and bool(told.get("error"))
        if isinstance(told, dict) and (self.wire.tells_errors if failed else answer.status == 200):
            try:
                return self.wire.read(told)
            except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
                detail = f"the reply has an unknown shape ({type(error).__name__}: {error})"
                return Gave(failure=Failure(kind="api_error", detail=detail))
        if answer.status == 200 and not failed:
            shown = self._without_key(answer.body[:2000].decode("utf-8", "replace"))[:100]
            return Gave(failure=Failure(kind="api_error", detail=f"the reply is no JSON object: {shown!r}"))
        message = self._without_key(error_message(told) or answer.body[:2000].decode("utf-8", "replace"))
        said = message.casefold()
        if any(word in said for word in _POLICY):
            return Gave(failure=Failure(kind="refused", detail=message[:400]))
        self._stop_if_hopeless(answer.status, message, told, letter)
        return Gave(failure=Failure(kind="api_error", detail=f"HTTP {answer.status}: {message[:400]}"))

    def _stop_if_hopeless(self, status: int, message: str, told: Any, letter: Letter) -> None:
        """What no other case of this run will fare better with ends the run, with the remedy."""
        where = f"--model {self.name} ({self.wire.kind} {self.base_url})"
        words, said = " ".join(redact(message).split())[:200], message.casefold()
        error: Any = told.get("error") if isinstance(told, dict) else None
        code, param = (error.get("code"), error.get("param")) if isinstance(error, dict) else (None, None)
        if status in (401, 403) or any(word in said for word in _BAD_KEY):
            variable = " or ".join(self.account.key_variables) or "key_env"
            raise RefBenchError(f"{where} refuses the key (HTTP {status}: {words}): set {variable} to a valid one")
        if any(word in said for word in _NO_PICTURES) or param == "model":
            raise RefBenchError(f"{where}: the model {self.model!r} makes no pictures here (HTTP {status}: {words})")
        path = urlsplit(letter.url).path
        if status in (404, 405, 501) and path.endswith("/edits") and code != "model_not_found":
            raise RefBenchError(
                f"{where} takes no pictures at {path} (HTTP {status}: {words}): choose another server, "
                "or add max_references=0 to use it for text alone"
            )
        if status in (404, 405, 501):
            raise RefBenchError(f"{where} does not know the model or the address {letter.url} (HTTP {status}: {words})")

    def _without_key(self, text: str) -> str:
        """Servers quote keys in their errors, and not every key looks like one."""
        return text.replace(self.account.key, "[redacted]") if self.account.key else text

    def _hushed(self, failure: Failure | None) -> Failure | None:
        if failure is None:
            return None
        return Failure(kind=failure.kind, detail=self._without_key(failure.detail))

    async def _bytes(self, picture: str | Link) -> bytes | Failure:
        if isinstance(picture, str) or picture.url.startswith("data:"):
            return await asyncio.to_thread(decoded, picture if isinstance(picture, str) else picture.url)
        url = urljoin(f"{self.base_url}/", picture.url)
        there = urlsplit(url)
        # The key goes where it was given for and nowhere else, and no server of a model sends us elsewhere.
        if there[:2] != urlsplit(self.base_url)[:2]:
            detail = f"the picture is at {there.hostname}, another host: ask for it inline (response_format=b64_json)"
            return Failure(kind="api_error", detail=detail)
        try:
            answer = await self.transport.send(Call(self.endpoint, url, self.account.headers, bytes, 0, "GET"))
        except CallFailedError as error:
            return error.failure
        if answer.status != 200:
            return Failure(kind="api_error", detail=f"HTTP {answer.status} at the address of the picture")
        return answer.body

    def _cost(self, gave: Gave) -> float | None:
        """What the reply says it cost, what its tokens cost, or pictures by the piece; None when nobody knows."""
        if gave.cost_usd is not None:
            return gave.cost_usd
        if gave.usage is not None:
            own = not self.account.official
            cost = token_cost(self.wire.kind, self.model, gave.usage, self._price, own_server=own)
            if cost is not None:
                return cost
        each = self.traits.usd_a_picture
        return each * len(gave.pictures) if each is not None and gave.pictures else None


def nearest_shape(size: tuple[int, int], shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The shape whose ratio of sides is nearest, as factors: 2:1 is as far from 1:1 as 1:2 is."""
    wanted = size[0] / size[1]
    return min(shapes, key=lambda shape: max(wanted * shape[1] / shape[0], shape[0] / shape[1] / wanted))
