"""The live server: who has no token, or comes from elsewhere, gets nothing; who has it sees the run as it is now."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from refbench.cli.view import view_command
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.record import RefBenchError
from refbench.report.site.server import LiveSite, Server
from refbench.runs import Run
from refbench.runs.annotations import FILE, read_annotations
from refbench.tables.scoring import rescore
from support.checkout import plain_items, reply_text, write_checkout, write_replies
from support.site_browser import start_browser, walk


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = plain_items(27)
    root = write_checkout(tmp_path_factory.mktemp("data") / "creval", items)
    for model in ("alpha", "beta"):
        write_replies(root / "answer_gpt", model, items)
    return root


@pytest.fixture(scope="module")
def untouched(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that no test writes to."""
    out = tmp_path_factory.mktemp("runs") / "run"
    rescore("creval", data=data, replies=data / "answer_gpt", out=out, draws=0)
    return out


@pytest.fixture(scope="module")
def site(untouched: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSite]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REFBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        found = LiveSite([untouched], data=data, draws=0)
        yield found
        found.close()


@pytest.fixture
def run(untouched: Path, tmp_path: Path) -> Path:
    """A run to write to."""
    return Path(shutil.copytree(untouched, tmp_path / "run"))


@pytest.fixture
def own_site(run: Path) -> Iterator[LiveSite]:
    found = LiveSite([run], draws=0)
    yield found
    found.close()


Visit = Callable[[aiohttp.ClientSession, Server, str], Awaitable[None]]


def visit(site: LiveSite, work: Visit, *, entered: bool = True) -> None:
    """Start a server and visit it, with the token already given unless told otherwise."""

    async def all_of_it() -> None:
        server = Server(site)
        await server.start()
        base = f"http://127.0.0.1:{server.port}"
        jar = aiohttp.CookieJar(unsafe=True)  # cookies of an address that is a number
        try:
            async with aiohttp.ClientSession(cookie_jar=jar) as session:
                if entered:
                    async with session.get(server.url) as answer:
                        assert answer.status == 200 and str(answer.url) == f"{base}/"
                await work(session, server, base)
        finally:
            await server.stop()

    asyncio.run(all_of_it())


def value(text: str) -> Any:
    return json.loads("[" + text.removeprefix("refbench.put(").removesuffix(");\n") + "]")[1]


PATHS = (
    "/",
    "/index.html",
    "/data/site.js",
    "/data/b0/board.js",
    "/data/b0/cases/0.js",
    "/annotations",
    "/progress",
    "/nothing",
    "/?token=",
    "/?token=guess",
)


def test_without_the_token_there_is_nothing_to_see(site: LiveSite) -> None:
    async def work(session: aiohttp.ClientSession, server: Server, base: str) -> None:
        bodies = set()
        for path in PATHS:
            async with session.get(base + path, allow_redirects=False) as answer:
                assert (answer.status, answer.cookies) == (403, {}), path
                bodies.add(await answer.text())
        async with session.post(
            f"{base}/annotations", json={"board": "b0", "case": "item_000.0", "star": True}
        ) as answer:
            assert answer.status == 403
        assert len(bodies) == 1 and "creval" not in bodies.pop().lower()

    visit(site, work, entered=False)


