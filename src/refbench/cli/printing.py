"""How a result leaves a command: printed in one format or written to a file, and its items to another."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from refbench.failure import TRANSIENT
from refbench.report import print_result, to_csv, to_json, to_markdown
from refbench.report.terminal import check_level
from refbench.runs import write_rows
from refbench.runs.disk import disk_error, write_whole
from refbench.tables.result import UNREADABLE, Result
from refbench.text.console import printable, quiet

Format = Literal["terminal", "json", "csv", "markdown"]


def write_result(
    result: Result, format_name: Format, *, by: str = "overall", items: Path | None = None, out: Path | None = None
) -> None:
    """Print the result, or write it to `out`; what is for the eye is always printed."""
    if format_name == "json":
        write_text(to_json(result) + "\n", out, result, items)
    elif format_name == "csv":
        write_text(to_csv(result), out, result, items)
    elif format_name == "markdown":
        check_level(result, by)
        write_text(to_markdown(result, by=by) + "\n", out, result, items)
    else:
        _write_items(result, items)
        print_result(result, by=by)


def write_text(text: str, out: Path | None, result: Result, items: Path | None) -> None:
    """Write the items first: when they cannot be written, nothing half-done is printed."""
    _write_items(result, items)
    if out is None:
        print(text, end="")
        return
    write_file(out, text.encode())


def write_file(path: Path, data: bytes, *, quiet: bool = False) -> None:
    """Write a whole file and say where it is."""
    try:
        write_whole(path, data)
    except OSError as error:
        raise disk_error(error, path) from error
    if not quiet:
        print(f"written: {path}")


def is_there(path: Path, data: bytes) -> bool:
    """Whether a file holds this already. False too where it holds something else or is not there, which `exists`
    tells apart."""
    try:
        return path.is_file() and path.read_bytes() == data
    except OSError as error:
        raise disk_error(error, path) from error


def hint(sentence: str) -> None:
    """What one may do next, unless only the result was asked for (--quiet)."""
    if not quiet():
        print(sentence)


def failure_code(result: Result, allowed: float, *, missing: bool = False, again: str = "", run: str = "RUN") -> int:
    """The exit code for what failed: 1 above the allowed share, and then also why and what to do, in words.

    `again` is the command's way to ask again what failed finally, with KIND in it.
    """
    kinds, there = result.failed(missing=missing)
    failed = kinds.total()
    if not there or failed / there <= allowed:
        return 0
    by_kind = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
    hints = []
    passing = [kind for kind in kinds if kind in TRANSIENT]
    odd = result.unjudged()
    final = [kind for kind in kinds if kind not in TRANSIENT and not (kind == UNREADABLE and odd)]
    if again and passing:
        hints.append(f"the same command tries {', '.join(passing)} again")
    if again and final:
        hints.append(f"{' '.join(again.replace('KIND', kind) for kind in final)} asks again")
    if UNREADABLE in final:
        hints.append(f"a file that is put right is read by the same command without --retry {UNREADABLE}")
    if odd:
        hints.append("put the pictures of the cases right (refbench check lists them): the same command goes on")
    hints.append(
        f"refbench failures {run} lists each with its reason"
        if again
        else "--items FILE.jsonl lists each with its reason"
    )
    hints.append(f"--allow-failures {math.ceil(1000 * failed / there) / 1000:g} accepts them")
    explain(
        1,
        f"{failed} of {there} {result.pieces_said()} failed, "
        f"{100 * failed / there:.1f} %, which is more than the {100 * allowed:g} % "
        f"that --allow-failures allows ({by_kind}). What to do: {'; '.join(hints)}",
    )
    for kind, example in examples(result, kinds).items():
        print(f"  {kinds[kind]} {kind}, one of them {example}", file=sys.stderr)
    return 1


_MOST_SAID = 300
"""Signs of what an example says."""


def examples(result: Result, kinds: Iterable[str]) -> dict[str, str]:
    """By kind one failure as it is on record: the case, by whom, and what was said."""
    found: dict[str, str] = {}
    for score in result.scores:
        if score.failure is not None and score.failure.kind in kinds and score.failure.kind not in found:
            judge = f", judged by {score.judge}" if score.judge and not score.failure.by_model else ""
            said = printable(f"{score.case} by {score.model}{judge}: {score.failure}", line=True)
            found[score.failure.kind] = said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]} ..."
    return {kind: found[kind] for kind in kinds if kind in found}


def explain(code: int, sentence: str) -> None:
    """Say on standard error why a command ends with a code other than 0."""
    print(f"Exit code {code}: {sentence}.", file=sys.stderr)


def _write_items(result: Result, items: Path | None) -> None:
    if items is not None:
        write_rows(result.items(), items)
