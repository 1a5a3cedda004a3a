"""Hostile inputs from a seed: values of JSON, cells of CSV and plain text changed by their structure, then perhaps their
bytes; and what a reader may do with them."""

from __future__ import annotations

import csv
import io
import json
import random
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from refbench.record import RefBenchError
from support.campaigns import damaged
from support.hang import no_hang

Form = Literal["json", "jsonl", "csv", "text"]

STRANGE: Sequence[Any] = [
    *(None, True, False, 0, -1, 1, 3, 2**53, 2**63, 2**64, 10**30, 0.5, -0.0, 1e308, 1e-320),
    *("", " ", "\0", "a\0b.png", "\n", "\r\n", "\t", "yes", "-1", "1e400", "nan", "٣", "²", "9" * 30, "9" * 5000),
    *("//r.png", "~nouser/x", "~", "../../etc/passwd", "/", ".", "a/" * 400, "n" * 300 + ".png", "\u2028", "\ufeff"),
    *("\x1b[31m", "[/]", "[bold]", "\u202egnp", "=1+1", "{}", "{id}", "{0}", "%s", "\\", "x" * 140_000, "🐕\u200d🦺"),
    *([], {}, [[]], {"": ""}, [None], [1, "a"], {"path": 1}, {"path": "a.png", "role": 5}, {"a": {"a": {"a": []}}}),
]
_WORDS = [
    *(
        '"',
        "'",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        ";",
        "\\",
        "\n",
        "\r",
        "\t",
        "=",
        "#",
        "+++",
        "|",
        "<",
        ">",
        "\x00",
        "\x1b[",
    ),
    *(
        "null",
        "NaN",
        "Infinity",
        "1e999",
        "-0",
        "true",
        "٣",
        "²",
        "\ufeff",
        "\u2028",
        "\u202e",
        "🐕",
        "'''",
        '"""',
        "0x",
    ),
    *("\\ud800", "\\u0000", "99999999999999999999", "9" * 5000, "[" * 300, '{"a":' * 120, "x" * 200_000),
]
_BYTES = (b"\xff", b"\xe9", b"\x80", b"\xc3", b"\x00", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\r", b"\n", b"\x1a")


def changed_value(value: Any, rng: random.Random) -> Any:
    """The value with one place in it changed: another value, one less, one twice, another name."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return _strange(rng)
    if isinstance(value, list):
        at = rng.randrange(len(value))
        return [
            lambda: [*value[:at], changed_value(value[at], rng), *value[at + 1 :]],
            lambda: [*value[:at], changed_value(value[at], rng), *value[at + 1 :]],
            lambda: value[:at] + value[at + 1 :],
            lambda: [*value, value[at]],
            lambda: dict(enumerate(value)),
        ][rng.randrange(5)]()
    name = rng.choice(list(value))
    return [
        lambda: {**value, name: changed_value(value[name], rng)},
        lambda: {**value, name: changed_value(value[name], rng)},
        lambda: {key: item for key, item in value.items() if key != name},
        lambda: {str(rng.choice(STRANGE))[:50] if key == name else key: item for key, item in value.items()},
        lambda: {**value, str(rng.choice(STRANGE))[:50]: _strange(rng)},
        lambda: list(value.values()),
    ][rng.randrange(6)]()


def _strange(rng: random.Random) -> Any:
    if rng.random() < 0.03:
        deep: Any = rng.choice(STRANGE)
        for _ in range(rng.choice((20, 99, 101, 260))):
            deep = [deep] if rng.random() < 0.5 else {"a": deep}
        return deep
    return rng.choice(STRANGE)


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes that are no text, another encoding, half a file, a hundred thousand brackets."""
    at = rng.randrange(len(data) + 1)
    way = rng.randrange(8)
    if way == 0:
        return data.decode("utf-8", "replace").encode(
            rng.choice(("utf-16", "latin-1", "utf-8-sig", "utf-7")), "replace"
        )
    if way == 1:
        return data[:at] + rng.choice((b"[", b'{"a":', b"[[", b"a.", b"{a=")) * 20_000 + data[at:]
    if way == 2:
        return data[:at]
    return data[:at] + rng.choice(_BYTES) * rng.choice((1, 1, 3, 1000)) + data[at + rng.choice((0, 1, 5)) :]


def _dumped(value: Any, rng: random.Random) -> str:
    try:
        return json.dumps(value, ensure_ascii=rng.random() < 0.5)
    except (RecursionError, ValueError):
        return "[" * 5000


def mutated(seed: bytes, form: Form, rng: random.Random) -> bytes:
    """One hostile input that was made from a good one."""
    text = seed.decode()
    if form == "text" or rng.random() < 0.2:
        text = damaged(text, rng, _WORDS)
    elif form == "json":
        value = json.loads(text)
        for _ in range(rng.randint(1, 3)):
            value = changed_value(value, rng)
        text = _dumped(value, rng)
    elif form == "jsonl":
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        at = rng.randrange(len(rows))
        for _ in range(rng.randint(1, 3)):
            rows[at] = changed_value(rows[at], rng)
        text = rng.choice(("\n", "\n", "\r\n", "\n\n")).join(_dumped(row, rng) for row in rows)
    else:
        table = list(csv.reader(io.StringIO(text)))
        for _ in range(rng.randint(1, 3)):
            row = rng.choice(table)
            at = rng.randrange(len(row) + 1)
            row[at : at + rng.choice((0, 1, 1, 1))] = [str(_strange(rng))] * rng.choice((0, 1, 1, 1))
            table = table if row else [["x"]]
        out = io.StringIO()
        csv.writer(out, delimiter=rng.choice(",,,,;\t")).writerows(table)
        text = out.getvalue()
    data = text.encode("utf-8", "surrogatepass")
    return changed_bytes(data, rng) if rng.random() < 0.1 else data


@dataclass(frozen=True)
class Target:
    """A reader of outside text. `read` is given the bytes; what it raises besides RefBenchError is a fault."""

    name: str
    form: Form
    seeds: Sequence[bytes]
    read: Callable[[bytes], object]
    names: str = ""
    """What an error must name: the file, or the option."""
    share: int = 1
    """How many inputs it gets, in parts: readers of text in memory are fast."""


def file_target(
    name: str, form: Form, path: Path, load: Callable[[], object], seeds: Sequence[str] = (), *, share: int = 1
) -> Target:
    """A loader of which one file is hostile; the file as it is there is the seed where none is given."""

    def read(data: bytes) -> object:
        path.write_bytes(data)
        return load()

    found = [text.encode() for text in seeds] or [path.read_bytes()]
    return Target(name, form, found, read, share=share)


def attack(target: Target, count: int, seed: int = 0) -> Counter[str]:
    """Give the target so many hostile inputs: the places of faults, with how often each was met."""
    rng = random.Random(f"{target.name} {seed}")
    faults = (fault_of(target, mutated(rng.choice(target.seeds), target.form, rng)) for _ in range(count))
    return Counter(fault for fault in faults if fault)


def fault_of(target: Target, data: bytes) -> str:
    """Where the reader raised what is not ours, or said nothing; empty where it held."""
    try:
        with no_hang(20):
            target.read(data)
    except RefBenchError as error:
        return "" if str(error).strip() and target.names in str(error) else f"it says only: {str(error)[:100]!r}"
    except Exception as error:  # noqa: BLE001 - what is looked for
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/refbench/" in frame.filename]
        place = f"{frames[-1].filename.rpartition('/refbench/')[2]}:{frames[-1].lineno}" if frames else "?"
        return f"{place} {type(error).__name__}: {str(error)[:80]!r}"
    return ""
