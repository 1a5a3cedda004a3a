"""Specs: how users name a VLM or a model on the command line, `[name=]kind:what[?key=value&...]`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl

from refbench.record import Record, RefBenchError

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")


class Spec(Record):
    """A parsed spec. `name` is what tables show; without one it is made from what was asked for."""

    name: str
    kind: str
    what: str
    options: Mapping[str, str] = {}

    @classmethod
    def parse(cls, text: str, option: str) -> Spec:
        """Read a spec; `option` is the command-line option to name in errors."""
        head, _, query = text.partition("?")
        name, equals, rest = head.partition("=")
        if not equals or ":" in name:
            name, rest = "", head
        kind, colon, what = rest.partition(":")
        if not colon or not kind or not what:
            raise RefBenchError(f"{option} {text}: write it as [name=]kind:what, for example judge=openai:gpt-4o")
        if name and not _NAME.fullmatch(name):
            raise RefBenchError(
                f"{option} {text}: the name {name!r} may have letters, digits, dot, dash and underscore only"
            )
        options = dict(parse_qsl(query, keep_blank_values=True))
        return cls(name=name or what.rstrip("/").rsplit("/", 1)[-1], kind=kind, what=what, options=options)


# Who made a model, by its name: judges of one family may favour models of the same.

_FAMILIES = {
    "openai": r"gpt|chatgpt|o[134](?:-|$)|dall-?e|sora",
    "google": r"gemini|gemma|imagen|nano-?banana|paligemma",
    "anthropic": r"claude",
    "alibaba": r"qwen|qvq|wan\d",
    "baai": r"emu\d|omnigen",
    "meta": r"llama|muse|emu(?!\d)",
    "mistral": r"mistral|pixtral|magistral",
    "bytedance": r"seed|bagel|doubao",
    "black-forest-labs": r"flux",
    "internvl": r"internvl",
    "stability": r"stable|sd\d|sdxl",
    "zhipu": r"glm|cogv|cogview",
}


def family_of(model: str) -> str:
    """The family, or "unknown": said, never guessed further."""
    name = model.rsplit("/", 1)[-1].casefold()
    for family, pattern in _FAMILIES.items():
        if re.match(pattern, name):
            return family
    return "unknown"
