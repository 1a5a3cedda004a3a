"""ApiModel: an image model behind an endpoint. What differs between OpenAI, Gemini and our own protocol is a
`WireFormat` of pure functions; sending, failures, checking of pictures and money are here, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

import orjson

from refbench.calls.errors import ProviderError, read_error, without_secrets
from refbench.calls.keys import Secrets, key_of, secrets_of
from refbench.calls.prices import PictureUsage, picture_call_cost, price_of
from refbench.calls.said import UnknownShapeError, at
from refbench.calls.transport import MEGABYTE, PICTURES, Answer, Call, CallFailedError, Transport, unsettled
from refbench.chat.http import Place, base_url_of, parameters_of
from refbench.chat.pictures import PicturePolicy, SentPicture, store_in
from refbench.failure import Failure
from refbench.machine import scratch_folder
from refbench.models.api.pictures import asked_for, checked, decoded, enclose
from refbench.models.api.servers import under
from refbench.models.model import Commission, Painted, Startable, Traits, pictures_too_many, traits_of, unsupported
from refbench.models.papers import gone
from refbench.record import RefBenchError, canonical_json
from refbench.specs import Options, Spec, family_of, model_options

if TYPE_CHECKING:
    from refbench.models.api.jobs import JobFormat

_NO_PICTURES = ("response modalities", "not support image output", "not support image generation")

_PATIENCE = 3
"""Timeouts of a call within which all links of a reply are fetched."""
FetchedT = TypeVar("FetchedT")


@dataclass(frozen=True)
class Account:
    """Whom to ask: the address, the model there, and the headers that hold the key."""

    base_url: str
    model: str
    official: bool
    headers: Mapping[str, str] = field(repr=False)
    secrets: Secrets = field(repr=False)
    key_variables: tuple[str, ...] = ()


def account_of(spec: Spec, options: Options, provider: Place) -> Account:
    """The address and key that the provider's chat models have too, from the same variables."""
    where = f"--model {spec.name}"
    base_url = base_url_of(options["base_url"], provider, where)
    official = base_url == provider.base_url
    variables = (options["key_env"],) if options["key_env"] else provider.key_variables
    key = key_of(variables, where, needed=official or options["key_env"] is not None)
    return Account(base_url, spec.what, official, provider.headers(key), secrets_of(key), variables)


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
    """A reply as the provider tells it: pictures as base64, as links, or why one of them is not there; a failure of the
    whole; what it used."""

    pictures: tuple[str | Link | Failure, ...] = ()
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
    defaults: Callable[[Account, Mapping[str, str]], Traits]
    """What is known of a model by its name, at the provider's own address or elsewhere."""
    shape: Callable[[ImageRequest], WireRequest | Failure]
    read: Callable[[Any], WireReply]
    tells_errors: bool = False
    """Whether `read` also reads errors, whatever the status; otherwise they are read as providers write them."""
    settle: Callable[[Account, Mapping[str, str], Mapping[str, Any], str], dict[str, str]] = (
        lambda account, settings, parameters, where: dict(settings)
    )
    """The settings as they will be, in full; what the provider is known to refuse or to drop is refused here."""
    links: Callable[[Mapping[str, str]], tuple[str, ...]] = lambda settings: ()
    """Hosts where pictures of a reply may lie, beside the one that was asked."""
    job: JobFormat | None = None
    """Of an API that is handed a request and asked for its result later."""


