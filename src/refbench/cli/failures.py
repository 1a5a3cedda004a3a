"""`refbench failures`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from cyclopts import Parameter

from refbench.cli.options import Json
from refbench.record import RefBenchError

if TYPE_CHECKING:
    from refbench.runs import Run

_EXCERPT = 240
"""Signs of a reply that are printed; JSON has all of it."""


def failures_command(
    run: Annotated[Path, Parameter(help="Run directory, as --out named it")],
    *,
    kind: Annotated[str | None, Parameter(help="Only failures of this kind, for example refused")] = None,
    json: Json = False,
) -> int:
    """List what failed in a run: case, model, cause, and what was replied."""
    from refbench.failure import KINDS, TRANSIENT
    from refbench.record import counted
    from refbench.runs import Run
    from refbench.specs import nearest
    from refbench.text.console import printable

    if kind is not None and kind not in KINDS:
        raise RefBenchError(f"--kind {kind}: {nearest(kind, KINDS)}")
    found = [row for row in _rows(Run.open(run)) if kind is None or kind in row["kinds"]]
    kinds = Counter(row["kind"] for row in found)
    if json:
        print(orjson.dumps({"run": str(run), "kinds": dict(kinds), "failures": found}).decode())
        return 0
    if not found:
        print(f"Nothing in {run} failed{f' as {kind}' if kind else ''}.")
    for name, number in kinds.most_common():
        again = "the same run command tries them again" if name in TRANSIENT else f"--retry {name} asks again"
        print(f"{counted(number, 'failure')} of the kind {name}: {again}")
        for row in found:
            if row["kind"] == name:
                seed = f", seed {row['seed']}" if row["seed"] else ""
                judge = f", judged by {row['judge']}" if row["judge"] else ""
                more = f" (and {len(row['causes']) - 1} more of this reply)" if len(row["causes"]) > 1 else ""
                cause = f"{row['cause'] or name}{more}"
                print(printable(f"  {row['case']} by {row['model']}{seed}{judge}: {cause}", line=True))
                for reply, times in Counter(row["replies"]).items():
                    said = "replied" if times == 1 else f"replied {times} times"
                    print(printable(f"      {said}: {_excerpt(reply)}", line=True))
    return 0


def _excerpt(reply: str) -> str:
    text = " ".join(reply.split())
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]} ..."


def _rows(run: Run) -> Iterator[dict[str, Any]]:
    """A row for each output that is missing and each reply or measurement without a value, as the first protocol of the
    table reads them. What was not asked for is no failure."""
    from refbench.tables.scoring import score_run

    replies: dict[tuple[str, str, int, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    judged = False
    for purpose, act in run.evidence():
        judged = True
        if act.kind == "chat" and act.reply is not None:
            part = purpose.part.partition("+")[0].partition("/")[0]
            replies[purpose.case, purpose.model, purpose.seed, purpose.judge][part].append(act.reply)
    if not judged:  # pictures were made, and nobody has looked at them yet
        for output in run.outputs():
            if output.failure is not None:
                known = {"case": output.case, "model": output.model, "seed": output.seed, "judge": None}
                cause = output.failure.detail
                yield {
                    "kind": output.failure.kind,
                    **known,
                    "cause": cause,
                    "causes": [cause],
                    "kinds": [output.failure.kind],
                    "parts": [],
                    "replies": [],
                }
        return
    result = score_run(run.path, draws=0)
    part_of = {metric: part for part, metrics in result.bench.asking.parts.items() for metric in metrics}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    protocol = result.table.rows[0].protocol if result.table.rows else ""
    for score in result.scores:
        failure = score.failure
        if failure is None or score.protocol != protocol or failure.kind in ("not_measured", "missing_reply"):
            continue
        judge = None if failure.by_model else score.judge
        key = failure.kind, score.case, score.model, score.seed, judge, failure.detail
        named = ("kind", "case", "model", "seed", "judge", "cause")
        row = rows.setdefault(key, {**dict(zip(named, key, strict=True)), "parts": [], "replies": []})
        part = part_of.get(score.metric, score.metric)
        if part not in row["parts"]:
            row["parts"].append(part)
            if judge is not None:
                row["replies"] += _of_part(replies.get((score.case, score.model, score.seed, judge), {}), part)
    yield from _by_reply(rows.values())


def _by_reply(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row for each reply that could not be read, whatever number of marks it should have had; of the kind of the
    first, as runs count it."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for number, row in enumerate(rows):
        whose = (row["case"], row["model"], row["seed"], row["judge"])
        first = found.setdefault((*whose, tuple(row["replies"]) or number), row)
        if first is row:
            row["causes"], row["kinds"] = [row["cause"]], [row["kind"]]
        else:
            first["causes"].append(row["cause"])
            first["kinds"] += [kind for kind in (row["kind"],) if kind not in first["kinds"]]
            first["parts"] += [part for part in row["parts"] if part not in first["parts"]]
    yield from found.values()


def _of_part(replies: Mapping[str, Sequence[str]], part: str) -> Sequence[str]:
    """The replies that a part was read from; those of all parts together where it is made of several."""
    return replies.get(part) or replies.get("*") or ()
