"""What calls cost: tokens before anything is sent, and dollars for them, from the `genai-prices` package (sourced,
dated, offline) or from what the user says. Never a guess.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from refbench.record import Record, RefBenchError

_PROVIDERS = {"openai": "openai", "gemini": "google", "anthropic": "anthropic"}
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


class Price(Record):
    """US dollars for a million tokens. `source` says where the figures come from."""

    input_usd: float
    output_usd: float
    source: str

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / 1e6


FREE = Price(input_usd=0.0, output_usd=0.0, source="free")


@dataclass(frozen=True)
class PictureUsage:
    """Tokens of a call that made pictures."""

    input_tokens: int
    output_tokens: int
    input_picture_tokens: int | None = None
    """Part of the whole; None when the reply does not tell them apart."""
    output_picture_tokens: int | None = None


def price_of(kind: str, model: str, given: Sequence[float] | None = None, *, own_server: bool = False) -> Price | None:
    """The price of a model: the user's (input and output) first, then the price source; None when nobody knows.

    A server of the user's own has no list price, whatever its model is called.
    """
    if given is not None:
        return Price(input_usd=given[0], output_usd=given[1], source="given by the user")
    if own_server:
        return None
    # Prices by tier depend on the size of a request; a thousand tokens is what a judge's request is about.
    thousand = _listed(kind, model, input_tokens=1000, output_tokens=1000)
    if thousand is None:
        return None
    million = 1_000_000
    return Price(
        input_usd=float(thousand.input_price) / 1000 * million,
        output_usd=float(thousand.output_price) / 1000 * million,
        source=f"genai-prices {importlib.import_module('importlib.metadata').version('genai-prices')}",
    )


def picture_call_cost(kind: str, model: str, usage: PictureUsage) -> float | None:
    """List price of the tokens of a call that made pictures, which have prices of their own.

    None when nobody knows, or where the reply does not tell the tokens apart and the prices differ.
    """
    if usage.input_picture_tokens is None or usage.output_picture_tokens is None:
        return None
    price = _listed(
        kind,
        model,
        input_tokens=usage.input_tokens,
        input_image_tokens=usage.input_picture_tokens,
        output_tokens=usage.output_tokens,
        output_image_tokens=usage.output_picture_tokens,
    )
    return None if price is None else float(price.total_price)


def _listed(kind: str, model: str, **tokens: int) -> Any:
    """What the price source says of these tokens; None where it is not installed or does not know the model."""
    if kind not in _PROVIDERS:
        return None
    try:
        source = importlib.import_module("genai_prices")
        return source.calc_price(source.Usage(**tokens), model_ref=model, provider_id=_PROVIDERS[kind])
    except (ImportError, LookupError, ValueError):  # ValueError: counts that contradict each other
        return None


def request_tokens(
    kind: str, model: str, characters: int, sizes: Sequence[tuple[int, int]], detail: str = "high"
) -> int:
    """Input tokens of a request with these pictures, generously: text has three characters a token, where English has
    four and Chinese nearer one and a half."""
    return math.ceil(characters / 3) + sum(picture_tokens(kind, model, w, h, detail) for w, h in sizes) + 20


def picture_tokens(kind: str, model: str, width: int, height: int, detail: str = "auto") -> int:
    """Tokens of one picture by its provider's published rule; for servers without one, patches of 28 px as the Qwen-VL
    models count."""
    if kind == "openai":
        for pattern, factor in _PATCHED.items():
            if re.match(pattern, model):
                return math.ceil(min(1536, math.ceil(width / 32) * math.ceil(height / 32)) * factor)
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


def _tiles(width: int, height: int) -> int:
    scale = min(1.0, 2048 / max(width, height))
    width, height = int(width * scale), int(height * scale)
    scale = min(1.0, 768 / max(1, min(width, height)))
    return math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


# Money: the worst case is set aside before anything is sent, so that the cap holds whatever comes back.


class BudgetSpentError(Exception):
    """What is left does not cover the worst case of what is to be sent."""


class Budget:
    """A cap in US dollars for a whole run. Without a cap it only counts."""

    def __init__(self, cap_usd: float | None = None, spent_usd: float = 0.0) -> None:
        self.cap = cap_usd
        self.spent = spent_usd
        self.reserved = 0.0
        self.short: float | None = None
        """The worst case that did not fit any more, once there was one."""
        self._changed = asyncio.Condition()

    @classmethod
    def parse(cls, text: str | None, spent_usd: float = 0.0) -> Budget:
        """From what a user writes: 5usd, $5, 5."""
        if text is None:
            return cls(None, spent_usd)
        match = re.fullmatch(r"\$?\s*(\d+(?:\.\d+)?)\s*(?:usd|\$)?", text.strip(), re.IGNORECASE)
        if not match:
            raise RefBenchError(f"--budget {text}: write an amount in US dollars, for example 5usd")
        return cls(float(match[1]), spent_usd)

    async def reserve(self, worst_usd: float) -> Reservation:
        """Set the worst case aside; waits while calls in flight may still give something back."""
        if self.cap is None:
            return Reservation(self, 0.0)
        async with self._changed:
            while not self.covers(worst_usd):
                if self.reserved <= 1e-12:
                    self.short = worst_usd
                    raise BudgetSpentError
                await self._changed.wait()
            self.reserved += worst_usd
        return Reservation(self, worst_usd)

    def covers(self, worst_usd: float) -> bool:
        """Whether the worst case can be set aside now, whatever may be given back later."""
        return self.cap is None or self.spent + self.reserved + worst_usd <= self.cap + 1e-12

    async def release(self, worst_usd: float) -> None:
        """Give back what was set aside; what was really paid has been counted by `pay`."""
        if self.cap is None:
            return
        async with self._changed:
            self.reserved = max(0.0, self.reserved - worst_usd)
            self._changed.notify_all()

    def pay(self, usd: float) -> None:
        """Count what was paid, or the most that may have been; nothing takes a payment back."""
        self.spent += max(0.0, usd)


@dataclass
class Reservation:
    """What is set aside for the work done within it, with every further try that the work turns out to need. What was
    paid is counted before it ends."""

    budget: Budget
    usd: float
    _before: Any = field(default=None, repr=False)

    async def __aenter__(self) -> Reservation:
        self._before = _HELD.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _HELD.reset(self._before)
        await self.budget.release(self.usd)

    def another(self, worst_usd: float) -> bool:
        """Set aside a further worst case, if that can be done at once: two that wait for each other never end."""
        if not self.budget.covers(worst_usd):
            self.budget.short = worst_usd
            return False
        if self.budget.cap is not None:
            self.usd += worst_usd
            self.budget.reserved += worst_usd
        return True


_HELD: ContextVar[Reservation | None] = ContextVar("held", default=None)


def covers_another(worst_usd: float) -> bool:
    """Whether the budget of whoever asks covers one more try, beside one that may have been paid for."""
    held = _HELD.get()
    return held is None or held.another(worst_usd)
