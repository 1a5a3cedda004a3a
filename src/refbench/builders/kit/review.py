"""The review file: what people decided about items that a machine made. A build honours it, and writes the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from refbench.builders.kit.folder import as_lines, write_file
from refbench.record import Record, RefBenchError
from refbench.text.files import csv_table, file_text, json_lines, json_value

Verdict = Literal["accept", "edit", "reject"]


class Decision(Record):
    """What somebody decided about an item. `edit` holds the fields to put in place of the machine's."""

    id: str
    decision: Verdict
    edit: Mapping[str, Any] = {}
    comment: str = ""
    seen: Mapping[str, Any] = {}
    """The item as the file shows it to whoever decides; empty where the file has ids and decisions only."""

    @property
    def where(self) -> str:
        """Where it stands, for messages."""
        return f"--review, {self.id}"

    @property
    def rejected(self) -> bool:
        return self.decision == "reject"

    def edited(self, *fields: str) -> Mapping[str, Any]:
        """What a person puts in place of the machine's; raises where it is none of the fields."""
        if self.decision != "edit":
            return {}
        if strange := [name for name in self.edit if name not in fields]:
            raise RefBenchError(f"{self.where}: {strange[0]} cannot be edited, only {', '.join(fields)}")
        return self.edit


class Review:
    """The decisions there are. An item without one goes its own way: it is used if the machine's checks passed."""

    def __init__(self, decisions: Iterable[Decision] = ()) -> None:
        self._by_id = {decision.id: decision for decision in decisions}
        self._used: set[str] = set()
        self._outdated: set[str] = set()

    @classmethod
    def read(cls, path: Path | None) -> Review:
        """From JSON lines or CSV (columns id, decision, comment, and one for each field to edit)."""
        if path is None:
            return cls()
        rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _json_rows(path)
        decisions: dict[str, Decision] = {}
        for number, row in rows:
            try:
                decision = Decision.model_validate(row)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                choices = ", ".join(get_args(Verdict))
                raise RefBenchError(
                    f"{path}, line {number}: {where}: {first['msg']}; write id and decision ({choices})"
                ) from error
            if decision.decision == "edit" and not decision.edit:
                raise RefBenchError(
                    f"{path}, line {number}: {decision.id} is to be edited, but nothing says how: write the fields to "
                    'change below "edit", for example "edit": {"instruction": "..."}'
                )
            before = decisions.get(decision.id, decision)
            if (before.decision, before.edit) != (decision.decision, decision.edit):
                raise RefBenchError(f"{path}, line {number}: {decision.id} is decided twice, and differently")
            decisions[decision.id] = decision
        return cls(decisions.values())

    def of(self, item: str) -> Decision | None:
        """The decision about an item, None where nobody has looked at it."""
        found = self._by_id.get(item)
        if found is not None:
            self._used.add(item)
        return found

    def stands(self, decision: Decision, **now: Any) -> bool:
        """Whether the decision is about the item as it is now. Another writer or seed gives the same id another text,
        which nobody has seen; such decisions are remembered as outdated."""
        same = all(decision.seen[name] == value for name, value in now.items() if name in decision.seen)
        if not same:
            self._outdated.add(decision.id)
        return same

    def outdated(self) -> list[str]:
        """Decisions that were made of another text than the build has."""
        return sorted(self._outdated)

    def strangers(self) -> list[str]:
        """Decided items that this build never asked about: misspelt, or of another seed."""
        return sorted(set(self._by_id) - self._used)


def write_review(path: Path, items: Iterable[Mapping[str, Any]]) -> None:
    """A file for people to fill in: one line an item, `decision` empty. One that is there is left as it is."""
    if path.exists():
        return
    write_file(path, as_lines({**item, "decision": ""} for item in items))


def offer_review(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """The file to decide in. One in which nobody has decided anything yet is brought up to date."""
    if path.exists() and _untouched(path):
        path.unlink()
    write_review(path, rows)


def _untouched(path: Path) -> bool:
    try:
        said = [row for _, row in json_lines(path)]
    except RefBenchError:
        return False
    return all(isinstance(r, dict) and not (r.get("decision") or r.get("edit") or r.get("comment")) for r in said)


def json_list(value: Any, where: str) -> list[Any]:
    """A list of questions that a person wrote, also as the JSON in a cell of a CSV file."""
    if isinstance(value, str):
        value = json_value(value, where, "write the questions as a JSON list")
    if isinstance(value, list):
        return value
    raise RefBenchError(f"{where}: write the questions as a list")


_REMEDY = "--review takes JSON lines or CSV, in UTF-8"
_OURS = frozenset({"id", "decision", "comment", "edit", "seen"})


def _json_rows(path: Path) -> Iterable[tuple[int, dict[str, Any]]]:
    for number, row in json_lines(path, _REMEDY):
        if not isinstance(row, dict):
            raise RefBenchError(f"{path}, line {number} is no JSON object")
        if row.get("decision"):  # what nobody has decided yet is no decision
            seen = {key: value for key, value in row.items() if key not in _OURS}
            yield number, {**{key: row[key] for key in _OURS & set(row)}, "seen": seen}


def _csv_rows(path: Path) -> Iterable[tuple[int, dict[str, Any]]]:
    for number, row in csv_table(file_text(path, _REMEDY), str(path))[1]:
        if not (row.get("decision") or "").strip():
            continue
        edit = {key: value for key, value in row.items() if key not in _OURS and value}
        decided = {"id": row.get("id") or "", "decision": row["decision"].strip(), "comment": row.get("comment") or ""}
        yield number, {**decided, "edit": edit if decided["decision"] == "edit" else {}}
