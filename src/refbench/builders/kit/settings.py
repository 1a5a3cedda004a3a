"""What a build is asked for: one record for the command line and for Python, to which each builder adds its own."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

from refbench.failure import KINDS
from refbench.record import RefBenchError
from refbench.specs import nearest

SPLITS = ("dev", "test")


@dataclass(frozen=True)
class BuildSettings:
    """What every build is asked for. The text below a field is its help on the command line."""

    things: ClassVar[str] = "items"
    """What a build makes, in the words of its messages."""

    source: Path
    """Folder of pictures, searched to its bottom"""
    _: KW_ONLY
    out: Path
    """Folder for the benchmark; the same command resumes it"""
    writer: str
    """VLM that writes: openai:MODEL, ..."""
    checker: str | None = None
    """VLM that checks; better not the writer, who is the default"""
    size: int | None = None
    """How many are wanted (default: all)"""
    seed: int = 0
    """Another seed makes other choices"""
    budget: str | None = None
    """Most that the build may cost, for example 5usd"""
    review: Path | None = None
    """What you decided in review.jsonl (accept, edit, reject), or a CSV of that"""
    test_share: float | None = None
    """Make two splits, dev and test, with this share in test"""
    concurrency: int = 16
    """Most calls in flight at an endpoint"""
    timeout: float = 180.0
    """Seconds to wait for a reply"""
    retry: tuple[str, ...] = ()
    """Also ask again what failed finally in this way, for example refused"""
    max_dropped: float = 0.5
    """Share of what was begun and lost above which the exit code is 1"""

    def check(self) -> None:
        """Raise what is wrong with the settings, before anything is written or spent."""
        if strange := [kind for kind in self.retry if kind not in KINDS]:
            raise RefBenchError(f"--retry {strange[0]}: {nearest(strange[0], KINDS)}")
        if self.size is not None and self.size < 1:
            raise RefBenchError(f"--size {self.size}: give how many {self.things} you want, at least 1")
        if not 0 <= self.max_dropped <= 1:
            raise RefBenchError(f"--max-dropped {self.max_dropped:g}: give a share from 0 to 1, for example 0.5")
        if self.test_share is not None and not 0 < self.test_share < 1:
            raise RefBenchError(f"--test-share {self.test_share:g}: give a share between 0 and 1, for example 0.5")

    @property
    def splits(self) -> tuple[str, ...]:
        """The folders of the splits below --out; one that is --out itself where there are none."""
        return ("",) if self.test_share is None else SPLITS

    @property
    def work_folder(self) -> Path:
        """Where replies, plain copies of pictures and the lists of what was written are kept."""
        return self.out / ".build"
