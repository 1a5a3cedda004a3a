"""The dataset's card: what the Hub reads at its top, results as model-index entries among it, and the page below."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from refbench import __version__
from refbench.record import counted
from refbench.report.formats import to_markdown
from refbench.report.publish.pictures import PictureLine
from refbench.tables.result import Result
from refbench.tables.table import Row
from refbench.text.console import as_markdown, printable

INDEX = "model-index: "
"""The line of the card that has the results."""
BEGIN, END = "<!-- table by refbench -->", "<!-- end of the table -->"
_SHOWN = 20


def card_of(result: Result, lines: Sequence[PictureLine], texts: str) -> str:
    """README.md. `texts` says under which licence the texts of the cases are."""
    title = printable(result.bench.title, line=True)
    top = {
        "license": "other",
        "license_name": "by-picture",
        "license_link": "pictures.jsonl",
        "pretty_name": f"{title}: an evaluation with RefBench",
        "tags": ["refbench", "evaluation", "image-generation", "image-editing"],
        "task_categories": ["text-to-image", "image-to-image"],
        "configs": _configs(lines),
    }
    # Each value is JSON on one line, which is YAML too: nothing in a name can end it.
    head = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in top.items()]
    index = f"{INDEX}{index_line(result)}"
    return "\n".join(["---", *head, index, "---", "", _page(result, lines, texts, title)])


def index_line(result: Result) -> str:
    """The results in the form of model cards: an entry for each model that has a number, which alone are in it."""
    models = dict.fromkeys(row.model for row in result.table.rows)
    entries = [{"name": _plain(model), "results": _results(result, model)} for model in models]
    return json.dumps([entry for entry in entries if entry["results"]], ensure_ascii=False)


def _results(result: Result, model: str) -> list[dict[str, Any]]:
    metrics = [_metric(result, row) for row in result.rows(model=model, level="overall") if row.value is not None]
    if not metrics:
        return []
    dataset = {"name": _plain(result.bench.title), "type": result.table.benchmark, "split": "test"}
    if subset := result.table.parts.get("subset"):
        dataset["config"] = _plain(str(subset))
    return [{"task": {"type": "image-to-image"}, "dataset": dataset, "metrics": metrics}]


def _metric(result: Result, row: Row) -> dict[str, Any]:
    how = [row.protocol, *([f"judge {row.judge}"] if row.judge else []), *(["estimated"] if row.sampled else [])]
    args: dict[str, Any] = {
        "protocol": row.protocol,
        "judge": row.judge and _plain(row.judge),
        "ci95": row.ci95 and list(row.ci95),
        "n_scored": row.n_scored,
        "n_expected": row.n_expected,
        "failures": dict(row.failures),
        "fingerprint": result.table.fingerprint,
    }
    return {"type": row.metric, "name": _plain(f"{row.metric} ({', '.join(how)})"), "value": row.value, "args": args}


def _plain(text: str) -> str:
    return printable(text, line=True)


def table_of(result: Result) -> str:
    """The leaderboard as the card has it."""
    return f"{BEGIN}\n\n{to_markdown(result)}\n\n{END}"


def _configs(lines: Sequence[PictureLine]) -> list[dict[str, Any]]:
    """What the Hub's viewer and `datasets` show: the pictures, else scores and table. Not both: all that is shown of
    one dataset must be in one format."""
    pictures = any(not line.left_out for line in lines)
    shown = {"pictures": "pictures/*.parquet"} if pictures else {"scores": "scores.jsonl", "table": "table.jsonl"}
    return [{"config_name": name, "data_files": [{"split": "test", "path": path}]} for name, path in shown.items()]


def _page(result: Result, lines: Sequence[PictureLine], texts: str, title: str) -> str:
    nameless = [model for model in dict.fromkeys(row.model for row in result.table.rows) if not _results(result, model)]
    without = f"Without a number, and so not among the results above: {', '.join(map(as_markdown, nameless))}.\n\n"
    notes = "\n".join(f"- {as_markdown(note)}" for note in result.notes)
    published = any(not line.left_out for line in lines)
    shipped = "| `pictures/` | the pictures that may be published, in Parquet |\n" if published else ""
    return f"""# {as_markdown(title)}, evaluated with RefBench

{counted(len(result.cases), "case")}; {as_markdown(result.measured_by())}. Fingerprint `{result.table.fingerprint}`,
digest `{result.table.digest}`, written by RefBench {__version__}.

{table_of(result)}

{without if nameless else ""}{notes}

## What is here

| file | what |
|---|---|
| `table.jsonl` | every number, with interval, counts, failures and bounds |
| `scores.jsonl` | every score of every picture, in whatever state |
| `cases.jsonl` | the cases: instructions, groups, what only scorers may see |
| `outputs.jsonl` | what each model gave, or why it gave nothing |
| `evidence/` | what each judge was asked and replied, and what was measured |
{shipped}| `pictures.jsonl` | every picture, its licence, and why it is left out where it is |
| `refbench.json` | how the table was made, and the hash of each file |

    refbench verify DIR                     computes every number again from the evidence
    refbench compare DIR:MODEL runs/x:MINE  compares its models with those of a run

## Licences

{_licences(lines)}

Texts of the cases: {as_markdown(texts)}
"""


def _licences(lines: Sequence[PictureLine]) -> str:
    """How many pictures of each kind are here under which licence, and how many are left out, and why."""
    here = Counter((line.kind, line.licence) for line in lines if not line.left_out)
    gone = Counter((line.kind, line.left_out) for line in lines if line.left_out)
    rows = [f"- {_pictures(kind, n)} under {as_markdown(licence)}" for (kind, licence), n in here.most_common(_SHOWN)]
    rows += [f"- {_pictures(kind, n)} left out: {as_markdown(why)}" for (kind, why), n in gone.most_common(_SHOWN)]
    return "\n".join(rows) or "There are no pictures."


def _pictures(kind: str, n: int) -> str:
    return counted(n, f"{kind} picture")
