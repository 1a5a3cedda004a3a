"""The transport: one session, one limiter for each endpoint, bodies bounded in memory, and the only retry layer."""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import aiohttp

from refbench.evidence import Attempt
from refbench.failure import Failure, redact
from refbench.record import RefBenchError

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
THROTTLED = frozenset({429, 503, 529})
MEGABYTE = 1 << 20
_START = 16  # calls at once before an endpoint is known
_CUT = 0.7
_FEWEST = 1.0


@dataclass(frozen=True)
class RetryPolicy:
    """At most `attempts` tries; waits double from `first` to `longest` seconds, with jitter over the whole wait."""

    attempts: int = 6
    first: float = 0.5
    longest: float = 60.0

    def wait(self, attempt: int, retry_after: float | None, rng: random.Random) -> float:
        """Seconds before the try after the `attempt`-th (counted from 1)."""
        backoff = rng.uniform(0, min(self.longest, self.first * 2 ** (attempt - 1)))
        return backoff if retry_after is None else min(retry_after, self.longest) + backoff


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks us to wait: a number, a date, or the milliseconds some send."""
    if (milliseconds := headers.get("retry-after-ms")) is not None:
        return _number(milliseconds, 1000)
    header = headers.get("Retry-After") or headers.get("retry-after")
    if header is None:
        return None
    seconds = _number(header, 1)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None


def _number(text: str, scale: float) -> float | None:
    try:
        value = float(text) / scale
    except ValueError:
        return None
    return value if 0 <= value < 86_400 else None


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
        self._paused_until = 0.0
        self._last_cut = 0.0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place among the calls in flight, waited for in turn."""
        async with self._changed:
            while True:
                pause = self._paused_until - time.monotonic()
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
            self._paused_until = max(self._paused_until, now + retry_after)

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


@dataclass(frozen=True)
class Answer:
    """What came back, in the end, and every try on the way."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    attempts: tuple[Attempt, ...]


class CallFailedError(Exception):
    """No answer after all tries. `timeouts` of them may have been served and charged all the same."""

    def __init__(self, failure: Failure, attempts: tuple[Attempt, ...]) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.attempts = attempts


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
        policy: RetryPolicy | None = None,
    ) -> None:
        check_options(concurrency, timeout)
        self.concurrency = concurrency
        self.timeout = timeout
        self.policy = policy or RetryPolicy()
        self.retries = 0
        self._bytes = ByteLimiter(megabytes_in_flight * MEGABYTE)
        self._limiters: dict[str, Limiter] = {}
        self._session: aiohttp.ClientSession | None = None
        self._rng = random.Random()  # jitter only: nothing that is recorded depends on it

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60, ttl_dns_cache=300)
        # Cookies could carry state from one request to another; nothing here needs them.
        self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True)
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

    async def send(self, call: Call) -> Answer:
        """The answer of the last try. The caller holds a place of the limiter (see `place`)."""
        assert self._session is not None, "use the transport as an async context manager"
        limiter = self.limiter(call.endpoint)
        attempts: list[Attempt] = []
        for number in range(1, self.policy.attempts + 1):
            started = time.monotonic()
            wait: float | None = None
            status = 0
            try:
                status, headers, body = await self._once(call)
            except TimeoutError:
                failure = Failure(kind="timeout", detail=f"no answer within {self.timeout:g} s")
            except (aiohttp.ClientError, OSError) as error:
                failure = Failure(kind="api_error", detail=redact(f"{type(error).__name__}: {error}")[:500])
            else:
                failure = Failure(kind="api_error", detail=f"HTTP {status}: {body[:300].decode('utf-8', 'replace')}")
            word = str(status) if status else failure.kind
            attempts.append(Attempt(status=word, seconds=round(time.monotonic() - started, 4)))
            if status and status not in RETRIED:
                limiter.answered()
                return Answer(status, body, headers, tuple(attempts))
            if status:
                wait = retry_after(headers)
            if status in THROTTLED:
                limiter.refused(wait)
            if number == self.policy.attempts:
                raise CallFailedError(failure, tuple(attempts))
            self.retries += 1
            await asyncio.sleep(self.policy.wait(number, wait, self._rng))
        raise AssertionError("a retry policy has at least one attempt")

    async def _once(self, call: Call) -> tuple[int, Mapping[str, str], bytes]:
        assert self._session is not None
        async with self._bytes.place(call.size):
            body = _payload(call.body()) if call.method == "POST" else None
            headers = {**call.headers, "Content-Length": str(call.size)} if body is not None else call.headers
            timeout = aiohttp.ClientTimeout(total=self.timeout, sock_connect=min(30.0, self.timeout))
            async with self._session.request(
                call.method, call.url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                return response.status, response.headers, await response.read()


def _payload(body: Iterable[bytes] | bytes) -> bytes | AsyncIterator[bytes]:
    """Pieces are handed over one by one: joined, each would be copied twice more."""
    if isinstance(body, bytes):
        return body

    async def pieces() -> AsyncIterator[bytes]:
        for piece in body:
            yield piece

    return pieces()
