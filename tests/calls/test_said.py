"""What a server said: every JSON is read that means something, and no shape of it raises."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest

from refbench.calls import said as lookups
from refbench.calls.keys import Secrets
from refbench.calls.said import UnknownShapeError, amount, count, listed, said, total

NONE = Secrets()
ODD = [1000.5, 1e3, "12", [12], -1, -0.5, float("nan"), float("inf"), True, None, {"n": 3}, 10**10, 1 << 70]


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_what_is_no_count_is_unknown(value: Any) -> None:
    body = said(json.dumps({"usage": {"tokens": value, "more": 5}}).encode(), NONE)
    assert count(body, "usage", "tokens") is None
    assert total(body["usage"], "tokens", "more") == (5 if value is None else None)


def test_a_reply_of_a_chat_is_read_however_many_commas_it_has() -> None:
    body = json.dumps({"text": "7", "logprobs": [0] * 300_000, "top": [[]] * 300_000}).encode()
    assert lookups.text(said(body, NONE), "text") == "7"
    assert isinstance(said(b"[" + b"[]," * (3 << 20) + b"[]]", NONE), str), "longer, and no picture in it"


def test_counts_and_amounts_are_what_they_say() -> None:
    assert (count({"n": 7}, "n"), total({"a": 7}, "a", "b"), amount({"usd": 0.25}, "usd")) == (7, 7, 0.25)
    assert [amount({"usd": usd}, "usd") for usd in (-1, float("nan"), "1", True, 1e9)] == [None] * 5


def _value(rng: random.Random, depth: int = 0) -> Any:
    names = ("usage", "choices", "message", "content", "parts", "data", "error", "text", "id", "x")
    if depth < 4 and rng.random() < 0.6:
        inner = [_value(rng, depth + 1) for _ in range(rng.randrange(3))]
        return inner if rng.random() < 0.5 else {rng.choice(names): value for value in inner}
    return rng.choice([*ODD, "word", "", 7, False])


def test_no_lookup_raises_whatever_the_shape() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        body = said(json.dumps(_value(rng)).encode(), NONE)
        for look in (lookups.at, lookups.table, lookups.tables, lookups.text, count, amount, total):
            look(body, rng.choice(("usage", "choices", "data")), "content")
        try:
            assert all(isinstance(item, dict) for item in listed(body, "choices"))
        except UnknownShapeError:
            assert body["choices"] is not None
        orjson.dumps(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": "x", "n": NaN}',
        b'\xef\xbb\xbf{"a": "x"}',
        '{"a": "x"}'.encode("utf-16"),
        b'{"a": "x", "b": "\xe9"}',
        b'{"a": "x", "b": "\\ud800"}',
        b'{"a": "x", "n": 123456789012345678901234567890}',
        b'{"a": "x", "n": NaN, "m": ' + b"7" * 5000 + b"}",
        b'{"a": "x", "deep": ' + b"[" * 300 + b"]" * 300 + b"}",
    ],
)
def test_what_no_strict_reader_takes_is_read_all_the_same(body: bytes) -> None:
    assert said(body, NONE)["a"] == "x"
    orjson.dumps(said(body, NONE))


@pytest.mark.parametrize("body", [b"[" * 100_000, b"[[],[],[]" * 100_000, b""])
def test_what_is_nested_or_split_without_end_is_text(body: bytes) -> None:
    assert said(body, NONE) == body[:4000].decode()


def test_secrets_are_cut_from_keys_and_values_even_when_escaped() -> None:
    key = "s3cret-s3cret"
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in key)
    body = b'{"' + escaped.encode() + b'": ["' + escaped.encode() + b'"]}'
    assert said(body, Secrets([key])) == {"[redacted]": ["[redacted]"]}
    assert said(b"<html>s3cret-s3cret</html>", Secrets([key])) == "<html>[redacted]</html>"
