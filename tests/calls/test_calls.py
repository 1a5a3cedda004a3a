"""Calls: limits found by trying, one retry layer, money set aside before it is spent."""

from __future__ import annotations

import asyncio
import gzip
import random
import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from refbench.calls.prices import Budget, BudgetSpentError, price_of
from refbench.calls.transport import ByteLimiter, Call, CallFailedError, Limiter, RetryPolicy, Transport, retry_after
from refbench.record import RefBenchError
from support.judge_server import Faults, JudgeServer
from support.raw_server import Answering, RawServer, bomb, endless, http

T = TypeVar("T")


def go(work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        return await work()

    return asyncio.run(run())


def call(server: JudgeServer, text: str = "hello") -> Call:
    body = b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "%s"}]}]}' % text.encode()
    return Call(
        endpoint=server.url, url=f"{server.url}/v1/chat/completions", headers={}, body=lambda: body, size=len(body)
    )


QUICK = RetryPolicy(attempts=4, first=0.01, longest=0.05)


@pytest.mark.parametrize("fault", ["throttled", "failing", "cut", "hanging"])
def test_what_goes_wrong_once_is_tried_again(fault: str) -> None:
    async def work() -> tuple[int, list[str]]:
        async with Transport(policy=QUICK, timeout=2 if fault == "hanging" else 60) as transport:
            answer = await transport.send(call(server))
            return answer.status, [attempt.status for attempt in answer.attempts]

    with JudgeServer(faults=Faults(**{fault: 1.0})) as server:
        status, attempts = go(work)
        assert status == 200
        assert attempts[-1] == "200"
        assert len(attempts) == len(server.requests) == 2


def test_what_goes_on_failing_is_a_typed_failure_with_every_attempt() -> None:
    async def work() -> CallFailedError:
        async with Transport(policy=QUICK) as transport:
            with pytest.raises(CallFailedError) as raised:
                await transport.send(call(server))
            return raised.value

    with JudgeServer(status=503, error={"error": "busy"}) as server:
        error = go(work)
        assert error.failure.kind == "api_error"
        assert "503" in error.failure.detail
        assert [a.status for a in error.attempts] == ["503"] * 4


def test_a_server_that_is_not_there_is_a_failure_and_no_traceback() -> None:
    async def work() -> str:
        async with Transport(policy=QUICK) as transport:
            with pytest.raises(CallFailedError) as raised:
                await transport.send(Call("x", "http://127.0.0.1:9/v1", {}, lambda: b"{}", 2))
            return raised.value.failure.kind

    assert go(work) == "api_error"


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
def test_what_will_not_get_better_is_not_tried_again(status: int) -> None:
    async def work() -> int:
        async with Transport(policy=QUICK) as transport:
            return (await transport.send(call(server))).status

    with JudgeServer(status=status) as server:
        assert go(work) == status
        assert len(server.requests) == 1


def test_the_limiter_rises_while_it_goes_well_and_falls_when_told_to() -> None:
    async def work() -> None:
        limiter = Limiter(64)
        start = limiter.allowed
        for _ in range(100):
            limiter.answered()
        assert limiter.allowed == 64 > start
        limiter.refused(None)
        cut = limiter.allowed
        assert cut == pytest.approx(64 * 0.7)
        limiter.refused(None)
        assert limiter.allowed == cut, "refusals of one moment count once"
        for _ in range(int(cut)):
            limiter.answered()
        assert limiter.allowed == pytest.approx(cut + 1, abs=0.1), "after a refusal a round of answers adds one"
        for _ in range(50):
            limiter._last_cut = 0.0
            limiter.refused(None)
        assert limiter.allowed == 1, "one call at a time always goes on"

    go(work)


def test_no_more_calls_are_in_flight_than_asked_for() -> None:
    async def work() -> None:
        async with Transport(concurrency=5, policy=QUICK) as transport:

            async def one(number: int) -> None:
                async with transport.limiter(server.url).place():
                    await transport.send(call(server, str(number)))

            await asyncio.gather(*(one(n) for n in range(60)))

    with JudgeServer(latency=0.01) as server:
        server.together = 5
        go(work)
        assert len(server.requests) == 60
        assert server.most_in_flight == 5


