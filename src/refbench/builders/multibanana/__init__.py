"""A MultiBanana of one's own: filtered and classified pictures, sets of references for its 36 tasks, instructions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from refbench.builders.kit.settings import BuildSettings
from refbench.record import RefBenchError


@dataclass(frozen=True, kw_only=True)
class MultiBananaSettings(BuildSettings):
    """What a MultiBanana of one's own is asked for."""

    things: ClassVar[str] = "sets"

    writer: str
    """VLM that classifies pictures and writes instructions: openai:MODEL, gemini:MODEL, ..."""
    checker: str | None = None
    """VLM that screens pictures and checks sets; better not the writer, who is the default"""
    size: int = 180
    """Sets wanted, balanced over the tasks that the pictures allow: five for each of the 36 by default"""
    filters: Path | None = None
    """Limits of your own in TOML, in place of the paper's (docs/build-multibanana.md)"""
    fill: str | None = None
    """Image model that paints for categories with too few pictures: openai:MODEL, ..."""
    fill_to: int = 8
    """With --fill: pictures that each category should have"""
    device: str = "cpu"
    """Where the networks of the filters run: cpu, cuda, cuda:1"""

    def check(self) -> None:
        super().check()
        if self.fill_to < 1:
            raise RefBenchError(f"--fill-to {self.fill_to}: give a number of pictures, at least 1")
