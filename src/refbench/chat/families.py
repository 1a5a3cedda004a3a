"""Who made a model, by its name: judges of one family may favour models of the same."""

from __future__ import annotations

import re

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
