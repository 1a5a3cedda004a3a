"""The transport: one session, one limiter for each endpoint, bodies bounded in memory, and the only retry layer."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

from refbench.calls.body import ENCODINGS, CutBodyError, UnusableBodyError, read_body
from refbench.calls.errors import read_error
from refbench.calls.keys import Secrets, proxy_for
from refbench.calls.prices import covers_another
from refbench.calls.said import said
from refbench.evidence import Attempt
from refbench.failure import Failure
from refbench.machine import connections
from refbench.record import RefBenchError

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
THROTTLED = frozenset({429, 503, 529})
MEGABYTE = 1 << 20
CHAT, PICTURES, RESULTS = 8, 128, 512
"""Megabytes that a reply may have: of a chat model, with pictures, with the results of a batch."""
_START = 16  # calls at once before an endpoint is known
_CUT = 0.7
_FEWEST = 1.0


@dataclass(frozen=True)
class RetryPolicy:
    """At most `attempts` tries; waits double from `first` to `longest` seconds, with jitter over the whole wait.

    A server that asks for a longer wait gets it, up to `longest_asked`: no more, whatever date it names.
    """

    attempts: int = 6
    first: float = 0.5
    longest: float = 60.0
    longest_asked: float = 300.0

    def wait(self, attempt: int, retry_after: float | None, rng: random.Random) -> float:
        """Seconds before the try after the `attempt`-th (counted from 1)."""
        backoff = rng.uniform(0, min(self.longest, self.first * 2 ** (attempt - 1)))
        return backoff if retry_after is None else min(retry_after, self.longest_asked) + backoff


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks us to wait: a number, a date, or the milliseconds some send. Names in lower case."""
    if (milliseconds := headers.get("retry-after-ms")) is not None:
        return _number(milliseconds, 1000)
    header = headers.get("retry-after")
    if header is None:
        return None
    seconds = _number(header, 1)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, OverflowError, TypeError, OSError):  # no date, or one that no clock has
        return None


def _number(text: str, scale: float) -> float | None:
    try:
        value = float(text) / scale
    except ValueError:
        return None
    return value if value >= 0 else None  # neither negative nor nan


