"""Reading tables back from what is printed: terminal, Markdown, CSV, LaTeX and JSON, number by number.

Every reader gives `{(model, judge, protocol, metric, slice): Cell}`, the numbers as the text that is printed. A slice
is "overall" or "LEVEL=TITLE"; the judge is "" where there is none. What a form does not print is an empty text.
"""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len

from refbench.report.latex.escape import _ACCENTS, _ASCII, _SIGNS

OVERALL = "overall"
PUBLISHED = "published"
"""Stands for the protocol of numbers that a paper printed."""

_NUMBER = r"-?\d+\.\d+|-"
_COUNTS = r"(\d+/\d+)( \((\d+) cases? x (\d+) seeds?\))?"


class Cell(NamedTuple):
    """A number as it is printed. `n` is "scored/expected", with the cases and seeds behind it where they are said."""

    value: str
    interval: str = ""
    n: str = ""


Key = tuple[str, str, str, str, str]
Printed = dict[Key, Cell]


class Head(NamedTuple):
    """What a table says of itself."""

    judges: str
    wording: str
    protocols: tuple[str, ...]
    refusals: str
    fingerprint: str
    digest: str


def read_head(text: str) -> Head:
    """The line with judge, wording, protocol and fingerprint, in the terminal and in Markdown."""
    found = re.search(
        r" cases?(?:, subset [^;\n]+)?; (?:judge (?P<judges>.+?); (?P<wording>[^;\n]+)|no judge); "
        r"protocol (?P<protocols>[^;\n]+?)(?:; refusals (?P<refusals>[^;\n]+))?; "
        r"fingerprint `?(?P<fingerprint>\w+)`?, digest `?(?P<digest>\w+)`?$",
        text,
        re.MULTILINE,
    )
    assert found is not None, "the table does not say judge, wording, protocol and fingerprint"
    said = found.groupdict(default="")
    protocols = tuple(said.pop("protocols").split(", "))
    return Head(**{**said, "refusals": said["refusals"] or "conditional"}, protocols=protocols)


def read_terminal(text: str, by: str = OVERALL) -> Printed:
    """What `print_result` prints, on a console of whatever width. `by` is the level that was asked for."""
    head = read_head(text)
    found: Printed = {}
    # The table of changes is about other numbers, and comes after all of these.
    lines = text.partition("\nfrom paper to corrected: ")[0].splitlines()
    matches = (re.fullmatch(r"(#\d+|[A-Z]+) = (.+)", line) for line in lines)
    labels = {label[1]: label[2] for label in matches if label}
    where, called = OVERALL, dict[str, tuple[str, str]]()
    at = 0
    while at < len(lines):
        titles = [_spelt_out(title, labels) for title in re.split(r" {2,}", lines[at])]
        at += 1
        if titles[0] not in ("model", "measure") or len(titles) < 2:
            continue
        names = _names(titles)
        if titles[names + 1 : names + 2] == ["95 % interval"]:  # a new slice; other tables go on with the last one
            above = lines[at - 2]
            where, called = OVERALL if above == OVERALL else f"{by}={above}", {}
        judge_at = cell_len(lines[at - 1][: lines[at - 1].index("  judge  ") + 2]) if names == 2 else 0
        while at < len(lines) and (row := _row(lines[at], titles[names:], judge_at)):
            name, judge, cells = labels.get(row[0], row[0]), row[1], row[2]
            at += 1
            if titles[0] == "measure":
                for title, cell in zip(titles[1:], cells, strict=True):
                    value, _, counts = cell.partition(" (")
                    model, judge = called[title]
                    protocol = _main(found, (model, judge, where))[2]
                    if value != "-":
                        found[model, judge, protocol, name, where] = Cell(value, "", counts.rstrip(")"))
                continue
            judge = judge if names == 2 else _judge(head)
            called[name if names == 1 else f"{name} ({judge or 'no judge'})"] = name, judge
            _put(found, (name, judge, where), titles[names:], cells, head)
    return found


def _spelt_out(title: str, labels: Mapping[str, str]) -> str:
    """A heading without its short label; a model's may have a judge behind it."""
    label, space, judge = title.partition(" (")
    return labels.get(title) or (labels[label] + space + judge if label.startswith("#") and label in labels else title)


