"""RefBench: trustworthy evaluation of image generation and editing models.

The public names are imported when they are first used, so that `import refbench` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# The version of RefBench, alone in a file so that anything may import it.

__version__ = "0.1.0"


if TYPE_CHECKING:
    from refbench.benchmarks import Dataset
    from refbench.case import Case, Picture, Request
    from refbench.engine import Evaluation, evaluate
    from refbench.evidence import Evidence, Purpose
    from refbench.failure import Failure
    from refbench.metrics.measure import Measurement, measure
    from refbench.output import Output
    from refbench.record import RefBenchError
    from refbench.score import Score
    from refbench.tables.result import Result
    from refbench.tables.scoring import load, rescore, score_run
    from refbench.tables.table import Row, Table

_HOMES = {
    "Case": "refbench.case",
    "Dataset": "refbench.benchmarks",
    "Evaluation": "refbench.engine",
    "Evidence": "refbench.evidence",
    "Failure": "refbench.failure",
    "Measurement": "refbench.metrics.measure",
    "Output": "refbench.output",
    "Picture": "refbench.case",
    "Purpose": "refbench.evidence",
    "RefBenchError": "refbench.record",
    "Request": "refbench.case",
    "Result": "refbench.tables.result",
    "Row": "refbench.tables.table",
    "Score": "refbench.score",
    "Table": "refbench.tables.table",
    "evaluate": "refbench.engine",
    "load": "refbench.tables.scoring",
    "measure": "refbench.metrics.measure",
    "rescore": "refbench.tables.scoring",
    "score_run": "refbench.tables.scoring",
}

__all__ = [
    "Case",
    "Dataset",
    "Evaluation",
    "Evidence",
    "Failure",
    "Measurement",
    "Output",
    "Picture",
    "Purpose",
    "RefBenchError",
    "Request",
    "Result",
    "Row",
    "Score",
    "Table",
    "__version__",
    "evaluate",
    "load",
    "measure",
    "rescore",
    "score_run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'refbench' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
