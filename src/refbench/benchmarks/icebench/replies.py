"""Reading the judge's replies, and the lines of the released code's result file; both protocols, and nowhere else.

A reply is hostile text: no reader raises, and none takes more than time linear in its length.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from refbench.benchmarks.icebench.tasks import QA
from refbench.failure import Failure
from refbench.judges import Contract, Criterion, YesNo

_MOST_CHARACTERS = 40
"""A longer number is no answer."""

_CONTRACT = Contract("binary", (Criterion(QA, YesNo()),))

KEYS: Mapping[str, str] = {"aes_v2.5": "aes", "musiq_koniq": "img", "vllmqa": QA}
"""Names of the released result file that differ from ours."""

SEPARATOR = "#;#"


def read_paper(reply: str) -> float | Failure:
    """The whole reply as a number, of any size: "10" is 10. Where the released code would stop, a failure."""
    text = reply.replace(" ", "").replace("\n", "").strip()
    if not text:
        return Failure(kind="empty_reply")
    if len(text) > _MOST_CHARACTERS:
        return Failure(kind="unparsable", detail="the reply is no number")
    try:
        value = float(text)
    except ValueError:
        return Failure(kind="unparsable", detail="the reply is no number")
    if not math.isfinite(value):
        return Failure(kind="out_of_range", detail=f"{text} is no number that a mean can be taken of")
    return value


def read_corrected(reply: str) -> float | Failure:
    """1 or 0, also as yes or no; another number is out of range, and anything else cannot be read."""
    said = _CONTRACT.read(reply)[QA]
    if isinstance(said, bool):
        return float(said)
    # "0 1" is no number here: without its space it would be one.
    number = read_paper(reply) if len(reply.split()) == 1 else None
    if isinstance(number, float):
        return number if number in (0.0, 1.0) else Failure(kind="out_of_range", detail=f"{number:g} is neither 1 nor 0")
    return said if isinstance(said, Failure) else Failure(kind="unparsable", detail="no answer")


def read_result_line(line: str) -> tuple[str, str, dict[str, float]] | Failure:
    """One line of eval_result.txt: the item, its task as the code calls it, and the metrics under our names."""
    pieces = line.strip().split(SEPARATOR, 2)
    if len(pieces) != 3:
        return Failure(kind="unparsable", detail=f"not ItemID{SEPARATOR}Task{SEPARATOR}{{...}}")
    try:
        said = json.loads(pieces[2])  # Python's own: the released code writes NaN
    except (ValueError, RecursionError):
        return Failure(kind="unparsable", detail="its metrics are not JSON")
    if not isinstance(said, dict) or not all(isinstance(v, int | float) for v in said.values()):
        return Failure(kind="unparsable", detail="its metrics are no numbers")
    return pieces[0], pieces[1], {KEYS.get(key, key): float(value) for key, value in said.items()}
