"""The judges' words of one run, by case: read from the ledgers once, kept in a file, given out chunk by chunk.

Tens of thousands of replies do not fit beside the scores in memory, and pages want a few cases at a time.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from refbench.evidence import Evidence
from refbench.runs import Run

_AT_ONCE = 500
_PURPOSE = ("model", "judge", "part", "protocol", "seed", "repeat")
_MOST_WORDS = 400
"""Characters of the judges' words that a case can be searched by; the rest of 600 is for what it is about."""


class Replies:
    """All replies of a run, in a temporary file that goes away with this."""

    def __init__(self, run: Run) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="refbench-view-")
        self._lock = threading.Lock()
        self._db = sqlite3.connect(
            Path(self._folder.name) / "replies.sqlite", check_same_thread=False, isolation_level=None
        )
        # One writer, and nothing worth keeping after a crash.
        for statement in ("PRAGMA journal_mode = OFF", "CREATE TABLE reply (place TEXT, body BLOB)", "BEGIN"):
            self._db.execute(statement)
        self.models: set[str] = set()
        """Models that any evidence speaks of."""
        self.prompts: dict[tuple[str, str, str], str] = {}
        """One request to each judge for each part, as it was sent, by judge, part and protocol."""
        self._words: defaultdict[str, list[str]] = defaultdict(list)
        self._gather(run)
        self._db.execute("CREATE INDEX by_place ON reply (place)")
        self._db.execute("COMMIT")

    def of(self, cases: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
        """The replies about each of the cases, in the order of their recording; of two to the same question (a judge
        that has moved to another address was asked anew) the first, which is the one that is scored."""
        found: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {case: {} for case in cases}
        with self._lock:
            for start in range(0, len(cases), _AT_ONCE):
                some = cases[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                asked = f"SELECT place, body FROM reply WHERE place IN ({marks}) ORDER BY rowid"
                for place, body in self._db.execute(asked, list(some)):
                    said = orjson.loads(body)
                    found[place].setdefault(tuple(said[key] for key in _PURPOSE), said)
        return {case: list(of_case.values()) for case, of_case in found.items()}

    def words(self, case: str) -> str:
        """The beginning of what judges said about a case, for searching."""
        return " ".join(self._words.get(case, ()))

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._folder.cleanup()

    def _gather(self, run: Run) -> None:
        for purpose, act in run.evidence():
            self.models.add(purpose.model)
            if act.kind == "measure":
                continue
            self._note_prompt(purpose.judge, purpose.part, purpose.protocol, act)
            said = {
                "model": purpose.model,
                "judge": purpose.judge,
                "part": "all" if purpose.part == "*" else purpose.part,
                "protocol": purpose.protocol,
                "seed": purpose.seed,
                "repeat": purpose.repeat,
                "reply": act.reply,
                "failure": act.failure and act.failure.model_dump(),
            }
            self._db.execute("INSERT INTO reply VALUES (?, ?)", (purpose.case, orjson.dumps(said)))
            kept = self._words[purpose.case]
            room = _MOST_WORDS - sum(map(len, kept))
            if act.reply and room > 0:
                kept.append(" ".join(act.reply[: 2 * room].split())[:room])

    def _note_prompt(self, judge: str, part: str, protocol: str, act: Evidence) -> None:
        if "parts" not in act.request or part.endswith("+repair"):
            return
        # Calls that differ only in their number (q1#2, IF/3) ask the same.
        place = judge, part.partition("#")[0].partition("/")[0], protocol
        if place not in self.prompts:
            self.prompts[place] = _text_of(act.request)


def _text_of(request: Mapping[str, Any]) -> str:
    """What a judge was sent, in the order of the wire; pictures as a mark."""
    system = [f"[system] {request['system']}"] if request.get("system") else []
    said = [str(part["text"]) if part.get("type") == "text" else "[picture]" for part in request["parts"]]
    return "\n".join([*system, *said])
