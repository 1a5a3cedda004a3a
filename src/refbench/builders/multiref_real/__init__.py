"""A real-world MultiRef of one's own: instructions with tokens, from requests with pictures before and after."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

from refbench.builders.kit.settings import BuildSettings


@dataclass(frozen=True)
class MultiRefRealSettings(BuildSettings):
    """What a real-world MultiRef of one's own is asked for."""

    things: ClassVar[str] = "entries"

    source: Path
    """Table (.csv, .jsonl, .parquet) with the columns request, inputs, outputs, or a folder of folders with
    request.txt, input_1.jpg, ..., output_1.jpg, ..."""
    _: KW_ONLY
    writer: str
    """VLM that rewrites the requests and sorts them: openai:MODEL, ..."""
    checker: str | None = None
    """VLM that chooses among outputs and accepts entries; better not the writer, who is the default; none accepts
    all"""
    max_dropped: float = 0.75
    """Share of what was begun and lost above which the exit code is 1; the paper lost 55 %"""
