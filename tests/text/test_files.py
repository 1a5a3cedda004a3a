"""Users' files: what cannot be read is refused in a sentence that names the file and the line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refbench.record import RefBenchError
from refbench.text import files
from refbench.text.files import (
    csv_table,
    file_bytes,
    file_text,
    json_file,
    json_lines,
    json_value,
    toml_file,
    users_path,
)


@pytest.mark.parametrize(
    ("read", "data", "says"),
    [
        (file_text, "a\né".encode("latin-1"), "f, line 2 is not UTF-8 text (byte 2): save it as UTF-8"),
        (json_file, b"[" * 20_000, "f is not valid JSON"),
        (json_file, b"[" * 150 + b"]" * 150, "f is nested more than 100 deep"),
        (lambda path: list(json_lines(path)), b'{}\n\n{"a": }', "f, line 3 is not valid JSON"),
        (lambda path: list(json_lines(path)), b"{}\n" + b'{"a":' * 120 + b"1" + b"}" * 120, "f, line 2 is nested"),
        (toml_file, b"a = " + b"[" * 20_000, "f is nested more than 100 deep"),
        (toml_file, b".".join([b"a"] * 500) + b" = 1", "a key of more than 100 names"),
        (toml_file, b"[" + b".".join([b'"a b"'] * 20_000) + b"]", "a key of more than 100 names"),
        (toml_file, b"a = " + b"9" * 5000, "f is not valid TOML"),
        (toml_file, b"a = \n", "f is not valid TOML"),
        (
            lambda path: list(csv_table(file_text(path), str(path), strict=True)[1]),
            b'a,b\n1,2\n"x',
            "f, line 2: not valid CSV",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, read: Callable[[Path], Any], data: bytes, says: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(data)
    with pytest.raises(RefBenchError) as caught:
        read(path)
    assert says in str(caught.value)


def test_no_file_no_regular_file_and_no_possible_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, says in (
        ("gone", "is not there: copy it"),
        ("pipe", "it is no regular file"),
        (".", "it is a folder"),
        ("n" * 300, "File name too long"),
        ("a\0b", "no file can have this name"),
    ):
        with pytest.raises(RefBenchError, match=says):
            file_bytes(tmp_path / name, "copy it")
        assert not files.is_file(tmp_path / name)
    monkeypatch.setattr(files, "MOST_BYTES", 10)
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(RefBenchError, match="more than 10 bytes"):
        file_bytes(tmp_path / "large")
    with pytest.raises(RefBenchError, match=r"line 3: nobody's home is ~nobody\.at\.all"):
        users_path("~nobody.at.all/x.png", "line 3")


def test_a_field_may_be_long_and_depth_is_counted_not_brackets(tmp_path: Path) -> None:
    """The csv module refuses fields above 131,072 characters."""
    assert next(csv_table("a,b\n" + "x" * 200_000 + ",1\n", "f")[1])[1]["a"] == "x" * 200_000
    assert len(json_value("[" + ",".join(["[1, {}]"] * 500) + "]", "f")) == 500
    assert json_value("[" * 100 + "]" * 100, "f")
    assert json_value(b"\xef\xbb\xbf1", "f") == json_value("\ufeff1", "f") == 1
    (tmp_path / "f").write_bytes(b'\xef\xbb\xbf{"a": "\xe2\x80\xa8"}\r\n')
    assert list(json_lines(tmp_path / "f")) == [(1, {"a": "\u2028"})]
