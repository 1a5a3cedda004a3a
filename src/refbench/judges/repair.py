"""The one repair attempt: the same question again, with the reply that could not be read."""

from __future__ import annotations

from importlib import resources

from refbench.chat import ChatRequest, ChatText
from refbench.judges.placeholders import filled
from refbench.record import clean_text

LONGEST_QUOTE = 2000
"""Characters of the unreadable reply that are quoted back."""


def repair_request(request: ChatRequest, reply: str, contract_text: str) -> ChatRequest:
    """The same pictures and text, then the unreadable reply and the form it should have had."""
    template = resources.files("refbench.judges").joinpath("repair.txt").read_text("utf-8").strip()
    text = filled(template, {"reply": clean_text(reply[:LONGEST_QUOTE]), "format": contract_text})
    return request.model_copy(update={"parts": (*request.parts, ChatText(text=text))})