def test_retry_after_stops_new_calls_for_that_long() -> None:
    async def work() -> float:
        limiter = Limiter(4)
        limiter.refused(0.2)
        before = time.monotonic()
        async with limiter.place():
            return time.monotonic() - before

    assert go(work) >= 0.19


def test_bodies_in_memory_are_bounded_and_a_huge_one_goes_alone() -> None:
    async def work() -> int:
        limiter = ByteLimiter(100)
        most = 0

        async def one(size: int) -> None:
            nonlocal most
            async with limiter.place(size):
                most = max(most, limiter.held)
                await asyncio.sleep(0.001)

        await asyncio.gather(*(one(40) for _ in range(20)), one(500))
        return most

    assert go(work) == 500


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_in_retry_after_is_seconds_from_now() -> None:
    import email.utils

    said = email.utils.formatdate(time.time() + 36_000, usegmt=True)
    assert retry_after({"retry-after": said}) == pytest.approx(36_000, abs=600)


def test_waits_grow_and_have_jitter_and_honour_the_server() -> None:
    policy = RetryPolicy(first=1, longest=60)
    rng = random.Random(0)
    assert max(policy.wait(1, None, rng) for _ in range(200)) <= 1
    assert max(policy.wait(5, None, rng) for _ in range(200)) > 10
    assert len({policy.wait(3, None, rng) for _ in range(20)}) == 20
    assert min(policy.wait(1, 7, rng) for _ in range(50)) >= 7


def test_a_budget_waits_for_what_may_come_back_and_then_stops() -> None:
    async def work() -> None:
        budget = Budget(1.0)
        await budget.reserve(0.6)
        waiting = asyncio.create_task(budget.reserve(0.6))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        budget.pay(0.1)
        await budget.release(0.6)
        await waiting
        budget.pay(0.6)
        await budget.release(0.6)
        with pytest.raises(BudgetSpentError):
            await budget.reserve(0.6)
        await budget.reserve(0.3)

    go(work)


def test_no_payment_takes_another_back() -> None:
    budget = Budget(1.0)
    for usd in (0.25, -600.0, 0.5):
        budget.pay(usd)
    assert budget.spent == 0.75


@pytest.mark.parametrize("text", ["5usd", "$5", "5", "5.00 USD"])
def test_budgets_are_written_in_several_ways(text: str) -> None:
    assert Budget.parse(text).cap == 5


def test_prices_come_from_the_source_or_the_user_and_never_from_a_guess() -> None:
    known = price_of("openai", "gpt-4o")
    assert known is not None
    assert (known.input_usd, known.output_usd) == (2.5, 10.0)
    assert known.source.startswith("genai-prices ")
    assert known.cost(1_000_000, 100_000) == pytest.approx(3.5)
    assert price_of("openai", "a-model-nobody-knows") is None
    assert price_of("openai", "gpt-4o", own_server=True) is None, "one's own server has no list price"
    given = price_of("openai", "x", (0.4, 1.6))
    assert given is not None
    assert (given.input_usd, given.source) == (0.4, "given by the user")


@pytest.mark.parametrize(
    ("option", "value"), [("concurrency", 0), ("timeout", 0.0), ("timeout", -2.0), ("timeout", float("nan"))]
)
def test_a_transport_that_could_never_send_is_refused(option: str, value: float) -> None:
    with pytest.raises(RefBenchError, match=f"--{option}"):
        Transport(**{option: value})  # type: ignore[arg-type]


# --- hostile servers --------------------------------------------------------------------------------------------


def lost(server: RawServer, **options: Any) -> CallFailedError:
    async def work() -> CallFailedError:
        async with Transport(policy=QUICK, timeout=20, **options) as transport:
            with pytest.raises(CallFailedError) as raised:
                await transport.send(Call(server.url, server.url, {}, lambda: b"{}", 2))
            return raised.value

    return go(work)


