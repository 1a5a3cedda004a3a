"""The judge's replies: the files of the released scripts as evidence, and their readers, one for each protocol.

A reply is hostile text: no reader raises, none takes more than time linear in the length of the reply, and
none gives a mark that is not written there for that criterion.

`read_paper` does what the released script does, quirks included. `read_corrected` reads the marks at the end of
the reply, however they are dressed up, and keeps the criteria apart: one that is missing does not lose the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from refbench import judges
from refbench.benchmarks.kit.definition import Dataset, ImportedReplies
from refbench.benchmarks.kit.imports import imported_reply, only_model, place_in, reply_in
from refbench.benchmarks.multibanana.cases import CRITERIA, HIGHEST, LABELS, LOWEST, PART, Criterion, task_of
from refbench.evidence import Evidence, Purpose
from refbench.failure import Failure
from refbench.judges import Contract, Reading, Scale
from refbench.judges.dialects import Dialect
from refbench.judges.values import Pairs, decoded_places, in_range, objects
from refbench.record import RefBenchError, clean_text

ERROR = "Error during evaluation"
"""How the released script begins the text it saves in place of a reply when the call has failed."""

_MOST_DIGITS = 40
"""Longer numbers are not marks, and cost more than their length to convert."""

Mark: TypeAlias = float | Failure


# --- the released script's way -------------------------------------------------------------------------------


_PAPER = {criterion: re.compile(rf"{label}:\s*(\d+)") for criterion, label in LABELS.items()}


def read_paper(reply: str) -> Mapping[Criterion, float] | Failure:
    """The first number behind each label, anywhere and of any size; all five or none."""
    if failure := _no_reply(reply):
        return failure
    marks: dict[Criterion, float] = {}
    for criterion, pattern in _PAPER.items():
        match = pattern.search(reply)
        if match is None:
            return Failure(kind="unparsable", detail=f"no '{LABELS[criterion]}: <number>'")
        if len(match[1]) > _MOST_DIGITS:  # the script would take it; no table could hold it
            return Failure(kind="out_of_range", detail=f"{LABELS[criterion]} has {len(match[1])} digits")
        marks[criterion] = float(match[1])
    return marks


def _no_reply(reply: str) -> Failure | None:
    if not reply.strip():
        return Failure(kind="empty_reply")
    if reply.lstrip().startswith(ERROR):
        return Failure(kind="api_error", detail=reply.strip()[:500])
    return None


# --- ours ----------------------------------------------------------------------------------------------------


def read_corrected(reply: str) -> Mapping[Criterion, Mark]:
    """The mark of each criterion, or why it has none."""
    if failure := _no_reply(reply):
        return dict.fromkeys(CRITERIA, failure)
    marks = _CONTRACT.marks(reply)
    return {criterion: marks[criterion] for criterion in CRITERIA}


def _statements(reply: str, criteria: Sequence[object]) -> Iterator[tuple[str, Reading]]:
    """From the last JSON object that has all five, unless all five are written once more behind it."""
    in_json: Mapping[Criterion, Mark] = {}
    seen_to = 0
    for _, end, value in decoded_places(reply):
        for pairs in objects(value):
            by_criterion = {name: item for key, item in pairs if (name := _criterion(key))}
            if len(by_criterion) == len(CRITERIA):
                in_json = {criterion: _json_mark(by_criterion[criterion]) for criterion in CRITERIA}
                seen_to = end
    written = _final_block(_entries(reply[seen_to:]))
    yield from (written if len(written) == len(CRITERIA) or not in_json else in_json).items()


_MARKS = Scale(LOWEST, HIGHEST)
_CONTRACT = Contract(
    Dialect("multibanana", _statements, reads_drafts=True),
    tuple(judges.Criterion(criterion, _MARKS) for criterion in CRITERIA),
)


# A label in any spelling, and what may stand between it and its number. Every repetition is bounded or cannot
# overlap its neighbour: no reply makes these backtrack for long.
_JOIN = r"[ \t_\-‐‑‒–/]{0,3}"
_LABEL = re.compile(
    r"(?<![^\W_])(?:"
    rf"((?:text{_JOIN})?instruction{_JOIN}alignment)|(reference{_JOIN}consistency)|"
    rf"(background{_JOIN}subject{_JOIN}match)|(physical{_JOIN}realism)|(visual{_JOIN}quality)"
    r")(?![^\W_])",
    re.IGNORECASE,
)
_GAP = r"[ \t_\"'”]{0,8}"
_NUMBER = re.compile(
    rf"{_GAP}(?:scores?|rating|mark)?{_GAP}(?:\([^()\n]{{0,40}}\))?{_GAP}[:：=|]"
    r"[ \t_\"'“<\[(]{0,8}([-+−]?\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_SCALE = re.compile(r"[ \t]{0,4}(?:/|out of|of)[ \t]{0,4}(\d+(?:\.\d+)?)", re.IGNORECASE)
# What may follow a mark: nothing, a full stop, a remark behind a comma or dash. A word or another number makes it
# something else: "2 of 3 subjects", "6-7", "4 would be average".
_END = re.compile(
    r"(?:[ \t]{0,4}points?\b)?[ \t_\"'”>\])]{0,8}"
    r"(?:$|\n|[.!}](?!\d)|[,;|](?![ \t]{0,8}[-+−]?\d)|\(|[-–—](?=[ \t])(?![ \t]{1,8}\d))",
    re.IGNORECASE,
)
_OUT_OF = ("10", "10.0")
_LIST_MARK = re.compile(r"[ \t>#+•·|\-–—_\"'“\[({]{0,12}(?:\d{1,2}[.):])?[ \t>#+•·|\-–—_\"'“\[({]{0,12}")
_LONGEST_LIST_MARK = 28
_BETWEEN = frozenset(" \t,;|.{}\"'”“_-–>)](•")
_LONGEST_BETWEEN = 24
_MARKDOWN = str.maketrans("*`", "  ")  # blanks, not nothing: "1*0" is not 10


@dataclass(frozen=True)
class _Entry:
    """A label with a number behind it. Entries of one `chain` follow each other with nothing between them."""

    criterion: Criterion
    mark: Mark
    chain: int
    heads_line: bool


def _entries(reply: str) -> list[_Entry]:
    text = "\n".join(line.strip() for line in reply.translate(_MARKDOWN).splitlines())
    entries: list[_Entry] = []
    behind = -1  # where the last mark ends
    for label in _LABEL.finditer(text):
        number = _NUMBER.match(text, label.end())
        if number is None:
            continue
        between = text[behind : label.start()] if 0 <= behind <= label.start() <= behind + _LONGEST_BETWEEN else None
        chained = between is not None and _BETWEEN.issuperset(between)
        mark, end = _mark(text, number)
        behind = -1 if isinstance(mark, Failure) and mark.kind == "unparsable" else end
        entries.append(
            _Entry(
                criterion=_named(label),
                mark=mark,
                chain=(entries[-1].chain if chained else entries[-1].chain + 1) if entries else 0,
                heads_line=_heads_line(text, label.start()),
            )
        )
    return entries


def _named(label: re.Match[str]) -> Criterion:
    return CRITERIA[(label.lastindex or 1) - 1]


def _heads_line(text: str, at: int) -> bool:
    """Whether nothing but list marks stands before it; the look back is bounded, so that one long line costs little."""
    start = max(0, at - _LONGEST_LIST_MARK)
    line = text.rfind("\n", start, at) + 1
    return (line > 0 or start == 0) and _LIST_MARK.fullmatch(text, line, at) is not None


def _final_block(entries: Sequence[_Entry]) -> dict[Criterion, Mark]:
    """The marks that the reply ends with, not those it talks about before.

    A label counts at the head of a line, in a chain that begins there, or in a chain of all five. Where a label
    comes more than once, the block is read from its end, back to where the order of the criteria breaks.
    """
    chains: dict[int, list[_Entry]] = {}
    for entry in entries:
        chains.setdefault(entry.chain, []).append(entry)
    placed: list[_Entry] = []
    for chain in chains.values():
        whole = chain[0].heads_line or {entry.criterion for entry in chain} == set(CRITERIA)
        placed += chain if whole else [entry for entry in chain if entry.heads_line]
    repeated = len({entry.criterion for entry in placed}) < len(placed)
    block: dict[Criterion, Mark] = {}
    first = len(CRITERIA)
    for entry in reversed(placed):
        place = CRITERIA.index(entry.criterion)
        if repeated and place == first:  # the same line again: its last version counts
            continue
        if repeated and place > first:
            break
        first = place
        block[entry.criterion] = entry.mark
    return block


def _mark(text: str, number: re.Match[str]) -> tuple[Mark, int]:
    """The mark that begins with the number, and where it ends."""
    end = number.end()
    scale = _SCALE.match(text, end)
    if scale is not None:
        end = scale.end()
    if (scale is not None and scale[1] not in _OUT_OF) or not _END.match(text, end):
        words = text[number.start(1) : number.start(1) + 40].partition("\n")[0]
        return Failure(kind="unparsable", detail=f"no mark from 1 to 10: {words!r}"), end
    if len(number[1]) > _MOST_DIGITS:
        return Failure(kind="out_of_range", detail=f"a number of {len(number[1])} digits"), end
    return in_range(float(number[1].replace("−", "-")), _MARKS), end


# --- JSON ----------------------------------------------------------------------------------------------------


def _criterion(key: str) -> Criterion | None:
    match = _LABEL.fullmatch(key.translate(_MARKDOWN).strip())
    return _named(match) if match else None


def _json_mark(item: Any) -> Mark:
    if isinstance(item, Pairs):
        item = {key.casefold(): inner for key, inner in item}.get("score")
    if isinstance(item, str) and (number := _NUMBER.match(text := ":" + item.strip())):
        return _mark(text, number)[0]
    if isinstance(item, int | float) and not isinstance(item, bool):
        return in_range(item, _MARKS)
    shown = repr(item[:40]) if isinstance(item, str) else type(item).__name__
    return Failure(kind="unparsable", detail=f"no mark from 1 to 10: {shown}")


# --- replies given elsewhere ---------------------------------------------------------------------------------


_SUFFIX = "_judge.txt"

File = tuple[str, str]
"""Task directory and number of the set."""


def import_replies(dataset: Dataset, folder: Path, models: Sequence[str] | None, judge: str | None) -> ImportedReplies:
    """Find the files of one judge. They do not name the model: it is `models`' only name, else the folder's."""
    model = only_model(models, folder.resolve().name, "MultiBanana's judge files of one folder are")
    place, by_judge = _find(folder)
    if judge is None and len(by_judge) > 1:
        raise RefBenchError(f"{place} holds files of the judges {', '.join(sorted(by_judge))}: choose one by --judge")
    chosen = judge if judge is not None else next(iter(by_judge))
    if chosen not in by_judge:
        raise RefBenchError(f"--judge {chosen}: {place} has files of {', '.join(sorted(by_judge))} only")
    known: dict[File, str] = {}
    for case in dataset.cases:
        known[case.details.task_dir, case.details.number] = case.id
    for case in dataset.cases:  # a folder of replies may spell `3_obj` where the data has `3_object`
        known.setdefault((case.groups["task"], case.details.number), case.id)
    matched: dict[str, Path] = {}
    unknown = []
    for (directory, number), path in by_judge[chosen].items():
        task = task_of(directory)
        case_id = known.get((directory, number)) or known.get((task.name if task else directory, number))
        if case_id is None or case_id in matched:
            unknown.append(clean_text(f"{directory}/{path.name}"))
        else:
            matched[case_id] = path
    if not matched:
        raise RefBenchError(f"none of the replies in {place} is for a set of {dataset.root}: is --data the right one?")

    def replies() -> Iterator[tuple[Purpose, Evidence]]:
        for case_id, path in matched.items():
            purpose = Purpose(case=case_id, model=model, judge=chosen, part=PART)
            yield imported_reply("multibanana", purpose, reply_in(path), place_in(place, path))

    return ImportedReplies(judge=chosen, models=(model,), replies=replies, unknown=tuple(unknown))


def _find(folder: Path) -> tuple[Path, dict[str, dict[File, Path]]]:
    """The judge files of each judge, in the folder or in `data` inside it."""
    if not folder.is_dir():
        raise RefBenchError(f"{folder} is not there: give --replies a folder with task directories inside")
    for place in (folder, folder / "data"):
        if by_judge := _judge_files(place):
            return place, by_judge
    raise RefBenchError(f"{folder} holds no judge files such as 3_back/006_gpt{_SUFFIX}: give --replies their folder")


def _judge_files(place: Path) -> dict[str, dict[File, Path]]:
    by_judge: dict[str, dict[File, Path]] = {}
    try:
        directories = [name for name in sorted(os.listdir(place)) if task_of(name) and (place / name).is_dir()]
        for directory in directories:
            for name in sorted(os.listdir(place / directory)):
                number, _, judge = name.removesuffix(_SUFFIX).partition("_")
                if name.endswith(_SUFFIX) and number and judge:
                    by_judge.setdefault(clean_text(judge), {})[directory, number] = place / directory / name
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise RefBenchError(f"{place} cannot be read: {error.strerror}") from error
    return by_judge
