"""Keys: cut by value in every form in which servers quote them, and refused before they are sent where they cannot
work."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote

import pytest

from refbench.calls.keys import Secrets, checked_address, key_of, proxy_for, secrets_of
from refbench.failure import Failure
from refbench.record import RefBenchError

KEY = 'p4ss&word"/+of the=house'


@pytest.mark.parametrize(
    "quoted",
    [
        KEY,
        quote(KEY, safe=""),
        quote(KEY, safe="").lower(),
        html.escape(KEY),
        json.dumps(KEY)[1:-1],
        quote(KEY),
        quote(KEY, safe="/+&="),
        quote(quote(KEY, safe=""), safe=""),
        quote(KEY, safe="").replace("%20", "+"),
        html.escape(html.escape(KEY)),
        KEY.replace("/", "\\/").replace('"', '\\"'),
        json.dumps(json.dumps(KEY))[3:-3],
        "".join(f"%{ord(sign):02x}" for sign in KEY),
        "".join(f"\\u{ord(sign):04X}" for sign in KEY),
        "".join(f"\\x{ord(sign):02x}" for sign in KEY),
        "".join(f"&#{ord(sign)};" for sign in KEY),
        "".join(f"&#x{ord(sign):04X};" for sign in KEY),
        KEY.encode().hex(),
        f"{KEY[:5]}****{KEY[-4:]}",
        f"{KEY[:7]}...",
        KEY[:13],
        KEY[-14:],
    ],
)
def test_a_key_is_cut_in_every_form_and_the_words_stay(quoted: str) -> None:
    shown = Secrets([KEY]).cut(f"Incorrect API key provided: {quoted} (see the docs)")
    assert shown == "Incorrect API key provided: [redacted] (see the docs)"


@pytest.mark.parametrize("quoted", [KEY[:-1], KEY[1:], f"{KEY[:5]}***{KEY[-4:]}", f"{KEY[:3]}...", f"xxxx{KEY[-3:]}"])
@pytest.mark.parametrize("around", [10, 150_000, 2_000_000])
def test_what_is_left_of_a_key_is_cut_from_texts_of_any_length(quoted: str, around: int) -> None:
    before = KEY[:2] * (around // 2)  # nearly the beginning, over and over
    assert Secrets([KEY]).cut(f"{before} {quoted} {before}") == f"{before} [redacted] {before}"


@pytest.mark.parametrize("before", ["", "u:", "me:", "user:", "Bearer "])
def test_a_key_inside_base64_is_cut_wherever_it_begins(before: str) -> None:
    around = f"{before} and on"
    encoded = base64.b64encode(f"{before}{KEY} and on".encode()).decode()
    left = Secrets([KEY]).cut(encoded).split("[redacted]")
    assert len(left) == 2
    assert sum(map(len, left)) <= len(around) * 4 / 3 + 4, "but for a sign or two at its ends, all of the key is gone"


def test_a_placeholder_for_a_key_is_no_secret_in_a_reply() -> None:
    secrets = Secrets(["EMPTY", "no", "x"])
    reply = "The background is EMPTY, no subject: 7/10"
    assert secrets.cut(reply) == reply
    assert secrets.cut_message("bad key EMPTY, no x") == "bad key [redacted], no x"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Incorrect API key provided: abc123DEF456.", "Incorrect API key provided: [redacted]"),
        ("Invalid api-key: 'zz-99-zz-99'", "Invalid api-key: '[redacted]'"),
        ("Bearer authentication required", "Bearer authentication required"),
        ("your API key provided no access", "your API key provided no access"),
        ("a skateboarding dog, sketchbook style", "a skateboarding dog, sketchbook style"),
        ("sk-proj-abcdefgh1234 is wrong", "[redacted] is wrong"),
        (
            "Cannot connect to proxy http://me:hunter2@host:3128/",
            "Cannot connect to proxy http://[redacted]@host:3128/",
        ),
    ],
)
def test_what_looks_like_a_key_is_cut_from_failures_and_words_are_not(said: str, kept: str) -> None:
    assert Failure(kind="api_error", detail=said).detail == kept


@pytest.mark.parametrize("key", ["sk-abc\n", " sk-abc", "sk-abc\r\nX-Other: 1", "sk-abcé", "sk abc", "sk-\x00abc"])
def test_a_key_that_no_header_can_hold_is_named_by_its_variable(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "\x00" in key:  # the environment of a process cannot hold it either
        monkeypatch.setattr("os.environ", {"MY_KEY": key})
    else:
        monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(RefBenchError, match=r"the key in MY_KEY .*: set it without") as raised:
        key_of(["MY_KEY"], "judge j", needed=True)
    assert "abc" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://[::1", "is no address"),
        ("http://host:99999/v1", "is no address"),
        ("http://host:http/v1", "is no address"),
        ("http://", "is no address"),
        ("http://a b/v1", "is no address"),
        ("file:///etc/passwd", "is no address"),
        ("http://me:hunter2@host/v1", "key_env="),
        ("http://hunter2@host/v1", "key_env="),
        ("http://me:hunter2@[::1", "is no address"),
        ("http:/me:hunter2@host", "is no address"),
        ("http://host/v1?api-key=hunter2", "key_env="),
    ],
)
def test_an_address_that_is_none_or_holds_a_secret_is_refused_without_showing_it(url: str, says: str) -> None:
    with pytest.raises(RefBenchError, match=says) as raised:
        checked_address(url, "judge j")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    "given", ["sk-abcdefgh12345678", "AKIAIOSFODNN7EXAMPLE1", "my key", "abc-def", "3f9c0b5e7a1d4c2f8e6b"]
)
def test_a_key_in_the_place_of_its_variable_is_refused_without_showing_it(given: str) -> None:
    with pytest.raises(RefBenchError, match="judge j: key_env= is the name") as raised:
        key_of([given], "judge j", needed=True)
    assert given not in str(raised.value)


def test_the_password_of_a_proxy_is_a_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "NO_PROXY", "no_proxy", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", "http://me:hunter2%2Fhouse@127.0.0.1:3128")
    basic = base64.b64encode(b"me:hunter2/house").decode()
    said = f"407 for {basic}: hunter2/house, hunter2%2Fhouse"
    assert secrets_of(None).cut(said) == "407 for [redacted]: [redacted], [redacted]"
    assert proxy_for("http://api.example/v1") == "http://me:hunter2%2Fhouse@127.0.0.1:3128"
    monkeypatch.setenv("no_proxy", "api.example")
    assert proxy_for("http://api.example/v1") is None
