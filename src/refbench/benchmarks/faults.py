"""Faults of a released benchmark, as its `faults.toml` lists them, with what each protocol does about them."""

from __future__ import annotations

import tomllib
from importlib import resources

from refbench.record import Record


class Fault(Record):
    """One thing that the released code or data gets wrong, and what the two protocols do about it."""

    fault: str
    paper: str
    corrected: str


def read_faults(package: str) -> list[Fault]:
    """The faults in a package's faults.toml, in the order of the benchmark's docs page."""
    text = resources.files(package).joinpath("faults.toml").read_text("utf-8")
    return [Fault.model_validate(entry) for entry in tomllib.loads(text)["faults"]]
