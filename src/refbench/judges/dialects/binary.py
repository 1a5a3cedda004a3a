"""A single yes or no, as a word or as 1 or 0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from refbench.judges.criteria import Criterion, Reading, YesNo, letters
from refbench.judges.dialects.dialect import Dialect
from refbench.judges.values import MARKDOWN, decoded, objects, read_item, value_at

_KEYS = frozenset({"answer", "verdict", "score", "result", "finalanswer"})
_LEAD = re.compile(
    r"[ \t>#+•\-]{0,8}(?:the )?(?:final )?(?:answer|verdict|score|result)(?: is)?[ \t]{0,4}[:：=]?[ \t]{0,4}",
    re.IGNORECASE,
)
_ALONE = re.compile(r"[\s\"'“”.!]{0,20}(yes|no|true|false|[01])[\s\"'“”.!]{0,20}", re.IGNORECASE)


def _fits(criteria: Sequence[Criterion]) -> str:
    one = len(criteria) == 1 and isinstance(criteria[0].kind, YesNo) and not criteria[0].optional
    return "" if one else "a single yes or no answers exactly one criterion of the kind yes_no"


def _fields(criteria: Sequence[Criterion]) -> str:
    return criteria[0].description


def _read(reply: str, criteria: Sequence[Criterion]) -> Iterator[tuple[str, Reading]]:
    """The word the reply begins with, and every line that is an answer and nothing else."""
    name, kind = criteria[0].name, criteria[0].kind
    values, around = decoded(reply)
    keys = _KEYS | {letters(name)}
    for value in values:
        for pairs in objects(value):
            yield from ((name, read_item(item, kind)) for key, item in pairs if letters(key) in keys)
    lines = [line for text in around for line in text.translate(MARKDOWN).splitlines() if line.strip()]
    for number, line in enumerate(lines):
        lead = _LEAD.match(line)
        if _ALONE.fullmatch(line) or lead or number == 0:
            start = lead.end() if lead else len(line) - len(line.lstrip(" \t\"'“.>#"))
            if found := value_at(line, start, kind):
                yield name, found[0]


BINARY = Dialect("binary", _fields, _read, _fits)