class Limiter:
    """Additive rise, multiplicative cut, as TCP does it.

    Until the first refusal every answer adds a place, so that full speed comes in a few round trips; after it,
    a round of answers adds one. A `Retry-After` stops new calls for that long.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.allowed = float(min(most, _START))
        self.in_flight = 0
        self._throttled = False
        self.paused_until = 0.0
        self._last_cut = 0.0
        self._stopping = False
        self._changed = asyncio.Condition()

    def stop(self) -> None:
        """Nobody waits for a server any more: those that do come to their turn, to see that nothing is begun."""
        self._stopping = True
        self._waking = asyncio.ensure_future(self._wake())

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place among the calls in flight, waited for in turn."""
        async with self._changed:
            while True:
                pause = self.pause()
                if pause > 0:
                    # Wake up when the pause is over; a change in between may wake us earlier, and we look again.
                    waiter = asyncio.get_running_loop().call_later(pause, lambda: asyncio.ensure_future(self._wake()))
                    try:
                        await self._changed.wait()
                    finally:
                        waiter.cancel()
                elif self.in_flight < int(self.allowed):
                    break
                else:
                    await self._changed.wait()
            self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            await self._wake()

    def answered(self) -> None:
        """The endpoint took a call: there may be room for more."""
        self.allowed = min(float(self.most), self.allowed + (1 / self.allowed if self._throttled else 1.0))

    def refused(self, retry_after: float | None) -> None:
        """The endpoint said that it is too much (429, 503). Refusals of one moment count once."""
        now = time.monotonic()
        self._throttled = True
        if now - self._last_cut > 0.25:
            self.allowed = max(_FEWEST, self.allowed * _CUT)
            self._last_cut = now
        if retry_after:
            self.paused_until = max(self.paused_until, now + retry_after)

    def pause(self) -> float:
        """Seconds for which the server has asked us to stay away."""
        return 0.0 if self._stopping else max(0.0, self.paused_until - time.monotonic())

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class ByteLimiter:
    """Bounds the request bodies held in memory at once; one that is larger than the bound goes alone."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self, size: int) -> AsyncIterator[None]:
        async with self._changed:
            await self._changed.wait_for(lambda: self.held == 0 or self.held + size <= self.most)
            self.held += size
        try:
            yield
        finally:
            async with self._changed:
                self.held -= size
                self._changed.notify_all()


@dataclass(frozen=True)
class Call:
    """One request, assembled only when it is about to be sent.

    `endpoint` names what the limiter limits. Headers hold the key and appear in no message and no record.
    """

    endpoint: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: Callable[[], Iterable[bytes] | bytes] = field(repr=False)
    """The body, whole or in pieces that are made as they are sent."""
    size: int
    """How many bytes the body has."""
    method: str = "POST"
    secrets: Secrets = field(default_factory=Secrets, repr=False)
    """What is cut from all that comes back."""
    most: int = CHAT
    """Megabytes that may come back."""
    left: int | None = None
    """Bytes that may come back, where several calls share what one may have."""
    once: bool = False
    """Whether it is only tried again where the server surely did nothing: it hands in something that is paid for."""
    worst_usd: float = 0.0
    """The most that one try may cost; beside a try that may have been charged, the budget has to cover another."""


@dataclass(frozen=True)
class Answer:
    """What came back, in the end, and every try on the way."""

    status: int
    body: bytes = field(repr=False)
    """As it came: for pictures. Everything else is read with `said`."""
    headers: Mapping[str, str]
    """Without secrets."""
    attempts: tuple[Attempt, ...]
    secrets: Secrets = field(repr=False)

    @property
    def fine(self) -> bool:
        return is_fine(self.status)

    def said(self) -> Any:
        """The JSON of the body, or the beginning of its text, without secrets."""
        return said(self.body, self.secrets)


UNSENT = "the run was interrupted before this was sent"
"""Of a call that was not made; it cost nothing."""
CUT_OFF = "200, cut off"
"""The status of a try whose answer began and could not be read to its end."""


class CallFailedError(Exception):
    """No answer after all tries. Some of them may have been served and charged all the same (`unsettled`)."""

    def __init__(self, failure: Failure, attempts: tuple[Attempt, ...], *, served: bool = True) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.attempts = attempts
        self.served = served
        """Whether the last try may have been served."""


def is_fine(status: int) -> bool:
    """Whether it is an answer and no error: it is read as one, and may be charged for."""
    return 200 <= status < 300


def unsettled(attempts: Iterable[Attempt]) -> int:
    """How many tries may have been charged without a reply that says how much."""
    return sum(attempt.status in ("timeout", CUT_OFF) for attempt in attempts)


def check_options(concurrency: int, timeout: float) -> None:
    """Refuse what would wait for ever, or for nothing."""
    if concurrency < 1:
        raise RefBenchError(f"--concurrency {concurrency}: give how many calls may be in flight, at least 1")
    if not timeout > 0:
        raise RefBenchError(f"--timeout {timeout:g}: give seconds, more than 0")


class Transport:
    """Sends calls. Statuses that are worth another try are tried again here; all others are the caller's to read."""

    def __init__(
        self,
        *,
        concurrency: int = 32,
        timeout: float = 180.0,
        megabytes_in_flight: int = 256,
        reply_megabytes: int | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        check_options(concurrency, timeout)
        self.reply_megabytes = reply_megabytes
        """Instead of what each call says."""
        # More connections than there are file handles would take those that pictures are read with.
        self._connections = connections(4 * concurrency)
        self.concurrency = min(concurrency, self._connections)
        self.timeout = timeout
        self.policy = policy or RetryPolicy()
        self.retries = 0
        self._bytes = ByteLimiter(megabytes_in_flight * MEGABYTE)
        self._limiters: dict[str, Limiter] = {}
        self._proxies: dict[str, str | None] = {}
        self._session: aiohttp.ClientSession | None = None
        self._stopping = asyncio.Event()
        self._rng = random.Random()  # jitter only: nothing that is recorded depends on it

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=60, ttl_dns_cache=300)
        # Cookies could carry state from one request to another; nothing here needs them. The environment is not trusted
        # as a whole: a password in ~/.netrc would go to whoever we ask. Proxies are looked up for each server.
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def limiter(self, endpoint: str) -> Limiter:
        if endpoint not in self._limiters:
            self._limiters[endpoint] = Limiter(self.concurrency)
        return self._limiters[endpoint]

    @property
    def in_flight(self) -> int:
        return sum(limiter.in_flight for limiter in self._limiters.values())

    def waits(self) -> list[str]:
        """Whom we wait for because it asked us to, and how long still."""
        paused = {name: limiter.pause() for name, limiter in self._limiters.items()}
        return [f"waiting {s:.0f} s for {urlsplit(name).netloc or name}" for name, s in paused.items() if s >= 0.5]

    def stop(self) -> None:
        """Send nothing new that may cost anything, and try nothing again; what is in flight comes in, and what was
        paid for is fetched."""
        self._stopping.set()
        for limiter in self._limiters.values():
            limiter.stop()

    async def send(self, call: Call) -> Answer:
        """The answer of the last try. The caller holds a place of the limiter (see `place`)."""
        assert self._session is not None, "use the transport as an async context manager"
        limiter = self.limiter(call.endpoint)
        attempts: list[Attempt] = []
        if self._stopping.is_set() and call.method == "POST":
            raise CallFailedError(Failure(kind="api_error", detail=UNSENT), (), served=False)
        for number in range(1, self.policy.attempts + 1):
            started = time.monotonic()
            result = await self._try(call)
            word = result.word if isinstance(result, _Lost) else str(result.status)
            attempts.append(Attempt(status=word, seconds=round(time.monotonic() - started, 4)))
            if isinstance(result, Answer) and result.status not in RETRIED:
                limiter.answered()
                return replace(result, attempts=tuple(attempts))
            wait = self._settle_refusal(result, limiter) if isinstance(result, Answer) else None
            again = isinstance(result, Answer) or result.again
            served = result.status not in THROTTLED if isinstance(result, Answer) else result.sent
            over = self._stopping.is_set() and call.method == "POST"
            if number == self.policy.attempts or not again or over or (call.once and served):
                raise CallFailedError(_failure(result), tuple(attempts), served=served)
            if unsettled(attempts[-1:]) and not covers_another(call.worst_usd):
                failure = _failure(result)
                detail = f"{failure.detail}; the budget covers no other try, and this one may have been charged"
                raise CallFailedError(failure.model_copy(update={"detail": detail}), tuple(attempts), served=served)
            self.retries += 1
            await self._wait(self.policy.wait(number, wait, self._rng))
            if self._stopping.is_set() and call.method == "POST":
                raise CallFailedError(_failure(result), tuple(attempts), served=served)
        raise AssertionError("a retry policy has at least one attempt")

    async def _wait(self, seconds: float) -> None:
        """Wait so long, or until nothing is sent any more."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def glance(self, call: Call, seconds: float) -> Any:
        """What one try at a small call says, None where it is not answered well within so many seconds. For what is
        good to know and must neither fail nor hold up anything."""
        try:
            async with asyncio.timeout(seconds):
                answer = await self._try(call)
        except TimeoutError:
            return None
        return answer.said() if isinstance(answer, Answer) and answer.fine else None

    def _settle_refusal(self, answer: Answer, limiter: Limiter) -> float | None:
        """Slow down where the server says that it is too much; the seconds that it asks us to wait, up to our limit."""
        asked = retry_after(answer.headers)
        wait = None if asked is None else min(asked, self.policy.longest_asked)
        if answer.status in THROTTLED:
            limiter.refused(wait)
        return wait

    async def _try(self, call: Call) -> Answer | _Lost:
        assert self._session is not None
        began = False  # whether there was an answer, which may be paid for
        try:
            async with self._bytes.place(call.size), self._request(call) as response:
                began = response.status < 300
                most = (self.reply_megabytes or call.most) * MEGABYTE
                body = await read_body(response, most if call.left is None else min(most, call.left))
                headers = {name.lower(): call.secrets.cut(value) for name, value in response.headers.items()}
                return Answer(response.status, body, headers, (), call.secrets)
        except UnusableBodyError as error:
            return _Lost(CUT_OFF, error.failure, again=False)
        except TimeoutError:
            return _Lost("timeout", Failure(kind="timeout", detail=f"no answer within {self.timeout:g} s"))
        except (aiohttp.ClientError, OSError, ValueError, CutBodyError) as error:  # ValueError: what is no HTTP at all
            words = call.secrets.cut_message(f"{type(error).__name__}: {error}")
            # What cannot be read as HTTP is an answer too, unless it is a proxy's.
            began |= isinstance(error, aiohttp.ClientResponseError | ValueError)
            began &= not isinstance(error, aiohttp.ClientHttpProxyError | aiohttp.InvalidURL)
            failure = Failure(kind="api_error", detail=words[:500])
            sent = not isinstance(error, aiohttp.ClientConnectorError | aiohttp.InvalidURL)
            return _Lost(CUT_OFF if began else "api_error", failure, sent=sent)

    def _request(self, call: Call) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        assert self._session is not None
        body = _payload(call.body()) if call.method == "POST" else None
        length = {"Content-Length": str(call.size)} if body is not None else {}
        timeout = aiohttp.ClientTimeout(total=self.timeout, sock_connect=min(30.0, self.timeout))
        headers = {**call.headers, **length, "Accept-Encoding": ENCODINGS}
        # A redirect is not followed: the key goes where it was given for.
        return self._session.request(
            call.method,
            call.url,
            data=body,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            proxy=self._proxy(call.url),
        )

    def _proxy(self, url: str) -> str | None:
        """The proxy for a server, found once: every look reads through the whole environment."""
        server = "/".join(url.split("/", 3)[:3])
        if server not in self._proxies:
            self._proxies[server] = proxy_for(server)
        return self._proxies[server]


@dataclass(frozen=True)
class _Lost:
    """A try without an answer: its word on record, why, and whether another may fare better."""

    word: str
    failure: Failure
    again: bool = True
    sent: bool = True
    """Whether there was a connection, so that the server may have seen the request."""


def _failure(result: Answer | _Lost) -> Failure:
    if isinstance(result, _Lost):
        return result.failure
    words = read_error(result.status, result.said(), result.secrets).message
    return Failure(kind="api_error", detail=f"HTTP {result.status}: {words[:300]}")


def _payload(body: Iterable[bytes] | bytes) -> bytes | AsyncIterator[bytes]:
    """Pieces are handed over one by one: joined, each would be copied twice more."""
    if isinstance(body, bytes):
        return body

    async def pieces() -> AsyncIterator[bytes]:
        for piece in body:
            yield piece

    return pieces()
