"""Campaigns in two sizes, a short one in `make test`, the whole one marked slow for `make slow`; and damaged replies."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings


def slow(*values: Any) -> Any:
    """A parameter set that only `make slow` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)


def slow_but(few: Iterable[Any], everything: Iterable[Any]) -> list[Any]:
    """All of these, and only the few of them in `make test`."""
    kept, offered = list(few), list(everything)
    assert all(one in offered for one in kept)
    return [one if one in kept else slow(*one) for one in offered]


def size(share: int, whole: int) -> int:
    """How many trials a campaign makes: a share in `make slow`, all of them in `make campaigns`."""
    return whole if os.environ.get("REFBENCH_CAMPAIGNS") == "whole" else share


Damage = Callable[[str, random.Random], str]


def damaged(text: str, rng: random.Random, inserted: Sequence[str], *further: Damage) -> str:
    """One to four small damages, as tokens, networks and people do them, and the further ones of a benchmark's form."""
    for _ in range(rng.randint(1, 4)):
        a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        b = min(b, a + rng.choice((1, 3, 20, 200)))
        ways: list[Callable[[], str]] = [
            lambda: text[:a] + text[b:],  # noqa: B023
            lambda: text[:a],  # noqa: B023
            lambda: text[a:],  # noqa: B023
            lambda: text[:a] + rng.choice(inserted) + text[a:],  # noqa: B023
            lambda: text[:a] + rng.choice(inserted) + text[b:],  # noqa: B023
            lambda: text[:a] + text[a:b] * 2 + text[b:],  # noqa: B023
            lambda: text[:a] + text[a:b][::-1] + text[b:],  # noqa: B023
            lambda: text[:a] + text[a:b].swapcase() + text[b:],  # noqa: B023
            *(lambda damage=damage: damage(text, rng) for damage in further),  # type: ignore[misc] # noqa: B023
        ]
        text = rng.choice(ways)()
    return text


def searched(few: int, many: int, *strategies: Any, **named: Any) -> Callable[[Callable[..., None]], Any]:
    """A claim that Hypothesis tries on few examples in `make test`, and on many in `make slow`."""

    def parametrized(claim: Callable[..., None]) -> Any:
        def test(examples: int) -> None:
            settings(max_examples=examples, deadline=None)(given(*strategies, **named)(claim))()

        test.__name__, test.__doc__, test.__module__ = claim.__name__, claim.__doc__, claim.__module__
        return pytest.mark.parametrize("examples", [few, slow(many)])(test)

    return parametrized
