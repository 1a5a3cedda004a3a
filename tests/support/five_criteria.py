"""What the shipped rubric `five_criteria` asks for."""

from __future__ import annotations

FIVE = (
    "instruction_alignment",
    "reference_consistency",
    "background_subject_match",
    "physical_realism",
    "visual_quality",
)