def _names(titles: Sequence[str]) -> int:
    return 2 if titles[1:2] == ["judge"] else 1


def _row(line: str, titles: Sequence[str], judge_at: int) -> tuple[str, str, list[str]] | None:
    """Name, judge and cells of a line under these titles; None where it is no such line."""
    pieces = re.split(r" {2,}", line)
    cells = pieces[-len(titles) :]
    if len(pieces) <= len(titles) or not all(map(_is_cell, titles, cells)):
        return None
    rest = line[: _start(line, len(titles))]
    if not judge_at:
        return rest, "", cells
    cut = next(n for n in range(len(rest) + 1) if cell_len(rest[:n]) >= judge_at)
    judge = rest[cut:].strip()
    return rest[:cut].rstrip(), "" if judge == "none" else judge, cells


def _start(line: str, cells: int) -> int:
    """Where the last so many cells of a line begin."""
    gaps = list(re.finditer(r" {2,}", line))
    return gaps[-cells].start()


def _is_cell(title: str, cell: str) -> bool:
    if title == "95 % interval":
        return re.fullmatch(rf"({_NUMBER})( to ({_NUMBER}))?", cell) is not None
    if title == "scored":
        return re.fullmatch(_COUNTS, cell) is not None
    return re.fullmatch(rf"({_NUMBER})( \(\d+/\d+\))?", cell) is not None


def _judge(head: Head) -> str:
    """The only judge, without the model behind it."""
    return re.sub(r" \(.*\)$", "", head.judges)


def _main(found: Mapping[Key, Cell], whose: tuple[str, str, str]) -> Key:
    """The key of the number that a line is ranked by: the one with an interval, or a dash in its place."""
    return next(key for key, cell in found.items() if (key[0], key[1], key[4]) == whose and cell.interval)


def _put(found: Printed, whose: tuple[str, str, str], titles: Sequence[str], cells: Sequence[str], head: Head) -> None:
    """The cells of one line into what was found; a line may go on in a further table."""
    model, judge, where = whose
    for c, (title, cell) in enumerate(zip(titles, cells, strict=True)):
        if title in ("95 % interval", "scored"):
            continue
        named = re.fullmatch(rf"(.+) \(({'|'.join(map(re.escape, head.protocols))})\)", title)
        if named and titles[c + 1 : c + 2] == ["95 % interval"]:
            found[model, judge, named[2], named[1], where] = Cell(cell, cells[c + 1])
        elif named:
            found[model, judge, named[2], named[1], where] = Cell(cell)
        else:
            main = _main(found, whose)
            metric, protocol = (main[3], PUBLISHED) if title == "published" else (title, main[2])
            found[model, judge, protocol, metric, where] = Cell(cell)
    if "scored" in titles:
        main = _main(found, whose)
        found[main] = found[main]._replace(n=cells[titles.index("scored")])


def read_markdown(text: str, by: str = "category") -> Printed:
    """What `to_markdown` gives: a heading for each slice and a table under it."""
    head = read_head(text)
    found: Printed = {}
    where = OVERALL
    titles: list[str] = []
    for line in text.splitlines():
        if line.startswith("### "):
            where = OVERALL if line == "### Overall" else f"{by}={_unmarked(line[4:])}"
            titles = []
        elif line.startswith("| "):
            cells = [_unmarked(cell) for cell in re.split(r" (?<!\\)\| ", line[2:-2])]
            if not titles:
                titles = cells
            elif not set(cells) <= {"---", "---:"}:
                names = _names(titles)
                judge = ("" if cells[1] == "none" else cells[1]) if names == 2 else _judge(head)
                _put(found, (cells[0], judge, where), titles[names:], cells[names:], head)
    return found


def _unmarked(text: str) -> str:
    """What Markdown shows of an escaped text."""
    return re.sub(r"\\([^\w\s])", r"\1", text)


def read_csv(text: str) -> dict[Key, dict[str, str]]:
    """Every row of `to_csv`, whole: numbers are in full there."""
    rows = list(csv.DictReader(io.StringIO(text)))
    names = list(rows[0])[list(rows[0]).index("level") : list(rows[0]).index("value")]
    slices = [{name: row[name] for name in names if row[name]} for row in rows]
    titles = slice_names(slices)
    return {
        (row["model"], row["judge"], row["protocol"], row["metric"], title): row
        for row, title in zip(rows, titles, strict=True)
    }