def test_the_token_is_taken_once_and_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(site: LiveSite) -> None:
    async def work(session: aiohttp.ClientSession, server: Server, base: str) -> None:
        async with session.get(server.url, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        async with session.get(f"{base}/") as answer:
            assert answer.status == 200
            assert server.token not in await answer.text()
        for path in ("/data/site.js?token=", "/index.html?token="):  # only the front door takes it
            async with aiohttp.ClientSession() as stranger, stranger.get(base + path + server.token) as answer:
                assert answer.status == 403

    visit(site, work, entered=False)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1.evil.example:1"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_sites_get_nothing_even_with_the_cookie(site: LiveSite, untouched: Path, headers: dict[str, str]) -> None:
    async def work(session: aiohttp.ClientSession, server: Server, base: str) -> None:
        for path in ("/", "/data/site.js", f"/?token={server.token}"):
            async with session.get(base + path, headers=headers, allow_redirects=False) as answer:
                assert answer.status == 403 and not answer.cookies, path
        body = {"board": "b0", "case": "item_000.0", "star": True}
        async with session.post(f"{base}/annotations", json=body, headers=headers) as answer:
            assert answer.status == 403

    visit(site, work)
    assert not (untouched / FILE).exists()


def test_through_a_tunnel_the_port_may_be_another(site: LiveSite) -> None:
    async def work(session: aiohttp.ClientSession, server: Server, base: str) -> None:
        headers = {"Host": "localhost:8080", "Origin": "http://localhost:8080", "Sec-Fetch-Site": "same-origin"}
        async with session.get(f"{base}/data/site.js", headers=headers) as answer:
            assert answer.status == 200

    visit(site, work)


def test_every_answer_is_under_a_strict_policy(site: LiveSite) -> None:
    async def work(session: aiohttp.ClientSession, server: Server, base: str) -> None:
        for path in ("/", "/data/site.js", "/nothing", "/data/nothing.js"):
            async with session.get(base + path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Referrer-Policy"] == "no-referrer"
        async with session.get(f"{base}/nothing", headers={"Origin": base}) as answer:
            assert "Access-Control-Allow-Origin" not in answer.headers

    visit(site, work)


@pytest.mark.parametrize(
    "path",
    [
        "/../run/run.json",
        "/%2e%2e/run/run.json",
        "/thumbs/../../run.json",
        "/thumbs/%2e%2e%2f%2e%2e%2frun.json",
        "/pictures//etc/passwd",
        "/data/../../run.json",
        "/data/b0/cases/../../../run.js",
        "/data/b0/cases/0%00.js",
        "/thumbs/ab/" + "ab" * 32 + ".jpg",
    ],
)
def test_no_path_reaches_the_file_system(site: LiveSite, path: str) -> None:
    async def work(session: aiohttp.ClientSession, server: Server, base: str) -> None:
        cookie = "; ".join(f"{c.key}={c.value}" for c in session.cookie_jar)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        assert re.match(rb"HTTP/1.1 40[034] ", answer), answer[:80]
        assert b"schema_version" not in answer and b"root:" not in answer

    visit(site, work)


def test_pages_chunks_and_pictures_are_served(site: LiveSite, data: Path) -> None:
    async def work(session: aiohttp.ClientSession, server: Server, base: str) -> None:
        async def text(path: str) -> str:
            async with session.get(base + path) as answer:
                assert answer.status == 200, path
                return await answer.text()

        page = await text("/")
        for name in re.findall(r'(?:src|href)="([^":]+)"', page):
            await text(f"/{name}")
        head = value(await text("/data/site.js"))
        assert head["live"] is True and [m["name"] for m in head["boards"][0]["models"]] == ["alpha", "beta"]
        picture = value(await text("/data/b0/cases/0.js"))["cases"][0]["references"][0]
        async with session.get(f"{base}/{picture['full']}") as answer:
            assert answer.headers["Content-Type"] == "image/png"
            assert await answer.read() == (data / "bench/image" / Path(picture["name"]).name).read_bytes()
        async with session.get(f"{base}/{picture['thumb']}") as answer:
            assert (answer.status, answer.headers["Content-Type"]) == (200, "image/jpeg")

    visit(site, work)


def test_annotations_are_saved_in_the_run_and_shown_at_once(own_site: LiveSite, run: Path) -> None:
    async def work(session: aiohttp.ClientSession, server: Server, base: str) -> None:
        body = {"board": "b0", "case": "item_003.3", "star": True, "tags": ["odd"], "comment": "</script>"}
        async with session.post(
            f"{base}/annotations", json=body, headers={"Origin": base, "Sec-Fetch-Site": "same-origin"}
        ) as answer:
            assert answer.status == 204
        async with session.get(f"{base}/data/annotations.js") as answer:
            assert value(await answer.text()) == [body]

    visit(own_site, work)
    said = read_annotations(run).standing["item_003.3"]
    assert (said.star, said.tags, said.comment) == (True, ("odd",), "</script>") and said.time > 0


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (400, {"json": {"board": "b0"}}),
        (400, {"json": ["b0"]}),
        (400, {"json": {"board": "b0", "case": "item_000.0", "extra": 1}}),
        (400, {"data": b"{", "headers": {"Content-Type": "application/json"}}),
        (400, {"data": b"[" * 60_000, "headers": {"Content-Type": "application/json"}}),
        (404, {"json": {"board": "b9", "case": "item_000.0"}}),
        (404, {"json": {"board": "b0", "case": "no such case"}}),
        (413, {"json": {"board": "b0", "case": "item_000.0", "comment": "x" * 100_000}}),
        (415, {"data": {"board": "b0", "case": "item_000.0"}}),
    ],
)
def test_what_is_no_annotation_is_not_saved(site: LiveSite, untouched: Path, status: int, sent: dict[str, Any]) -> None:
    async def work(session: aiohttp.ClientSession, server: Server, base: str) -> None:
        async with session.post(f"{base}/annotations", **sent) as answer:
            assert answer.status == status

    visit(site, work)
    assert not (untouched / FILE).exists()


def test_a_page_that_is_loaded_again_shows_what_the_run_has_since(own_site: LiveSite, run: Path) -> None:
    def models() -> list[str]:
        return [model["name"] for model in value(own_site.chunk("site").decode())["boards"][0]["models"]]

    assert models() == ["alpha", "beta"]
    before = own_site.chunk("b0/board")
    with Run.open(run).writer() as writer:
        answers = [(f"Q{n}", "Yes") for n in range(1, 6)]
        purpose = Purpose(case="item_000.0", model="gamma", judge="gpt-4o", part="IF")
        writer.add(Evidence(kind="chat", request={"imported": "test"}, reply=reply_text(answers)), purpose)
    assert own_site.chunk("b0/board") is before, "a page that is open keeps seeing one state of the run"
    assert models() == ["alpha", "beta", "gamma"]
    assert b"gamma" not in before and own_site.chunk("b0/board") != before


