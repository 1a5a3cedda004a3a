"""Dialects: the forms a reply may be asked for in. Each says how it is asked and how it is read."""

from refbench.judges.dialects.binary import BINARY
from refbench.judges.dialects.dialect import Dialect
from refbench.judges.dialects.json_object import JSON_OBJECT
from refbench.judges.dialects.json_per_question import JSON_PER_QUESTION
from refbench.judges.dialects.labelled_lines import LABELLED_LINES
from refbench.judges.dialects.number_list import NUMBER_LIST

DIALECTS = {d.name: d for d in (JSON_OBJECT, JSON_PER_QUESTION, LABELLED_LINES, NUMBER_LIST, BINARY)}

__all__ = ["DIALECTS", "Dialect"]
