"""ApiModel: an image model behind an endpoint. What differs between OpenAI, Gemini and our own protocol is a `Wire`
of pure functions; sending, failures, checking of pictures and money are here, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

import orjson

from refbench.calls import Answer, Call, CallFailedError, Transport
from refbench.chat.http import error_message
from refbench.chat.sent import PicturePolicy, SentPicture
from refbench.chat.spec import Spec
from refbench.failure import Failure, redact
from refbench.machine import scratch_folder
from refbench.models.api_cost import Usage, token_cost
from refbench.models.api_options import Account, a_whole_number, parameters_of, settings_of, traits_of
from refbench.models.api_pictures import checked, decoded, enclose
from refbench.models.model import Commission, Painted, Traits
from refbench.models.wrapped import pictures_too_many, unsupported
from refbench.record import RefBenchError, canonical_json

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
