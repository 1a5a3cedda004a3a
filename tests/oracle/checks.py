"""What holds for every run, as functions that a test calls with a generated run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from oracle.core import Book, Exported, Rows, State, case_value, gap, states
from oracle.multiref import ratios
from oracle.runs import Made
from refbench.analysis.compare.records import Pair
from refbench.cli.export import export_command
from refbench.output import Output
from refbench.report import print_result, to_csv, to_json, to_markdown
from refbench.report.latex.write import to_latex
from refbench.tables.result import Result
from support import printed, sentences

NEAR = 2e-9
"""Tables round to nine digits."""


def exported(made: Made, folder: Path) -> Exported:
    """A generated run as JSON lines, by the command."""
    return exported_run(made.run.path, folder, judges=made.plan.judge_names, unmeasured=made.plan.left_out())


def exported_run(run: Path, folder: Path, **asked: Any) -> Exported:
    for what in ("cases", "outputs", "evidence"):
        export(run, folder, what)
    return Exported.read(folder, **asked)


def export(run: Path, folder: Path, what: Any) -> None:
    with redirect_stdout(StringIO()):
        export_command(run, out=folder / f"{what}.jsonl", what=what)


def nothing_is_lost(made: Made, run: Exported) -> list[str]:
    """Everything that was recorded is exported, with the first success of an act where it has one."""
    successes: dict[str, str] = {}
    for record in made.records:
        if not isinstance(record, Output) and record[0].reply is not None:
            successes.setdefault(record[0].id, record[0].reply)
    told = {
        (e["evidence"], e["case"], e["model"], e["judge"], e["part"], e["seed"], e["repeat"], e["protocol"]): e
        for e in run.evidence
    }
    painted = {(o["case"], o["model"], o["seed"]): o for o in run.outputs}
    found = []
    for record in made.records:
        if isinstance(record, Output):
            output = painted.get((record.case, record.model, record.seed))
            if output is None or (record.failure is None and output["failure"]):
                found.append(f"{record.case} {record.model} {record.seed}: its picture is not exported")
            continue
        act, p = record
        e = told.get((act.id, p.case, p.model, p.judge, p.part, p.seed, p.repeat, p.protocol))
        if e is None or e["reply"] != successes.get(act.id):
            found.append(f"{p}: exported {e and (e['reply'] or e['failure'])}, recorded {successes.get(act.id)}")
    return found


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["model"], row["judge"], row["protocol"], row["metric"], tuple(sorted(row["slice"].items()))


def rows_of(result: Result) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of the JSON that is printed."""
    return {key(row): row for row in json.loads(to_json(result))["rows"]}


def near(have: Any, want: Any) -> bool:
    if isinstance(want, tuple | list):
        return isinstance(have, tuple | list) and len(have) == len(want) and all(map(near, have, want))
    if isinstance(have, float) and isinstance(want, float):
        return abs(have - want) <= NEAR * max(1.0, abs(want))
    return bool(have == want)


def table_is(rows: Mapping[tuple[Any, ...], Mapping[str, Any]], expected: Rows) -> list[str]:
    """Every row that the oracle does not have, or has another number for."""
    plain = {place: row for place, row in rows.items() if not place[3].endswith(" / truth")}
    found = [f"{place}: in one of the two only" for place in sorted(set(plain) ^ set(expected), key=str)]
    for place in sorted(set(plain) & set(expected), key=str):
        want = dict(expected[place])
        names = want.pop("nothing_in", None)
        said = re.search(r"nothing scored in ([^;]*)", plain[place]["remark"] or "")
        if names is not None and place[3] != "failure_rate" and set(names) != set(said[1].split(", ") if said else ()):
            found.append(f"{place}: remark {plain[place]['remark']}, but nothing was scored in {names}")
        wrong = {name: (plain[place][name], want[name]) for name in want if not near(plain[place][name], want[name])}
        if wrong:
            found.append(f"{place}: table and oracle have {wrong}")
    shares = {place: row["value"] for place, row in rows.items() if place[3].endswith(" / truth")}
    for place, share in shares.items():
        # The table's own shares are of rounded numbers.
        want_share = ratios(expected).get(place)
        if not (share == want_share or (share is not None and want_share and abs(share - want_share) < 1e-6)):
            found.append(f"{place}: {share}, and the oracle has {want_share}")
    return found


