"""A result as columns, for pandas and polars, and as the HTML that a notebook shows."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from refbench.record import RefBenchError, counted
from refbench.score import digits_of
from refbench.tables.table import Row, ranked

if TYPE_CHECKING:
    import pandas
    import polars

    from refbench.tables.result import Result

_OF_PICTURE = ("case", "task", "model", "judge", "protocol", "seed")
_MOST_LINES = 50
"""Lines of a leaderboard in a notebook."""


def columns(result: Result, *, wide: bool = False) -> dict[str, list[Any]]:
    """The items of a result by column: a row for each score, or with `wide` one for each picture and judge, in which
    every metric is a column of its own. What has no value is None, and `failure` says why."""
    long: list[dict[str, Any]] = []
    for item in result.items():
        failure = item["failure"] or {}
        row = {name: item[name] for name in (*_OF_PICTURE, "metric", "score")}
        row |= {"failure": failure.get("kind"), "failure_detail": failure.get("detail")}
        row |= {name: item[name] for name in ("not_applicable", "not_asked", "total", "total_of")}
        long.append(row | {f"group_{name}": value for name, value in item["groups"].items()})
    rows = list(_widened(long).values()) if wide else long
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _widened(long: list[dict[str, Any]]) -> Mapping[tuple[Any, ...], dict[str, Any]]:
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    metrics = dict.fromkeys(row["metric"] for row in long)
    for row in long:
        key = tuple(row[name] for name in _OF_PICTURE)
        if key not in found:
            plain = {name: row[name] for name in (*_OF_PICTURE, "total", "total_of")}
            groups = {name: value for name, value in row.items() if name.startswith("group_")}
            found[key] = {**plain, "failure": None, **dict.fromkeys(metrics), **groups}
        found[key][row["metric"]] = row["score"]
        found[key]["failure"] = found[key]["failure"] or row["failure"]
    return found


def to_pandas(result: Result, *, wide: bool = False) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise RefBenchError("pandas is not installed: pip install 'refbench[pandas]'") from error
    return pandas.DataFrame(columns(result, wide=wide))


def to_polars(result: Result, *, wide: bool = False) -> polars.DataFrame:
    try:
        import polars
    except ImportError as error:
        raise RefBenchError("polars is not installed: pip install 'refbench[polars]'") from error
    return polars.DataFrame(columns(result, wide=wide), infer_schema_length=None)


def short(result: Result) -> str:
    """A result in one line: what it is about and who leads."""
    models = counted(len(dict.fromkeys(row.model for row in result.table.rows)), "model")
    cases = counted(len(result.cases), "case")
    leads = next((f", best {_said(row)}" for row, rank in _places(result) if rank == 1), "")
    return f"<{result.bench.title}: {cases}, {models}; {result.measured_by()}{leads}>"


def to_html(result: Result) -> str:
    """The leaderboard with intervals and what is scored, as a notebook shows it. All text is escaped."""
    places = _places(result)
    judges = len({row.judge for row, _ in places}) > 1
    digits = digits_of(row.value for row, _ in places)
    first = places[0][0] if places else None
    summary = f"{first.metric} ({first.protocol})" if first else "value"
    titles = ["", "model", *(["judge"] if judges else []), summary, "95 % interval", "scored"]
    lines = []
    for row, rank in places[:_MOST_LINES]:
        interval = f"{row.ci95[0]:.{digits}f} to {row.ci95[1]:.{digits}f}" if row.ci95 else "-"
        value = "-" if row.value is None else f"{row.value:.{digits}f}"
        cells = [str(rank or ""), row.model, *([row.judge or "none"] if judges else []), value, interval]
        cells.append(f"{row.n_scored}/{row.n_expected}")
        lines.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    more = f"<p>and {len(places) - _MOST_LINES} more</p>" if len(places) > _MOST_LINES else ""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    about = f"{counted(len(result.cases), 'case')}; {result.measured_by()}; fingerprint {result.table.fingerprint}"
    notes = "".join(f"<li>{escape(note)}</li>" for note in result.notes)
    return (
        f"<p><b>{escape(result.bench.title)}</b>: {escape(about)}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{more}"
        + (f"<ul>{notes}</ul>" if notes else "")
    )


def _places(result: Result) -> list[tuple[Row, int | None]]:
    """The rows that models are ranked by, best first, each with its rank."""
    overall = result.rows(level="overall")
    if not overall:
        return []
    protocol = overall[0].protocol
    measure = result.summary(protocol)
    rows = [row for row in overall if row.protocol == protocol and row.metric == measure]
    bench = result.bench
    places = ranked(rows, bench.scoring.lower, together=bool(bench.data.outputs))
    return [(place.row, place.rank) for place in places]


def _said(row: Row) -> str:
    value = "-" if row.value is None else f"{row.value:.4g}"
    interval = f" ({row.ci95[0]:.4g} to {row.ci95[1]:.4g})" if row.ci95 else ""
    return f"{row.model} with {row.metric} {value}{interval}"
