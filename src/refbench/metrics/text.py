"""Text that a picture should show, against what is read in it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from refbench.failure import Failure
from refbench.metrics.metric import Value, metric
from refbench.networks import Feature

SURE = 0.85
"""Lines below this score are not read: letter-like scribbles of generated pictures come out as words at 0.5 to 0.8."""

_KEPT = 16
_MOST_LINES = 12
_QUOTES = str.maketrans("‘’‚‛“”„‟", "''''\"\"\"\"")

Row = NDArray[np.int64]


@metric(better="higher", range=(0, 1), of={"output": "ppocr"})
def text_match(output: Feature, caption: str) -> Value:
    """Likeness of the wanted text and the lines read in the output, in any order; letter case and spaces do not count.

    1 minus edit distance by the longer length. Other text in the scene costs nothing. Where nothing is read, the
    wanted text is not there: that is a measured 0.
    """
    if not plain(caption):
        return Failure(kind="undefined", detail="no text is wanted: the caption is empty")
    lines = [str(line) for line, score in zip(output["lines"], output["scores"], strict=True) if score >= SURE]
    return text_likeness(lines, caption)


def text_likeness(lines: Sequence[str], wanted: str, *, ignore_case: bool = True) -> float:
    """The best likeness, 0 to 1, of the wanted text and any of the lines put together in any order.

    A text may be broken into lines anywhere and stand on several signs, so the reading order is not trusted.
    """
    goal = plain(wanted, ignore_case=ignore_case)
    given = [text for line in lines if (text := plain(line, ignore_case=ignore_case))]
    if not goal or not given:
        return 0.0
    letters = np.array([ord(c) for c in goal], dtype=np.int64)
    start = np.arange(len(goal) + 1, dtype=np.int64)
    alone = [_further(start, text, letters) for text in given]
    best = max(_likeness(row, len(text), len(goal)) for row, text in zip(alone, given, strict=True))
    # Only lines of which half is found in the wanted text can be parts of it.
    parts = [i for i, row in enumerate(alone) if len(goal) - int(row[-1]) >= len(given[i]) / 2]
    parts = sorted(parts, key=lambda i: int(alone[i][-1]))[:_MOST_LINES]
    beam: list[tuple[tuple[int, ...], Row]] = [((), start)]
    for _ in parts:
        longer = {(*used, i): _further(row, given[i], letters) for used, row in beam for i in parts if i not in used}
        beam = sorted(longer.items(), key=lambda entry: (int(entry[1][-1]), entry[0]))[:_KEPT]
        for used, row in beam:
            best = max(best, _likeness(row, sum(len(given[i]) for i in used), len(goal)))
    return best


def plain(text: str, *, ignore_case: bool = True) -> str:
    """NFKC, one kind of quotation marks, no white space (which OCR drops and adds), and one case unless told."""
    kept = "".join(unicodedata.normalize("NFKC", text).translate(_QUOTES).split())
    return kept.casefold() if ignore_case else kept


def _further(row: Row, text: str, letters: Row) -> Row:
    """Edit distances to every beginning of the goal, after these further letters."""
    steps = np.arange(len(row), dtype=np.int64)
    for letter in text:
        ahead = np.minimum(row[1:] + 1, row[:-1] + (letters != ord(letter)))
        fresh = np.concatenate([row[:1] + 1, ahead])
        row = np.minimum.accumulate(fresh - steps) + steps
    return row


def _likeness(row: Row, length: int, wanted: int) -> float:
    return max(0.0, 1 - int(row[-1]) / max(length, wanted))
