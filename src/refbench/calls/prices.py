"""What tokens cost: the `genai-prices` package (sourced, dated, offline), or what the user says. Never a guess."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from refbench.record import Record, RefBenchError

_PROVIDERS = {"openai": "openai", "gemini": "google", "anthropic": "anthropic"}


class Price(Record):
    """US dollars for a million tokens. `source` says where the figures come from."""

    input_usd: float
    output_usd: float
    source: str

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / 1e6


def price_of(kind: str, model: str, options: Mapping[str, str], *, own_server: bool = False) -> Price | None:
    """The price of a model: the spec's `price=IN,OUT` first, then the price source; None when nobody knows.

    A server of the user's own has no list price, whatever its model is called.
    """
    if "price" in options:
        return _given(options["price"])
    if own_server or kind not in _PROVIDERS:
        return None
    try:
        source = importlib.import_module("genai_prices")
    except ImportError:
        return None
    million = 1_000_000
    try:
        # Prices by tier depend on the size of a request; a thousand tokens is what a judge's request is about.
        found = source.calc_price(
            source.Usage(input_tokens=1000, output_tokens=1000), model_ref=model, provider_id=_PROVIDERS[kind]
        )
    except LookupError:
        return None
    return Price(
        input_usd=float(found.input_price) / 1000 * million,
        output_usd=float(found.output_price) / 1000 * million,
        source=f"genai-prices {importlib.import_module('importlib.metadata').version('genai-prices')}",
    )


def _given(text: str) -> Price:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != 2 or min(numbers) < 0:
        raise RefBenchError(
            f"price={text}: write dollars for a million input and output tokens, for example price=0.4,1.6"
        )
    return Price(input_usd=numbers[0], output_usd=numbers[1], source="given by the user")
