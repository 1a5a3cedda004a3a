"""Trackio: numbers, tables and pictures in its local database."""

from __future__ import annotations

import contextlib
import io
import secrets
from typing import Any

from refbench.machine import scratch_folder
from refbench.report.trackers.kinds import Receipt, client, other_numbers, saying
from refbench.report.trackers.logged import Logged, LoggedTable
from refbench.specs import Options

_DEFAULT = "refbench"
_ID = "refbench_id"


def log(logged: Logged, what: str, options: Options, again: bool) -> Receipt:
    trackio = client("trackio", "trackio")
    storage = client("trackio.sqlite_storage", "trackio").SQLiteStorage
    project = what or _DEFAULT
    with saying("Trackio"):
        name, steps = _place(storage, project, logged)
        known = logged.id in steps.values()
        if known and not again:
            return Receipt(place=f"project {project}, run {name}", known=True)
        if again and not logged.series:
            name = f"{name}-{secrets.token_hex(3)}"
        elif not again and (logged.step or 0) in steps:
            raise other_numbers(logged)
        with contextlib.redirect_stdout(io.StringIO()):  # it greets, and says how to open its page
            run = trackio.init(
                project=project,
                name=name,
                config=dict(logged.config),
                resume="allow" if logged.series else "never",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
            with scratch_folder() as folder:
                run.log(_held(trackio, logged, folder), step=logged.step or 0)
                trackio.finish()
    return Receipt(place=f"project {project}, run {name}")


def _place(storage: Any, project: str, logged: Logged) -> tuple[str, dict[int, str]]:
    """What the run is called there, and what was logged to it: at each step the numbers' id. A run that has grown since
    has another name."""
    there = set(storage.get_runs(project)) if project in storage.get_projects() else set()
    names = [logged.name] if logged.series else [logged.name, f"{logged.name}-{logged.id[:8]}"]
    steps: dict[str, dict[int, str]] = {
        name: {entry["step"]: entry[_ID] for entry in storage.get_logs(project, name) if _ID in entry}
        for name in names
        if name in there
    }
    for name, known in steps.items():
        if logged.id in known.values():
            return name, known
    free = next((name for name in names if name not in there), names[-1])
    chosen = names[0] if logged.series else free
    return chosen, steps.get(chosen, {})


def _held(trackio: Any, logged: Logged, folder: Any) -> dict[str, Any]:
    held: dict[str, Any] = {_ID: logged.id, **logged.numbers, "summary": trackio.Markdown(logged.summary)}
    for name, table in logged.tables.items():
        if table.rows:
            held[f"tables/{name}"] = trackio.Table(columns=list(table.columns), data=_rows(table))
    for number, picture in enumerate(logged.pictures):
        path = folder / f"{number}.jpg"
        path.write_bytes(picture.jpeg)
        held[picture.key] = trackio.Image(path, caption=picture.caption)
    return held


def _rows(table: LoggedTable) -> list[list[Any]]:
    return [[value if isinstance(value, str | int | float) else "" for value in row] for row in table.rows]
