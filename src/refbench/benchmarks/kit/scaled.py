"""Calls whose marks count as shares of the way from lowest to highest, in a form that may depend on the case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from refbench.benchmarks.kit.asks import Call, Parts, Range, Sent, asks
from refbench.benchmarks.kit.definition import Material
from refbench.case import AnyCase
from refbench.failure import Failure
from refbench.judges import Contract

LOST = ("unparsable", "out_of_range", "empty_reply", "refused", "api_error", "timeout", "missing_reply")
"""What may become of a judge's reply: kinds of failure that are not the model's."""


def scaled(
    part: str, form: Callable[[AnyCase], Contract], measures: Mapping[str, str], *, released: Sent | None = None
) -> Callable[[Callable[[AnyCase, Material], Parts]], Call]:
    """As `asks`, with a contract for each case. `measures` has the measure of each criterion, as a share."""

    def declared(ask: Callable[[AnyCase, Material], Parts]) -> Call:
        def request(case: AnyCase, shown: Material) -> Any:
            return asks(part, form(case), released=released)(ask).request(case, shown)

        def read(case: AnyCase, reply: str) -> dict[str, Any]:
            contract = form(case)
            marks = contract.read(reply)
            return {measures[one.name]: share(marks[one.name], one.range) for one in contract.criteria}

        return Call(part, dict.fromkeys(measures.values(), (0.0, 1.0)), request, read)

    return declared


def share(mark: Any, ends: Range) -> Any:
    """Where a mark lies between the ends of its scale: 0 to 1, or beyond where it is beyond them."""
    low, high = ends
    return mark if isinstance(mark, Failure) or low is None or high is None else (float(mark) - low) / (high - low)


def thumbnail(longest: int) -> Callable[[Any, tuple[int, int], tuple[int, int]], tuple[int, int]]:
    """Sizes with no side longer than this, in the picture's own proportions."""

    def size(place: Any, own: tuple[int, int], first: tuple[int, int]) -> tuple[int, int]:
        scale = min(1.0, longest / max(own))
        return max(1, round(own[0] * scale)), max(1, round(own[1] * scale))

    return size
