"""The demonstration: a small multi-reference set made of photographs, the benchmark that measures it, and a judge whose
replies are made up."""

from refbench.demo.made_up_judge import made_up_judge
from refbench.demo.photographs import write_set

__all__ = ["made_up_judge", "write_set"]
