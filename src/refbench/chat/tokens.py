"""Tokens before anything is sent: pictures by each provider's published rule, text by its length."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_TILED = {  # base and per-tile tokens of OpenAI's 512 px tiles
    r"gpt-4o-mini": (2833, 5667),
    r"gpt-5": (70, 140),
    r"(?:o1|o3)(?!-mini)": (75, 150),
    r"gpt-4|chatgpt-4o": (85, 170),
}
_PATCHED = {  # OpenAI's 32 px patches, at most 1,536, times a factor
    r"gpt-4\.1-mini|gpt-5-mini": 1.62,
    r"gpt-4\.1-nano|gpt-5-nano": 2.46,
    r"o4-mini": 1.72,
}


def picture_tokens(kind: str, model: str, width: int, height: int, detail: str = "auto") -> int:
    """Tokens of one picture; for servers without a published rule, patches of 28 px as the Qwen-VL models count."""
    if kind == "openai":
        for pattern, factor in _PATCHED.items():
            if re.match(pattern, model):
                return math.ceil(_patches(width, height) * factor)
        for pattern, (base, tile) in _TILED.items():
            if re.match(pattern, model):
                return base if detail == "low" else base + tile * _tiles(width, height)
    if kind == "gemini":
        if max(width, height) <= 384:
            return 258
        return 258 * math.ceil(width / 768) * math.ceil(height / 768)
    if kind == "anthropic":
        scale = min(1.0, 1568 / max(width, height))
        return min(1600, math.ceil(width * scale * height * scale / 750))
    return math.ceil(width / 28) * math.ceil(height / 28)


def text_tokens(characters: int) -> int:
    """A generous estimate: three characters a token. English has four, Chinese nearer one and a half."""
    return math.ceil(characters / 3)


def request_tokens(
    kind: str, model: str, characters: int, sizes: Sequence[tuple[int, int]], detail: str = "high"
) -> int:
    """Input tokens of a request with these pictures."""
    return text_tokens(characters) + sum(picture_tokens(kind, model, w, h, detail) for w, h in sizes) + 20


def _tiles(width: int, height: int) -> int:
    scale = min(1.0, 2048 / max(width, height))
    width, height = int(width * scale), int(height * scale)
    scale = min(1.0, 768 / max(1, min(width, height)))
    return math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


def _patches(width: int, height: int) -> int:
    patches = math.ceil(width / 32) * math.ceil(height / 32)
    return min(patches, 1536)
