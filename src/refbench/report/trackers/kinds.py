"""The trackers by kind, `kind[:what][?option=value]`: W&B, MLflow, TensorBoard, Trackio, and what packages add under
the entry point group `refbench.trackers`, each a function of what is logged, the place and its options."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from refbench.failure import redact
from refbench.record import Record, RefBenchError
from refbench.report.trackers.logged import Logged, Wanted, logged_of
from refbench.specs import Kind, Option, Options, Spec, kinds, nearest, one_of, plug_in_named, read_options
from refbench.tables.table import DRAWS

PLUG_INS = "refbench.trackers"


class Receipt(Record):
    """Where the numbers are now, and whether they were there before."""

    place: str
    known: bool = False
    """The same numbers had been logged there: nothing was logged again."""


Log: TypeAlias = Callable[[Logged, str, Options, bool], Receipt]
"""Logs to a place (what stands behind the kind, "" for the tracker's own default), once more if it is told to."""

_NAME = Option("name", "what the tracker calls the run; the run directory's name without it")
KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "wandb",
            "Weights & Biases, online or offline as wandb is set",
            "[ENTITY/]PROJECT",
            (_NAME, Option("mode", "online or offline; as wandb is set without it", one_of("online", "offline"))),
        ),
        Kind(
            "mlflow",
            "an MLflow tracking server or database; $MLFLOW_TRACKING_URI without an address",
            "URI",
            (_NAME, Option("experiment", "the experiment's name", default="refbench")),
        ),
        Kind("tensorboard", "event files below a folder", "DIR", (_NAME,)),
        Kind("trackio", "Trackio's local database", "PROJECT", (_NAME,)),
    )
}


def log_run(path: Path, to: str, wanted: Wanted | None = None, *, again: bool = False, draws: int = DRAWS) -> Receipt:
    """Log a run's numbers, tables and worst pictures to a tracker. What is there already is not logged twice."""
    from refbench.runs import Run
    from refbench.tables.scoring import score_run

    log, what, options = tracker_of(to)
    wanted = wanted or Wanted()
    if not wanted.name and options.values.get("name"):
        wanted = wanted.model_copy(update={"name": options["name"]})
    result = score_run(path, draws=draws)
    return log(logged_of(result, Run.open(path), wanted), what, options, again)


def tracker_of(to: str) -> tuple[Log, str, Options]:
    """The function that logs to it, the place, and the options: `tensorboard:DIR`, `mlflow:URI?experiment=x`."""
    head, question, query = to.partition("?")
    name = head.partition(":")[0]
    there = kinds(KINDS, PLUG_INS)
    if name not in there:
        raise RefBenchError(f"--to {redact(to)}: no tracker is called {name!r}: {nearest(name, there)}")
    spec = Spec.parse(f"{name}:.{question}{query}" if head.partition(":")[2] == "" else to, "--to")
    what = head.partition(":")[2]
    options = read_options(spec, there[name], f"--to {name}")
    if name not in KINDS:
        return plug_in_named(name, PLUG_INS), what, options
    log: Log = importlib.import_module(f"refbench.report.trackers.{name}").log
    return log, what, options


def client(module: str, extra: str) -> Any:
    """A tracker's own package; one sentence says how to get what is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        absent = (error.name or "").partition(".")[0]
        missing = "" if absent in ("", module.partition(".")[0]) else f" ({absent} is missing)"
        raise RefBenchError(f"--to {extra} needs an extra{missing}: pip install 'refbench[{extra}]'") from error


@contextmanager
def saying(tracker: str) -> Iterator[None]:
    """What a tracker's package raises, as one sentence without secrets."""
    try:
        yield
    except RefBenchError:
        raise
    except Exception as error:
        words = " ".join(redact(str(error)).split())[:300] or type(error).__name__
        raise RefBenchError(f"{tracker} did not take the numbers: {words}") from error


def other_numbers(logged: Logged) -> RefBenchError:
    """Of a step that holds something else already."""
    return RefBenchError(
        f"step {logged.step} of the series {logged.series} was logged with other numbers: choose another --step or "
        "--series, or add --again to log these beside them"
    )
