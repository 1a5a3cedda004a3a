"""Text from outside is printed as text: on terminals, in tables, in Markdown, in cells of spreadsheets."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.progress import Progress
from rich.table import Table

from refbench.text.console import PrintableStream, as_markdown, console, csv_cell, printable, text_of_cell
from refbench.text.files import csv_table

HOSTILE = "a\x1b[31m\x1b]0;title\x07\x9b2J\r\x08\u202egnp.exe\u2066\u200b\ufeff\u2028\U000e0041\x7f[/][bold]"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", r"\u001b[31m"),
        ("\x9b31m", r"\u009b31m"),
        ("a\rb\x08", r"a\u000db\u0008"),
        ("\u202egnp", r"\u202egnp"),
        ("a\u200bb\ufeff", r"a\u200bb\ufeff"),
        ("\U000e0041", r"\udb40\udc41"),
        ("\udcff", r"\udcff"),
        ("pass\u200dword", r"pass\u200dword"),
        ("a\tb\n", "a\tb\n"),
        ("dog 🐕\u200d🦺, می\u200cخواهم, é, 日本", "dog 🐕\u200d🦺, می\u200cخواهم, é, 日本"),
    ],
)
def test_what_a_terminal_obeys_or_hides_is_spelt_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable("a\nrefbench: done\t", line=True) == r"a\nrefbench: done\t"


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_printed_json_keeps_its_values_and_printing_twice_is_printing_once(text: str) -> None:
    spoken = json.dumps({"a": text}, ensure_ascii=False)
    assert json.loads(printable(spoken)) == {"a": text}
    assert printable(printable(text)) == printable(text)
    assert not set(printable(text)) & set("\x1b\x9b\r\x07\u202e\u2066\u200b")


def test_a_console_shows_names_as_they_are_and_keeps_its_own_colours() -> None:
    """`[/]` ended the printer with an error, and escape sequences reached the terminal."""
    out = io.StringIO()
    screen = console(file=out, force_terminal=True, width=200)
    grid = Table(HOSTILE, title="[/]")
    grid.add_row(HOSTILE)
    screen.print(grid)
    screen.print(HOSTILE, style="bold")
    screen.rule("[/]")
    with Progress(console=screen) as bars:
        bars.add_task("x", total=1)
    said = out.getvalue()
    assert r"a\u001b[31m\u001b]0;title" in said
    assert "[/][bold]" in said
    assert "\x1b[1m" in said  # its own
    for forbidden in ("\x1b[31m", "\x1b]0", "\x9b", "\u202e", "\u200b", "\x07"):
        assert forbidden not in said


def test_only_printable_text_gets_through_a_stream() -> None:
    behind = io.StringIO()
    stream = PrintableStream(behind)
    print(HOSTILE, file=stream)
    stream.writelines(["\x1b[2J\n"])
    assert behind.getvalue() == printable(HOSTILE) + "\n" + r"\u001b[2J" + "\n"
    assert not stream.isatty()
    with closing(PrintableStream(None)) as nobody:
        assert nobody.write("nobody listens") > 0


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        *(
            (text, f"'{text}")
            for text in ("=1+1", "+a", "-cmd", "@SUM(A1)", "\t=1", "\r=1", "'=1+1", "--", "-1+2", "- one")
        ),
        *((text, text) for text in ("a=1", "", "'tis", "-1", "-0.5e-3", "+3", "1-2", -1, -0.5, None, True, 0)),
    ],
)
def test_no_text_is_a_formula_and_numbers_stay_numbers(value: object, cell: object) -> None:
    assert csv_cell(value) == cell


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r")), min_size=1, max_size=4))
def test_what_was_guarded_is_read_back_as_it_was(texts: list[str]) -> None:
    assert [text_of_cell(csv_cell(text)) for text in texts if not text.startswith("'")] == [
        text for text in texts if not text.startswith("'")
    ]
    file = io.StringIO()
    csv.writer(file).writerows([[f"c{n}" for n in range(len(texts))], map(csv_cell, texts)])
    if any(texts):
        (row,) = csv_table(file.getvalue(), "x.csv")[1]
        assert list(row[1].values()) == [text_of_cell(csv_cell(text)) for text in texts]


def test_markdown_shows_names_as_they_are() -> None:
    assert as_markdown("a|b\n<img src=x onerror=1> [x](javascript:1) *b* `c` \x1b") == (
        r"a\|b \<img src=x onerror=1\> \[x\](javascript:1) \*b\* \`c\` \\u001b"
    )
    assert as_markdown("gpt_image_1 _x_") == r"gpt_image_1 \_x\_"


@pytest.mark.parametrize(
    ("way", "code", "says"), [("> /dev/full", 2, "No space left"), (">&-", 0, ""), ("2>&- >&-", 0, "")]
)
def test_an_output_that_cannot_be_written_is_said(way: str, code: int, says: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m refbench --version {way}'], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert (says in done.stderr) if says else not done.stderr
    assert "Traceback" not in done.stderr
