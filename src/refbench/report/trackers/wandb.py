"""Weights & Biases, online or offline: one W&B run for each result, or for each series of checkpoints."""

from __future__ import annotations

import io
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from refbench.report.trackers.kinds import Receipt, client, other_numbers, saying
from refbench.report.trackers.logged import Logged
from refbench.specs import Options

_DEFAULT = "refbench"
_FILE = "refbench.json"
"""Among the files of a W&B run: which numbers it was given, and at which step."""
_STEP = "checkpoint"


def log(logged: Logged, what: str, options: Options, again: bool) -> Receipt:
    wandb = client("wandb", "wandb")
    entity, _, project = (what or _DEFAULT).rpartition("/")
    root = Path(os.environ.get("WANDB_DIR") or ".")
    before = dict(_logged_before(root, logged.run_id))
    if logged.id in before.values() and not again:
        place = next(folder for folder, known in before.items() if known == logged.id)
        return Receipt(place=str(place), known=True)
    if logged.series and not again and any(_told(folder).get("step") == logged.step for folder in before):
        raise other_numbers(logged)
    run_id = f"{logged.run_id}-{secrets.token_hex(3)}" if again and not logged.series else logged.run_id
    with saying("W&B"):
        run = wandb.init(
            entity=entity or None,
            project=project,
            name=logged.name,
            id=run_id,
            # A server that has the run already refuses it; a series goes on.
            resume="allow" if logged.series else "never",
            mode=options["mode"],
            dir=str(root),
            config=dict(logged.config),
            job_type="evaluation",
            settings=_settings(wandb),
        )
        folder = Path(run.dir)
        try:
            _write(wandb, run, logged)
        finally:
            run.finish()
    return Receipt(place=str(folder.parent) if run.settings._offline else str(run.url or folder.parent))


def _settings(wandb: Any) -> Any:
    """Nothing is watched or told beside what is logged: neither the terminal, nor code, nor this machine."""
    return wandb.Settings(
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        save_code=False,
        x_disable_stats=True,
        x_disable_meta=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )


def _write(wandb: Any, run: Any, logged: Logged) -> None:
    run.define_metric(_STEP)
    run.define_metric("*", step_metric=_STEP)
    held: dict[str, Any] = {_STEP: logged.step or 0, **logged.numbers}
    for name, table in logged.tables.items():
        rows = [[_cell(value) for value in row] for row in table.rows]
        held[f"tables/{name}"] = wandb.Table(columns=list(table.columns), data=rows, allow_mixed_types=True)
    for picture in logged.pictures:
        held[picture.key] = wandb.Image(_opened(picture.jpeg), caption=picture.caption)
    run.log(held)
    (Path(run.dir) / _FILE).write_bytes(orjson.dumps({"id": logged.id, "step": logged.step}))


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else orjson.dumps(value).decode()


def _opened(jpeg: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(jpeg))


def _logged_before(root: Path, run_id: str) -> Iterator[tuple[Path, str]]:
    """The folders of this W&B run on this machine, each with the numbers that it was given. Of two that were begun in
    one second W&B calls the later one -1."""
    for base in (root / "wandb", root / ".wandb"):
        for folder in sorted(base.glob(f"*run-*-{run_id}*")):
            yield folder, str(_told(folder).get("id"))


def _told(folder: Path) -> dict[str, Any]:
    try:
        told = orjson.loads((folder / "files" / _FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return told if isinstance(told, dict) else {}
