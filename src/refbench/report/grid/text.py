"""Writing on pictures in every script there is a font for; what has none is reported, never drawn as something else.

Pillow brings a font for Latin letters. Others come from the fonts of the machine, in a fixed order of preference.
"""

from __future__ import annotations

import os
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont, features

from refbench.record import RefBenchError, clean_text

_NOWHERE = "\U0010ffff"
"""No font has a letter for it: what it looks like is what a missing letter looks like."""
_SHAPED = re.compile(r"[\u0590-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17ff\ufb1d-\ufdff\ufe70-\ufeff]")
"""Scripts whose letters join or run from right to left: without raqm they would come out wrong."""
_UNSPACED = r"\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_TOKENS = re.compile(rf"\s+|[{_UNSPACED}]|[^\s{_UNSPACED}]+")
"""Where a line may be broken: at spaces, and anywhere in scripts without them."""

Font = ImageFont.FreeTypeFont


class TextStyle:
    """Text in one size. `missing`, shared by all sizes, collects the characters that no font has."""

    def __init__(self, size: int, font: Path | None = None, missing: dict[str, None] | None = None) -> None:
        self.size = size
        self.font = font
        self.missing = {} if missing is None else missing
        base = ImageFont.load_default(size)
        if not isinstance(base, ImageFont.FreeTypeFont):
            raise RefBenchError("this Pillow cannot draw text in sizes: install one with FreeType, as pip has it")
        self.base = base
        self._chosen: dict[str, Font | None] = {}

    @property
    def line(self) -> int:
        return round(self.size * 1.35)

    @cached_property
    def _fonts(self) -> list[Font]:
        files = [self.font] if self.font is not None else system_fonts()
        found = [self.base]
        for file in files:
            try:
                found.append(ImageFont.truetype(str(file), self.size))
            except OSError as error:
                if self.font is not None:
                    raise RefBenchError(f"--font {file} cannot be read as a font: {error}") from error
        return found

    def width(self, text: str) -> float:
        return sum(_length(font, run, self.size) for font, run in self._runs(text))

    def draw(self, on: ImageDraw.ImageDraw, at: tuple[float, float], text: str, fill: str) -> None:
        """Write from the upper left corner `at`."""
        x, y = at[0], at[1] + self.size
        for font, run in self._runs(text):
            if font is None:
                for _ in run:
                    box = (x + 1, y - 0.7 * self.size, x + 0.6 * self.size - 1, y)
                    on.rectangle(box, outline=fill)
                    x += 0.6 * self.size
                continue
            on.text((x, y), run, font=font, fill=fill, anchor="ls")
            x += font.getlength(run)

    def wrap(self, text: str, width: float, most: int | None = None) -> list[str]:
        """Lines no wider than `width`; where there are more than `most`, the last one says how much is left out."""
        lines, line = [], ""
        for token in _TOKENS.findall(plain(text)):
            if self.width(line + token) <= width or not token.strip():
                line += " " if token.isspace() else token
                continue
            if line.strip():
                lines.append(line.strip())
            while self.width(token) > width and len(token) > 1:
                cut = next((n for n in range(len(token), 1, -1) if self.width(token[:n]) <= width), 1)
                lines.append(token[:cut])
                token = token[cut:]
            line = token
        lines += [line.strip()] if line.strip() else []
        if most is None or len(lines) <= most:
            return lines
        left = sum(len(rest) + 1 for rest in lines[most:])
        more = f" ... ({left} more characters)"
        last = lines[most - 1]
        while last and self.width(last + more) > width:
            last = last[:-1]
        return [*lines[: most - 1], last.rstrip() + more]

    def fit(self, text: str, width: float) -> str:
        """The text in one line, its middle left out where it is too long."""
        text = plain(text)
        if self.width(text) <= width:
            return text
        keep = next((n for n in range(len(text) - 1, 0, -1) if self.width(_cut(text, n)) <= width), 1)
        return _cut(text, keep)

    def _runs(self, text: str) -> Iterable[tuple[Font | None, str]]:
        """Stretches of one font each."""
        current: Font | None = self.base
        run = ""
        for sign in plain(text):
            font = current if run and _joins(sign) else self._of(sign)
            if run and font is not current:
                yield current, run
                run = ""
            current, run = font, run + sign
        if run:
            yield current, run

    def _of(self, sign: str) -> Font | None:
        if sign not in self._chosen:
            drawable = not _SHAPED.match(sign) or bool(features.check("raqm"))
            found = next((font for font in self._fonts if _has(font, sign)), None) if drawable else None
            if found is None:
                self.missing[sign] = None
            self._chosen[sign] = found
        return self._chosen[sign]


def plain(text: str) -> str:
    """Text without control characters and marks of direction, which would move or hide other text."""
    shown = unicodedata.normalize("NFC", clean_text(text))
    return "".join(" " if sign.isspace() else sign for sign in shown if sign.isspace() or _visible(sign))


def _visible(sign: str) -> bool:
    return unicodedata.category(sign)[0] != "C" or sign == "\u200d"


def _joins(sign: str) -> bool:
    # Spaces too: words of a script from right to left must stay in one stretch to come out in order.
    return sign == " " or unicodedata.combining(sign) > 0 or sign in "\u200d\ufe0f"


def _cut(text: str, keep: int) -> str:
    return f"{text[: (keep + 1) // 2]}...{text[len(text) - keep // 2 :]}"


def _length(font: Font | None, run: str, size: int) -> float:
    return 0.6 * size * len(run) if font is None else font.getlength(run)


def _has(font: Font, sign: str) -> bool:
    if sign.isspace():
        return True
    return _look(font, sign) != _look(font, _NOWHERE)


@lru_cache(maxsize=20_000)
def _look(font: Font, sign: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(sign)
    picture = Image.new("L", mask.size)
    picture.im.paste(mask, (0, 0, *mask.size))
    return mask.size, picture.tobytes()


@lru_cache(maxsize=1)
def system_fonts() -> Sequence[Path]:
    """The fonts of this machine that we know, best first."""
    known = tomllib.loads((resources.files("refbench.report.grid") / "fonts.toml").read_text("utf-8"))
    there: dict[str, Path] = {}
    for folder in known["folders"]:
        for place, folders, files in os.walk(Path(folder).expanduser()):
            folders.sort()
            for name in sorted(files):
                if name in known["preferred"]:
                    there.setdefault(name, Path(place) / name)
    return [there[name] for name in known["preferred"] if name in there]
