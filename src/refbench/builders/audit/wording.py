"""What is changed in words: numbers of references in an instruction, and the text that a judge is given."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from refbench.chat.vlm import ChatPicture, ChatRequest, ChatText

FAMOUS = ("GPT Image 1", "Gemini 2.5 Flash Image", "FLUX.1 Kontext [max]")
"""Models whose names a judge may think much of."""

_SIDES = re.compile(r"\b(left|right)(?!\s+(?:now|away))\b|左|右", re.IGNORECASE)
_WHAT = r"(?:reference\s+)?(?:images?|pictures?|photos?|photographs?|references?|inputs?|figures?|img)"
_NUMBERED = re.compile(
    rf"(\b{_WHAT}\s*[_#-]?\s*(?:no\.?\s*)?|<\|?(?:image|img)_?|\[(?:image|img)\s?|图\s*)(\d{{1,2}})(?!\d)",
    re.IGNORECASE,
)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = re.compile(rf"\b({'|'.join(_ORDINALS)})(\s+{_WHAT}\b)", re.IGNORECASE)
_ELSE = re.compile(
    rf"\b(?:last|latter|former|other|next|previous|\d(?:st|nd|rd|th)|\d\s*(?:-|to|and|,)\s*\d)\s+{_WHAT}\b|{_WHAT}\s*\d\s*(?:-|to|and|&|,)\s*\d",
    re.IGNORECASE,
)


def names_sides(instruction: str) -> bool:
    """Whether an instruction says left or right."""
    return _SIDES.search(instruction) is not None


def renumbered(instruction: str, places: Mapping[int, int]) -> str | None:
    """The instruction with the number of each picture, from 1, replaced by its new one. None where it speaks of them in
    a way that cannot be followed ("the last image", "images 1 and 2") or by numbers that no picture has."""
    if _ELSE.search(instruction):
        return None
    named = [int(match[2]) for match in _NUMBERED.finditer(instruction)]
    named += [_ORDINALS.index(match[1].lower()) + 1 for match in _ORDINAL.finditer(instruction)]
    if any(number not in places for number in named):
        return None

    def ordinal(match: re.Match[str]) -> str:
        word = _ORDINALS[places[_ORDINALS.index(match[1].lower()) + 1] - 1]
        return (word.capitalize() if match[1][0].isupper() else word) + match[2]

    if any(places[number] > len(_ORDINALS) for number in named):
        return None
    moved = _NUMBERED.sub(lambda match: f"{match[1]}{places[int(match[2])]}", instruction)
    return _ORDINAL.sub(ordinal, moved)


# --- the judge's text ----------------------------------------------------------------------------------------------


def reworded(request: ChatRequest, change: str, output: Sequence[str]) -> ChatRequest:
    """The request with its text changed in the way of that name; `output` are the hashes of the output's pictures."""
    name, _, value = change.partition(":")
    return _CHANGES[name](request, value, output)


def _polite(request: ChatRequest, value: str, output: Sequence[str]) -> ChatRequest:
    """Criteria in another order, where they are a list in the text, and a "please" before all."""
    texts = [place for place, part in enumerate(request.parts) if isinstance(part, ChatText)]
    parts = list(request.parts)
    for place in texts:
        part = parts[place]
        assert isinstance(part, ChatText)
        said = turned_lists(part.text)
        parts[place] = ChatText(text=f"Please read carefully.\n{said}" if place == texts[0] else said)
    return request.model_copy(update={"parts": tuple(parts)})


_ITEM = re.compile(r"[-*•] \S")


def turned_lists(text: str) -> str:
    """The text with the items of each list in reverse. Numbered lists stay: answers go by the numbers. An item with
    further lines keeps them, and so does a list in which other lines stand between."""
    lines, made, items = text.split("\n"), list[str](), list[str]()
    for line in [*lines, None]:
        if line is not None and _ITEM.match(line):
            items.append(line)
            continue
        made += items[::-1]
        items = []
        if line is not None:
            made.append(line)
    return "\n".join(made)


def _made_by(request: ChatRequest, value: str, output: Sequence[str]) -> ChatRequest:
    """A name behind the output. In a request that does not show it, at the end."""
    said = ChatText(text=f"(The picture to be judged was made by {value}.)")
    shown = [n for n, part in enumerate(request.parts) if isinstance(part, ChatPicture) and part.sha256 in output]
    place = shown[-1] + 1 if shown else len(request.parts)
    return request.model_copy(update={"parts": (*request.parts[:place], said, *request.parts[place:])})


_CHANGES: Mapping[str, Callable[[ChatRequest, str, Sequence[str]], ChatRequest]] = {
    "polite": _polite,
    "made_by": _made_by,
}


def famous(drawn: np.random.Generator) -> str:
    """The change that names a famous model."""
    return f"made_by:{FAMOUS[int(drawn.integers(len(FAMOUS)))]}"
