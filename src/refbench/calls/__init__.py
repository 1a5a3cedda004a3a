"""Calls: the one transport. Everything that goes over a network goes through here, limited, retried and paid."""

from refbench.calls.budget import Budget, BudgetSpentError
from refbench.calls.limiter import Limiter
from refbench.calls.prices import Price, price_of
from refbench.calls.transport import Answer, Call, CallFailedError, Transport

__all__ = [
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
