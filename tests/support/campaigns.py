"""Campaigns in two sizes: a short one in `make test`, the whole one marked slow for `make slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """A parameter set that only `make slow` runs."""
    return pytest.param(*values, marks=pytest.mark.slow)


def slow_but(few: Iterable[Any], everything: Iterable[Any]) -> list[Any]:
    """All of these, and only the few of them in `make test`."""
    kept, offered = list(few), list(everything)
    assert all(one in offered for one in kept)
    return [one if one in kept else slow(*one) for one in offered]