@pytest.mark.parametrize(
    "answer",
    [
        lambda asked: endless(),
        lambda asked: [http(bomb(600), 200, "Content-Encoding: gzip")],
        lambda asked: [http(bomb(60, "deflate"), 200, "Content-Encoding: deflate")],
    ],
    ids=["endless", "gzip bomb", "deflate bomb"],
)
def test_a_reply_without_bound_is_a_failure_that_is_not_paid_for_twice_and_fills_no_memory(answer: Answering) -> None:
    with RawServer(answer) as server:
        answer(server)  # type: ignore[arg-type] # what the server needs is made before anything is measured
        tracemalloc.start()
        try:
            error = lost(server, reply_megabytes=8)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert "larger than 8 MiB" in error.failure.detail
        assert len(server.requests) == 1, "asked again it would send as much again"
    assert most < 40 << 20, "the reply, a copy of it, and what the server itself holds"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_an_encoding_that_nobody_asked_for_is_not_unpacked(encoding: str) -> None:
    with RawServer(lambda asked: [http(bomb(1), 200, f"Content-Encoding: {encoding}")]) as server:
        assert "nobody asked for" in lost(server).failure.detail
        assert server.requests[0].headers["accept-encoding"] == "gzip, deflate"


def _padded(data: bytes) -> bytes:
    return b"".join(gzip.compress(half) + bytes(70_000) for half in (data[:9], data[9:]))


@pytest.mark.parametrize("pack", [gzip.compress, _padded, zlib.compress, lambda data: zlib.compress(data)[2:-4]])
def test_a_packed_reply_is_unpacked(pack: Callable[[bytes], bytes]) -> None:
    async def work() -> bytes:
        async with Transport(policy=QUICK) as transport:
            return (await transport.send(Call(server.url, server.url, {}, lambda: b"{}", 2))).body

    body = bytes(range(256)) * 1000
    name = "gzip" if pack in (gzip.compress, _padded) else "deflate"
    with RawServer(lambda asked: [http(pack(body), 200, f"Content-Encoding: {name}")]) as server:
        assert go(work) == body


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("86399", True),
        ("1e300", True),
        ("inf", True),
        ("Fri, 01 Jan 2099 00:00:00 GMT", True),
        ("Fri, 01 Jan 2099 00:00:00 +99999999999999", False),
        ("Fri, 01 Jan 99999 00:00:00 GMT", False),
        ("-1", False),
        ("nan", False),
    ],
)
def test_a_server_has_us_wait_no_longer_than_we_allow_and_it_is_said(said: str, understood: bool) -> None:
    async def work() -> tuple[float, list[str]]:
        policy = RetryPolicy(attempts=1, longest_asked=400.0)
        async with Transport(policy=policy) as transport:
            with pytest.raises(CallFailedError):
                await transport.send(Call(server.url, server.url, {}, lambda: b"{}", 2))
            return transport.limiter(server.url).pause(), transport.waits()

    with RawServer(lambda asked: [http({}, 429, f"Retry-After: {said}")]) as server:
        pause, waits = go(work)
    if understood:
        assert 399 < pause <= 400
        assert waits == [f"waiting 400 s for {server.url.removeprefix('http://')}"]
    else:
        assert (pause, waits) == (0.0, [])


def test_a_password_in_netrc_goes_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> int:
        async with Transport(policy=QUICK) as transport:
            headers = {"Authorization": "Bearer key"}
            return (await transport.send(Call(server.url, server.url, headers, lambda: b"{}", 2))).status

    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with RawServer(lambda asked: [http({})]) as server:
        assert go(work) == 200
        assert server.requests[0].headers["authorization"] == "Bearer key"


def test_a_redirect_is_not_followed() -> None:
    with RawServer(lambda asked: [http({})]) as other:
        with RawServer(lambda asked: [http({}, 307, f"Location: {other.url}/v1")]) as server:

            async def work() -> int:
                async with Transport(policy=QUICK) as transport:
                    headers = {"Authorization": "Bearer key"}
                    return (await transport.send(Call(server.url, server.url, headers, lambda: b"{}", 2))).status

            assert go(work) == 307
        assert not other.requests
