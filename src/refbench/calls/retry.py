"""What is tried again, and after how long. The only retry layer there is."""

from __future__ import annotations

import email.utils
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass

RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
THROTTLED = frozenset({429, 503, 529})


@dataclass(frozen=True)
class RetryPolicy:
    """At most `attempts` tries; waits double from `first` to `longest` seconds, with jitter over the whole wait."""

    attempts: int = 6
    first: float = 0.5
    longest: float = 60.0

    def wait(self, attempt: int, retry_after: float | None, rng: random.Random) -> float:
        """Seconds before the try after the `attempt`-th (counted from 1)."""
        backoff = rng.uniform(0, min(self.longest, self.first * 2 ** (attempt - 1)))
        return backoff if retry_after is None else min(retry_after, self.longest) + backoff


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks us to wait: a number, a date, or the milliseconds some send."""
    if (milliseconds := headers.get("retry-after-ms")) is not None:
        return _number(milliseconds, 1000)
    said = headers.get("Retry-After") or headers.get("retry-after")
    if said is None:
        return None
    seconds = _number(said, 1)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(said).timestamp() - time.time())
    except ValueError:
        return None


def _number(text: str, scale: float) -> float | None:
    try:
        value = float(text) / scale
    except ValueError:
        return None
    return value if 0 <= value < 86_400 else None
