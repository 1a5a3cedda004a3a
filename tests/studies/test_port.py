"""The port of a study is that of the last time, and where it cannot be, the server says so."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from refbench.studies.server import ServeOptions, started
from support.studies import rate_items, study


def test_links_stay_as_they_are_when_a_server_is_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = study(tmp_path, rate_items(tmp_path, 1))

    async def ports() -> tuple[int, int, int]:
        first = await started(made, ServeOptions())
        reader, writer = await asyncio.open_connection("127.0.0.1", first.port)
        writer.write(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{first.port}\r\n\r\n".encode())
        assert await reader.readline()
        await first.stop()
        writer.close()
        again = await started(made, ServeOptions())
        assert capsys.readouterr().err == ""
        other = await started(made, ServeOptions())
        await again.stop()
        await other.stop()
        return first.port, again.port, other.port

    first, again, other = asyncio.run(ports())
    assert first == again != other
    assert f"before on {first}, which is not free" in capsys.readouterr().err
