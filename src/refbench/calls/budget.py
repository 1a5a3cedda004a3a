"""Money: the worst case is set aside before anything is sent, so that the cap holds whatever comes back."""

from __future__ import annotations

import asyncio
import re

from refbench.record import RefBenchError


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

    async def reserve(self, worst_usd: float) -> None:
        """Set the worst case aside; waits while calls in flight may still give something back."""
        if self.cap is None:
            return
        async with self._changed:
            while self.spent + self.reserved + worst_usd > self.cap + 1e-12:
                if self.reserved <= 1e-12:
                    self.short = worst_usd
                    raise BudgetSpentError
                await self._changed.wait()
            self.reserved += worst_usd

    async def release(self, worst_usd: float) -> None:
        """Give back what was set aside; what was really paid has been counted by `pay`."""
        if self.cap is None:
            return
        async with self._changed:
            self.reserved = max(0.0, self.reserved - worst_usd)
            self._changed.notify_all()

    def pay(self, cost_usd: float | None) -> None:
        self.spent += cost_usd or 0.0
