"""Markup from Python: every text is escaped unless it is markup already, so that nothing a model, a judge or a file
is called can become a part of the page.
"""

from __future__ import annotations

import base64
import unicodedata
from html import escape

_VOID = frozenset({"img", "meta", "br"})


class Markup(str):
    """Text that is markup, and is not escaped again."""

    __slots__ = ()


def tag(name: str, /, *inside: str | None, **attributes: str | int | None) -> Markup:
    """An element. `cls` is its class; an attribute of None is left out, and so is what is None inside."""
    said = "".join(
        f' {"class" if key == "cls" else key.replace("_", "-")}="{escape(_plain(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{said}>")
    return Markup(f"<{name}{said}>{together(*inside)}</{name}>")


def together(*inside: str | None) -> Markup:
    """Pieces of text and markup, one after the other."""
    return Markup("".join(one if isinstance(one, Markup) else escape(_plain(one)) for one in inside if one is not None))


def _plain(text: str) -> str:
    """Without control characters, and those that turn the direction of the text around them."""
    return "".join(one for one in text if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf", "Cs"))


def name_of(text: str, most: int = 40) -> Markup:
    """A name that others have given: of bounded length, in a direction of its own."""
    return tag("bdi", clipped(text, most), title=text if len(text) > most else None)


def clipped(text: str, most: int) -> str:
    """At most so many characters, of the beginning and the end, where versions stand."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return flat
    end = most // 3
    return f"{flat[: most - end - 1]}…{flat[-end:]}"


def jpeg(data: bytes) -> str:
    return "data:image/jpeg;base64," + base64.b64encode(data).decode("ascii")
