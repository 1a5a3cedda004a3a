"""`http:URL`: our own protocol against a server that speaks it, one that speaks it badly, and one that does not."""

from __future__ import annotations

import asyncio
import base64
import http.server
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from refbench.calls.transport import RetryPolicy, Transport
from refbench.failure import Failure
from refbench.models.api.http import KINDS, http_model
from refbench.models.model import Commission, Painted, Shown
from refbench.record import RefBenchError
from refbench.specs import Spec
from support.image_server import ImageServer, Told, b64, http_reply, png

QUICK = RetryPolicy(attempts=3, first=0.01, longest=0.05)


def paint(
    server: ImageServer, commission: Commission, options: str = "", seed: int = 0, timeout: float = 60
) -> Painted:
    async def run() -> Painted:
        async with Transport(policy=QUICK, timeout=timeout) as transport:
            spec = Spec.parse(f"m={server.url}/paint?{options}", "--model")
            return await http_model(spec, transport).generate(commission, seed)

    return asyncio.run(run())


def kind(painted: Painted) -> str | None:
    return painted.failure.kind if painted.failure else None


def test_the_whole_request_is_one_object(tmp_path: Path) -> None:
    roles = ("source", "mask", "subject", "style", "pose", "subject", "subject", "background")
    pictures = []
    for number, role in enumerate(roles):
        (tmp_path / f"{number}.png").write_bytes(png(number * 9))
        pictures.append(Shown(tmp_path / f"{number}.png", role))
    commission = Commission("Über “all”\n", tuple(pictures), size=(640, 480), n_pictures=2)
    with ImageServer() as server:
        painted = paint(server, commission, "steps=20&style=flat", seed=5)
        (seen,) = server.requests
    assert (seen.method, seen.path, seen.headers["Content-Type"]) == ("POST", "/paint", "application/json")
    body = dict(seen.body)
    sent = body.pop("pictures")
    assert body == {
        "version": 1,
        "instruction": "Über “all”\n",
        "seed": 5,
        "size": [640, 480],
        "n_pictures": 2,
        "parameters": {"steps": 20, "style": "flat"},
    }
    assert [picture["role"] for picture in sent] == list(roles)
    assert [base64.b64decode(picture["data"]) for picture in sent] == [p.path.read_bytes() for p in pictures]
    assert {picture["mime"] for picture in sent} == {"image/png"}
    assert (painted.pictures, painted.failure) == ((png(100), png(101)), None)


def test_without_pictures_and_size_the_fields_are_there_and_empty() -> None:
    with ImageServer() as server:
        paint(server, Commission("A fox"))
        paint(server, Commission("A fox"), "size=64x32")
        first, second = (seen.body for seen in server.requests)
    assert (first["pictures"], first["size"], first["n_pictures"]) == ([], None, 1)
    assert second["size"] == [64, 32]


@pytest.mark.parametrize("failure", KINDS)
@pytest.mark.parametrize("status", [200, 400, 404, 422])
def test_the_server_names_the_kind_of_its_failure(failure: str, status: int) -> None:
    told = {"version": 1, "error": {"kind": failure, "detail": "because"}}
    with ImageServer(answers=[Told(status, told)]) as server:
        painted = paint(server, Commission("A fox"))
    assert painted.failure == Failure.model_validate({"kind": failure, "detail": "because"})


def test_an_unknown_kind_is_an_error_of_the_server() -> None:
    told = {"version": 1, "error": {"kind": "tired", "detail": "after lunch"}}
    with ImageServer(answers=[Told(body=told)]) as server:
        painted = paint(server, Commission("A fox"))
    assert painted.failure == Failure(kind="api_error", detail="tired: after lunch")


def test_a_part_of_a_set_is_kept_with_its_failure() -> None:
    told = http_reply(png(1), error={"kind": "refused", "detail": "not the second"})
    with ImageServer(answers=[Told(body=told), Told(body=http_reply(png(1), png(2)))]) as server:
        stopped = paint(server, Commission("A story", n_pictures=2))
        short = paint(server, Commission("A story", n_pictures=3))
    assert stopped.pictures == (png(1),)
    assert kind(stopped) == "refused"
    assert short.pictures == (png(1), png(2))
    assert short.failure == Failure(kind="missing_output", detail="2 of 3 pictures came")


