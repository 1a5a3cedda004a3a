"""Planted secrets: servers, proxies and mistakes of users that would put a key into a file, a page or a message. Every
byte that the commands write is searched for every secret in its forms."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from campaigns.test_servers import JUDGES, MODELS, command, work  # noqa: F401 - a fixture
from conftest import Refbench
from support.campaigns import size
from support.hostile_server import FAULTS, MARKS, Fault, Provider, content, hostile, key_of, text_with
from support.image_server import http_reply, openai_reply, png
from support.raw_server import Asked, RawServer, http

KEY = "q7Zk/house+key=of-mine-3141"
PASSWORD = "hunter2-of-the-house"


def forms(secret: str) -> list[str]:
    """What would give a secret away: whole, encoded, or half of it."""
    half = len(secret) // 2
    basic = [base64.b64encode(f"{user}{secret}".encode()).decode()[4:-4] for user in ("", "me:", "user:")]
    return [secret, quote(secret, safe=""), secret.encode().hex(), secret[:half], secret[-half:], *basic]


def quoting(number: int, make: Callable[[str], Any] = lambda key: f"Incorrect API key provided: {key}.") -> Fault:
    return lambda good, asked: [http({"error": {"message": make(key_of(asked)), "code": "odd"}}, number)]


def page(number: int) -> Fault:
    return lambda good, asked: [http(f"<html>{asked.headers}</html>".encode(), number, "Content-Type: text/html")]


def said(make: Callable[[str], str]) -> Fault:
    """A reply in which the judge's words have the key."""
    return lambda good, asked: content(f"{MARKS}\n{make(key_of(asked))}")(good, asked)


def escaped(key: str) -> str:
    return "".join(f"&#{ord(sign)};" if sign in "/+=" else sign for sign in key)


def location(good: bytes, asked: Asked) -> Iterable[bytes]:
    return [http({}, 307, f"Location: http://127.0.0.1:9/?key={quote(key_of(asked))}")]


def picture_comment(good: bytes, asked: Asked) -> Iterable[bytes]:
    data = png(7) + key_of(asked).encode()
    return [http(openai_reply(data) if "/images/" in asked.path else http_reply(data))]


def provenance(good: bytes, asked: Asked) -> Iterable[bytes]:
    key = key_of(asked)
    return [http(http_reply(png(7), provenance={key: key, "note": f"by {key}"}, error=None))]


def link(good: bytes, asked: Asked) -> Iterable[bytes]:
    return [http({"data": [{"url": f"http://127.0.0.1:9/{key_of(asked)}.png", "revised_prompt": key_of(asked)}]})]


ECHOES: dict[str, Fault] = {
    **{f"quoted with {n}": quoting(n) for n in (400, 401, 403, 404, 422, 429, 500, 503)},
    **{f"on a page with {n}": page(n) for n in (200, 400, 500, 502)},
    "masked": quoting(400, lambda key: f"{key[:14]}{'*' * 8}{key[-4:]}"),
    "broken off": quoting(400, lambda key: f"{key[:-3]}"),
    "as Basic": quoting(400, lambda key: base64.b64encode(f"user:{key}".encode()).decode()),
    "in a URL": quoting(422, lambda key: f"GET /?key={quote(key, safe='')}"),
    "in an object": quoting(400, lambda key: {"your": {"key": key}}),
    "behind a long error": quoting(400, lambda key: "x" * 290 + key),
    "in a reply": said(lambda key: f"The key is {key}"),
    "in a reply, masked": said(lambda key: f"The key is {key[:14]}...{key[-4:]}"),
    "beside a reply": text_with(lambda key: key),
    "in headers": FAULTS["the key in headers"],
    "in the status": FAULTS["the key as status words"],
    "in a redirect": location,
}
PAINTED: dict[str, Fault] = {"in a picture": picture_comment, "in provenance": provenance, "in a link": link}


@dataclass(frozen=True)
class SetUp:
    """One command against one server, with secrets planted in its surroundings."""

    name: str
    what: str
    spec: str
    fault: Fault = field(default=lambda good, asked: [http(good)])
    at: str = "live"
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = (KEY,)


