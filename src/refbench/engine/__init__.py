"""The engine: outputs found, judges asked, evidence recorded, many at once and in a fair order."""

from refbench.engine.evaluate import Evaluation, evaluate, evaluate_async

__all__ = ["Evaluation", "evaluate", "evaluate_async"]