def grow(run: Path) -> None:
    """A third model is judged on a case, and fails on the next."""
    with Run.open(run).writer() as writer:
        answers = [(f"Q{n}", "Yes") for n in range(1, 6)]
        purpose = Purpose(case="item_000.0", model="gamma", judge="gpt-4o", part="IF")
        writer.add(Evidence(kind="chat", request={"imported": "test"}, reply=reply_text(answers)), purpose)
        lost = Failure(kind="timeout", detail="<b>no answer</b> in 60 s")
        writer.add(
            Evidence(kind="chat", request={"imported": "again"}, failure=lost, cost_usd=0.25),
            purpose.model_copy(update={"case": "item_001.1"}),
        )


def test_progress_tells_what_the_run_has_by_now_without_scoring_it(own_site: LiveSite, run: Path) -> None:
    before = own_site.progress()
    (one,) = before["runs"]
    assert (one["name"], one["cases"], one["of"], one["failed"]) == ("run", 27, 27, 0) and one["newest"] == []
    assert own_site.progress() is before, "a run that has not grown is not read again"
    grow(run)
    after = own_site.progress()
    (now,) = after["runs"]
    assert after["state"] != before["state"]
    assert (now["replies"], now["failed"], now["spent_usd"]) == (one["replies"] + 1, 1, 0.25)
    newest = {"case": "item_001.1", "model": "gamma", "kind": "timeout", "detail": "<b>no answer</b> in 60 s"}
    assert now["newest"] == [newest]


def test_a_port_that_is_taken_is_said(untouched: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RefBenchError, match=f"--port {port} cannot be used"):
            view_command(untouched, port=port)


def test_a_number_that_is_no_port_is_said(untouched: Path) -> None:
    with pytest.raises(RefBenchError, match="--port 99999 is no port"):
        view_command(untouched, port=99999)


def test_the_command_prints_address_and_tunnel_and_ends_with_an_interrupt(untouched: Path) -> None:
    code = "import sys; from pathlib import Path; from refbench.cli.view import view_command; sys.exit(view_command(Path(sys.argv[1])))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(untouched)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        first, second = process.stdout.readline(), process.stdout.readline()
        port = re.fullmatch(r"Open http://127\.0\.0\.1:(\d+)/\?token=[\w-]{32}\n", first)
        assert port is not None and f"ssh -L {port[1]}:127.0.0.1:{port[1]} {socket.gethostname()}" in second
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0 and "Traceback" not in errors


def test_the_command_writes_a_site_and_says_where(
    untouched: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert view_command(untouched, out=tmp_path / "site", data=data, pictures="thumbs") == 0
    said = capsys.readouterr().out
    assert f"Open {tmp_path / 'site/index.html'}" in said and "27 cases" in said
    assert (tmp_path / "site/index.html").is_file()


def test_no_run_to_look_at_is_said() -> None:
    with pytest.raises(RefBenchError, match="at least one run"):
        view_command()


def test_the_live_pages_open_every_tab_from_the_front_door(site: LiveSite) -> None:
    with served(site) as page:
        walk(page, 1)


@pytest.mark.slow
def test_a_page_of_a_run_that_goes_on_shows_what_is_new(own_site: LiveSite, run: Path) -> None:
    with served(own_site) as page:
        page.wait_for_selector("#live:not([hidden])")
        assert "27 of 27 cases begun" in str(page.text_content("#live"))
        assert page.locator(".leaderboard tr.own").count() == 2
        grow(run)
        page.click("#renew")
        page.wait_for_selector(".leaderboard tr.own:nth-of-type(3), .leaderboard tr.own >> nth=2")
        said = str(page.text_content("#live"))
        assert "1 failed" in said and "$0.25 spent" in said and "up to date" in said
        assert "gamma, item_001.1: timeout <b>no answer</b> in 60 s" in said and page.locator("#live b").count() == 0


@contextmanager
def served(site: LiveSite) -> Iterator[Any]:
    """A page of a browser at the front door of a running server."""
    started, done = threading.Event(), threading.Event()
    servers: list[Server] = []

    async def serve() -> None:
        servers.append(Server(site))
        await servers[0].start()
        started.set()
        while not done.is_set():
            await asyncio.sleep(0.01)
        await servers[0].stop()

    serving = threading.Thread(target=lambda: asyncio.run(serve()))
    serving.start()
    try:
        assert started.wait(600)
        driver, browser = start_browser()
        try:
            page = browser.new_page()
            page.set_default_timeout(60_000)
            page.goto(servers[0].url)
            yield page
        finally:
            browser.close()
            driver.stop()
    finally:
        done.set()
        serving.join()
