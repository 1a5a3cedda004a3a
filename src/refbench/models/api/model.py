"""ApiModel: an image model behind an endpoint. What differs between OpenAI, Gemini and our own protocol is a
`WireFormat` of pure functions; sending, failures, checking of pictures and money are here, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit

import orjson

from refbench.calls.errors import ProviderError, read_error
from refbench.calls.prices import PictureUsage, picture_call_cost, price_of
from refbench.calls.transport import Answer, Call, CallFailedError, Transport
from refbench.chat.http import Provider, base_url_of, key_of, parameters_of
from refbench.chat.pictures import PicturePolicy, SentPicture, store_in
from refbench.failure import Failure
from refbench.machine import scratch_folder
from refbench.models.api.pictures import checked, decoded, enclose
from refbench.models.model import Commission, Painted, Traits, pictures_too_many, traits_of, unsupported
from refbench.record import RefBenchError, canonical_json
from refbench.specs import Options, Spec, family_of, model_options

_NO_PICTURES = ("response modalities", "not support image output", "not support image generation")


@dataclass(frozen=True)
class Account:
    """Whom to ask: the address, the model there, and the headers that hold the key."""

    base_url: str
    model: str
    official: bool
    key: str | None = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    key_variables: tuple[str, ...] = ()


def without_password(name: str, url: str) -> str:
    """The address, which is written into records and messages and therefore may hold no secret."""
    if "@" in urlsplit(url).netloc:
        raise RefBenchError(f"--model {name}: the address holds a password: put the key into a variable, key_env=")
    return url


def account_of(spec: Spec, options: Options, provider: Provider) -> Account:
    """The address and key that the provider's chat models have too, from the same variables."""
    base_url = without_password(spec.name, base_url_of(options["base_url"], provider, spec.name))
    official = base_url == provider.base_url
    variables = (options["key_env"],) if options["key_env"] else provider.key_variables
    key = key_of(variables, spec.name, needed=official or options["key_env"] is not None)
    return Account(base_url, spec.what, official, key, provider.headers(key), variables)


class Body(Protocol):
    """A request's body: its length is known at once, its pieces are made anew for every try."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[bytes]: ...


@dataclass(frozen=True)
class ImageRequest:
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
class WireRequest:
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
class WireReply:
    """A reply as the provider tells it: pictures as base64 or as links, a failure, what it used."""

    pictures: tuple[str | Link, ...] = ()
    failure: Failure | None = None
    usage: PictureUsage | None = None
    cost_usd: float | None = None
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WireFormat:
    """One wire format. `settings` are the declared options that shape a request, and so a picture."""

    kind: str
    account: Callable[[Spec, Options], Account]
    settings: tuple[str, ...]
    defaults: Callable[[str, bool], Traits]
    """What is known of a model by its name, at the provider's own address or elsewhere."""
    shape: Callable[[ImageRequest], WireRequest | Failure]
    read: Callable[[Any], WireReply]
    tells_errors: bool = False
    """Whether `read` also reads errors, whatever the status; otherwise they are read as providers write them."""


