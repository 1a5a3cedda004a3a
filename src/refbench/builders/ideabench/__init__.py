"""An IDEA-Bench of one's own: six graded questions for each design task, behind the gates of the paper."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar, Literal

from refbench.builders.kit.settings import BuildSettings


@dataclass(frozen=True)
class IdeaBenchSettings(BuildSettings):
    """What an IDEA-Bench of one's own is asked for."""

    things: ClassVar[str] = "cases"

    source: Path
    """Folder of cases (instruction.txt or keywords.txt, pictures), or a table (.csv, .jsonl, .parquet) with the columns
    task, instruction or keywords, pictures, outputs"""
    _: KW_ONLY
    writer: str
    """VLM that writes briefs, keywords, questions and prompts: openai:MODEL, ..."""
    checker: str | None = None
    """VLM that checks the questions; better not the writer, who is the default; none for no check"""
    size: int | None = None
    """Cases wanted, one of each task first (default: all)"""
    rephrase: Literal["needed", "always", "none"] = "needed"
    """Prompts for text-to-image models: of cases they cannot take as they are, of all, of none"""
