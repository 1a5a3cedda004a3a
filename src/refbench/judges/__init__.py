"""Judges: what is asked of one and how its reply is read, as one contract; rubrics in text files."""

from refbench.judges.contract import Contract
from refbench.judges.criteria import Criterion, Kind, Reading, Scale, Text, YesNo
from refbench.judges.panel import Rule, combine
from refbench.judges.prompts import repair_request
from refbench.judges.rubric import Rubric, load_rubric, parse_rubric, rubric_source

__all__ = [
    "Contract",
    "Criterion",
    "Kind",
    "Reading",
    "Rubric",
    "Rule",
    "Scale",
    "Text",
    "YesNo",
    "combine",
    "load_rubric",
    "parse_rubric",
    "repair_request",
    "rubric_source",
]
