"""The user's own cases: a file of them, judged by a rubric."""

from refbench.benchmarks.own.benchmark import own_benchmark
from refbench.benchmarks.own.load import load_cases

__all__ = ["load_cases", "own_benchmark"]
