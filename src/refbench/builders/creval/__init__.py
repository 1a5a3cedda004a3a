"""A CREval of one's own: instructions in nine dimensions and the questions to judge them by, from a user's pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from refbench.builders.kit.settings import BuildSettings


@dataclass(frozen=True, kw_only=True)
class CREvalSettings(BuildSettings):
    """What a CREval of one's own is asked for."""

    writer: str
    """VLM that looks at pictures and writes instructions: openai:MODEL, ..."""
    checker: str | None = None
    """VLM that writes the questions; better not the writer, who is the default"""
    auditor: str | None = None
    """VLM that is asked the questions of the unedited pictures (default: the checker); none for no audit"""
    size: int | None = None
    """Items wanted, balanced over nine dimensions (default: one a picture)"""
    examples: Path | None = None
    """Instructions you like, as JSON with class_id and input_prompt, shown to the writer"""
    flagged: Literal["drop", "keep"] = "drop"
    """Questions that cannot tell an edit from none: left out, or listed"""
