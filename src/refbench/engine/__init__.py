"""The engine: outputs found, judges asked, metrics measured, evidence recorded, many at once and in a fair order.

The public names are imported when they are first used: every worker process starts by importing this package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refbench.engine.evaluation import Evaluation, evaluate, evaluate_async, generate_async
    from refbench.engine.options import RunOptions

__all__ = ["Evaluation", "RunOptions", "evaluate", "evaluate_async", "generate_async"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'refbench.engine' has no attribute {name!r}")
    home = "options" if name == "RunOptions" else "evaluation"
    return getattr(importlib.import_module(f"refbench.engine.{home}"), name)
