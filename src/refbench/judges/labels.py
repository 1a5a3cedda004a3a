"""Labels in running text: `Visual quality: 7` at the head of a line or behind another such statement."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from refbench.failure import Failure
from refbench.judges.criteria import Criterion, Reading
from refbench.judges.values import MARKDOWN, value_at

_JOIN = r"[ \t_\-‐‑‒–/]{0,3}"
_DRESSING = r"[ \t>#+•·|\-–—_\"'“\[({]{0,12}"
_HEAD = re.compile(rf"{_DRESSING}(?:[0-9]{{1,2}}[.):])?{_DRESSING}")
_FINAL = re.compile(r"(?:(?:my|the)[ \t]{1,3})?final[ \t]{1,3}", re.IGNORECASE)
_BEHIND = re.compile(r"[ \t_\"'”)\]}]{0,8}[,;|.]?[ \t\"'“{(\[]{0,8}")
_GAP = r"[ \t_\"'”]{0,8}"
_COLON = re.compile(
    rf"{_GAP}(?:scores?|rating|mark|answer)?{_GAP}(?:\([^()\n]{{0,60}}\))?{_GAP}"
    r"(?:[:：=|]|[ \t][-–—](?=[ \t]))[ \t]{0,8}",
    re.IGNORECASE,
)
_QUOTE = "[\"'“”]"
_QUOTED_COLON = re.compile(rf"{_QUOTE}\s{{0,8}}[:：]\s{{0,8}}")


def labelled(
    text: str, criteria: Sequence[Criterion], *, final: bool = False, unread: bool = False
) -> Iterator[tuple[str, Reading]]:
    """(name, value) for each label that heads a line, or follows such a statement, and has a value behind it.

    With `final`, `Final score: 3` is a statement of `score` too; with `unread`, a label without a readable value
    is a failure and not passed over.
    """
    pattern = _pattern(tuple(criterion.name for criterion in criteria))
    for line in text.translate(MARKDOWN).splitlines():
        head = _HEAD.match(line)
        at = head.end() if head else 0
        if final and not pattern.match(line, at) and (lead := _FINAL.match(line, at)):
            at = lead.end()
        while label := pattern.match(line, at):
            criterion = criteria[(label.lastindex or 1) - 1]
            colon = _COLON.match(line, label.end())
            value = value_at(line, colon.end(), criterion.kind) if colon else None
            if value is None:
                if colon and unread:
                    yield criterion.name, _no_value(line[colon.end() :])
                break
            yield criterion.name, value[0]
            behind = _BEHIND.match(line, value[1])
            at = behind.end() if behind else value[1]


def _no_value(text: str) -> Failure:
    return Failure(kind="unparsable", detail=f"no value in {text.strip()[:60]!r}")


def quoted(text: str, criteria: Sequence[Criterion], *, unread: bool = False) -> Iterator[tuple[str, Reading]]:
    """(name, value) for each quoted key of a JSON object that no decoder takes, wherever it stands."""
    pattern = _pattern(tuple(criterion.name for criterion in criteria))
    for quote in _OPENING.finditer(text):
        label = pattern.match(text, quote.end())
        colon = _QUOTED_COLON.match(text, label.end()) if label else None
        if label and colon:
            criterion = criteria[(label.lastindex or 1) - 1]
            if value := value_at(text, colon.end(), criterion.kind):
                yield criterion.name, value[0]
            elif unread:
                yield criterion.name, _no_value(text[colon.end() : colon.end() + 60])


# An escaped quote is inside a string: what it names there is talk, not an answer.
_OPENING = re.compile(rf"(?<!\\){_QUOTE}")


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the names in any spelling; the number of the group is the number of the criterion."""
    ways = ("(" + _JOIN.join(re.escape(word) for word in name.split("_")) + ")" for name in names)
    return re.compile(rf"(?:{'|'.join(ways)})(?![^\W_])", re.IGNORECASE)