def read_json(text: str) -> dict[Key, dict[str, Any]]:
    """Every row of `to_json`."""
    rows = json.loads(text)["rows"]
    titles = slice_names([row["slice"] for row in rows])
    return {
        (row["model"], row["judge"] or "", row["protocol"], row["metric"], title): row
        for row, title in zip(rows, titles, strict=True)
    }


def slice_names(slices: Sequence[Mapping[str, str]]) -> list[str]:
    """The names that printed tables give slices: the level's own, or all of them where two would be called alike."""
    found = []
    for where in slices:
        level = where["level"]
        alike = {tuple(one.items()) for one in slices if one["level"] == level and one.get(level) == where.get(level)}
        short = where.get(level, level)
        # One clash in a level, and all of its slices have their full names.
        mine = {tuple(one.items()) for one in slices if one["level"] == level}
        clash = len({dict(one).get(level, level) for one in mine}) < len(mine)
        assert len(alike) == 1 or clash
        whole = ", ".join(value for key, value in where.items() if key != "level")
        found.append(OVERALL if level == OVERALL else f"{level}={whole if clash else short}")
    return found


def read_latex(text: str, by: str = OVERALL) -> Printed:
    """What `to_latex` gives: measured rows with the interval as it stands there, and published ones (protocol
    "published") by their label."""
    note = text[text.index(r"\parbox{\linewidth}") :]
    said = re.search(r"Protocol (.+?)\. (?:Judge (.+?), [^.]*|No judge)\. RefBench ", note)
    assert said is not None, "the footnote does not say protocol and judge"
    protocols = re.sub(r" \([^)]*\)", "", untex(said[1])).split(", ")
    only = re.sub(r" \([^()]*\)$", "", untex(said[2] or ""))
    about = re.search(r"\\caption(?:\[[^]]*\])?\{.*?: (.+?) by [^}]*\}", text)
    assert about is not None
    main = untex(about[1])
    found: Printed = {}
    for body in re.findall(r"\\begin\{tabular\}.*?\n(.*?)\\end\{tabular\}", text, re.DOTALL):
        lines = [line.removesuffix(r" \\") for line in body.splitlines()]
        titles: list[str] = []
        for line in lines:
            cells = _apart(line)
            if line.startswith(("\\toprule", "\\midrule", "\\bottomrule")):
                continue
            if not titles:
                for cell in cells:
                    title = "scored" if _plain(cell).startswith("scored (") else _plain(cell)
                    titles += [title, *([""] if cell.startswith(r"\multicolumn{2}") else [])]
                continue
            if line.startswith(r"\multicolumn"):
                continue
            _put_latex(found, titles, cells, main=main, by=by, protocols=protocols, only=only)
    return found


def _put_latex(
    found: Printed,
    titles: Sequence[str],
    cells: Sequence[str],
    *,
    main: str,
    by: str,
    protocols: Sequence[str],
    only: str,
) -> None:
    printed = r"$^{\dagger}$" in cells[0]
    name = _plain(re.sub(r"\$\^\{[a-z]+\}\$$|\$\^\{\\dagger\}\$$", "", cells[0].removeprefix("{}")))
    judge = only
    if titles[1] == "judge":
        judge = "" if _plain(cells[1]) == "none" and not printed else _plain(cells[1])
    counted = {
        said[1] or protocols[0]: cells[c]
        for c, title in enumerate(titles)
        if (said := re.fullmatch(r"scored(?: \((.+)\))?", title))
    }
    for c, title in enumerate(titles):
        if c == 0 or title in ("judge", "") or re.fullmatch(r"scored(?: \(.+\))?", title):
            continue
        bare = title.removesuffix(" ↓")
        named = re.fullmatch(rf"(.+) \(({'|'.join(map(re.escape, protocols))})\)", bare)
        metric, protocol = (named[1], named[2]) if named and by == OVERALL else (bare, protocols[0])
        where = OVERALL
        if by != OVERALL:
            metric, where = main, OVERALL if bare == OVERALL else f"{by}={bare}"
        own = re.search(r"\{\\tiny \((\d+/\d+)\)\}", cells[c])
        value = _plain(re.sub(r" \{\\tiny .*\}", "", cells[c]))
        beside = _plain(cells[c + 1]) if titles[c + 1 : c + 2] == [""] else ""
        if value:
            key = name, judge, PUBLISHED if printed else protocol, metric, where
            # The column is about the number that the table is about; others say theirs where it is less.
            summary = counted.get(protocol, "") if key[2:] == (protocol, main, OVERALL) else ""
            found[key] = Cell("-" if value == "–" else value, beside, own[1] if own else summary)