def counts_add_up(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Expected = scored + failed by kind + not asked yet; with what does not concern it, every picture is counted."""
    found = []
    for row in rows:
        parts = row["n_scored"] + sum(row["failures"].values()) + row["n_not_asked"]
        if row["n_expected"] != parts or row["n_expected"] + row["n_not_applicable"] != row["n_cases"] * row["n_seeds"]:
            found.append(f"{key(row)}: the counts do not add up")
        remark = row["remark"] or ""
        outside = False
        if row["value"] is not None and row["bounds"]:
            outside = not row["bounds"][0] - NEAR <= row["value"] <= row["bounds"][1] + NEAR
        if outside != ("biased by its failures" in remark):
            found.append(f"{key(row)}: {row['value']} with bounds {row['bounds']} and the remark {row['remark']}")
        explained = any(why in remark for why in ("no average", "no worst value"))
        if row["value"] is None and row["n_scored"] and " / truth" not in row["metric"] and not explained:
            found.append(f"{key(row)}: scored, and without a value ({row['remark']})")
    return found


def scores_are(path: Path, run: Exported, books: Mapping[str, Book], folder: Path) -> list[str]:
    """The exported scores are the oracle's draws, state by state; and `total` is what the picture gives."""
    export(path, folder, "scores")
    rows = [json.loads(line) for line in (folder / "scores.jsonl").read_text("utf-8").splitlines()]
    found, seen = [], set()
    for protocol, book in books.items():
        draws = states(run, book, protocol, "conditional")
        cases = {case["id"]: case for case in run.cases}
        totals: dict[Any, float | None] = {}
        for row in (row for row in rows if row["protocol"] == protocol):
            place = (row["model"], row["judge"]), row["case"], row["seed"]
            want = draws.get(place, {}).get(row["metric"])
            have = State(
                row["score"],
                row["failure"] and row["failure"]["kind"],
                bool(row["failure"] and row["failure"]["by_model"]),
                row["not_applicable"] is not None,
            )
            seen.add((protocol, *place, row["metric"]))
            if want is None or not near(tuple(vars(have).values()), tuple(vars(want).values())):
                found.append(f"{place} {row['metric']}: exported {have}, the oracle has {want}")
            if place not in totals:
                totals[place] = case_value(book, row["total_of"], [draws[place]], cases[row["case"]])
            total = totals[place]
            # MultiRef has no average of a seed in which a type of the data has no value at all.
            untold = row["total"] is None and row["total_of"] == "avg" and "depth" in book.metrics
            if not near(row["total"], total) and not untold:
                found.append(f"{place}: total {row['total']} of {row['total_of']}, the oracle has {total}")
            if row["groups"] != cases[row["case"]]["groups"]:
                found.append(f"{place}: groups {row['groups']}")
        missing = {(protocol, *place, metric) for place, draw in draws.items() for metric in draw} - seen
        found += [f"{place} is not exported" for place in sorted(missing, key=str)[:3]]
    return found


def gaps_are(result: Result, run: Exported, books: Mapping[str, Book]) -> list[str]:
    """Every pair of models: the gap over the cases that both have, and how many these are."""
    found: list[str] = []
    for protocol, book in books.items():
        models = sorted({score.model for score in result.scores if score.protocol == protocol})
        if len(models) < 2:
            continue
        comparison = result.compare(protocol=protocol, draws=40)
        for pair in comparison.pairs:
            judges = pair.judge, pair.second_judge
            want = gap(run, book, protocol, comparison.metric, (pair.first, judges[0]), (pair.second, judges[1]))
            if pair.failure is None:
                found += sentence_is(pair)
            if want is None:
                if pair.gap is not None:
                    found.append(f"{pair.first}, {pair.second}: gap {pair.gap}, the oracle has none")
            elif pair.gap is not None and not near(float(pair.gap), want[0]):
                found.append(f"{pair.first}, {pair.second}: gap {pair.gap}, the oracle has {want}")
            elif pair.gap is not None and pair.n_cases != want[1]:
                found.append(f"{pair.first}, {pair.second}: {pair.n_cases} cases, the oracle has {want}")
    return found


def sentence_is(pair: Pair) -> list[str]:
    """What the sentence of a pair says, read back: nothing against itself, nothing but the pair's numbers."""
    said = sentences.parse(pair.sentence)
    found = sentences.contradictions(said)
    assert pair.gap is not None
    assert said.gap is not None
    if abs(said.gap - pair.gap) > 0.51 * 10.0**-said.digits:
        found.append(f"the sentence says {said.gap}, the gap is {pair.gap}")
    if (said.n_cases, said.first, said.second) != (pair.n_cases, pair.first, pair.second):
        found.append(f"the sentence is about {said.first}, {said.second} on {said.n_cases} cases")
    if said.n_left_out != sum(pair.left_out.values()) or said.n_lost != sum(pair.lost):
        found.append(f"left out: {said.n_left_out} and {said.n_lost}, of {pair.left_out} and {pair.lost}")
    return [f"{problem}: {pair.sentence}" for problem in found]


def printed_is(result: Result) -> list[str]:
    """What is printed, read back, is the JSON table: terminal, Markdown, CSV, LaTeX."""
    rows = printed.read_json(to_json(result))
    found: list[str] = []
    levels = list(dict.fromkeys(row.slice["level"] for row in result.table.rows))
    if "overall" not in levels:
        return found
    screen = StringIO()
    print_result(result, by=levels[-1], out=Console(file=screen, width=500))
    read = {
        "terminal": printed.read_terminal(screen.getvalue(), by=levels[-1]),
        "markdown": printed.read_markdown(to_markdown(result, by=levels[-1]), by=levels[-1]),
        "latex": printed.read_latex(to_latex(result, published="none")),
    }
    for name, numbers in read.items():
        found += [f"{name}: {problem}" for problem in printed.differences(numbers, rows)]
        if not numbers:
            found.append(f"{name}: nothing is printed")
    for place, said in printed.read_csv(to_csv(result)).items():
        row = rows[place]
        for column in ("value", "n_expected", "n_scored", "n_imputed", "n_not_asked", "n_not_applicable"):
            if said[column] != ("" if row[column] is None else str(row[column])):
                found.append(f"csv: {place} {column} is {said[column]}, in the table {row[column]}")
        for kind in row["failures"]:
            if said[f"failed_{kind}"] != str(row["failures"][kind]):
                found.append(f"csv: {place} has {said[f'failed_{kind}']} {kind}")
    return found


def numbers_of(result: Result, names: Mapping[str, str] | None = None) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """What a table says, without anything that a name or an order could change."""
    called = names or {}
    found = {}
    for row in result.table.rows:
        if not row.metric.endswith(" / truth"):
            judge = called.get(row.judge or "", row.judge)
            place = called.get(row.model, row.model), judge, row.protocol, row.metric, tuple(sorted(row.slice.items()))
            counts = row.n_expected, row.n_scored, row.n_not_asked, row.n_not_applicable, row.n_imputed
            found[place] = row.value, row.bounds, counts, dict(row.failures), dict(row.own_failures)
    return found


def differing(first: Mapping[Any, Any], second: Mapping[Any, Any]) -> list[str]:
    found = [f"{place}: in one of the two only" for place in sorted(set(first) ^ set(second), key=str)]
    found += [
        f"{place}: {first[place]}, then {second[place]}"
        for place in set(first) & set(second)
        if not near(first[place], second[place])
    ]
    return found


def told(problems: Sequence[str]) -> str:
    return "\n".join(["", *problems[:6], f"({len(problems)} in all)"])
