"""The guard itself: tests cannot leave this machine."""

from __future__ import annotations

import asyncio
import socket

import pytest

from refbench.calls.transport import Call, RetryPolicy, Transport


def test_a_connection_elsewhere_is_an_error() -> None:
    with socket.socket() as sock, pytest.raises(AssertionError, match=r"192\.0\.2\.1"):
        sock.connect(("192.0.2.1", 80))


def test_the_transport_cannot_leave_either() -> None:
    async def work() -> None:
        async with Transport(policy=RetryPolicy(attempts=1)) as transport:
            await transport.send(Call("x", "http://192.0.2.1/v1", {}, lambda: b"{}", 2))

    with pytest.raises(AssertionError, match=r"192\.0\.2\.1"):
        asyncio.run(work())
