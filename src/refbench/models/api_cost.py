"""What a picture cost: by the tokens of the reply, of which those of pictures have prices of their own, or by the
piece. Never a guess: where a reply does not tell its tokens apart and the prices differ, there is no cost.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from refbench.calls import price_of
from refbench.chat.spec import Spec
from refbench.record import RefBenchError

_SOURCES = {"openai": "openai", "gemini": "google"}


@dataclass(frozen=True)
class Usage:
    """Tokens of one call. Those of pictures are part of the whole; None when the reply does not tell them apart."""

    input_tokens: int
    output_tokens: int
    input_picture_tokens: int | None = None
    output_picture_tokens: int | None = None


def usd_a_picture(spec: Spec) -> float | None:
    """The spec's `price=USD`, dollars for one picture. `price=IN,OUT` is for tokens, and checked here as well."""
    text = spec.options.get("price")
    if text is None:
        return None
    if "," in text:
        price_of(spec.kind, spec.what, spec.options)
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise RefBenchError(
            f"--model {spec.name}: price={text}: write dollars for one picture, for example price=0.04, "
            "or for a million input and output tokens, for example price=5,40"
        )
    return value


def token_cost(kind: str, model: str, usage: Usage, given: str | None, *, own_server: bool) -> float | None:
    """Dollars for the tokens, by the spec's `price=IN,OUT` or the price source; None when nobody knows."""
    if given is not None and "," in given:
        price = price_of(kind, model, {"price": given})
        return None if price is None else price.cost(usage.input_tokens, usage.output_tokens)
    if own_server or kind not in _SOURCES or usage.input_picture_tokens is None or usage.output_picture_tokens is None:
        return None
    try:
        source = importlib.import_module("genai_prices")
    except ImportError:
        return None
    try:
        found = source.calc_price(
            source.Usage(
                input_tokens=usage.input_tokens,
                input_image_tokens=usage.input_picture_tokens,
                output_tokens=usage.output_tokens,
                output_image_tokens=usage.output_picture_tokens,
            ),
            model_ref=model,
            provider_id=_SOURCES[kind],
        )
    except (LookupError, ValueError):  # a model that it does not know; counts that contradict each other
        return None
    return float(found.total_price)


def count(value: object) -> int | None:
    """A number of tokens as a reply tells it, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
