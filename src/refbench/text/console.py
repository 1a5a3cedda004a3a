"""What reaches a terminal, a log or a spreadsheet: text of datasets, names, servers and replies is shown as text.

Light on purpose: `refbench --help` imports it, so rich comes in where something is drawn.
"""

from __future__ import annotations

import os
import re
from typing import IO, TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

# Controls (C0 without tab and line feed, DEL, C1), signs that turn the direction of writing, signs that nobody sees,
# ends of lines that only some programs know, and lone surrogates. The joiners of scripts and emoji stay between letters
# that are not ASCII.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
_MARKS = re.compile(r"[\\`*{}\[\]<>#|!~&]|(?<!\w)_|_(?!\w)")
"""Signs that Markdown would read; an underscore only at the ends of words."""
_BREAKS = str.maketrans({"\n": r"\n", "\t": r"\t"})


def printable(text: str, *, line: bool = False) -> str:
    """The text with everything that a terminal would obey or hide spelt out, as JSON spells it (`\\u001b`), so that
    printed JSON keeps its values. With `line`, tabs and line breaks too: a name cannot begin a line of its own."""
    if line:
        text = text.translate(_BREAKS)
    return text if text.isascii() and text.isprintable() else _HIDDEN.sub(_spelt, text)


def _spelt(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def quiet() -> bool:
    """Whether only results and errors are wanted, as `--quiet` says: neither progress nor hints."""
    return bool(os.environ.get("REFBENCH_QUIET"))


def as_markdown(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    return _MARKS.sub(r"\\\g<0>", " ".join(printable(text).split()))


class PrintableStream(TextIO if TYPE_CHECKING else object):  # type: ignore[misc]
    """Standard output or error to which only printable text gets. rich writes past it: what `console` draws has been
    made printable, and its own colours and bars are escape sequences."""

    def __init__(self, stream: TextIO | None) -> None:
        # The name is rich's, for the stream behind another one. Without a stream, as after `>&-`, nothing is printed.
        self.rich_proxied_file = stream or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123

    def write(self, text: str) -> int:
        return self.rich_proxied_file.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.rich_proxied_file.writelines(map(printable, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def console(*, stderr: bool = False, **options: Any) -> Console:
    """The one console: everything given to it is text, no markup, and no table is cut when it goes to a file."""
    from rich.console import Console
    from rich.segment import Segment

    class Printable(Console):
        @property
        def file(self) -> IO[str]:
            # Behind all that stands before it: a line that is drawn in its place puts a stream before ours, and rich
            # looks behind one alone.
            stream = super().file
            while stream is not (behind := getattr(stream, "rich_proxied_file", stream)):
                stream = behind
            return stream

        @file.setter
        def file(self, new: IO[str]) -> None:
            self._file = new

        def render_str(self, text: str, **how: Any) -> Any:
            return super().render_str(printable(text), **how)

        def render(self, *given: Any, **how: Any) -> Iterable[Segment]:
            for one in super().render(*given, **how):
                yield one if one.control or (said := printable(one.text)) == one.text else Segment(said, one.style)

    fixed = {"stderr": stderr, "markup": False, "emoji": False, **options}
    plain = Printable(**fixed)
    return plain if plain.is_terminal or "width" in options else Printable(**fixed, width=132)


_FORMULA = re.compile("'*[=+\\-@\t\r]")
"""How a cell begins that a spreadsheet would compute, or that was quoted for this reason before."""


def csv_cell(value: Any) -> Any:
    """A value for CSV: text that a spreadsheet would take for a formula has a quote before it. Numbers stay numbers,
    negative ones too, also where they are text."""
    if not isinstance(value, str) or not _FORMULA.match(value) or _is_number(value):
        return value
    return f"'{value}"


def text_of_cell(cell: str) -> str:
    """What was written: undoes `csv_cell`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
