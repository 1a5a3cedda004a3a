"""Calls: everything that goes out of this process, to servers, subprocesses and users' functions; the transport is the
only way to a network, limited, retried and paid.

The names are imported when they are first used: what needs a price or a pool of threads needs no HTTP client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refbench.calls.prices import FREE, Budget, BudgetSpentError, Price, price_of
    from refbench.calls.transport import Answer, Call, CallFailedError, Limiter, Transport

_HOMES = {
    "FREE": "prices",
    "Answer": "transport",
    "Budget": "prices",
    "BudgetSpentError": "prices",
    "Call": "transport",
    "CallFailedError": "transport",
    "Limiter": "transport",
    "Price": "prices",
    "Transport": "transport",
    "price_of": "prices",
}

__all__ = [
    "FREE",
    "Answer",
    "Budget",
    "BudgetSpentError",
    "Call",
    "CallFailedError",
    "Limiter",
    "Price",
    "Transport",
    "price_of",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'refbench.calls' has no attribute {name!r}")
    return getattr(importlib.import_module(f"refbench.calls.{_HOMES[name]}"), name)
