"""Texts of prompts: placeholders filled in, and the one repair attempt after a reply that could not be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

from refbench.chat import ChatRequest, ChatText
from refbench.record import clean_text

_PLACE = re.compile(r"\{(\w+)\}")


def filled(template: str, values: Mapping[str, str]) -> str:
    """The template with its known placeholders replaced in one pass: other braces, also in the values, stay."""
    return _PLACE.sub(lambda match: values.get(match[1], match[0]), template)


def placeholders(template: str) -> set[str]:
    return set(_PLACE.findall(template))


LONGEST_QUOTE = 2000
"""Characters of the unreadable reply that are quoted back."""


def repair_request(request: ChatRequest, reply: str, contract_text: str) -> ChatRequest:
    """The same pictures and text, then the unreadable reply and the form it should have had."""
    template = resources.files("refbench.judges").joinpath("repair.txt").read_text("utf-8").strip()
    text = filled(template, {"reply": clean_text(reply[:LONGEST_QUOTE]), "format": contract_text})
    return request.model_copy(update={"parts": (*request.parts, ChatText(text=text))})
