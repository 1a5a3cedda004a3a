"""Calls: limits found by trying, one retry layer, money set aside before it is spent."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from refbench.calls.prices import Budget, BudgetSpentError, price_of
from refbench.calls.transport import ByteLimiter, Call, CallFailedError, Limiter, RetryPolicy, Transport, retry_after
from refbench.record import RefBenchError
from support.judge_server import Faults, JudgeServer

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
        async with Transport(policy=QUICK, timeout=0.3) as transport:
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

    with JudgeServer(latency=0.02) as server:
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
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-5"}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_in_retry_after_is_seconds_from_now() -> None:
    import email.utils

    said = email.utils.formatdate(time.time() + 30, usegmt=True)
    assert retry_after({"Retry-After": said}) == pytest.approx(30, abs=2)


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