def test_cost_and_provenance_are_the_servers_or_the_specs() -> None:
    told = http_reply(png(1), cost_usd=0.5, provenance={"checkpoint": "step 9000", "steps": 20})
    with ImageServer(answers=[Told(body=told), Told(body=told)]) as server:
        said = paint(server, Commission("A fox"), "price=0.1")
        free = paint(server, Commission("A fox"))
        priced = paint(server, Commission("A fox"), "price=0.1")
        unknown = paint(server, Commission("A fox"))
    assert (said.cost_usd, free.cost_usd, priced.cost_usd, unknown.cost_usd) == (0.5, 0.5, 0.1, None)
    assert said.provenance == {"checkpoint": "step 9000", "steps": "20"}


@pytest.mark.parametrize(
    ("body", "failure", "says"),
    [
        (b"<html>Hello</html>", "api_error", "no JSON object: '<html>Hello</html>'"),
        ({"images": [b64(png(1))]}, "api_error", "does not say version 1, it has images"),
        ({}, "api_error", "it has nothing"),
        (http_reply(png(1), version=2), "api_error", "does not say version 1"),
        ({"version": 1}, "missing_output", "0 of 1 pictures came"),
        ({"version": 1, "pictures": b64(png(1))}, "api_error", "no list of base64"),
        ({"version": 1, "pictures": [{"data": "x"}]}, "api_error", "no list of base64"),
        ({"version": 1, "pictures": ["x"]}, "unreadable_picture", "base64"),
        ({"version": 1, "error": "out of memory"}, "api_error", "out of memory"),
        (http_reply(png(1, (64, 64))[:-20]), "unreadable_picture", "cut off"),
        (http_reply(b""), "unreadable_picture", "empty"),
        (http_reply(b"GIF, or so"), "unreadable_picture", "not a picture"),
    ],
)
def test_garbage_is_a_failure_that_says_what_came(body: Any, failure: str, says: str) -> None:
    with ImageServer(answers=[Told(body=body)]) as server:
        painted = paint(server, Commission("A fox"))
    assert (painted.pictures, kind(painted)) == ((), failure)
    assert says in str(painted.failure)


def test_wrapped_base64_is_read() -> None:
    lines = base64.encodebytes(png(7)).decode()
    assert "\n" in lines
    with ImageServer(answers=[Told(body={"version": 1, "pictures": [lines]})]) as server:
        assert paint(server, Commission("A fox")).pictures == (png(7),)


@pytest.mark.parametrize("status", [404, 405])
def test_an_address_where_nobody_paints_ends_the_run(status: int) -> None:
    page = Told(status, b"<html>\n nothing here\n</html>")
    with ImageServer(answers=[page]) as server, pytest.raises(RefBenchError, match="/paint") as raised:
        paint(server, Commission("A fox"))
    assert "\n" not in str(raised.value)


def test_a_server_that_is_not_there_is_a_failure() -> None:
    with ImageServer() as server:
        pass
    painted = paint(server, Commission("A fox"))
    assert kind(painted) == "api_error"


def test_a_busy_server_is_asked_again_and_a_hanging_one_is_a_timeout() -> None:
    with ImageServer(answers=[Told(503, b"loading"), Told(429, b"", {"Retry-After": "0.01"})]) as server:
        painted = paint(server, Commission("A fox"))
        assert [seen.body for seen in server.requests] == [server.requests[0].body] * 3
    assert painted.failure is None
    with ImageServer(always=Told(hang=True)) as server:
        assert kind(paint(server, Commission("A fox"), timeout=0.2)) == "timeout"