def _apart(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\) & ", f"{line} ")]


def _plain(cell: str) -> str:
    """The text of a cell without the commands that only shape it."""
    text = cell.strip()
    text = re.sub(r"^\\multicolumn\{2\}\{c\}\{(.*)\}$", r"\1", text)
    stacked = re.fullmatch(r"\\shortstack\[r\]\{(.*)\}", text)
    if stacked:
        lines = stacked[1].split(r" \\ ")
        text = lines[0]
        for line in lines[1:]:
            text += ("" if text.endswith("_") else " ") + line
    text = re.sub(r"\\(?:textbf|underline|textit)\{(.*)\}$", r"\1", text)
    text = re.sub(r"^\{\\scriptsize (.*)\}$", r"\1", text).replace(r"\,", " ")
    return untex(text)


_COMMANDS = sorted(
    ((written, sign) for table in (_ASCII, _SIGNS) for sign, written in table.items()),
    key=lambda one: -len(one[0]),
)


def untex(text: str) -> str:
    """The text that `tex` has escaped."""
    found = ""
    while text:
        wide = re.match(r"\\refbenchwide\{([^{}]*)\}\{[^{}]*\}", text)
        accent = re.match(r"\\([`'^~=.\"uvHrdcb])\{([A-Za-z])\}", text)
        command = next(((written, sign) for written, sign in _COMMANDS if text.startswith(written)), None)
        if wide:
            found, text = found + wide[1], text[wide.end() :]
        elif accent:
            sign = next(mark for mark, name in _ACCENTS.items() if name == accent[1])
            found, text = found + unicodedata.normalize("NFC", accent[2] + sign), text[accent.end() :]
        elif command and command[0] != "~":
            found, text = found + command[1], text[len(command[0]) :]
        elif text.startswith("{}"):
            text = text[2:]
        else:
            found, text = found + text[0], text[1:]
    return found


def said(value: float | None, like: str) -> str:
    """A number of the JSON table in the digits of a printed one."""
    if value is None:
        return "-"
    digits = len(like.rpartition(".")[2]) if "." in like else 2
    return f"{value:.{digits}f}"


def differences(printed: Mapping[Key, Cell], rows: Mapping[Key, Mapping[str, Any]]) -> Iterable[str]:
    """Every printed number that is not the one of the JSON table in as many digits."""
    for key, cell in printed.items():
        if key[2] == PUBLISHED:
            continue
        row = rows.get(key)
        if row is None:
            yield f"{key}: printed, and not in the table"
            continue
        if cell.value != said(row["value"], cell.value):
            yield f"{key}: {cell.value} printed, {row['value']} in the table"
        low_high = row["ci95"]
        if " to " in cell.interval or cell.interval.startswith("["):
            ends = re.findall(r"-?\d+\.\d+", cell.interval)
            if low_high is None or ends != [said(end, ends[0]) for end in low_high]:
                yield f"{key}: interval {cell.interval} printed, {low_high} in the table"
        elif cell.interval == "-" and low_high is not None:
            yield f"{key}: no interval printed, {low_high} in the table"
        elif cell.interval.startswith("±"):
            half = cell.interval.removeprefix("±").strip()
            if low_high is None or half != said((low_high[1] - low_high[0]) / 2, half):
                yield f"{key}: {cell.interval} printed, {low_high} in the table"
        if cell.n and cell.n.split()[0] != f"{row['n_scored']}/{row['n_expected']}":
            yield f"{key}: {cell.n} printed, {row['n_scored']}/{row['n_expected']} in the table"
        seeds = re.search(r"\((\d+) cases? x (\d+) seeds?\)", cell.n)
        if seeds and [int(n) for n in seeds.groups()] != [row["n_cases"], row["n_seeds"]]:
            yield f"{key}: {cell.n} printed, {row['n_cases']} cases and {row['n_seeds']} seeds in the table"
