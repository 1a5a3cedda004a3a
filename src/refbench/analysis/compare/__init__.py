"""Whether systems differ: gaps on the cases they share, in the benchmark's own aggregate, with all that belongs to
a claim: interval, permutation test, correction for many pairs, effect, and the slices behind it.
"""

from refbench.analysis.compare.draws import Gap, paired_gap
from refbench.analysis.compare.family import Further, Systems, compare_columns
from refbench.analysis.compare.records import Comparison, Driver, Pair

__all__ = ["Comparison", "Driver", "Further", "Gap", "Pair", "Systems", "compare_columns", "paired_gap"]