def test_the_key_is_sent_where_one_is_named_and_is_in_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAINTER_KEY", "secret-of-the-painter")
    echo = b"not you, secret-of-the-painter"
    with ImageServer(answers=[Told(401, echo), *[Told(500, echo)] * 3, Told(body=echo)]) as server:
        with pytest.raises(RefBenchError, match="set PAINTER_KEY to a valid one") as raised:
            paint(server, Commission("A fox"), "key_env=PAINTER_KEY")
        failing = paint(server, Commission("A fox"), "key_env=PAINTER_KEY")
        garbage = paint(server, Commission("A fox"), "key_env=PAINTER_KEY")
        paint(server, Commission("A fox"))
        assert server.requests[0].headers["Authorization"] == "Bearer secret-of-the-painter"
        assert "Authorization" not in server.requests[-1].headers
    assert "[redacted]" in str(raised.value)
    for told in (raised.value, failing, garbage):
        assert "secret-of" not in str(told)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://host:9000/paint", "http://host:9000/paint"),
        ("https://host/paint", "https://host/paint"),
        ("http:https://host/paint", "https://host/paint"),
        ("a=http:http://host:9000", "http://host:9000"),
    ],
)
def test_the_address_is_written_in_either_way(text: str, url: str) -> None:
    async def work() -> dict[str, str]:
        async with Transport() as transport:
            return http_model(Spec.parse(text, "--model"), transport).canonical()

    assert asyncio.run(work()) == {
        "kind": "http",
        "endpoint": url,
        "model": "",
        "size": "case",
        "extra": "fail",
        "parameters": "{}",
    }


def test_the_server_of_the_documentation_works(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/api-models.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"__name__": "documentation"}
    exec(compile(program, "docs/api-models.md", "exec"), names)
    (tmp_path / "a.png").write_bytes(png(7))
    shown = (Shown(tmp_path / "a.png", "source"),)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), names["Painter"]) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()

        async def work() -> tuple[Painted, Painted]:
            async with Transport(policy=QUICK) as transport:
                spec = Spec.parse(f"http://127.0.0.1:{server.server_port}/", "--model")
                model = http_model(spec, transport)
                return (
                    await model.generate(Commission("Edit", shown), 0),
                    await model.generate(Commission("Make it up"), 0),
                )

        edited, imagined = asyncio.run(work())
        server.shutdown()
        thread.join()
    assert (edited.pictures, edited.failure) == ((png(7),), None)
    assert kind(imagined) == "refused"


@pytest.mark.parametrize("text", ["http://me:hunter2@host/paint", "http:https://me:hunter2@host/paint"])
def test_a_password_in_the_address_would_be_written_into_records(text: str) -> None:
    async def work() -> None:
        async with Transport() as transport:
            http_model(Spec.parse(f"m={text}", "--model"), transport)

    with pytest.raises(RefBenchError, match="holds a password") as raised:
        asyncio.run(work())
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("text", ["http:paint", "http:ftp://host/x", "http:///paint"])
def test_what_is_no_address_is_said(text: str) -> None:
    async def work() -> None:
        async with Transport() as transport:
            http_model(Spec.parse(text, "--model"), transport)

    with pytest.raises(RefBenchError, match="is no address: write it as"):
        asyncio.run(work())


@pytest.mark.parametrize("cost", ["much", -1, True, [1], 1e300])
def test_a_picture_is_kept_whatever_the_server_says_it_cost(cost: Any) -> None:
    with ImageServer(answers=[Told(body=http_reply(png(1), cost_usd=cost))]) as server:
        painted = paint(server, Commission("A fox"), "price=0.1")
    assert (painted.pictures, painted.failure, painted.cost_usd) == ((png(1),), None, 0.1)


def test_a_reply_that_shows_no_pictures_counts_as_if_all_were_paid_for() -> None:
    with ImageServer(answers=[Told(body={"version": 1, "pictures": "what"})]) as server:
        painted = paint(server, Commission("A fox", n_pictures=3), "price=0.1")
    assert (kind(painted), painted.cost_usd, painted.worst_usd) == ("api_error", None, pytest.approx(0.3))


def test_a_picture_with_the_key_in_it_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "q7-house-key")

    with ImageServer(answers=[Told(body=http_reply(png(1) + b"q7-house-key"))]) as server:
        painted = paint(server, Commission("A fox"), "key_env=MY_KEY")
    assert (painted.pictures, kind(painted)) == ((), "unreadable_picture")
    assert "q7-house-key" not in str(painted)
