"""What is tried again, and after how long. The only retry layer there is."""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import aiohttp

from refbench.calls.limiter import ByteLimiter, Limiter
from refbench.evidence import Attempt
from refbench.failure import Failure, redact
from refbench.record import RefBenchError

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
THROTTLED = frozenset({429, 503, 529})


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
    said = headers.get("Retry-After") or headers.get("retry-after")
    if said is None:
        return None
    seconds = _number(said, 1)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
    except ValueError:
        return None


def _number(text: str, scale: float) -> float | None:
    try:
        value = float(text) / scale
    except ValueError:
        return None
    return value if 0 <= value < 86_400 else None


# The transport: one session, one limiter for each endpoint, one retry layer, bodies bounded in memory.

MEGABYTE = 1 << 20


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
            failure: Failure
            try:
                status, headers, body = await self._once(call)
            except TimeoutError:
                failure = Failure(kind="timeout", detail=f"no answer within {self.timeout:g} s")
            except (aiohttp.ClientError, OSError) as error:
                failure = Failure(kind="api_error", detail=redact(f"{type(error).__name__}: {error}")[:500])
            else:
                attempts.append(Attempt(status=str(status), seconds=round(time.monotonic() - started, 4)))
                if status not in RETRIED:
                    limiter.answered()
                    return Answer(status, body, headers, tuple(attempts))
                wait = retry_after(headers)
                if status in THROTTLED:
                    limiter.refused(wait)
                detail = redact(f"HTTP {status}: {body[:300].decode('utf-8', 'replace')}")
                failure = Failure(kind="api_error", detail=detail)
                if number == self.policy.attempts:
                    raise CallFailedError(failure, tuple(attempts))
                await self._pause(number, wait)
                continue
            attempts.append(Attempt(status=failure.kind, seconds=round(time.monotonic() - started, 4)))
            if number == self.policy.attempts:
                raise CallFailedError(failure, tuple(attempts))
            await self._pause(number, wait)
        raise AssertionError("a retry policy has at least one attempt")

    async def _pause(self, number: int, wait: float | None) -> None:
        self.retries += 1
        await asyncio.sleep(self.policy.wait(number, wait, self._rng))

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
