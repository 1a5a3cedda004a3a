"""What a build is asked for, checked before anything is computed, and the directory that it owns."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from refbench.builders.refblend.layouts import Layout
from refbench.builders.refblend.plan import instances_of
from refbench.builders.refblend.presets import DEFAULT, load_rules
from refbench.builders.refblend.rules import Rules, allowed_sets
from refbench.builders.refblend.types import TYPES, Type
from refbench.calls import Budget
from refbench.record import RefBenchError
from refbench.runs.disk import disk_error

FORMATS = ("json", "parquet", "webdataset")
Samples = int | Literal["all"] | None
"""How many: None for as many as there are pictures, `all` for every allowed set of every picture."""


@dataclass(frozen=True)
class Settings:
    """A build as `refbench blend build` has it; specs of VLMs are texts, as on the command line."""

    pictures: Path
    out: Path
    engine: str = "embedded"
    address: str | None = None
    seed: int = 0
    types: tuple[Type, ...] = TYPES
    dodge: bool = False
    """Sketches by arithmetic."""
    captions: str | None = None
    """`source`, `objects`, a VLM's spec; None for the source's where it has any, else objects."""
    judge: str | None = None
    personas: Path | None = None
    rewriter: str | None = None
    rules: Rules = field(default_factory=lambda: load_rules(DEFAULT))
    limit: int | None = None
    samples: Samples = None
    several: Mapping[Type, int] = field(default_factory=dict)
    formats: tuple[str, ...] | None = None
    """None for all that can be written here."""
    test_share: float = 0.1
    layout: Layout = field(default_factory=Layout)
    layout_name: str = "folder"
    thresholds: Path | None = None
    templates: Path | None = None
    review: Path | None = None
    licence: str = ""
    device: str = "cpu"
    budget: str | None = None
    concurrency: int = 32
    timeout: float = 180.0

    def __post_init__(self) -> None:
        if not 0 <= self.test_share <= 1:
            raise RefBenchError(f"--test-share {self.test_share:g}: give a share from 0 to 1")
        if self.limit is not None and self.limit < 1:
            raise RefBenchError(f"--limit {self.limit}: give 1 or more")
        if isinstance(self.samples, int) and self.samples < 1:
            raise RefBenchError(f"--samples {self.samples}: give 1 or more, or all")
        if self.concurrency < 1 or not self.timeout > 0:
            raise RefBenchError("--concurrency and --timeout: give numbers above 0")
        Budget.parse(self.budget)
        instances_of(self.rules, self.several)
        if not allowed_sets(self.rules.restricted(self.types)):
            names = ", ".join(sorted(self.types))
            raise RefBenchError(f"--types {names}: {self.rules.name} allows no set of these: refbench blend combos")
        if self.personas is not None and self.rewriter is None:
            raise RefBenchError(f"--personas {self.personas}: instructions are rewritten by a VLM, so add --rewriter")
        for name in self.formats or ():
            if name not in FORMATS:
                raise RefBenchError(f"--formats {name}: choose from {', '.join(FORMATS)}")

    @property
    def work(self) -> Path:
        return self.out / "work"


@contextmanager
def owned_directory(out: Path) -> Iterator[None]:
    """The directory of a dataset, made if need be and locked while a build goes on; another's files are not touched."""
    lock = out / "work" / ".lock"
    try:
        if out.exists() and not out.is_dir():
            raise RefBenchError(f"--out {out} is a file: name a directory")
        if out.is_dir() and any(out.iterdir()) and not lock.exists():
            raise RefBenchError(f"--out {out} holds other files: name a new directory, or one that a build has made")
        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise disk_error(error, out) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RefBenchError(f"another build is writing into {out}: wait for it, or name another --out") from error
        for folder, _, files in os.walk(out):  # halves of files that a killed build has left
            for name in files:
                if name.startswith(".part-"):
                    Path(folder, name).unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)