class ApiModel:
    """One image model at one address. The key is read from the environment and appears in no message and no record.

    `generate` waits for a place of the transport's limiter itself, since agents make several calls for one case.
    """

    def __init__(self, spec: Spec, wire: WireFormat, transport: Transport, scratch: Path | None = None) -> None:
        options = model_options(spec)
        self.name = spec.name
        self.wire = wire
        self.transport = transport
        self.scratch = scratch
        """Where pictures lie that are re-encoded for a request; None for the system's folder."""
        self.account = wire.account(spec, options)
        self.base_url = self.account.base_url
        self.model = self.account.model
        # Image calls are slow and must not take the places of a judge at the same address.
        self.endpoint = f"{self.base_url} {self.model} pictures"
        self.settings = {name: str(options[name]) for name in wire.settings}
        self.parameters = parameters_of(options.others)
        known = wire.defaults(self.model, self.account.official)
        self.traits = traits_of(options, family_of(self.model or spec.name), known)
        self._policy = PicturePolicy(max_side=options["max_side"])
        self._token_price = options["price"] if options["price"] and len(options["price"]) == 2 else None

    def canonical(self) -> dict[str, str]:
        record = {"kind": self.wire.kind, "endpoint": self.base_url, "model": self.model, **self.settings}
        if self._policy.max_side:
            record["max_side"] = str(self._policy.max_side)
        return {**record, "parameters": canonical_json(self.parameters).decode()}

    async def generate(self, commission: Commission, seed: int) -> Painted:
        if why := pictures_too_many(commission.pictures, self.traits):
            return Painted(failure=unsupported(f"{self.name} cannot be asked: {why}"))
        async with self.transport.limiter(self.endpoint).place():
            # What is re-encoded for a request lives as long as the request.
            with scratch_folder(self.scratch) as folder:
                request = await asyncio.to_thread(self._request, commission, seed, folder)
                if isinstance(request, Failure):
                    return Painted(failure=request)
                return await self._deliver(request, commission)

    async def close(self) -> None:
        """Nothing is held: the transport belongs to whoever made it."""

    def _request(self, commission: Commission, seed: int, folder: Path) -> WireRequest | Failure:
        pictures: list[SentPicture] = []
        notes: dict[str, str] = {}
        store = store_in(folder)
        for number, shown in enumerate(commission.pictures, 1):
            sent = enclose(shown.path, self._policy, store)
            if isinstance(sent, Failure):
                return sent
            pictures.append(sent)
            if sent.changed:
                notes[f"picture {number}"] = sent.changed
        request = self.wire.shape(
            ImageRequest(
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
        if isinstance(request, Failure):
            return request
        return WireRequest(request.url, request.content_type, request.body, {**notes, **request.notes})

    async def _deliver(self, request: WireRequest, commission: Commission) -> Painted:
        call = Call(
            endpoint=self.endpoint,
            url=request.url,
            headers={"Content-Type": request.content_type, **self.account.headers},
            body=lambda: request.body,
            size=len(request.body),
        )
        try:
            answer = await self.transport.send(call)
        except CallFailedError as error:
            notes = {**request.notes, "attempts": str(len(error.attempts))}
            return Painted(failure=self._hushed(error.failure), seconds=error.attempts[-1].seconds, provenance=notes)
        reply = await asyncio.to_thread(self._read, answer, request)
        notes = {**request.notes, **reply.notes}
        if len(answer.attempts) > 1:
            notes["attempts"] = str(len(answer.attempts))
        if request_id := answer.headers.get("x-request-id"):
            notes["request_id"] = request_id
        came = [await self._bytes(picture) for picture in reply.pictures]
        pictures, failure = checked(came, commission.n_pictures, self.settings["extra"], notes.get("said", ""))
        return Painted(
            pictures=pictures,
            failure=self._hushed(reply.failure or failure),
            seconds=answer.attempts[-1].seconds,
            cost_usd=self._cost(reply),
            provenance=notes,
        )

    def _read(self, answer: Answer, request: WireRequest) -> WireReply:
        try:
            body: Any = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            body = None
        failed = isinstance(body, dict) and bool(body.get("error"))
        if isinstance(body, dict) and (self.wire.tells_errors if failed else answer.status == 200):
            try:
                return self.wire.read(body)
            except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
                detail = f"the reply has an unknown shape ({type(error).__name__}: {error})"
                return WireReply(failure=Failure(kind="api_error", detail=detail))
        if answer.status == 200 and not failed:
            shown = self._without_key(answer.body[:2000].decode("utf-8", "replace"))[:100]
            return WireReply(failure=Failure(kind="api_error", detail=f"the reply is no JSON object: {shown!r}"))
        problem = read_error(answer.status, answer.body, self.account.key)
        if not problem.refused:
            self._stop_if_hopeless(problem, request.url)
        return WireReply(failure=problem.failure)

    def _stop_if_hopeless(self, error: ProviderError, url: str) -> None:
        """What no other case of this run will fare better with ends the run, with the remedy."""
        where = f"--model {self.name} ({self.wire.kind} {self.base_url})"
        error.stop_if_key_refused(where, self.account.key_variables)
        if error.says(_NO_PICTURES) or error.param == "model":
            raise RefBenchError(f"{where}: the model {self.model!r} makes no pictures here ({error.words})")
        if error.status not in (404, 405, 501):
            return
        path = urlsplit(url).path
        if path.endswith("/edits") and error.code != "model_not_found":
            raise RefBenchError(
                f"{where} takes no pictures at {path} ({error.words}): choose another server, "
                "or add max_references=0 to use it for text alone"
            )
        raise RefBenchError(f"{where} does not know the model or the address {url} ({error.words})")

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

    def _cost(self, reply: WireReply) -> float | None:
        """What the reply says it cost, what its tokens cost, or pictures by the piece; None when nobody knows."""
        if reply.cost_usd is not None:
            return reply.cost_usd
        usage, cost = reply.usage, None
        if usage is not None and self._token_price is not None:
            price = price_of(self.wire.kind, self.model, self._token_price)
            cost = price.cost(usage.input_tokens, usage.output_tokens) if price is not None else None
        elif usage is not None and self.account.official:
            cost = picture_call_cost(self.wire.kind, self.model, usage)
        if cost is not None:
            return cost
        each = self.traits.price
        return each * len(reply.pictures) if each is not None and reply.pictures else None


def nearest_shape(size: tuple[int, int], shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The shape whose ratio of sides is nearest, as factors: 2:1 is as far from 1:1 as 1:2 is."""
    wanted = size[0] / size[1]
    return min(shapes, key=lambda shape: max(wanted * shape[1] / shape[0], shape[0] / shape[1] / wanted))
