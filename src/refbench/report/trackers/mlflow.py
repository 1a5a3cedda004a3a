"""MLflow: metrics, parameters and tags of one run, its tables and pictures as artifacts."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Any

import orjson

from refbench.failure import redact
from refbench.machine import scratch_folder
from refbench.report.trackers.kinds import Receipt, client, other_numbers, saying
from refbench.report.trackers.logged import Logged
from refbench.specs import Options

_ID, _STEP = "refbench.id", "refbench.step."
_MOST_METRICS = 1000
"""That a tracking server takes in one call."""
_LONGEST = 500
"""Characters of a parameter that every server takes; the whole configuration is an artifact."""


def log(logged: Logged, what: str, options: Options, again: bool) -> Receipt:
    mlflow = client("mlflow", "mlflow")
    with saying("MLflow"):
        tracker = mlflow.tracking.MlflowClient(tracking_uri=what or None)
        name = options["experiment"]
        there = tracker.get_experiment_by_name(name)
        experiment = there.experiment_id if there else tracker.create_experiment(name)
        place = f"experiment {name} of {redact(what or mlflow.get_tracking_uri())}, run {logged.name}"
        before = _found(tracker, experiment, logged.run_id)
        if before is not None and not again:
            known = before.data.tags.get(f"{_STEP}{logged.step}")
            if known == logged.id if logged.series else before.info.status == "FINISHED":
                return Receipt(place=place, known=True)
            if known is not None:
                raise other_numbers(logged)
        # A series goes on, and so does what was killed in the middle.
        if before is not None and (logged.series or not again):
            run = before.info.run_id
        else:
            run = _begun(tracker, experiment, logged, again)
        _write(mlflow, tracker, run, logged)
    return Receipt(place=place)


def _found(tracker: Any, experiment: str, run_id: str) -> Any | None:
    found = tracker.search_runs([experiment], filter_string=f"tags.`{_ID}` = '{run_id}'", max_results=1)
    return found[0] if found else None


def _begun(tracker: Any, experiment: str, logged: Logged, again: bool) -> str:
    end = f"-{secrets.token_hex(3)}" if again else ""
    run = tracker.create_run(experiment, run_name=logged.name, tags={_ID: f"{logged.run_id}{end}"})
    return str(run.info.run_id)


def _write(mlflow: Any, tracker: Any, run: str, logged: Logged) -> None:
    entities = mlflow.entities
    now, step = int(time.time() * 1000), logged.step or 0
    metrics = [entities.Metric(key, float(number), now, step) for key, number in logged.numbers.items()]
    for start in range(0, len(metrics), _MOST_METRICS):
        tracker.log_batch(run, metrics=metrics[start : start + _MOST_METRICS])
    # Of a series the parameters are those of each step: MLflow refuses to change one.
    end = f" of step {logged.step}" if logged.series else ""
    params = [entities.Param(f"{key}{end}", _short(value)) for key, value in logged.config.items()]
    tracker.log_batch(run, params=params)
    with scratch_folder() as folder:
        _files(folder, logged)
        tracker.log_artifacts(run, str(folder), f"step {logged.step}" if logged.series else None)
    if logged.series:
        tracker.set_tag(run, f"{_STEP}{logged.step}", logged.id)
    tracker.set_terminated(run)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def _files(folder: Path, logged: Logged) -> None:
    """What is no number: tables in the form that MLflow's pages show as such, pictures beside their words."""
    (folder / "summary.md").write_text(logged.summary, "utf-8")
    (folder / "config.json").write_bytes(orjson.dumps(dict(logged.config), option=orjson.OPT_INDENT_2))
    for name, table in logged.tables.items():
        content = {"columns": table.columns, "data": table.rows}
        (folder / f"{name}.json").write_bytes(orjson.dumps(content))
    for picture in logged.pictures:
        path = folder / f"{picture.key}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture.jpeg)
        path.with_suffix(".txt").write_text(picture.caption, "utf-8")