def set_ups() -> list[SetUp]:
    echoes = list(ECHOES.items())
    turns = size(1, len(JUDGES))  # in a share each echo meets one kind, in the whole all
    judges, models = list(JUDGES.items()), list(MODELS.items())
    found = [
        SetUp(f"judge {kind} {name}", "judge", spec, fault)
        for place, (name, fault) in enumerate(echoes)
        for kind, spec in (judges[(place + turn) % 3] for turn in range(turns))
    ]
    found += [
        SetUp(f"model {kind} {name}", "model", spec, fault)
        for place, (name, fault) in enumerate([*echoes[::3], *PAINTED.items()])
        for kind, spec in (models[(place + 2 + turn) % 3] for turn in range(turns))
    ]
    found += [
        SetUp(f"batch {kind} {at} {name}", "batch", JUDGES[kind], ECHOES[name], at)
        for kind, at, name in (
            *(("openai", "upload", "quoted with 400"), ("openai", "create", "quoted with 403")),
            *(("openai", "state", "on a page with 200"), ("openai", "results", "in a reply")),
            *(("anthropic", "create", "quoted with 500"), ("anthropic", "state", "as Basic")),
            *(("anthropic", "results", "in a reply"), ("anthropic", "results", "quoted with 404")),
        )
    ]
    found += [
        SetUp(f"doctor {kind} {name}", f"doctor {kind}", spec, ECHOES[name])
        for kind, spec in (("judge", JUDGES["openai"]), ("model", MODELS["openai"]))
        for name in ("quoted with 401", "quoted with 400", "on a page with 500", "beside a reply")
    ]
    in_address = "http://me:hunter2-of-the-house@127.0.0.1:9"
    found += [
        SetUp(name, what, spec, environment=environment, secrets=(KEY, PASSWORD))
        for name, what, spec, environment in (
            ("password in a judge's address", "judge", f"j=openai:x?base_url={in_address}/v1", {}),
            ("password in a model's address", "model", f"m={in_address}/paint", {}),
            ("password in a variable", "judge", "j=openai:x", {"OPENAI_BASE_URL": f"{in_address}/v1"}),
            ("password in an address that is none", "judge", f"j=gemini:x?base_url={in_address}:port", {}),
            ("key as an option", "judge", f"j=openai:x?base_url=http://127.0.0.1:9&api_key={PASSWORD}", {}),
            ("key behind an address", "judge", f"j=openai:x?base_url=http://127.0.0.1:9?token={PASSWORD}", {}),
            ("key with a line break", "judge", JUDGES["openai"], {"HOUSE_KEY": f"{PASSWORD}\n"}),
            ("key with a letter that no header has", "model", MODELS["http"], {"HOUSE_KEY": f"{PASSWORD}é"}),
        )
    ]
    return found


SET_UPS = set_ups()


@pytest.mark.parametrize("set_up", SET_UPS, ids=[one.name for one in SET_UPS])
def test_no_secret_is_written_anywhere(
    work: Path,  # noqa: F811
    run_cli: Refbench,
    monkeypatch: pytest.MonkeyPatch,
    set_up: SetUp,
) -> None:
    monkeypatch.setenv("HOUSE_KEY", KEY)
    for name, value in set_up.environment.items():
        monkeypatch.setenv(name, value)
    with hostile(set_up.fault, set_up.at) as server:
        written = everything(work, run_cli, monkeypatch, set_up.what, set_up.spec.format(url=server.url))
        asked = "".join(str(seen.headers) for seen in server.requests)
    assert set_up.environment or set_up.secrets != (KEY,) or KEY in asked, "the server never saw what it could leak"
    assert leaks(written, set_up.secrets) == []


@pytest.mark.parametrize("kind", JUDGES)
@pytest.mark.parametrize("refused", [False, True])
def test_the_password_of_a_proxy_is_written_nowhere(
    work: Path,  # noqa: F811
    run_cli: Refbench,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    refused: bool,
) -> None:
    def answer(asked: Asked) -> Iterable[bytes]:
        basic = asked.headers.get("proxy-authorization", "")
        words = f"{basic} {base64.b64decode(basic.removeprefix('Basic ') or b'').decode()} {asked.headers}"
        if refused:
            return [http({"error": {"message": words}}, 407)]
        return content(f"{MARKS}\n{words}")(Provider().good(asked), asked)

    with RawServer(answer) as proxy:
        address = proxy.url.removeprefix("http://")
        for name in ("no_proxy", "NO_PROXY", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://me:{PASSWORD}@{address}")
        monkeypatch.setenv("HOUSE_KEY", KEY)
        written = everything(work, run_cli, monkeypatch, "judge", JUDGES[kind].format(url="http://api.example"))
        assert any("proxy-authorization" in seen.headers for seen in proxy.requests)
    assert leaks(written, (KEY, PASSWORD)) == []


def everything(
    work: Path,  # noqa: F811
    run_cli: Refbench,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    spec: str,
) -> dict[str, bytes]:
    """All that a command and those that publish its run write: files, temporary ones included, and both outputs."""
    (work / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work / "tmp"))
    out = work / "run"
    outputs = [run_cli(*command(what, spec, out), *(["--debug"] if what == "doctor" else []))]
    if out.exists() and what != "model":
        publishing: list[list[object]] = [
            ["table", out, "--items", work / "items.jsonl"],
            ["export", out, "--what", "evidence", "--out", work / "evidence.jsonl"],
            ["view", out, "--out", work / "site"],
        ]
        outputs += [run_cli(*words) for words in publishing]
    assert all(code != 70 for code, _, _ in outputs)
    written = {str(path): path.read_bytes() for path in work.rglob("*") if path.is_file()}
    return {**written, "outputs": json.dumps(outputs).encode()}


def leaks(written: Mapping[str, bytes], secrets: Iterable[str]) -> list[tuple[str, str]]:
    return [
        (path, form)
        for secret in secrets
        for form in forms(secret)
        for path, data in written.items()
        if form.encode() in data
    ]


def test_the_search_finds_what_is_there() -> None:
    rng = np.random.default_rng(0)
    for form in forms(KEY):
        assert leaks({"a": rng.bytes(1000) + form.encode() + rng.bytes(1000)}, [KEY])
    assert len(SET_UPS) + 2 * len(JUDGES) >= 41