class ApiModel(Startable):
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
        where = f"--model {spec.name}"
        self.parameters = parameters_of(options.others)
        given = {name: str(options[name]) for name in wire.settings}
        self.settings = wire.settle(self.account, given, self.parameters, where)
        self.link_hosts = (*wire.links(self.settings), *(options.values.get("links") or ()))
        known = wire.defaults(self.account, self.settings)
        self.traits = traits_of(options, family_of(self.model or spec.name), known)
        self._policy = PicturePolicy(max_side=options["max_side"])
        self._token_price = options["price"] if options["price"] and len(options["price"]) == 2 else None

    def canonical(self) -> dict[str, str]:
        record = {"kind": self.wire.kind, "endpoint": self.base_url, "model": self.model, **self.settings}
        if self._policy.max_side:
            record["max_side"] = str(self._policy.max_side)
        return {**record, "parameters": canonical_json(self.parameters).decode()}

    async def start(self) -> None:
        """Refuses an id that is gone at its provider's own address."""
        ended = gone(self.wire.kind, self.model) if self.account.official else None
        if ended is not None and not ended.announced:
            raise RefBenchError(
                f"--model {self.name}: {self.model} {ended.said}: score pictures that were saved with folder:, or ask "
                f"{ended.now}, which is another model"
            )

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
        each = (self.traits.price or 0.0) * commission.n_pictures
        call = Call(
            endpoint=self.endpoint,
            url=request.url,
            headers={"Content-Type": request.content_type, **self.account.headers},
            body=lambda: request.body,
            size=len(request.body),
            secrets=self.account.secrets,
            most=PICTURES,
            worst_usd=each,
        )
        try:
            answer = await self.transport.send(call)
        except CallFailedError as error:
            notes = {**request.notes, "attempts": str(len(error.attempts))}
            lost = unsettled(error.attempts)
            return Painted(
                failure=error.failure,
                seconds=error.attempts[-1].seconds if error.attempts else None,
                worst_usd=lost * each if lost else None,
                provenance=notes,
            )
        reply = await asyncio.to_thread(self._read, answer, request)
        notes = {**request.notes, **reply.notes}
        if len(answer.attempts) > 1:
            notes["attempts"] = str(len(answer.attempts))
        if request_id := answer.headers.get("x-request-id"):
            notes["request_id"] = request_id[:200]
        wanted, extra = commission.n_pictures, self.settings["extra"]
        came: list[bytes | Failure] = await self._come(reply.pictures, wanted, self._bytes)
        pictures, failure = checked(came, wanted, extra, notes.get("said", ""), len(reply.pictures))
        cost = self._cost(reply)
        unknown = unsettled(answer.attempts) + (cost is None and answer.fine)
        return Painted(
            pictures=pictures,
            failure=reply.failure or failure,
            seconds=answer.attempts[-1].seconds,
            cost_usd=cost,
            worst_usd=(cost or 0.0) + unknown * each if unknown else None,
            provenance=notes,
        )

    def _read(self, answer: Answer, request: WireRequest) -> WireReply:
        body = answer.said()
        failed = bool(at(body, "error"))
        if isinstance(body, dict) and (self.wire.tells_errors if failed else answer.fine):
            try:
                reply, cut = self.wire.read(body), answer.secrets
                # A key in pieces, one in each part of the reply, is whole where the parts are joined.
                notes = {name: cut.cut(words) for name, words in reply.notes.items()}
                return replace(reply, failure=without_secrets(reply.failure, cut), notes=notes)
            except UnknownShapeError as error:
                detail = f"the reply has an unknown shape ({error})"
                return WireReply(failure=Failure(kind="api_error", detail=detail))
        if answer.fine and not failed:
            shown = body if isinstance(body, str) else orjson.dumps(body).decode()
            return WireReply(failure=Failure(kind="api_error", detail=f"the reply is no JSON object: {shown[:100]!r}"))
        problem = read_error(answer.status, body, answer.secrets)
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
        ended = gone(self.wire.kind, self.model)
        said = f"; {self.model} {ended.said}: folder: scores saved pictures" if ended is not None else ""
        raise RefBenchError(f"{where} does not know the model or the address {url} ({error.words}){said}")

    async def _come(
        self,
        pictures: Sequence[str | Link | Failure],
        wanted: int,
        fetch: Callable[[str | Link | Failure, int], Awaitable[bytes | Failure | FetchedT]],
    ) -> list[bytes | Failure | FetchedT]:
        """The pictures of a reply, of links only those that were asked for: the number of links is the server's word.
        All of them together may have the bytes of one reply, and the time of a few."""
        if any(isinstance(picture, Link) for picture in pictures):
            pictures = asked_for(pictures, wanted, self.settings["extra"])
        left = (self.transport.reply_megabytes or PICTURES) * MEGABYTE
        came: list[bytes | Failure | FetchedT] = []
        try:
            async with asyncio.timeout(_PATIENCE * self.transport.timeout):
                for picture in pictures:
                    data = await fetch(picture, left)
                    left -= len(data) if isinstance(picture, Link) and isinstance(data, bytes) else 0
                    came.append(data)
        except TimeoutError:
            detail = f"the pictures of the reply did not come within {_PATIENCE * self.transport.timeout:g} s"
            came += [Failure(kind="timeout", detail=detail)] * (len(pictures) - len(came))
        return came

    async def _bytes(self, picture: str | Link | Failure, left: int) -> bytes | Failure:
        data = picture if isinstance(picture, Failure) else await self._fetched(picture, left)
        return data if isinstance(data, Failure) else self._without_key(data)

    async def _fetched(self, picture: str | Link, left: int) -> bytes | Failure:
        if isinstance(picture, str) or picture.url.startswith("data:"):
            return await asyncio.to_thread(decoded, picture if isinstance(picture, str) else picture.url)
        url = self._address(picture)
        if isinstance(url, Failure):
            return url
        headers = self.account.headers if urlsplit(url)[:2] == urlsplit(self.base_url)[:2] else {}
        call = Call(self.endpoint, url, headers, bytes, 0, "GET", self.account.secrets, PICTURES, left)
        try:
            answer = await self.transport.send(call)
        except CallFailedError as error:
            return error.failure
        return self._kept(answer)

    def _address(self, link: Link) -> str | Failure:
        """Where a picture is. The key goes where it was given for and nowhere else, and no server of a model sends us
        where it likes."""
        try:
            url = urljoin(f"{self.base_url}/", link.url)
            there, here = urlsplit(url), urlsplit(self.base_url)
            host = there.hostname or ""
        except ValueError:
            return Failure(kind="api_error", detail="the address of the picture is no URL")
        if there[:2] == here[:2] or (there.scheme in ("https", here.scheme) and under(host, self.link_hosts)):
            return url
        detail = (
            f"the picture is at {host[:100]}, another host: ask for it inline (response_format=b64_json), or allow the "
            "host with links="
        )
        return Failure(kind="api_error", detail=detail)

    def _kept(self, answer: Answer) -> bytes | Failure:
        """The file that was fetched, unless it is none or holds the key, as a comment for example."""
        if answer.status != 200:
            return Failure(kind="api_error", detail=f"HTTP {answer.status} at the address of the picture")
        return self._without_key(answer.body)

    def _without_key(self, data: bytes) -> bytes | Failure:
        if self.account.secrets.within(data):
            return Failure(kind="unreadable_picture", detail="the server wrote the key into the picture: not kept")
        return data

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
        each, made = self.traits.price, sum(not isinstance(picture, Failure) for picture in reply.pictures)
        return each * made if each is not None and made else None
