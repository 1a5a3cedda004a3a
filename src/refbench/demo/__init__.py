"""The demonstration: a small multi-reference set made of photographs, and the benchmark that measures it."""

from refbench.demo.photographs import write_set

__all__ = ["write_set"]
