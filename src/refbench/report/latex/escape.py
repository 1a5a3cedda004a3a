"""Any text as LaTeX that compiles: names of models and judges come from strangers, in every script.

What pdflatex can set is written as commands of its own fonts. Other characters are written twice: as they are, for
xelatex and lualatex, and as code points, which is what pdflatex prints, since it has no letters for them.
"""

from __future__ import annotations

import tomllib
import unicodedata
from importlib import resources

from refbench.record import clean_text

WIDE = r"""\ifdefined\refbenchwide\else
  \ifnum 0\ifdefined\XeTeXversion 1\fi\ifdefined\directlua 1\fi>0
    \DeclareRobustCommand{\refbenchwide}[2]{#1}
  \else
    \DeclareRobustCommand{\refbenchwide}[2]{{\scriptsize\ttfamily #2}}
  \fi
\fi"""
"""The command for characters that pdflatex has no letters for; goes before the table that needs it."""

_FILE = resources.files("refbench.report.latex").joinpath("characters.toml")
_CHARACTERS: dict[str, dict[str, str]] = tomllib.loads(_FILE.read_text("utf-8"))
_ASCII, _SIGNS, _ACCENTS = (_CHARACTERS[name] for name in ("ascii", "signs", "accents"))
_NEVER_TWICE = "-,"
"""Signs that make another one in pairs: a dash, a quotation mark."""


def tex(text: str) -> str:
    """The text, escaped. Line breaks and other control characters become spaces."""
    pieces: list[str] = []
    wide = before = ""
    for sign in unicodedata.normalize("NFC", clean_text(text)):
        written = _written(sign)
        if sign == before and sign in _NEVER_TWICE:
            pieces.append("{}")
        before = sign
        if written is None:
            wide += sign
            continue
        if wide:
            pieces.append(_wide(wide))
            wide = ""
        pieces.append(written)
    return "".join([*pieces, _wide(wide)] if wide else pieces)


def is_wide(text: str) -> bool:
    """Whether pdflatex would print some of the text as code points."""
    return any(_written(sign) is None for sign in unicodedata.normalize("NFC", clean_text(text)))


def comment(text: str) -> str:
    """Text for a comment: nothing in it can end the line."""
    return " ".join("".join(sign if unicodedata.category(sign)[0] != "C" else " " for sign in clean_text(text)).split())


def _written(sign: str) -> str | None:
    """The sign in LaTeX's own commands; None when there are none for it."""
    if sign in _ASCII:
        return _ASCII[sign]
    if sign in _SIGNS:
        return _SIGNS[sign]
    if sign.isascii():
        return sign if sign.isprintable() else " "
    apart = unicodedata.normalize("NFD", sign)
    base, accents = apart[0], apart[1:]
    if len(accents) == 1 and accents[0] in _ACCENTS and base.isascii() and base.isalpha():
        return rf"\{_ACCENTS[accents[0]]}{{{base}}}"
    return " " if unicodedata.category(sign) == "Cc" else None


def _wide(text: str) -> str:
    # Marks of direction and other signs without a shape would act on the source too: only their code point is kept.
    shown = "".join(sign for sign in text if unicodedata.category(sign)[0] != "C")
    codes = " ".join(f"U+{ord(sign):04X}" for sign in text)
    return rf"\refbenchwide{{{shown}}}{{{codes}}}"
