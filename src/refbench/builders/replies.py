"""Reading what writers and checkers reply: one JSON object with the keys that were asked for, or a complaint.

Nothing is repaired: what is cut off or broken is asked for once more, for a text that is nearly there would be shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refbench.failure import Failure
from refbench.judges.contract import LONGEST_REPLY
from refbench.judges.decoded import decoded, objects
from refbench.judges.refusal import is_refusal
from refbench.judges.values import Pairs
from refbench.record import clean_text

_THINKING_ENDS = "</think>"


def told(reply: str, keys: Sequence[str]) -> dict[str, Any] | Failure:
    """The object that has all the keys. Two that differ, or a key that is there twice, are no answer."""
    text = reply.rpartition(_THINKING_ENDS)[2]  # drafts of a reasoning model are not its answer
    if not text.strip():
        return Failure(kind="empty_reply", detail="the reply is empty")
    if len(text) > LONGEST_REPLY:
        return Failure(kind="unparsable", detail=f"the reply has {len(text):,} characters")
    values, _ = decoded(text)
    found = [pairs for value in values for pairs in objects(value) if set(keys) <= {key for key, _ in pairs}]
    if not found:
        if not values and is_refusal(text):
            return Failure(kind="refused", detail=text.strip()[:200])
        wanted = ", ".join(f'"{key}"' for key in keys)
        return Failure(kind="unparsable", detail=f"no complete JSON object with the keys {wanted} is in it")
    if any(other != found[0] for other in found[1:]):
        return Failure(kind="unparsable", detail="several JSON objects are in it, and they differ")
    names = [key for key, _ in found[0]]
    if len(set(names)) < len(names):
        return Failure(kind="unparsable", detail="a key is there twice")
    return _plain(found[0])


def reason_of(why: Failure) -> str:
    """What dropped.jsonl and the card count a failure under."""
    return {"unparsable": "unusable reply"}.get(why.kind, why.kind.replace("_", " "))


def line(value: Any) -> str:
    """A text in one line; empty for anything that is no text."""
    return " ".join(clean_text(value).split()) if isinstance(value, str) else ""


def lines(value: Any) -> tuple[str, ...]:
    """The texts of a list, each in one line; those that are no text or empty are left out."""
    return tuple(said for item in value if (said := line(item))) if isinstance(value, list) else ()


def _plain(pairs: Pairs) -> dict[str, Any]:
    return {key: _value(item) for key, item in pairs}


def _value(item: Any) -> Any:
    if isinstance(item, Pairs):
        return _plain(item)
    return [_value(one) for one in item] if isinstance(item, list) else item
